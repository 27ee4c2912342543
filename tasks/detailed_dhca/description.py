"""What the tables of a Detailed DHC-A release are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.detailed_dhca.details import SEXES, WIDTHS
from tasks.detailed_dhca.person import LAST_AGE
from tasks.inputs.public_regions import REGION
from tasks.lifecycle.description import Column, Description, Noise, Table
from tasks.population_groups.description import (
    GROUP,
    ITERATION,
    OF_GROUP,
    count_column,
    estimate_columns,
    laws,
    margin_column,
    public_tables,
)
from tasks.population_groups.levels import ALL_LEVELS

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
COUNT, MOE = count_column("persons"), margin_column("persons")
ESTIMATE, MOE_OF_ESTIMATE = estimate_columns("persons")
CELLS = {cells for width in WIDTHS.tolist() for cells in (width, width // 2, 1) if cells}
SUMS = [("total_only", 1), *(("stage_2", cells) for cells in sorted(CELLS))]  # the query of a count, and its cells
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
    *public_tables("persons"),
)


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    levels = {f"t{number}-{level.slug}": level for level in ALL_LEVELS for number in (1, 2)}

    def noise(table: str) -> list[Noise]:
        return laws(manifest, levels[table.removesuffix("-text")], SUMS) if manifest["spent"] else []

    dependent = not manifest["configuration"]["allow_negative_counts"]
    tables = tuple(replace(table, dependent=dependent) if table.has_counts else table for table in TABLES)
    names = {level.slug: level.name for level in levels.values() if str(level) in manifest["levels"]}
    return Description(tables, noise, {"level": names}, ("report.html", "spine/{rest*}"))
