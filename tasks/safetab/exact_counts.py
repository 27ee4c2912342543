"""The exact counts of a level's population groups, read from the counts of the partitions. Confidential."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.kernels import worth_a_kernel
from tasks.lifecycle.files import open_array
from tasks.safetab.count import load_partitions
from tasks.safetab.domain import load_domain
from tasks.safetab.group_counts import Counts
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun


@dataclass(frozen=True)
class ExactCounts:
    """The exact counts of the groups of a level in a range of regions. Confidential: never leaves a worker.

    regions: the number of regions. Group = region x iterations of the level + position of the iteration.
    width: the number of iterations of the level.
    cells_each: the number of cells of a group.
    position: int64 array, one per iteration of any level; its position in the level, -1 for iterations of other levels.
    parts: the regions, counted from the first, that a partition touches, and its counts there, whose `ends` go on from
        those of its regions before; a region may be in several partitions.
    """

    regions: int
    width: int
    cells_each: int
    position: NDArray[np.int64]
    parts: list[tuple[slice, Counts]]

    def totals(self) -> NDArray[np.int64]:
        """Return the records of every group, empty ones included."""
        totals = np.zeros((self.regions, self.width), np.int64)
        for regions, part in self.parts:
            if worth_a_kernel(len(part.groups)):
                from tasks.safetab.compiled_counts import add_totals

                add_totals(part.ends, part.groups, self.position, totals[regions])
            else:
                region, place = self._groups(part)
                np.add.at(totals[regions], (region[place >= 0], place[place >= 0]), part.groups[place >= 0, 1])
        return totals.reshape(-1)

    def cells(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the records of the chosen groups by cell: len(chosen) x cells."""
        cells = np.zeros((len(chosen), self.cells_each), np.int64)
        if not len(chosen):
            return cells
        slots = np.full((self.regions, self.width), -1, np.int32)
        slots.reshape(-1)[chosen] = np.arange(len(chosen))
        for regions, part in self.parts:
            of_part = slots[regions]
            if worth_a_kernel(len(part.groups)):
                from tasks.safetab.compiled_counts import add_cells

                add_cells(*part, self.position, of_part, cells)
            else:
                region, place = self._groups(part)
                slot = np.repeat(np.where(place >= 0, of_part[region, place], -1), part.groups[:, 2])
                cell, records = part.entries[slot >= 0].T
                np.add.at(cells, (slot[slot >= 0], cell), records)
        return cells

    def _groups(self, part: Counts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the region of each group, counted from the part's first, and its iteration's position."""
        return np.repeat(np.arange(len(part.ends) - 1), np.diff(part.ends[:, 0])), self.position[part.groups[:, 0]]


def read_exact_counts(run: SafeTabRun, level: Level, first: int, last: int) -> ExactCounts:
    """Return the exact counts of a level's groups in the regions first ... last - 1."""
    codes, tabulated = load_domain(run, level).iteration_codes, run.parameters.iterations.tabulated
    position = np.full(len(tabulated), -1, np.int64)
    position[np.searchsorted(tabulated, codes)] = np.arange(len(codes))
    return ExactCounts(last - first, len(codes), run.KIND.cells, position, list(_parts(run, level, first, last)))


def _parts(run: SafeTabRun, level: Level, first: int, last: int) -> Iterator[tuple[slice, Counts]]:
    """Yield the counts of each partition in these regions; its entries are read where they are used."""
    for number, partition in enumerate(load_partitions(run)):
        low, high = partition.regions[level.region_type]
        start, stop = max(low, first), min(high, last)
        if start >= stop:
            continue
        folder = run.counts_folder(level.region_type, number)
        ends = open_array(folder, "ends")[start - low : stop - low + 1].copy()  # so that the file does not stay open
        (group, entry), (last_group, last_entry) = ends[[0, -1]].tolist()
        groups = open_array(folder, "groups")[group:last_group].copy()
        yield slice(start - first, stop - first), Counts(ends, groups, open_array(folder, "entries")[entry:last_entry])
