"""config.json of SafeTab-H (docs/spec/files.md#configjson-of-safetab-h). Public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, TypeAlias

from privacy.accounting.composition import UnitOfPrivacy
from tasks.detailed_dhcb.tables import TABLES, CountTable
from tasks.population_groups import parameters
from tasks.population_groups.configuration import SafeTabConfiguration
from tasks.population_groups.levels import Level


class Configuration(SafeTabConfiguration):
    """A valid config.json of SafeTab-H."""

    TABLES: ClassVar[Mapping[str, int]] = {table.key: len(table.measured) - 1 for table in TABLES.values()}
    UNIT: ClassVar[UnitOfPrivacy] = "household"
    FILES: ClassVar[Sequence[str]] = ("config-ddhcb.json", "config.json")  # next to that of SafeTab-P, or alone

    def queries(self, table: str, level: Level) -> Mapping[str, Fraction]:
        """Return the budget of the one query of a table of a level, `t3` or `t4`."""
        return {table.removeprefix("h_"): self.table_budget(table, level)}

    def needs_thresholds(self, table: str, level: Level) -> bool:
        """Return whether the table is made at the level."""
        return self.budgets[table].get(level, 0) != 0

    def tables(self, level: Level) -> list[CountTable]:
        """Return the tables that a level has: those with a budget above 0."""
        return [table for table in TABLES.values() if self.budgets[table.key][level] != 0]


Parameters: TypeAlias = parameters.Parameters[Configuration]
