"""The noisy tables of a level's groups, as they are measured, made equal and released."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.detailed_dhcb.tables import T3, T4
from tasks.population_groups.group_tables import GroupTables


@dataclass(frozen=True)
class HouseholdTypes(GroupTables):
    """T3: households by type."""

    CELLS, BUDGET = T3.widths, T3.key
    MADE, FINAL = "t3", "final_t3"


@dataclass(frozen=True)
class Tenures(GroupTables):
    """T4: households by tenure."""

    CELLS, BUDGET = T4.widths, T4.key
    MADE, FINAL = "t4", "final_t4"


KINDS: dict[str, type[GroupTables]] = {"t3": HouseholdTypes, "t4": Tenures}
