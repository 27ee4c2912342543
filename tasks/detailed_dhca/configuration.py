"""config.json of SafeTab-P (docs/spec/files.md#configjson), and the parameters directory that it is in. Public."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from pydantic import Field, field_validator

from privacy.accounting.composition import query_budgets
from tasks.inputs.findings import Finding
from tasks.population_groups import configuration, parameters
from tasks.population_groups.configuration import SafeTabConfiguration, budget_key, read_number
from tasks.population_groups.levels import ALL_LEVELS, Level

PERSONS = "p"  # its one table, of persons by sex and age
BUDGET_KEYS = {budget_key(PERSONS, level): level for level in ALL_LEVELS}


class Configuration(SafeTabConfiguration):
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


Parameters: TypeAlias = parameters.Parameters[Configuration]


def read_parameters(params: str) -> tuple[Parameters | None, list[Finding]]:
    """Read config.json and the iteration files as `parameters.read_parameters` does."""
    return parameters.read_parameters(params, Configuration)


def parse_configuration(text: str) -> tuple[Configuration | None, list[Finding]]:
    """Parse and check a config.json as `configuration.parse_configuration` does."""
    return configuration.parse_configuration(text, Configuration)
