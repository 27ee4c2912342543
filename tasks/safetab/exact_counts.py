"""The exact counts of a level's population groups, read from the counts of the partitions. Confidential."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tasks.lifecycle.files import read_part
from tasks.lifecycle.process import use_kernels
from tasks.safetab.count import load_partitions
from tasks.safetab.domain import load_domain
from tasks.safetab.flatmap import worth_a_kernel
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun


@dataclass(frozen=True)
class SparseCounts:
    """Entries of a sparse matrix (region, cell) x iteration, for whole regions. Confidential.

    regions: slice; counted from the first region that is asked for.
    ends: int64 array; the start of each row's entries, then the end of the last row's, in the whole matrix.
    iteration: uint16 array, one per entry.
    count: int32 array, one per entry.
    """

    regions: slice
    ends: NDArray[np.int64]
    iteration: NDArray[np.uint16]
    count: NDArray[np.int32]


@dataclass(frozen=True)
class ExactCounts:
    """The exact counts of the groups of a level in a range of regions. Confidential: never leaves a worker.

    regions: the number of regions. Group = region x iterations of the level + position of the iteration.
    width: the number of iterations of the level.
    cells_each: the number of cells of a group.
    position: int64 array, one per iteration of the granularity; its position in the level, -1 for iterations of the
    other level, which share the matrix.
    parts: Entries of each partition; a region may be in several partitions.
    """

    regions: int
    width: int
    cells_each: int
    position: NDArray[np.int64]
    parts: list[SparseCounts]

    def totals(self) -> NDArray[np.int64]:
        """Return the records of every group, empty ones included."""
        totals = np.zeros((self.regions, self.width), np.int64)
        of_level = np.argsort(self.position)[len(self.position) - self.width :]
        for part in self.parts:
            starts = part.ends[:: self.cells_each] - part.ends[0]  # of regions: adds up the cells of each
            matrix = (part.count, part.iteration.astype(np.int32), starts)
            by_region = sparse.csr_array(matrix, shape=(len(starts) - 1, len(self.position)))
            totals[part.regions] += by_region[:, of_level].toarray()
        return totals.reshape(-1)

    def cells(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the records of the chosen groups by cell: len(chosen) x cells."""
        cells = np.zeros((len(chosen), self.cells_each), np.int64)
        if not len(chosen):
            return cells
        slots = np.full((self.regions, self.width), -1, np.int32)
        slots.reshape(-1)[chosen] = np.arange(len(chosen))
        for part in self.parts:
            if worth_a_kernel(len(part.count)):
                from tasks.safetab.compiled_counts import add_cells

                add_cells(part.ends, part.iteration, part.count, self.position, slots[part.regions], cells)
            else:
                place = self.position[part.iteration]
                rows = np.repeat(np.arange(len(part.ends) - 1), np.diff(part.ends))
                region, cell = np.divmod(rows, self.cells_each)
                slot = np.where(place >= 0, slots[part.regions][region, place], -1)
                np.add.at(cells, (slot[slot >= 0], cell[slot >= 0]), part.count[slot >= 0])
        return cells


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
        folder, cells = run.counts_folder(region_type, number), run.KIND.cells
        ends = read_part(folder, "indptr", (start - low) * cells, (stop - low) * cells + 1).astype(np.int64)
        iteration, count = (read_part(folder, name, int(ends[0]), int(ends[-1])) for name in ("indices", "data"))
        yield SparseCounts(slice(start - first, stop - first), ends, iteration, count)
