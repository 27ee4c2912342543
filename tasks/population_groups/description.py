"""What the tables of every SafeTab's release have in common: their columns, the tables of what is tabulated, laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privacy.noise.exact import parse_exact
from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from tasks.inputs.public_regions import NAMES_TABLE, POINTS_TABLE, REGION
from tasks.inputs.region_files import KEY
from tasks.lifecycle.description import Column, Description, Noise, Reference, Table
from tasks.lifecycle.manifest import noise_law
from tasks.population_groups.iterations import ITERATION_KINDS
from tasks.population_groups.levels import ALL_LEVELS, Level
from tasks.population_groups.tabulated import HIERARCHY_FILE, ITERATIONS_FILE, REGIONS_FILE

Sums = Sequence[tuple[str, int]]  # the queries of counts, and how many of their cells a count sums
FLAGS = {"True": "yes", "False": "no"}
WHOM = ("all of whose races are in it", "with at least one race in it", "by Hispanic or Latino ethnicity")
ITERATION = Column(
    "ITERATION_CODE",
    "code",
    "the characteristic iteration: 4 digits",
    title="Iteration",
    frame="iteration_code",
    overlap=True,
)
GROUP = (*KEY, ITERATION.name)
OF_GROUP = (
    Reference(KEY, "tabulated-regions", KEY),
    Reference((ITERATION.name,), "tabulated-iterations", (ITERATION.name,)),
)
REGIONS = Table("Regions of the run", REGION, text=REGIONS_FILE, key=KEY)
ITERATIONS = Table(
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
)
REGIONAL_CODE = Column(
    "REGIONAL_CODE", "code", "the Regional iteration of its kind that has all of its codes, if one has"
)


def public_tables(counted: str) -> tuple[Table, ...]:
    """Return the tables of what is tabulated, of releases that count persons or householders."""
    kinds = {kind: f"{counted} {whom}" for kind, whom in zip(ITERATION_KINDS, WHOM, strict=True)}
    hierarchy = Table(
        "Kinds of iterations, and the Regional ones above Detailed ones",
        (replace(ITERATION, overlap=False), Column("KIND", "code", "whom it counts", kinds), REGIONAL_CODE),
        text=HIERARCHY_FILE,
        key=(ITERATION.name,),
        references=OF_GROUP[1:],
    )
    located = (replace(table, references=OF_GROUP[:1]) for table in (NAMES_TABLE, POINTS_TABLE))
    return REGIONS, ITERATIONS, hierarchy, *located


def count_table(title: str, unit: str, stem: str, cells: Sequence[Column] = ()) -> Table:
    """Return the table of published counts of each group's cells: STEM/LEVEL.csv, and with margins as Parquet."""
    return Table(
        title,
        (
            *REGION,
            ITERATION,
            *cells,
            Column("COUNT", unit, "the published count, with noise", type="integer", role="count", frame="count"),
            Column(
                "MOE",
                unit,
                "the margin of error at 95% of the noise in the count, over all runs",
                type="integer",
                role="margin",
                of="COUNT",
                frame="margin",
                in_text=False,
            ),
        ),
        text=f"{stem}/{{level}}.csv",
        parquet=f"parquet/{stem}/{{level}}.parquet",
        key=(*GROUP, *(column.name for column in cells)),
        references=OF_GROUP,
        counts=True,
    )


def estimates_of(table: Table) -> Table:
    """Return the table of the estimates of a table's counts."""
    *cells, count, margin = table.columns
    meaning = "the unbiased estimate from all noisy answers about the group, rounded"
    estimate = replace(count, name="ESTIMATE", meaning=meaning, role="estimate", frame="estimate")
    meaning = "the margin of error at 95% of the estimate"
    margin = replace(margin, meaning=meaning, of="ESTIMATE", frame="estimate_margin", in_text=True)
    return replace(
        table,
        title=table.title.replace(": ", ", estimates: "),
        columns=(*cells, estimate, margin),
        text=f"estimates/{table.text}",
        parquet=table.parquet.replace("/", "/estimates/", 1),
        counts=False,
        of=table.text.rpartition(".")[0],
        dependent=True,
    )


def describe(
    manifest: Mapping[str, Any], tables: Sequence[tuple[Table, Sums]], counted: str, others: Sequence[str] = ()
) -> Description:
    """Return the description of a release: its tables of counts with the sums in them, and their estimates.

    counted: what the iterations count. others: patterns of files besides its report.
    """
    levels = [level for level in ALL_LEVELS if str(level) in manifest["levels"]]
    of_table = {
        table.text.removesuffix("{level}.csv").replace("/", "-").lower() + level.slug: (level, sums)
        for table, sums in tables
        for level in levels
    }

    def noise(name: str) -> list[Noise]:
        return laws(manifest, *of_table[name.removesuffix("-text")]) if manifest["spent"] else []

    dependent = not manifest["configuration"]["allow_negative_counts"]
    counts = [replace(table, dependent=dependent) for table, _ in tables]
    names = {"level": {level.slug: level.name for level in levels}}
    return Description(
        (*counts, *map(estimates_of, counts), *public_tables(counted)), noise, names, ("report.html", *others)
    )


def laws(manifest: Mapping[str, Any], level: Level, sums: Sums) -> list[Noise]:
    """Return the laws of a level's counts by their margins; of two laws with one margin that of the larger variance.

    A coterminous region may have the count of a region of another level.
    """
    levels, definition = manifest["levels"], manifest["spent"]["definition"]
    donors = [name for name in levels if name.endswith(f" {level.iteration_level})") and manifest["coterminous_sets"]]
    found: dict[int, tuple[float, Noise]] = {}
    for name in dict.fromkeys([str(level), *donors]):
        queries, stability = levels[name]["queries"], levels[name]["stability"]
        for query, cells in sums:
            if query not in queries:
                continue
            drawn = law(definition, parse_exact(queries[query]["budget"]), stability)
            margin, variance = margin_of_error(drawn, cells), cells * drawn.variance()
            if margin not in found or variance > found[margin][0]:
                found[margin] = variance, {"margin": margin, "cells": cells, **noise_law(drawn)}
    return [found[margin][1] for margin in sorted(found)]
