"""How the exact counts of population groups lie in memory and in files: region by region, group by group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 255  # records of a cell in an entry


class Counts(NamedTuple):
    """The counts of the population groups of regions, without zeros. Confidential.

    ends: int64, regions + 1 x 2; the ends of each region's groups and entries, after a row of zeros.
    groups: uint16, n x 3; the iteration, the records and the number of entries of each group of a region, in any order.
    entries: uint8, n x 2; a cell of a group and its records, at most MOST: a group with more comes several times.
    """

    ends: NDArray[np.int64]
    groups: NDArray[np.uint16]
    entries: NDArray[np.uint8]

    @classmethod
    def empty(cls, regions: int, groups: int, entries: int) -> Counts:
        """Return space for counts of regions, and for an entry more, which the kernels write and leave out."""
        return cls(
            np.zeros((regions + 1, 2), np.int64),
            np.empty((groups, 3), np.uint16),
            np.empty((entries + 1, 2), np.uint8),
        )

    def filled(self) -> Counts:
        """Return the counts without the space that is left, which is let go."""
        groups, entries = self.ends[-1]
        return Counts(self.ends, self.groups[:groups].copy(), self.entries[:entries].copy())

    @classmethod
    def of(
        cls,
        regions: int,
        region: NDArray[np.integer],
        iteration: NDArray[np.integer],
        cell: NDArray[np.integer],
        count: NDArray[np.integer],
    ) -> Counts:
        """Return the counts of these cells of groups, in any order."""
        times = -(-count // MOST)
        at = np.repeat(np.arange(len(count)), times)
        time = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
        order = np.lexsort((cell[at], time, iteration[at], region[at]))
        at, time = at[order], time[order]
        records = np.minimum(count[at] - MOST * time, MOST)
        key = np.stack([region[at], iteration[at], time])
        starts = np.flatnonzero((np.diff(key, axis=1, prepend=-1) != 0).any(axis=0))
        number = np.diff(starts, append=len(at))
        groups = np.stack([iteration[at][starts], np.add.reduceat(records, starts), number], axis=1)
        up_to = np.arange(regions + 1)
        ends = np.stack([np.searchsorted(region[at][starts], up_to), np.searchsorted(region[at], up_to)], axis=1)
        return cls(ends, groups.astype(np.uint16), np.stack([cell[at], records], axis=1).astype(np.uint8))
