"""What a wide declaration declares of its geounits: a release's sums, and counts that records meet by switching.

The release's counts are sparse: few of its sums have records in a leaf. Together with the counts they must admit
records in every leaf, which is checked before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from privacy.tables.histogram import TOTAL
from spine.declaration.declaration import meeting
from spine.declaration.form import CountForm, Fault
from spine.declaration.hierarchy import Hierarchy
from spine.geography import BoolArray, IntArray, Integers, narrowed
from spine.hierarchy import Spine
from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import Estimates, joined, summed_above

AT_ONCE = 1 << 16  # leaves whose counts are worked on at once


class Counts(NamedTuple):
    """A release's counts of leaves that it has, by row of the table of leaves, then part; all (n,), in narrow types.

    part: the coordinate of the partition. number: records.
    """

    row: Integers
    part: Integers
    number: Integers

    @classmethod
    def of(cls, row: Integers, part: Integers, number: Integers) -> Counts:
        """Return counts in any order, which are summed where row and part are the same."""
        width = int(part.max(initial=0)) + 1
        key = row.astype(np.int64) * width + part
        if (np.diff(key) <= 0).any():
            key, place = np.unique(key, return_inverse=True)
            number = np.bincount(place, number, len(key)).astype(np.int64)
        return cls(*map(narrowed, (*np.divmod(key, width), number)))


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """By level: the release's sums of the geounits, sparse, and (geounits, parts) declared counts; a leaf's last.

    Both are in narrow types, except those that `of` returns.
    """

    width: int
    sums: tuple[Estimates, ...]
    counts: tuple[Integers, ...]

    def of(self, level: int, first: int, last: int) -> tuple[IntArray, IntArray]:
        """Return (last - first, sums) and (last - first, parts) of geounits of a level."""
        return self.sums[level].only(first, last).dense(self.width), self.counts[level][first:last].astype(np.int64)


def sum_released(hierarchy: Hierarchy, counts: Integers, equal: Counts) -> ReleasedSums:
    """Sum the release's counts of leaves, and the (leaves, parts) declared ones in spine order, up the spine."""
    spine = hierarchy.spine
    sums = [_in_spine_order(spine, equal)]
    declared = [counts]
    for level in range(len(spine.levels) - 2, -1, -1):
        ends = spine.first_child[level]
        parts = [
            _narrow(summed_above(_wide(sums[0].only(*ends[[first, last]].tolist())), spine))
            for first, last in spine.pieces(level, (len(spine.levels) - 1, AT_ONCE))
        ]
        sums.insert(0, _narrow(joined(parts)))
        declared.insert(0, narrowed(np.add.reduceat(declared[0], ends[:-1], axis=0, dtype=np.int64)))
    width = hierarchy.declaration.product.width(hierarchy.declaration.form.equal[0].partition)
    return ReleasedSums(width, tuple(sums), tuple(declared))


def _in_spine_order(spine: Spine, equal: Counts) -> Estimates:
    """Return counts of leaves as histograms, without those of 0."""
    row, part, number = (each[equal.number > 0] for each in equal) if (equal.number == 0).any() else equal
    before = np.searchsorted(row, np.arange(spine.blocks + 1))  # of the counts of each row of the table
    starts = np.append(0, np.cumsum(np.diff(before)[spine.order]))
    cell, count = np.empty_like(part), np.empty_like(number)
    for first in range(0, spine.blocks, AT_ONCE):
        leaves = slice(first, first + AT_ONCE)
        begin, end = starts[leaves.start], starts[min(leaves.stop, spine.blocks)]
        sizes = np.diff(starts[leaves.start : leaves.stop + 1])
        at = np.repeat(before[spine.order[leaves]] - starts[:-1][leaves], sizes) + np.arange(begin, end)
        cell[begin:end], count[begin:end] = part[at], number[at]
    return _narrow(Estimates(len(spine.levels) - 1, 0, starts, cast(IntArray, cell), cast(IntArray, count)))


def _narrow(sums: Estimates) -> Estimates:
    starts, cell, count = (cast(IntArray, narrowed(each)) for each in (sums.starts, sums.cell, sums.count))
    return Estimates(sums.level, sums.first, starts, cell, count)


def _wide(sums: Estimates) -> Estimates:
    starts, cell, count = (each.astype(np.int64) for each in (sums.starts, sums.cell, sums.count))
    return Estimates(sums.level, sums.first, starts, cell, count)


def released_bounds(spine: Spine, released: ReleasedSums) -> Bounds:
    """Return the totals of the geounits, which the release's sums add up to."""
    totals = Totals(np.arange(spine.blocks), released.sums[-1].totals())
    free = np.ones((spine.blocks, 1), np.int64)
    return sum_bounds(spine, free, np.zeros(1, np.int64), (len(spine.levels) - 1, totals))


def released_faults(hierarchy: Hierarchy, released: ReleasedSums) -> Iterator[Fault]:
    """Yield where the release's sums of a leaf admit no records that meet its declared counts.

    Records of a sum need a part with a count. Parts that share a sum have the same sums (`read_declaration`), so it is
    enough that these have the fewest records of all of these parts together.
    """
    form = hierarchy.declaration.form
    count = form.counts[0] if form.counts else CountForm(partition=TOTAL, columns=("",))
    meets = meeting(hierarchy.declaration.product, form.equal[0].partition, count.partition)
    free = np.array([not column for column in count.columns])
    least = np.where(free, 0, np.array(count.least or [0] * len(free)))
    closed: list[int] = []
    together = np.unique(meets[least > 0], axis=0)  # the sums of parts that share them
    short: list[list[int]] = [[] for _ in together]
    for first in range(0, hierarchy.spine.blocks, AT_ONCE):
        leaves = released.sums[-1].only(first, min(first + AT_ONCE, hierarchy.spine.blocks))
        counts = released.counts[-1][first : first + AT_ONCE]
        open_: BoolArray = (counts > 0) | free
        row = leaves.row
        closed += (first + row[~(open_[row] & meets[:, leaves.cell].T).any(axis=1)]).tolist()
        needed = counts * least
        for found, sums in zip(short, together, strict=True):
            inside = (meets == sums).all(axis=1)
            there = np.bincount(row, leaves.count * sums[leaves.cell], len(leaves)).astype(np.int64)
            found += (first + np.flatnonzero(needed[:, inside].sum(axis=1) > there)).tolist()
    if closed:
        why = f"of parts where {count.partition} counts nothing" if form.counts else "where every cell is a zero"
        text = f"{len(closed):,} of its counts are {why}, as in the leaf {hierarchy.key(closed[0])}"
        yield Fault("equal.0.release", f"{text}: the two are of other places or times")
    for found in short:
        if found:
            places = f"{len(found):,} leaves, as {hierarchy.key(found[0])},"
            yield Fault("equal.0.release", f"it has fewer records in {places} than {count.partition} counts there")
            return
