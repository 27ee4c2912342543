"""What a wide declaration declares of its geounits: a release's sums, and counts that records meet by switching.

The release's counts are sparse: few of its sums have records in a leaf. Together with the counts they must admit
records in every leaf, which is checked before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privacy.tables.histogram import TOTAL
from spine.declaration.declaration import meeting
from spine.declaration.form import CountForm, Fault
from spine.declaration.hierarchy import Hierarchy
from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine
from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import Estimates, from_entries, summed


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """By level: the release's sums of the geounits, sparse, and (geounits, parts) declared counts; a leaf's last."""

    width: int
    sums: tuple[Estimates, ...]
    counts: tuple[IntArray, ...]

    def of(self, level: int, first: int, last: int) -> tuple[IntArray, IntArray]:
        """Return (last - first, sums) and (last - first, parts) of geounits of a level."""
        return self.sums[level].only(first, last).dense(self.width), self.counts[level][first:last]


def sum_released(
    hierarchy: Hierarchy, counts: IntArray, leaf: IntArray, part: IntArray, number: IntArray
) -> ReleasedSums:
    """Sum the release's counts of leaves, and the (leaves, parts) declared ones, up the spine."""
    spine, product = hierarchy.spine, hierarchy.declaration.product
    lowest = from_entries(Estimates, len(spine.levels) - 1, 0, leaf, part, number, spine.blocks)
    width = product.width(hierarchy.declaration.form.equal[0].partition)
    return ReleasedSums(
        width, summed(lowest, spine), tuple(np.add.reduceat(counts, starts, axis=0) for starts in spine.starts)
    )


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
    form, keys, leaves = hierarchy.declaration.form, hierarchy.keys, released.sums[-1]
    count = form.counts[0] if form.counts else CountForm(partition=TOTAL, columns=("",))
    meets = meeting(hierarchy.declaration.product, form.equal[0].partition, count.partition)
    free = np.array([not column for column in count.columns])
    open_: BoolArray = (released.counts[-1] > 0) | free
    closed = ~(open_[leaves.row] & meets[:, leaves.cell].T).any(axis=1)
    if closed.any():
        entry = int(closed.argmax())
        why = f"of parts where {count.partition} counts nothing" if form.counts else "where every cell is a zero"
        text = f"{int(closed.sum()):,} of its counts are {why}, as in the leaf {keys[leaves.row[entry]]}"
        yield Fault("equal.0.release", f"{text}: the two are of other places or times")
    least = np.where(free, 0, np.array(count.least or [0] * len(free)))
    needed = released.counts[-1] * least
    for sums in np.unique(meets[least > 0], axis=0):
        inside = (meets == sums).all(axis=1)
        there = np.bincount(leaves.row, leaves.count * sums[leaves.cell], len(leaves)).astype(np.int64)
        short = needed[:, inside].sum(axis=1) > there
        if short.any():
            places = f"{int(short.sum()):,} leaves, as {keys[int(short.argmax())]},"
            yield Fault("equal.0.release", f"it has fewer records in {places} than {count.partition} counts there")
            return
