"""What the tables of a Detailed DHC-A release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.releases.description import Column, Description, integer
from tasks.safetab.description import count_table, describe
from tasks.safetab.levels import ALL_LEVELS
from tasks.safetab.persons.details import SEXES, WIDTHS
from tasks.safetab.persons.person import LAST_AGE

AGES = (
    integer(
        "AGESTART",
        "years",
        "the first age of the cell; * in the row of a sex's sum",
        missing=("*",),
        frame="age_start",
        total="*",
    ),
    integer(
        "AGEEND",
        "years",
        f"the last age of the cell, inclusive; {LAST_AGE} is the open end; * in a sex's sum",
        missing=("*",),
        frame="age_end",
    ),
    Column(
        "SEX", "code", "the sex of the cell", {str(code): sex for code, sex in SEXES.items()}, frame="sex", labels=True
    ),
)
CELLS = {cells for width in WIDTHS.tolist() for cells in (width, width // 2, 1) if cells}
SUMS = [("total_only", 1), *(("stage_2", cells) for cells in sorted(CELLS))]
TABLES = [
    (count_table("Totals of population groups: {level}", "persons", "t1"), SUMS),
    (count_table("Sex by age of population groups: {level}", "persons", "t2", AGES), SUMS),
]


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    levels = [level.slug for level in ALL_LEVELS if str(level) in manifest["levels"]]
    required = [f"{table}/{level}.csv" for table in ("t1", "t2") for level in levels]
    return describe(manifest, TABLES, "persons", ["spine/{rest*}"], required)
