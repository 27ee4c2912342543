"""The confidential directory of a Detailed DHC-B run: where each stage writes, and what later stages read of it.

Besides what every SafeTab run has (tasks/population_groups/run.py):
```
prepared/totals/LEVEL        the groups of the run and their published totals; prepared/totals/read comes last
noisy/LEVEL/t3, t4           noisy tables, then final_t3, final_t4: coterminous regions made equal
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhcb.configuration import Configuration, Parameters
from tasks.detailed_dhcb.household import HOUSEHOLD
from tasks.lifecycle.files import load_object, open_array, remove, save_arrays, save_object
from tasks.population_groups.domain import load_domain
from tasks.population_groups.levels import Level
from tasks.population_groups.run import SafeTabRun

READ = "prepared/totals/read"


@dataclass(frozen=True)
class TotalsRead:
    """Where the totals of a run came from, and how many groups of them are not in the run, by reason. Public.

    run: of the release that has them; None where the curator declared them.
    """

    run: str | None
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class HouseholdRun(SafeTabRun):
    """A handle on a Detailed DHC-B run: only the path of its directory, so that it may be shown and stored."""

    KIND = HOUSEHOLD
    CONFIGURATION = Configuration

    @property
    def parameters(self) -> Parameters:
        """The parameters that validation saved. Raises Failed where it has not."""
        return super().parameters

    @property
    def totals_read(self) -> TotalsRead:
        """Where the totals came from."""
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
