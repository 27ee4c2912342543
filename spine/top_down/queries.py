"""Query groups as index maps: each cell of the histogram lies in one coordinate of the group (a 0/1 partition).

A query group that does not ask an axis sums over it, and the sums of one are sums of any finer one. `factors` finds for
each group the coarsest of the finer ones: so votingage*hispanic*cenrace (252 sums of the 2,016 cells) gives the five
groups on these axes, hhgq (8 sums) gives hhinstlevels and total, and nobody sums 2,016 cells eleven times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

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


@lru_cache(maxsize=256)
def query_group(product: Product, name: str) -> QueryGroup:
    """The query group of that name: `total`, `detailed`, or axes (or the grouped levels) joined by *.

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
    """The query groups of these names."""
    return [query_group(product, name) for name in names]


def factors(groups: list[QueryGroup]) -> list[tuple[int, IntArray]]:
    """For each group but the first (`detailed`): the group it is summed from, and the coordinate of each of its own.

    Groups must come widest first. Of those before it through which a group factors, the narrowest is taken.
    """
    factors_found = []
    for at, group in enumerate(groups[1:], start=1):
        for source in range(at - 1, -1, -1):
            through = _through(groups[source], group)
            if through is not None:
                factors_found.append((source, through))
                break
    return factors_found


def _through(fine: QueryGroup, coarse: QueryGroup) -> IntArray | None:
    """The coordinate of `coarse` that each coordinate of `fine` lies in; None where one lies in several."""
    through = np.zeros(fine.width, np.int64)
    through[fine.coordinate] = coarse.coordinate
    return through if np.array_equal(through[fine.coordinate], coarse.coordinate) else None


def exact_answers(histograms: TrueHistograms, group: QueryGroup, first: int, last: int) -> IntArray:
    """Confidential: the (last - first, width) exact answers of geounits first, ..., last - 1. For measuring only."""
    begin, end = first - histograms.first, last - histograms.first
    entries = slice(histograms.starts[begin], histograms.starts[end])
    row = np.repeat(np.arange(last - first), np.diff(histograms.starts[begin : end + 1]))
    at = row * group.width + group.coordinate[histograms.cell[entries]]
    sums = np.zeros((last - first) * group.width, np.int64)
    np.add.at(sums, at, histograms.count[entries])
    return sums.reshape(last - first, group.width)
