"""The exact counts of a level's population groups, read from the counts of the partitions. Confidential."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.kernels import worth_a_kernel
from tasks.lifecycle.files import read_part
from tasks.lifecycle.process import use_kernels
from tasks.safetab.count import load_partitions
from tasks.safetab.domain import load_domain
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun


@dataclass(frozen=True)
class SparseCounts:
    """Counts of whole regions, of a partition, by iteration and cell; those that are 0 are left out. Confidential.

    regions: slice; counted from the first region that is asked for.
    ends: int64 array; the start of each region's entries, then the end of the last one's, in the whole partition.
    iteration, cell, count: uint16, uint8 and int32 arrays, one element per entry.
    """

    regions: slice
    ends: NDArray[np.int64]
    iteration: NDArray[np.uint16]
    cell: NDArray[np.uint8]
    count: NDArray[np.int32]


@dataclass(frozen=True)
class ExactCounts:
    """The exact counts of the groups of a level in a range of regions. Confidential: never leaves a worker.

    regions: the number of regions. Group = region x iterations of the level + position of the iteration.
    width: the number of iterations of the level.
    cells_each: the number of cells of a group.
    position: int64 array, one per iteration of the granularity; its position in the level, -1 for iterations of the
    other level, which share the counts.
    parts: SparseCounts of each partition; a region may be in several partitions.
    """

    regions: int
    width: int
    cells_each: int
    position: NDArray[np.int64]
    parts: list[SparseCounts]

    def totals(self) -> NDArray[np.int64]:
        """Return the records of every group, empty ones included."""
        totals = np.zeros((self.regions, self.width), np.int64)
        for part in self.parts:
            if worth_a_kernel(len(part.count)):
                from tasks.safetab.compiled_counts import add_totals

                add_totals(part.ends, part.iteration, part.count, self.position, totals[part.regions])
            else:
                region, place = self._groups(part)
                np.add.at(totals[part.regions], (region[place >= 0], place[place >= 0]), part.count[place >= 0])
        return totals.reshape(-1)

    def cells(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the records of the chosen groups by cell: len(chosen) x cells."""
        cells = np.zeros((len(chosen), self.cells_each), np.int64)
        if not len(chosen):
            return cells
        slots = np.full((self.regions, self.width), -1, np.int32)
        slots.reshape(-1)[chosen] = np.arange(len(chosen))
        for part in self.parts:
            of_part = slots[part.regions]
            if worth_a_kernel(len(part.count)):
                from tasks.safetab.compiled_counts import add_cells

                add_cells(part.ends, part.iteration, part.cell, part.count, self.position, of_part, cells)
            else:
                region, place = self._groups(part)
                slot = np.where(place >= 0, of_part[region, place], -1)
                np.add.at(cells, (slot[slot >= 0], part.cell[slot >= 0]), part.count[slot >= 0])
        return cells

    def _groups(self, part: SparseCounts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the region of each entry, counted from the part's first, and its iteration's position."""
        return np.repeat(np.arange(len(part.ends) - 1), np.diff(part.ends)), self.position[part.iteration]


def read_exact_counts(run: SafeTabRun, level: Level, first: int, last: int) -> ExactCounts:
    """Return the exact counts of a level's groups in the regions first ... last - 1."""
    use_kernels(run.runs_folder)
    domain = load_domain(run, level)
    width = len(domain.iterations)
    position = np.full(len(run.parameters.iterations.granularity(level).codes), -1, np.int64)
    position[domain.iterations] = np.arange(width)
    parts = list(_entries(run, level.region_type, first, last))
    return ExactCounts(last - first, width, run.KIND.cells, position, parts)


def _entries(run: SafeTabRun, region_type: str, first: int, last: int) -> Iterator[SparseCounts]:
    """Yield the entries of each partition in these regions."""
    for number, partition in enumerate(load_partitions(run)):
        low, high = partition.regions[region_type]
        start, stop = max(low, first), min(high, last)
        if start >= stop:
            continue
        folder = run.counts_folder(region_type, number)
        ends = read_part(folder, "ends", start - low, stop - low + 1)
        arrays = (read_part(folder, name, int(ends[0]), int(ends[-1])) for name in ("iteration", "cell", "count"))
        yield SparseCounts(slice(start - first, stop - first), ends, *arrays)
