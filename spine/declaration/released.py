"""What a wide declaration declares of its geounits: a release's sums, and counts that records meet by switching.

The release's counts are sparse: few of its sums have records in a leaf. Together with the counts they must admit
records in every leaf, which is checked before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spine.declaration.form import Fault
from spine.declaration.hierarchy import Hierarchy
from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine
from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import Estimates, Product, from_entries, summed


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

    Records of a sum need a part with a count. The fewest of all parts whose cells lie in some sums fit into these sums
    (Hall): it is enough to compare unions of the sums that each part has cells in.
    """
    form, keys = hierarchy.declaration.form, hierarchy.keys
    if not form.counts:
        return
    (count,), leaves = form.counts, released.sums[-1]
    meets = _meeting(hierarchy.declaration.product, form.equal[0].partition, count.partition)
    free = np.array([not column for column in count.columns])
    open_: BoolArray = (released.counts[-1] > 0) | free
    closed = ~(open_[leaves.row] & meets[:, leaves.cell].T).any(axis=1)
    if closed.any():
        entry = int(closed.argmax())
        text = (
            f"{int(closed.sum()):,} of its counts are of parts where {count.partition} counts nothing, as in the leaf "
        )
        yield Fault("equal.0.release", f"{text}{keys[leaves.row[entry]]}: the two are of other places or times")
    least = np.where(free, 0, np.array(count.least or [0] * len(free)))
    needed = released.counts[-1] * least
    for union in _unions(meets[(least > 0)]):
        inside = ~(meets & ~union).any(axis=1)
        there = np.bincount(leaves.row, leaves.count * union[leaves.cell], len(leaves)).astype(np.int64)
        short = needed[:, inside].sum(axis=1) > there
        if short.any():
            places = f"{int(short.sum()):,} leaves, as {keys[int(short.argmax())]},"
            yield Fault("equal.0.release", f"it has fewer records in {places} than {count.partition} counts there")
            return


def _meeting(product: Product, sums: str, parts: str) -> BoolArray:
    """Return (parts, sums): whether a possible cell is in both."""
    (own, width), (part, number) = product.partition(sums), product.partition(parts)
    found: BoolArray = np.zeros((number, width), bool)
    found[part[product.possible], own[product.possible]] = True
    return found


def _unions(sets: BoolArray) -> Iterator[BoolArray]:
    """Yield the unions of sets, (sets, sums), that are connected by common sums."""
    found = {own.tobytes(): own for own in sets}
    while True:
        every = [*found.values()]
        pairs = (one | other for at, one in enumerate(every) for other in every[:at] if (one & other).any())
        more = {own.tobytes(): own for own in pairs if own.tobytes() not in found}
        if not more:
            break
        found |= more
    yield from found.values()
