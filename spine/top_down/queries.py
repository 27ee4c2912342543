"""Query groups as index maps: each cell of the histogram lies in one coordinate of the group (a 0/1 partition).

A query group that does not ask an axis sums over it, and its sums are sums of any finer group's. `query_hierarchy`
finds for each group the coarsest of the finer ones: votingage*hispanic*cenrace (252 sums of the 2,016 cells) gives the
five groups on these axes, hhgq (8 sums) gives hhinstlevels and total, so the 2,016 cells are summed twice, not eleven
times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from spine.geography import IntArray
from spine.top_down.histogram import Product, TrueHistograms

DETAILED, TOTAL = "detailed", "total"


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
    """Return the query group of that name: `total`, `detailed`, or axes (or the grouped levels) joined by *.

    Coordinates are in C order of the axes as the histogram has them. ValueError for an axis that is not there.
    """
    workload = product.workload
    kept, grouping = workload.keeps(name)
    coordinate, width = np.zeros(product.cells, np.int64), 1
    for axis, size in workload.axes.items():
        value = product.coordinates[axis]
        if grouping and axis == workload.grouped and axis not in kept:
            value, size = np.repeat(np.arange(len(workload.groups)), workload.groups)[value], len(workload.groups)
        elif axis not in kept:
            continue
        coordinate, width = coordinate * size + value, width * size
    coordinate.flags.writeable = False
    return QueryGroup(name, coordinate, width)


def query_groups(product: Product, names: Iterable[str]) -> list[QueryGroup]:
    """Return the query groups of these names."""
    return [query_group(product, name) for name in names]


def query_hierarchy(groups: list[QueryGroup]) -> QueryHierarchy:
    """Return the hierarchy of these groups, which must come widest first."""
    steps = factors(groups)
    offsets = np.cumsum([0, *(group.width for group in groups)])
    finer = np.array([0, *(finer for finer, _ in steps)], np.int64)
    parent_offsets = np.cumsum([0, 0, *(len(parent_of) for _, parent_of in steps)])[: len(groups)]
    parent_of = np.concatenate([np.zeros(0, np.int64), *(parent_of for _, parent_of in steps)])
    return QueryHierarchy(offsets, finer, parent_of, parent_offsets)


def factors(groups: list[QueryGroup]) -> list[tuple[int, IntArray]]:
    """Return for each group except the first (`detailed`) the finer group, and the sum of each of its coordinates.

    Groups must come widest first. The finer group is the narrowest before it that refines it.
    """
    found = []
    for at, group in enumerate(groups[1:], start=1):
        for finer in range(at - 1, -1, -1):
            parent_of = _parent_of(groups[finer], group)
            if parent_of is not None:
                found.append((finer, parent_of))
                break
    return found


def _parent_of(fine: QueryGroup, coarse: QueryGroup) -> IntArray | None:
    """Return the coordinate of `coarse` that contains each coordinate of `fine`; None where several meet one."""
    parent_of = np.zeros(fine.width, np.int64)
    parent_of[fine.coordinate] = coarse.coordinate
    return parent_of if np.array_equal(parent_of[fine.coordinate], coarse.coordinate) else None


def exact_answers(histograms: TrueHistograms, group: QueryGroup, first: int, last: int) -> IntArray:
    """Return the (last - first, width) exact answers of geounits first, ..., last - 1: confidential, for measuring."""
    begin, end = first - histograms.first, last - histograms.first
    entries = slice(histograms.starts[begin], histograms.starts[end])
    row = np.repeat(np.arange(last - first), np.diff(histograms.starts[begin : end + 1]))
    at = row * group.width + group.coordinate[histograms.cell[entries]]
    sums = np.zeros((last - first) * group.width, np.int64)
    np.add.at(sums, at, histograms.count[entries])
    return sums.reshape(last - first, group.width)
