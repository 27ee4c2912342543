"""What the tables of a Detailed DHC-A release are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.releases.description import Column, Description, integer
from tasks.safetab.description import describe
from tasks.safetab.levels import ALL_LEVELS
from tasks.safetab.persons.details import SEXES, TABLES
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


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    levels = [level.slug for level in ALL_LEVELS if str(level) in manifest["levels"]]
    required = [f"{table}/{level}.csv" for table in TABLES for level in levels]
    return describe(manifest, TABLES, "persons", AGES, ["spine/{rest*}"], required)
