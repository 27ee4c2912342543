"""Describe the tables of a Detailed DHC-A release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.releases.description import Column, Description, integer
from tasks.safetab.levels import ALL_LEVELS
from tasks.safetab.persons.details import SEXES, TABLES
from tasks.safetab.persons.person import LAST_AGE
from tasks.safetab.release_tables import describe

AGES = (
    integer(
        "AGESTART",
        "years",
        "the first age of the cell; * in the row of a sex's sum",
        missing=("*",),
        frame="age_start",
        total="*",
        whole=0,
    ),
    integer(
        "AGEEND",
        "years",
        f"the last age of the cell, inclusive; {LAST_AGE} is the open end; * in a sex's sum",
        missing=("*",),
        frame="age_end",
        whole=LAST_AGE,
    ),
    Column(
        "SEX", "code", "the sex of the cell", {str(code): sex for code, sex in SEXES.items()}, frame="sex", labels=True
    ),
)


def description(manifest: Mapping[str, Any]) -> Description:
    """Describe a release: its tables, and the laws of their noise."""
    levels = [level.slug for level in ALL_LEVELS if str(level) in manifest["levels"]]
    required = [f"{table}/{level}.csv" for table in TABLES for level in levels]
    return describe(manifest, TABLES, "persons", AGES, ["spine/{rest*}"], required)
