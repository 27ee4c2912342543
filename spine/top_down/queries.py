"""Query groups as index maps: each cell of the histogram is in one coordinate of the group (a 0/1 partition).

A query group that does not ask an axis sums over it, and its sums are sums of any finer group's. `query_hierarchy`
finds for each group the coarsest of the finer ones: votingage*hispanic*cenrace (252 sums of the 2,016 cells) gives the
five groups on these axes, hhgq (8 sums) gives hhinstlevels and total, so the 2,016 cells are summed twice, not eleven
times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from spine.geography import IntArray
from spine.top_down.histogram import DETAILED as DETAILED
from spine.top_down.histogram import TOTAL as TOTAL
from spine.top_down.histogram import Product, TrueHistograms


@dataclass(frozen=True)
class QueryGroup:
    """One query group: the (cells,) coordinate that each cell is counted in, and the number of coordinates."""

    name: str
    coordinate: IntArray
    width: int


class QueryHierarchy(NamedTuple):
    """Query groups, widest first, the first `detailed`; each of the others is summed from a finer one before it.

    offsets: (groups + 1,) first coordinate of each group among those of all. finer: (groups,) the finer group (0 for
    `detailed` itself). parent_of: for each coordinate of the finer group the group's coordinate that it is summed into,
    all groups' one after the other, from parent_offsets, (groups,).
    """

    offsets: IntArray
    finer: IntArray
    parent_of: IntArray
    parent_offsets: IntArray


@lru_cache(maxsize=256)
def query_group(product: Product, name: str) -> QueryGroup:
    """Return the query group of that name; ValueError for an axis that is not there: see `Product.partition`."""
    coordinate, width = product.partition(name)
    coordinate.flags.writeable = False
    return QueryGroup(name, coordinate, width)


def query_hierarchy(groups: list[QueryGroup]) -> QueryHierarchy:
    """Return the hierarchy of these groups, widest first: each is summed from the narrowest one that refines it."""
    finer, parent_of = [0], [np.zeros(0, np.int64)]
    for at, group in enumerate(groups[1:], start=1):
        for before in range(at - 1, -1, -1):
            if (found := _parent_of(groups[before], group)) is not None:
                finer.append(before)
                parent_of.append(found)
                break
    return QueryHierarchy(
        np.cumsum([0, *(group.width for group in groups)]),
        np.array(finer, np.int64),
        np.concatenate(parent_of),
        np.cumsum([0, *map(len, parent_of)])[: len(groups)],
    )


def _parent_of(fine: QueryGroup, coarse: QueryGroup) -> IntArray | None:
    """Return the coordinate of `coarse` that contains each coordinate of `fine`; None where several meet one."""
    parent_of = np.zeros(fine.width, np.int64)
    parent_of[fine.coordinate] = coarse.coordinate
    return parent_of if np.array_equal(parent_of[fine.coordinate], coarse.coordinate) else None


def exact_answers(histograms: TrueHistograms, group: QueryGroup, first: int, last: int) -> IntArray:
    """Return the (last - first, width) exact answers of geounits first, ..., last - 1: confidential, for measuring."""
    start, end = first - histograms.first, last - histograms.first
    entries = slice(histograms.starts[start], histograms.starts[end])
    row = np.repeat(np.arange(last - first), np.diff(histograms.starts[start : end + 1]))
    at = row * group.width + group.coordinate[histograms.cell[entries]]
    sums = np.zeros((last - first) * group.width, np.int64)
    np.add.at(sums, at, histograms.count[entries])
    return sums.reshape(last - first, group.width)
