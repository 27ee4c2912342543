"""What is declared of the geounits of a spine, never counted from the confidential records, and true of every estimate.

Declared are totals of groups of geounits, and counts by part of one partition of the cells (`Product.bounded`): a
geounit whose count of a part is 0 has no record in it, and each counted needs `least` records. Of the redistricting
data: states' populations, and living quarters by type, of which every group-quarters facility has at least one person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine

LARGEST_COUNT = (1 << 31) - 1  # histograms are kept in 32 bits
NO_LIMIT = 1 << 50  # records: as an upper bound none


@dataclass(frozen=True)
class Totals:
    """Declared totals of groups of geounits of a level: of states, which may be two geounits each.

    group: (geounits,) ascending, from 0; the geounits of a group have one parent. values: (groups,).
    """

    group: IntArray
    values: IntArray


class Sets(NamedTuple):
    """Bounds of sets of parts, where bounds stand on more than one partition, or have upper limits.

    member: (sets, parts). numbers: of each bounded query group the (coordinates,) set of each, -1 where it has no
    bound. low, high: for each level (geounits, sets) fewest and most records. Any two sets are nested or disjoint.
    """

    member: BoolArray
    numbers: Mapping[str, IntArray]
    low: tuple[IntArray, ...]
    high: tuple[IntArray, ...]


@dataclass(frozen=True)
class Bounds:
    """What is declared on every level of a spine.

    counts: for each level (geounits, parts). least: (parts,) fewest records for each counted. totals: for each level
    those of its geounits, None where none are declared. fixed: whether the count of the first part is the number of
    records of a geounit itself, as of housing units. sets: bounds of sets of parts.
    root_range: fewest and most records of the only root, where `sets` has bounds.
    """

    counts: tuple[IntArray, ...]
    least: IntArray
    totals: tuple[Totals | None, ...]
    fixed: bool = False
    sets: Sets | None = None
    root_range: tuple[int, int] | None = None

    def allowed(self, level: int) -> BoolArray:
        """Return (geounits, parts) whether a geounit may have records in a part."""
        return self.counts[level] > 0

    def lower_bound(self, level: int) -> IntArray:
        """Return the (geounits, parts) fewest records."""
        return self.counts[level] * self.least

    def number(self, level: int) -> IntArray:
        """Return the (geounits,) numbers of records where they are fixed."""
        return self.counts[level][:, 0]

    def nearest_total(self, noisy: int) -> int:
        """Return the number of records of the only root that its bounds admit, next to a noisy one."""
        low, high = self.root_range or (int(self.lower_bound(0).sum()), NO_LIMIT)
        return min(max(noisy, low), high)

    @property
    def lowest_totals(self) -> Totals:
        """Return the totals of the lowest level that has some; ValueError where none are declared."""
        for totals in reversed(self.totals):
            if totals is not None:
                return totals
        raise ValueError("no total is declared")


def sum_bounds(
    spine: Spine,
    counts: IntArray,
    least: IntArray,
    *totals: tuple[int, Totals],
    fixed: bool = False,
    sets: Sets | None = None,
) -> Bounds:
    """Sum what is declared of leaves up a spine; a total of groups is known on all levels above, as their sum.

    counts: (leaves, parts) in spine order. totals: with the index of their level. sets: with the bounds of the leaves
    alone. ValueError for counts of another shape, or a group of geounits that has no one parent.
    """
    if counts.shape != (spine.blocks, len(least)) or (counts < 0).any():
        raise ValueError(f"the declared counts must be ({spine.blocks}, {len(least)}) whole numbers, none negative")
    found: list[Totals | None] = [None] * len(spine.levels)
    for level, declared in totals:
        found[level] = declared
        for upper in range(level - 1, -1, -1):
            parent = spine.parents[upper + 1]
            of_group = parent[np.searchsorted(declared.group, np.arange(len(declared.values)))]
            if not np.array_equal(of_group[declared.group], parent):
                raise ValueError(f"a declared total of level {spine.levels[upper + 1]} is of geounits of two parents")
            sums = np.bincount(of_group, declared.values, len(spine.starts[upper])).astype(np.int64)
            declared = Totals(np.arange(len(spine.starts[upper])), sums)
            found[upper] = found[upper] or declared
    summed = tuple(np.add.reduceat(counts, starts, axis=0) for starts in spine.starts)
    return Bounds(summed, least, tuple(found), fixed, sets and _summed_sets(spine, sets))


def _summed_sets(spine: Spine, sets: Sets) -> Sets:
    """Return the bounds of sets on all levels: a sum with a leaf without a limit has none."""
    (low,), (high,) = sets.low, sets.high
    free = high >= NO_LIMIT
    lows, highs = [], []
    for starts in spine.starts:
        lows.append(np.add.reduceat(low, starts))
        limit = np.add.reduceat(np.where(free, 0, high), starts)
        highs.append(np.where(np.logical_or.reduceat(free, starts), NO_LIMIT, limit))
    return sets._replace(low=tuple(lows), high=tuple(highs))
