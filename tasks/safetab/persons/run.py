"""A Detailed DHC-A run: its config.json (docs/spec/files.md#configjson), and its confidential directory.

The directory has, besides the files of every SafeTab run (tasks/safetab/run.py):
```
prepared/                    estimators/NUMBER
noisy/LEVEL/totals           the details of groups, chosen by their noisy totals
noisy/LEVEL/sex_by_age       their noisy tables
noisy/LEVEL/published_groups, estimated_groups, then final_groups, final_estimated_groups: coterminous regions equated
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from pydantic import Field, field_validator

from privacy.accounting.composition import query_budgets
from tasks.safetab.configuration import SafeTabConfiguration, read_number
from tasks.safetab.levels import Level
from tasks.safetab.persons.person import PERSON
from tasks.safetab.run import SafeTabRun

PERSONS = "p"  # its one table, of persons by sex and age


class SafeTabPConfiguration(SafeTabConfiguration):
    """A valid config.json of SafeTab-P."""

    TABLES: ClassVar[Mapping[str, int]] = {PERSONS: 3}

    stage_1_fraction: Fraction = Field(alias="privacy_budget_p_stage_1_fraction", gt=0, lt=1)
    zero_suppression_chance: Fraction | None = Field(default=None, ge=0, lt=1)

    @field_validator("stage_1_fraction", "zero_suppression_chance", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Fraction:
        number = read_number(value)
        if number == "Infinity":
            raise ValueError("must be a finite number")
        return number

    def queries(self, table: str, level: Level) -> Mapping[str, Fraction]:
        """Return the budgets of total_only, stage_1 and stage_2 of a level (Algorithm 2)."""
        return query_budgets(self.table_budget(table, level), self.stage_1_fraction)


@dataclass(frozen=True)
class DetailedRun(SafeTabRun):
    """A handle on a Detailed DHC-A run: only the path of its directory, so it may be shown and stored."""

    KIND, CONFIGURATION = PERSON, SafeTabPConfiguration
