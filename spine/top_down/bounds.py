"""What is declared of the geounits of a spine, never counted from the confidential records, and true of every estimate.

Declared are totals of groups of geounits, and counts by part of one partition of the cells (`Product.bounded`): a
geounit whose count of a part is 0 has no record in it, and each counted needs `least` records. Of the redistricting
data: states' populations, and living quarters by type, of which every group-quarters facility has at least one person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine


@dataclass(frozen=True)
class Totals:
    """Declared totals of groups of geounits of a level: of states, which may be two geounits each.

    group: (geounits,) ascending, from 0; the geounits of a group have one parent. values: (groups,).
    """

    group: IntArray
    values: IntArray


@dataclass(frozen=True)
class Bounds:
    """What is declared on every level of a spine.

    counts: for each level (geounits, parts). least: (parts,) fewest records for each counted. totals: for each level
    those of its geounits, None where none are declared. fixed: whether the count of the first part is the number of
    records of a geounit itself, as of housing units.
    """

    counts: tuple[IntArray, ...]
    least: IntArray
    totals: tuple[Totals | None, ...]
    fixed: bool = False

    def allowed(self, level: int) -> BoolArray:
        """Return (geounits, parts) whether a geounit may have records in a part."""
        return self.counts[level] > 0

    def lower_bound(self, level: int) -> IntArray:
        """Return the (geounits, parts) fewest records."""
        return self.counts[level] * self.least

    def number(self, level: int) -> IntArray:
        """Return the (geounits,) numbers of records where they are fixed."""
        return self.counts[level][:, 0]

    @property
    def lowest_totals(self) -> Totals:
        """Return the totals of the lowest level that has some; ValueError where none are declared."""
        for totals in reversed(self.totals):
            if totals is not None:
                return totals
        raise ValueError("no total is declared")


def sum_bounds(
    spine: Spine, counts: IntArray, least: IntArray, *totals: tuple[int, Totals], fixed: bool = False
) -> Bounds:
    """Sum what is declared of leaves up a spine; a total of groups is known on all levels above, as their sum.

    counts: (leaves, parts) in spine order. totals: with the index of their level. ValueError for counts of another
    shape, or a group of geounits that has no one parent.
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
    return Bounds(tuple(np.add.reduceat(counts, starts, axis=0) for starts in spine.starts), least, tuple(found), fixed)
