"""Declared counts of the geounits of a spine: known from outside the confidential records, and met by every estimate.

Totals of groups of geounits are declared, and counts by part of one partition of the cells (`Product.bounded`): a
geounit with count 0 of a part has no record in it, and each unit counted needs at least `least` records. In the
redistricting data these are states' populations, and living quarters by type, where each group-quarters facility has at
least one person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine

LARGEST_COUNT = (1 << 31) - 1  # histograms are kept in 32 bits
NO_LIMIT = 1 << 50  # records; as an upper bound it means no bound
Geounits: TypeAlias = slice | IntArray  # of a level
ALL = slice(None)


@dataclass(frozen=True)
class Totals:
    """Declared totals of groups of a level's geounits, such as states, which may be two geounits each.

    group: (geounits,) ascending, from 0; the geounits of a group have one parent. values: (groups,).
    """

    group: IntArray
    values: IntArray


class Sets(NamedTuple):
    """Bounds of sets of parts, for upper limits or bounds on several partitions.

    member: (sets, parts). numbers: by bounded query group, the (coordinates,) set of each coordinate, -1 if unbounded.
    low, high: by level, (geounits, sets) fewest and most records. Any two sets are nested or disjoint.
    """

    member: BoolArray
    numbers: Mapping[str, IntArray]
    low: tuple[IntArray, ...]
    high: tuple[IntArray, ...]


@dataclass(frozen=True)
class Bounds:
    """The declared counts on every level of a spine.

    counts: by level, (geounits, parts). least: (parts,) fewest records per unit counted. totals: by level, or None if
    not declared. fixed: whether the count of the first part is a geounit's number of records, as for housing units.
    sets: bounds of sets of parts. root_range: fewest and most records of the only root, if `sets` bounds it.
    """

    counts: tuple[IntArray, ...]
    least: IntArray
    totals: tuple[Totals | None, ...]
    fixed: bool = False
    sets: Sets | None = None
    root_range: tuple[int, int] | None = None

    def allowed(self, level: int, geounits: Geounits = ALL) -> BoolArray:
        """Return (geounits, parts): whether a geounit, of all or some of a level, may have records in a part."""
        return self.counts[level][geounits] > 0

    def lower_bound(self, level: int, geounits: Geounits = ALL) -> IntArray:
        """Return (geounits, parts): the fewest records."""
        return self.counts[level][geounits] * self.least

    def number(self, level: int) -> IntArray:
        """Return (geounits,): the number of records, if it is fixed."""
        return self.counts[level][:, 0]

    def nearest_total(self, noisy: int) -> int:
        """Return the number of records of the only root that is nearest to a noisy one within its bounds."""
        low, high = self.root_range or (int(self.lower_bound(0).sum()), NO_LIMIT)
        return min(max(noisy, low), high)

    @property
    def lowest_totals(self) -> Totals:
        """Return the totals of the lowest level that has any. Raises ValueError if no total is declared."""
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
    """Sum the declared counts of leaves up a spine. A total of groups is known on all levels above, as their sum.

    counts: (leaves, parts) in spine order. totals: with the index of their level. sets: with the bounds of the leaves
    only.
    Raises ValueError for counts of another shape, and for a group of geounits with several parents.
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
                raise ValueError(f"a declared total of level {spine.levels[upper + 1]} covers geounits of two parents")
            sums = np.bincount(of_group, declared.values, len(spine.starts[upper])).astype(np.int64)
            declared = Totals(np.arange(len(spine.starts[upper])), sums)
            found[upper] = found[upper] or declared
    summed = tuple(np.add.reduceat(counts, starts, axis=0) for starts in spine.starts)
    return Bounds(summed, least, tuple(found), fixed, sets and _summed_sets(spine, sets))


def _summed_sets(spine: Spine, sets: Sets) -> Sets:
    """Return the bounds of sets on all levels: a sum is unbounded if a leaf is."""
    (low,), (high,) = sets.low, sets.high
    free = high >= NO_LIMIT
    lows, highs = [], []
    for starts in spine.starts:
        lows.append(np.add.reduceat(low, starts))
        limit = np.add.reduceat(np.where(free, 0, high), starts)
        highs.append(np.where(np.logical_or.reduceat(free, starts), NO_LIMIT, limit))
    return sets._replace(low=tuple(lows), high=tuple(highs))
