"""The published groups of a level, as suppression leaves them and the coterminous fix and the release take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhca.configuration import PERSONS
from tasks.detailed_dhca.details import AGES, WIDTHS
from tasks.population_groups.group_tables import GroupTables


@dataclass(frozen=True)
class PublishedGroups(GroupTables):
    """The tables of the published groups of a level: a total (T1), and sex by age (T2) for those that have cells.

    total: int64 array; the T1 count of each group.
    """

    CELLS = np.array([width if detail in AGES else 0 for detail, width in enumerate(WIDTHS)])
    BUDGET, MADE, FINAL = PERSONS, "published", "final"

    total: NDArray[np.int64]

    def released(self) -> Self:
        """Return the groups that are released."""
        return self


@dataclass(frozen=True)
class EstimatedGroups(PublishedGroups):
    """Estimates of the published groups of a level: of totals and cells, which have the names of the counts here.

    margin: int64 array; the 95% margin of error of each total.
    dropped: bool array; the groups that the ancestor test leaves out of the estimates.
    """

    MADE, FINAL = "estimates", "final_estimates"
    FOLDER, COLUMN = "estimates/", "ESTIMATE"

    margin: NDArray[np.int64]
    dropped: NDArray[np.bool_]

    def released(self) -> Self:
        """Return the groups that are released: those that were not dropped."""
        return self.take(np.flatnonzero(~self.dropped))
