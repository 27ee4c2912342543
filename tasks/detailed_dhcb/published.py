"""The noisy tables of a level's groups, as they are measured, made equal and released."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.detailed_dhcb.run import HouseholdRun
from tasks.detailed_dhcb.tables import T3, T4
from tasks.population_groups.domain import load_domain
from tasks.population_groups.group_tables import GroupTables
from tasks.population_groups.levels import Level


@dataclass(frozen=True)
class HouseholdTypes(GroupTables):
    """T3: households by type."""

    CELLS = T3.widths
    MADE, FINAL = "t3", "final_t3"


@dataclass(frozen=True)
class Tenures(GroupTables):
    """T4: households by tenure."""

    CELLS = T4.widths
    MADE, FINAL = "t4", "final_t4"


KINDS: dict[str, type[GroupTables]] = {"t3": HouseholdTypes, "t4": Tenures}


def load_final(run: HouseholdRun, level: Level, kind: type[GroupTables]) -> Iterator[GroupTables]:
    """Yield the final tables of a level, a piece of its groups at a time."""
    for first, _ in load_domain(run, level).pieces():
        yield kind.load([run.noisy_folder(level, kind.FINAL, first)])
