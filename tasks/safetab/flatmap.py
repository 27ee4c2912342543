"""The flatmap g_i, and the exact counts of population groups (paper section 3.2, Algorithm 1 lines 6 to 9).

For a partition of the blocks, let A count records by (region, cell) x race/ethnicity combination and let G be the 0/1
matrix of combinations x iterations. Then A @ G are the exact counts by (region, cell) x iteration: every combination is
mapped once and no record becomes several rows. Counts are confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from tasks.geography.grf_c import NOWHERE
from tasks.kernels import worth_a_kernel
from tasks.safetab.iterations import ITERATION_KINDS, Granularity
from tasks.safetab.levels import ITERATION_LEVELS

# Entries region by region: iteration uint16, cell uint8, count int32; `ends` int64, 0 and the end of each region's.
Counts: TypeAlias = dict[str, NDArray[Any]]


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
    records: Records, granularities: Mapping[str, Granularity], regions: Mapping[str, Regions], cells: int
) -> Iterator[tuple[str, Counts]]:
    """Yield the exact counts of each region type.

    granularities: one per region type. An iteration that two of them tabulate has the same codes in both.
    """
    count = count_compiled if worth_a_kernel(len(records.block)) else count_plainly
    return count(records, granularities, regions, cells)


def count_plainly(
    records: Records, granularities: Mapping[str, Granularity], regions: Mapping[str, Regions], cells: int
) -> Iterator[tuple[str, Counts]]:
    """Yield the counts of `count_groups` as the product A @ G."""
    for region_type, of_type in regions.items():
        flatmap = granularities[region_type].flatmap(records.combinations)
        region = of_type.of_block[records.block]
        inside = region != NOWHERE
        row = region[inside] * cells + records.cell[inside]
        shape = (of_type.number * cells, flatmap.shape[0])
        counts = _count_pairs(row, records.combination[inside], shape) @ flatmap
        cell = np.repeat(np.arange(shape[0]) % cells, np.diff(counts.indptr))
        entries = {"iteration": counts.indices.astype(np.uint16), "cell": cell.astype(np.uint8), "count": counts.data}
        yield region_type, {"ends": counts.indptr[::cells].astype(np.int64), **entries}


def count_compiled(
    records: Records, granularities: Mapping[str, Granularity], regions: Mapping[str, Regions], cells: int
) -> Iterator[tuple[str, Counts]]:
    """Yield the counts of `count_groups` from kernels. The entries of a region may be in another order.

    Records are counted once, by unit: blocks that share the region of every type, and by the iterations of all
    granularities. Regions are sums of units, and units have far fewer entries than there are records.
    """
    from tasks.safetab.compiled_counts import add_units, count_units

    unit = _units(regions)
    _, block_of_unit = np.unique(unit, return_index=True)
    starts = np.searchsorted(records.block, np.arange(len(unit) + 1, dtype=np.int32))  # int32 as blocks: no copy
    codes = sorted({code for each in granularities.values() for code in each.codes})
    pointers, iterations = _map_to(codes, granularities.values(), records.combinations)
    table = np.zeros((len(codes), cells), np.int32)
    order = np.argsort(unit, kind="stable")
    counted = starts, records.cell, records.combination, order, unit[order], pointers, iterations
    entries = int(np.diff(pointers)[records.combination].sum())
    of_units = _filled(partial(count_units, *counted, table), len(block_of_unit), entries)
    for region_type, of_type in regions.items():
        own = pd.Index(granularities[region_type].codes).get_indexer(pd.Index(codes)).astype(np.int32)
        region = of_type.of_block[block_of_unit]
        inside = np.flatnonzero(region != NOWHERE)
        order = inside[np.argsort(region[inside], kind="stable")]
        added = *of_units.values(), order, region[order], own, table
        yield region_type, _filled(partial(add_units, *added), of_type.number, len(of_units["count"]))


def _map_to(
    codes: Sequence[str], granularities: Iterable[Granularity], combinations: NDArray[np.uint16]
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Return the iterations of combinations in all granularities, as numbers in `codes`: pointers, and iterations."""
    from tasks.safetab.compiled_counts import map_combinations

    number = {code: place for place, code in enumerate(codes)}
    maps = []
    for each in {id(each): each for each in granularities}.values():
        new = [number.pop(code, -1) for code in each.codes]  # -1: an earlier granularity has it
        in_codes = np.array([*new, -1], np.int32)  # the last for codes without an iteration, -1
        found = ([in_codes[each.maps[kind, level]] for kind in ITERATION_KINDS] for level in ITERATION_LEVELS)
        maps += [of_level for of_level in found if np.max(of_level) >= 0]
    pointers = np.empty(len(combinations) + 1, np.int32)
    iterations = np.empty(len(combinations) * len(maps) * (1 + combinations.shape[1]), np.uint16)
    entries = map_combinations(
        combinations, np.array(maps, np.int32).reshape(len(maps), len(ITERATION_KINDS), -1), pointers, iterations
    )
    return pointers, iterations[:entries]


def _units(regions: Mapping[str, Regions]) -> NDArray[np.int64]:
    unit: NDArray[np.int64] = np.zeros(1, np.int64)
    for of_type in regions.values():
        unit, _ = pd.factorize(unit * (of_type.number + 1) + (of_type.of_block - NOWHERE))
    return unit


def _filled(count: Callable[..., int], regions: int, most: int) -> Counts:
    """Return the counts of `regions` regions, or units, with at most `most` entries, that a kernel fills."""
    ends = np.zeros(regions + 1, np.int64)
    kinds = {"iteration": np.uint16, "cell": np.uint8, "count": np.int32}
    filled: Counts = {name: np.empty(most, kind) for name, kind in kinds.items()}
    entries = count(ends[1:], *filled.values())
    return {"ends": ends, **{name: array[:entries] for name, array in filled.items()}}


def _count_pairs(
    row: NDArray[np.integer[Any]], column: NDArray[np.integer[Any]], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return how often each pair occurs. Sorting takes less than half the time of scipy's sum of duplicates."""
    pairs, counts = np.unique(row.astype(np.int64) * shape[1] + column, return_counts=True)
    rows, columns = np.divmod(pairs, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sparse.csr_array((counts.astype(np.int32), columns.astype(np.int32), starts.astype(np.int32)), shape=shape)
