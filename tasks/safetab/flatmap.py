"""The flatmap g_i, and the exact counts of population groups (paper section 3.2, Algorithm 1 lines 6 to 9).

For a partition of the blocks, let A count records by (region, cell) x race/ethnicity combination and let G be the 0/1
matrix of combinations x iterations. Then A @ G are the exact counts by (region, cell) x iteration: every combination is
mapped once and no record becomes several rows. Counts are confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from tasks.geography.grf_c import NOWHERE
from tasks.lifecycle.process import kernels_loaded
from tasks.safetab.iterations import Granularity

FEWEST = 1 << 16  # records or entries that justify loading numba, which takes longer than it saves on fewer
Counts: TypeAlias = dict[str, NDArray[Any]]  # a CSR matrix (region, cell) x iteration: indptr, indices, data


@dataclass(frozen=True)
class Records:
    """The encoded records of a partition, sorted by block. Confidential.

    block: int32 array; counted from the first block of the partition.
    cell: uint8 array; the cell that the record is counted in.
    combination: int32 array; the record's race/ethnicity combination, a row of `combinations`.
    combinations: uint16 array, n x 9; code numbers of QRACE1..QRACE8 (0 for Null) and QSPAN.
    """

    block: NDArray[np.int32]
    cell: NDArray[np.uint8]
    combination: NDArray[np.int32]
    combinations: NDArray[np.uint16]


@dataclass(frozen=True)
class Regions:
    """The regions of one type that a partition touches: how many, and the region of each block, or NOWHERE. Public."""

    number: int
    of_block: NDArray[np.int32]


def count_groups(
    records: Records, granularity: Granularity, regions: Mapping[str, Regions], cells: int
) -> Iterator[tuple[str, Counts]]:
    """Yield the exact counts of each region type; row = cells x region + cell."""
    count = count_compiled if worth_a_kernel(len(records.block)) else count_plainly
    return count(records, granularity, regions, cells)


def worth_a_kernel(number: int) -> bool:
    """Return whether a kernel is loaded, or enough records or entries justify loading one."""
    return kernels_loaded() or number >= FEWEST


def count_plainly(
    records: Records, granularity: Granularity, regions: Mapping[str, Regions], cells: int
) -> Iterator[tuple[str, Counts]]:
    """Yield the counts of `count_groups` as the product A @ G."""
    flatmap = granularity.flatmap(records.combinations)
    for region_type, of_type in regions.items():
        region = of_type.of_block[records.block]
        inside = region != NOWHERE
        row = region[inside] * cells + records.cell[inside]
        shape = (of_type.number * cells, flatmap.shape[0])
        counts = _count_pairs(row, records.combination[inside], shape) @ flatmap
        yield region_type, {"indptr": counts.indptr, "indices": counts.indices.astype(np.uint16), "data": counts.data}


def count_compiled(
    records: Records, granularity: Granularity, regions: Mapping[str, Regions], cells: int
) -> Iterator[tuple[str, Counts]]:
    """Yield the counts of `count_groups` from kernels. The entries of a row may be in another order.

    Records are counted once, by unit: blocks that share the region of every type. Regions are sums of units, and units
    have far fewer entries than there are records.
    """
    from tasks.safetab.compiled_counts import add_units, count_units

    unit = _units(regions)
    _, block_of_unit = np.unique(unit, return_index=True)
    starts = np.searchsorted(records.block, np.arange(len(unit) + 1, dtype=np.int32))  # int32 as blocks: no copy
    flatmap = granularity.flatmap(records.combinations)
    shape = cells, len(granularity.codes)
    scratch = np.zeros(shape, np.int32), np.empty(shape, np.int32)  # table, touched
    order = np.argsort(unit, kind="stable")
    counted = starts, records.cell, records.combination, order, unit[order], flatmap.indptr, flatmap.indices
    entries = int(np.diff(flatmap.indptr)[records.combination].sum())
    of_units = _filled(partial(count_units, *counted, *scratch), len(block_of_unit) * cells, entries)
    for region_type, of_type in regions.items():
        region = of_type.of_block[block_of_unit]
        inside = np.flatnonzero(region != NOWHERE)
        order = inside[np.argsort(region[inside], kind="stable")]
        added = of_units["indptr"], of_units["indices"], of_units["data"], order, region[order]
        yield region_type, _filled(partial(add_units, *added, *scratch), of_type.number * cells, len(of_units["data"]))


def _units(regions: Mapping[str, Regions]) -> NDArray[np.int64]:
    unit: NDArray[np.int64] = np.zeros(1, np.int64)
    for of_type in regions.values():
        unit, _ = pd.factorize(unit * (of_type.number + 1) + (of_type.of_block - NOWHERE))
    return unit


def _filled(count: Callable[..., int], rows: int, most: int) -> Counts:
    """Return the matrix of `rows` rows and at most `most` entries that a kernel fills."""
    indptr = np.zeros(rows + 1, np.int64)
    indices, data = np.empty(most, np.uint16), np.empty(most, np.int32)
    entries = count(indptr[1:], indices, data)
    return {"indptr": indptr, "indices": indices[:entries], "data": data[:entries]}


def _count_pairs(
    row: NDArray[np.integer[Any]], column: NDArray[np.integer[Any]], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return how often each pair occurs. Sorting takes less than half the time of scipy's sum of duplicates."""
    pairs, counts = np.unique(row.astype(np.int64) * shape[1] + column, return_counts=True)
    rows, columns = np.divmod(pairs, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sparse.csr_array((counts.astype(np.int32), columns.astype(np.int32), starts.astype(np.int32)), shape=shape)
