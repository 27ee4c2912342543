"""The flatmap g_i, and the exact counts of population groups (paper section 3.2, Algorithm 1 lines 6 to 9).

For a partition of the blocks, let A count records by (region, cell) x race/ethnicity combination and let G be the 0/1
matrix of combinations x iterations. Then A @ G are the exact counts by (region, cell) x iteration: every combination is
mapped once and no record becomes several rows. Counts are confidential.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from tasks.geography.grf_c import NOWHERE
from tasks.safetab.group_counts import Counts
from tasks.safetab.iterations import ITERATION_KINDS, Granularity
from tasks.safetab.levels import ITERATION_LEVELS


@dataclass(frozen=True)
class Records:
    """The encoded records of a partition, sorted by block. Confidential.

    starts: int64 array; the first record of each block of the partition, then the number of records.
    cell: uint8 array; the cell that the record is counted in.
    combination: uint32 array; the record's race/ethnicity combination, a row of `combinations`.
    combinations: uint16 array, n x 9; code numbers of QRACE1..QRACE8 (0 for Null) and QSPAN.
    """

    starts: NDArray[np.int64]
    cell: NDArray[np.uint8]
    combination: NDArray[np.uint32]
    combinations: NDArray[np.uint16]


@dataclass(frozen=True)
class Regions:
    """The regions of one type that a partition touches: how many, and the region of each block, or NOWHERE. Public."""

    number: int
    of_block: NDArray[np.int32]


def count_plainly(
    records: Records,
    granularities: Mapping[str, Granularity],
    regions: Mapping[str, Regions],
    codes: Sequence[str],
    cells: int,
) -> Iterator[tuple[str, Counts]]:
    """Yield the exact counts of each region type, as A @ G; an iteration's number is the place of its code in `codes`.

    granularities: one per region type. An iteration that two of them tabulate has the same codes in both. The counts of
    a region type may include iterations that only another granularity tabulates.
    codes: the iteration codes of all granularities, sorted.
    """
    for region_type, of_type in regions.items():
        flatmap = granularities[region_type].flatmap(records.combinations)
        region = np.repeat(of_type.of_block, np.diff(records.starts))
        inside = region != NOWHERE
        row = region[inside] * cells + records.cell[inside]
        shape = (of_type.number * cells, flatmap.shape[0])
        counts = (_count_pairs(row, records.combination[inside], shape) @ flatmap).tocoo()
        region, cell = np.divmod(counts.row, cells)
        iteration = np.searchsorted(codes, granularities[region_type].codes)[counts.col]
        yield region_type, Counts.of(of_type.number, region, iteration, cell, counts.data)


def count_compiled(
    records: Records,
    granularities: Mapping[str, Granularity],
    regions: Mapping[str, Regions],
    codes: Sequence[str],
    cells: int,
) -> Iterator[tuple[str, Counts]]:
    """Yield the counts of `count_plainly` from kernels. The groups of a region may be in another order.

    Records are counted once, by unit: blocks that share the region of every type. A region is the sum of units, or of
    another type's regions, which have far fewer entries than there are records.
    """
    from tasks.safetab.compiled_counts import add_regions, count_records

    units = _units(regions)
    pointers, iterations = _map_to(codes, granularities.values(), records.combinations)
    most = int(np.diff(pointers).take(records.combination).sum())
    table = np.zeros((len(codes), cells), np.int32)
    counts = Counts.empty(units.number, most, most)
    members = _members(units.of_block, units.number)
    count_records(*members, records.starts, records.cell, records.combination, pointers, iterations, table, counts)
    counted = [(units, counts.filled())]
    for region_type, whole in sorted(regions.items(), key=lambda item: -item[1].number):
        sums = ((_region_of_parts(parts, whole), of_parts) for parts, of_parts in reversed(counted))
        of_part, of_parts = next((of_part, of_parts) for of_part, of_parts in sums if of_part is not None)
        counts = Counts.empty(whole.number, len(of_parts.groups), len(of_parts.entries))
        add_regions(*_members(of_part, whole.number), of_parts, table, counts)
        counted.append((whole, counts.filled()))
        yield region_type, counted[-1][1]


def _units(regions: Mapping[str, Regions]) -> Regions:
    unit: NDArray[np.int64] = np.zeros(1, np.int64)
    for of_type in regions.values():
        unit, _ = pd.factorize(unit * (of_type.number + 1) + (of_type.of_block - NOWHERE))
    return Regions(int(unit.max(initial=-1)) + 1, unit.astype(np.int32))


def _region_of_parts(parts: Regions, whole: Regions) -> NDArray[np.int32] | None:
    """Return the region that each region of another type is part of, or NOWHERE; None unless they add up to it."""
    region = np.full(parts.number + 1, NOWHERE, np.int32)
    region[parts.of_block] = whole.of_block  # of blocks outside all parts, the last
    region[-1] = NOWHERE
    return region[:-1] if (region[parts.of_block] == whole.of_block).all() else None


def _members(of_members: NDArray[np.int32], regions: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each region's members begin, and their number at the end; and the members, sorted by region."""
    inside = np.flatnonzero(of_members != NOWHERE)
    members = inside[np.argsort(of_members[inside], kind="stable")]
    return np.searchsorted(of_members[members], np.arange(regions + 1)), members


def _map_to(
    codes: Sequence[str], granularities: Iterable[Granularity], combinations: NDArray[np.uint16]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the iterations of combinations in all granularities, as numbers in `codes`: pointers, and iterations."""
    from tasks.safetab.compiled_counts import map_combinations

    number = {code: place for place, code in enumerate(codes)}
    maps = []
    for each in {id(each): each for each in granularities}.values():
        new = [number.pop(code, -1) for code in each.codes]  # -1: an earlier granularity has it
        in_codes = np.array([*new, -1], np.int32)  # the last for codes without an iteration, -1
        found = ([in_codes[each.maps[kind, level]] for kind in ITERATION_KINDS] for level in ITERATION_LEVELS)
        maps += [of_level for of_level in found if np.max(of_level) >= 0]
    pointers = np.empty(len(combinations) + 1, np.uint32)
    iterations = np.empty(len(combinations) * len(maps) * (1 + combinations.shape[1]), np.uint16)
    entries = map_combinations(
        combinations, np.array(maps, np.int32).reshape(len(maps), len(ITERATION_KINDS), -1), pointers, iterations
    )
    return pointers, iterations[:entries]


def _count_pairs(
    row: NDArray[np.integer[Any]], column: NDArray[np.integer[Any]], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return how often each pair occurs. Sorting takes less than half the time of scipy's sum of duplicates."""
    pairs, counts = np.unique(row.astype(np.int64) * shape[1] + column, return_counts=True)
    rows, columns = np.divmod(pairs, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sparse.csr_array((counts.astype(np.int32), columns.astype(np.int32), starts.astype(np.int32)), shape=shape)
