"""What the tables of a Detailed DHC-A release are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privacy.noise.exact import parse_exact
from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhca.details import SEXES, WIDTHS
from tasks.detailed_dhca.person import LAST_AGE
from tasks.inputs.public_regions import NAMES_TABLE, POINTS_TABLE, REGION
from tasks.inputs.region_files import KEY
from tasks.lifecycle.description import Column, Description, Noise, Reference, Table
from tasks.lifecycle.manifest import noise_law
from tasks.population_groups.iterations import ITERATION_KINDS
from tasks.population_groups.levels import ALL_LEVELS, Level
from tasks.population_groups.tabulated import HIERARCHY_FILE, ITERATIONS_FILE, REGIONS_FILE

FLAGS = {"True": "yes", "False": "no"}
WHOM = (
    "persons all of whose races are in it",
    "persons with at least one race in it",
    "persons by Hispanic or Latino ethnicity",
)
ITERATION = Column(
    "ITERATION_CODE",
    "code",
    "the characteristic iteration: 4 digits",
    title="Iteration",
    frame="iteration_code",
    overlap=True,
)
AGES = (
    Column(
        "AGESTART",
        "years",
        "the first age of the cell; * in the row of a sex's sum",
        type="integer",
        missing=("*",),
        frame="age_start",
        total="*",
    ),
    Column(
        "AGEEND",
        "years",
        f"the last age of the cell, inclusive; {LAST_AGE} is the open end; * in a sex's sum",
        type="integer",
        missing=("*",),
        frame="age_end",
    ),
    Column(
        "SEX", "code", "the sex of the cell", {str(code): sex for code, sex in SEXES.items()}, frame="sex", labels=True
    ),
)
COUNT = Column("COUNT", "persons", "the published count, with noise", type="integer", role="count", frame="count")
MOE = Column(
    "MOE",
    "persons",
    "the margin of error at 95% of the noise in the count, over all runs",
    type="integer",
    role="margin",
    of="COUNT",
    frame="margin",
    in_text=False,
)
ESTIMATE = Column(
    "ESTIMATE",
    "persons",
    "the unbiased estimate from all noisy answers about the group, rounded",
    type="integer",
    role="estimate",
    frame="estimate",
)
MOE_OF_ESTIMATE = Column(
    "MOE",
    "persons",
    "the margin of error at 95% of the estimate",
    type="integer",
    role="margin",
    of="ESTIMATE",
    frame="estimate_margin",
)
CELLS = {cells for width in WIDTHS.tolist() for cells in (width, width // 2, 1) if cells}
SUMS = [("total_only", 1), *(("stage_2", cells) for cells in sorted(CELLS))]  # the query of a count, and its cells
GROUP = (*KEY, ITERATION.name)
OF_GROUP = (
    Reference(KEY, "tabulated-regions", KEY),
    Reference((ITERATION.name,), "tabulated-iterations", (ITERATION.name,)),
)
T1 = Table(
    "Totals of population groups: {level}",
    (*REGION, ITERATION, COUNT, MOE),
    text="t1/{level}.csv",
    parquet="parquet/t1/{level}.parquet",
    key=GROUP,
    references=OF_GROUP,
    counts=True,
)
T2 = replace(
    T1,
    title="Sex by age of population groups: {level}",
    columns=(*REGION, ITERATION, *AGES, COUNT, MOE),
    text="t2/{level}.csv",
    parquet="parquet/t2/{level}.parquet",
    key=(*GROUP, *(column.name for column in AGES)),
)
ESTIMATES = tuple(
    replace(
        table,
        title=table.title.replace(": ", ", estimates: "),
        columns=(*table.columns[:-2], ESTIMATE, MOE_OF_ESTIMATE),
        text=f"estimates/{table.text}",
        parquet=table.parquet.replace("/", "/estimates/", 1),
        counts=False,
        of=table.text.rpartition(".")[0],
        dependent=True,
    )
    for table in (T1, T2)
)
TABLES = (
    T1,
    T2,
    *ESTIMATES,
    Table("Regions of the run", REGION, text=REGIONS_FILE, key=KEY),
    Table(
        "Iterations of the run, and where they are tabulated",
        (
            replace(ITERATION, overlap=False),
            Column("ITERATION_NAME", "text", "its name", role="name", frame="iteration"),
            Column("LEVEL", "code", "the level of the iteration", {"1": "Regional", "2": "Detailed"}),
            Column("NATION_STATE", "yes or no", "whether nation and state tabulate it", FLAGS, type="boolean"),
            Column("SUB_STATE", "yes or no", "whether the levels below the state tabulate it", FLAGS, type="boolean"),
            Column("TOTAL_ONLY", "yes or no", "whether nation and state give only its total", FLAGS, type="boolean"),
        ),
        text=ITERATIONS_FILE,
        key=(ITERATION.name,),
    ),
    Table(
        "Kinds of iterations, and the Regional ones above Detailed ones",
        (
            replace(ITERATION, overlap=False),
            Column("KIND", "code", "whom it counts", dict(zip(ITERATION_KINDS, WHOM, strict=True))),
            Column("REGIONAL_CODE", "code", "the Regional iteration of its kind that has all of its codes, if one has"),
        ),
        text=HIERARCHY_FILE,
        key=(ITERATION.name,),
        references=OF_GROUP[1:],
    ),
    *(replace(table, references=OF_GROUP[:1]) for table in (NAMES_TABLE, POINTS_TABLE)),
)


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    levels = {f"t{number}-{level.slug}": level for level in ALL_LEVELS for number in (1, 2)}

    def noise(table: str) -> list[Noise]:
        return _laws(manifest, levels[table.removesuffix("-text")]) if manifest["spent"] else []

    dependent = not manifest["configuration"]["allow_negative_counts"]
    tables = tuple(replace(table, dependent=dependent) if table.has_counts else table for table in TABLES)
    names = {level.slug: level.name for level in levels.values() if str(level) in manifest["levels"]}
    return Description(tables, noise, {"level": names}, ("report.html", "spine/{rest*}"))


def _laws(manifest: Mapping[str, Any], level: Level) -> list[Noise]:
    """Return the laws of a level's counts by their margins; of two laws with one margin that of the larger variance.

    A coterminous region may have the count of a region of another level.
    """
    levels, definition = manifest["levels"], manifest["spent"]["definition"]
    donors = [name for name in levels if name.endswith(f" {level.iteration_level})") and manifest["coterminous_sets"]]
    found: dict[int, tuple[float, Noise]] = {}
    for name in dict.fromkeys([str(level), *donors]):
        queries, stability = levels[name]["queries"], levels[name]["stability"]
        for query, cells in SUMS:
            drawn = law(definition, parse_exact(queries[query]["budget"]), stability)
            margin, variance = margin_of_error(drawn, cells), cells * drawn.variance()
            if margin not in found or variance > found[margin][0]:
                found[margin] = variance, {"margin": margin, "cells": cells, **noise_law(drawn)}
    return [found[margin][1] for margin in sorted(found)]
