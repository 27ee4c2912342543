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
from tasks.lifecycle.description import Column, Noise, Reference, Table
from tasks.lifecycle.manifest import noise_law
from tasks.population_groups.iterations import ITERATION_KINDS
from tasks.population_groups.levels import Level
from tasks.population_groups.tabulated import HIERARCHY_FILE, ITERATIONS_FILE, REGIONS_FILE

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


def count_column(unit: str) -> Column:
    """Return the column of published counts."""
    return Column("COUNT", unit, "the published count, with noise", type="integer", role="count", frame="count")


def margin_column(unit: str) -> Column:
    """Return the column of the margins of published counts."""
    return Column(
        "MOE",
        unit,
        "the margin of error at 95% of the noise in the count, over all runs",
        type="integer",
        role="margin",
        of="COUNT",
        frame="margin",
        in_text=False,
    )


def estimate_columns(unit: str) -> tuple[Column, Column]:
    """Return the columns of estimates and of their margins."""
    meaning = "the unbiased estimate from all noisy answers about the group, rounded"
    estimate = Column("ESTIMATE", unit, meaning, type="integer", role="estimate", frame="estimate")
    margin = replace(margin_column(unit), meaning="the margin of error at 95% of the estimate", of="ESTIMATE")
    return estimate, replace(margin, frame="estimate_margin", in_text=True)


def laws(manifest: Mapping[str, Any], level: Level, sums: Sequence[tuple[str, int]]) -> list[Noise]:
    """Return the laws of a level's counts by their margins; of two laws with one margin that of the larger variance.

    sums: the query of a count, and how many of its cells the count sums. A coterminous region may have the count of a
    region of another level.
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
