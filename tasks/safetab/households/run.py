"""A Detailed DHC-B run: its config.json (docs/spec/files.md#configjson-of-safetab-h), and its confidential directory.

The directory has, besides the files of every SafeTab run (tasks/safetab/run.py):
```
prepared/totals/LEVEL        the groups of the run and their published totals; prepared/totals/read is written last
noisy/LEVEL/t3, t4           noisy tables; final_t3, final_t4 with coterminous regions equated
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.composition import UnitOfPrivacy
from tasks.lifecycle.files import load_object, open_array, remove, save_arrays, save_object
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.domain import load_domain
from tasks.safetab.households.household import HOUSEHOLD
from tasks.safetab.households.tables import TABLES, TableShell
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun

READ = "prepared/totals/read"


class SafeTabHConfiguration(SafeTabConfiguration):
    """A valid config.json of SafeTab-H."""

    TABLES: ClassVar[Mapping[str, int]] = {table.key: len(table.measured) - 1 for table in TABLES.values()}
    UNIT: ClassVar[UnitOfPrivacy] = "household"
    FILES: ClassVar[Sequence[str]] = ("config-ddhcb.json", "config.json")  # next to that of SafeTab-P, or alone

    def queries(self, table: str, level: Level) -> Mapping[str, Fraction]:
        """Return the budget of the one query of a table of a level, `t3` or `t4`."""
        return {table.removeprefix("h_"): self.table_budget(table, level)}

    def needs_thresholds(self, table: str, level: Level) -> bool:
        """Return whether the table is tabulated at the level."""
        return self.budgets[table].get(level, 0) != 0

    def tables(self, level: Level) -> list[TableShell]:
        """Return the tables that a level has: those with a budget above 0."""
        return [table for table in TABLES.values() if self.budgets[table.key][level] != 0]


@dataclass(frozen=True)
class TotalsRead:
    """The source of a run's totals, and the number of their groups that the run leaves out, by reason. Public.

    run: the one that released the totals; None for totals that the curator declared.
    """

    run: str | None
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class HouseholdRun(SafeTabRun):
    """A handle on a Detailed DHC-B run: only the path of its directory, so it may be shown and stored."""

    KIND, CONFIGURATION = HOUSEHOLD, SafeTabHConfiguration

    @property
    def totals_read(self) -> TotalsRead:
        """The source of the totals."""
        return load_object(self / READ, TotalsRead)

    def save_totals(
        self, totals: Mapping[Level, tuple[NDArray[np.int64], NDArray[np.int64]]], read: TotalsRead
    ) -> None:
        """Save the groups of each level, sorted, and their totals."""
        remove(self / "prepared/totals")
        for level, (group, count) in totals.items():
            save_arrays(self / f"prepared/totals/{level.slug}", {"group": group, "count": count})
        save_object(self / READ, read)

    def totals(self, level: Level, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the groups of a level in the regions first ... last - 1 and their published totals."""
        folder, width = self / f"prepared/totals/{level.slug}", len(load_domain(self, level).iterations)
        group = open_array(folder, "group")
        inside = slice(*np.searchsorted(group, [first * width, last * width]))
        return np.asarray(group[inside]), np.asarray(open_array(folder, "count")[inside])
