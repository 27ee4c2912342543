"""Query groups as index maps, and their noisy answers, whose variances are public.

A query group partitions the cells: each cell is in one coordinate. A group without an axis sums over it, so its sums
are sums of any finer group's. `query_hierarchy` finds the coarsest finer group of each: votingage*hispanic*cenrace (252
sums of the 2,016 cells) gives the five groups on these axes, hhgq (8 sums) gives hhinstlevels and total. The 2,016
cells are thus summed twice, not eleven times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sinh
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from privacy.tables.histogram import DETAILED as DETAILED
from privacy.tables.histogram import TOTAL as TOTAL
from spine.allocations import Allocation
from spine.geography import FloatArray, IntArray
from spine.noise import parameter
from spine.top_down.histogram import Product, TrueHistograms


@dataclass(frozen=True)
class QueryGroup:
    """One query group: the (cells,) coordinate of each cell, and the number of coordinates.

    The groups of a wide table's cells are most of what a process keeps of it: their type is the narrowest signed one.
    """

    name: str
    coordinate: NDArray[np.signedinteger[Any]]
    width: int


class QueryHierarchy(NamedTuple):
    """Query groups, widest first, beginning with `detailed`; each later group is summed from a finer one before it.

    offsets: (groups + 1,) first coordinate of each group among those of all. finer: (groups,) the finer group (0 for
    `detailed` itself). parent_of: for each coordinate of the finer group, the group's coordinate that it is summed
    into; all groups concatenated, from parent_offsets, (groups,).
    """

    offsets: IntArray
    finer: IntArray
    parent_of: IntArray
    parent_offsets: IntArray


_GROUPS: WeakKeyDictionary[Product, dict[str, QueryGroup]] = WeakKeyDictionary()  # they go with their product


def query_group(product: Product, name: str) -> QueryGroup:
    """Return the query group of that name. Raises ValueError for an unknown axis (`Product.partition`)."""
    groups = _GROUPS.setdefault(product, {})
    if name not in groups:
        own, width = product.partition(name)
        coordinate = own.astype(np.min_scalar_type(-width - 1))  # holds the width, too
        coordinate.flags.writeable = False
        groups[name] = QueryGroup(name, coordinate, width)
    return groups[name]


def query_hierarchy(groups: list[QueryGroup]) -> QueryHierarchy:
    """Return the hierarchy of these groups, widest first; each is summed from the narrowest group that refines it."""
    finer, parents = [0], [np.zeros(0, np.int64)]
    for at, group in enumerate(groups[1:], start=1):
        for before in range(at - 1, -1, -1):
            if (found := parent_of(groups[before], group)) is not None:
                finer.append(before)
                parents.append(found)
                break
    return QueryHierarchy(
        np.cumsum([0, *(group.width for group in groups)]),
        np.array(finer, np.int64),
        np.concatenate(parents),
        np.cumsum([0, *map(len, parents)])[: len(groups)],
    )


def parent_of(fine: QueryGroup, coarse: QueryGroup) -> IntArray | None:
    """Return the coordinate of `coarse` that contains each coordinate of `fine`, or None if several meet."""
    found = np.zeros(fine.width, np.int64)
    found[fine.coordinate] = coarse.coordinate
    return found if np.array_equal(found[fine.coordinate], coarse.coordinate) else None


def coordinates_of(queries: QueryHierarchy, cells: IntArray) -> list[IntArray]:
    """Return, by group, the (cells,) coordinate of each cell among the coordinates of all groups."""
    found = [cells]
    for q in range(1, len(queries.finer)):
        own = found[queries.finer[q]] - queries.offsets[queries.finer[q]]
        found.append(queries.offsets[q] + queries.parent_of[queries.parent_offsets[q] + own])
    return found


def exact_answers(histograms: TrueHistograms, group: QueryGroup, first: int, last: int) -> IntArray:
    """Return the (last - first, width) exact answers of geounits first, ..., last - 1: confidential, for measuring."""
    own = histograms.only(first, last)
    return group_sums(group, len(own), own.row, own.cell, own.count)


def group_sums(group: QueryGroup, rows: int, row: IntArray, cell: IntArray, count: IntArray) -> IntArray:
    """Return the (rows, coordinates) sums of a query group over entries (row, cell, count)."""
    sums = np.zeros(rows * group.width, np.int64)
    np.add.at(sums, row * group.width + group.coordinate[cell], count)  # faster than with pairs
    return sums.reshape(rows, group.width)


@dataclass(frozen=True)
class NoisyAnswers:
    """The noisy answers of the geounits first, ..., last - 1 of a level.

    answers: by query group of the level, (last - first, coordinates) exact counts plus noise of the variance that the
    geounit's share gives. Rows of geounits with share 0 are not measured and must not be read.
    """

    first: int
    last: int
    answers: Mapping[str, IntArray]


# measure(level, first, last): level is an index into the spine's levels. Repeated calls return the same answers.
Measure: TypeAlias = Callable[[int, int, int], NoisyAnswers]


def inverse_variance(allocation: Allocation, share: Fraction, alpha: Fraction) -> float:
    """Return 1 / variance of a coordinate's noise: the weight of its query group in least squares.

    rho gamma alpha under zCDP; under pure DP 2 sinh^2(1 / 2b) for Laplace_Z of scale b, whose variance is 2 exp(-1/b) /
    (1 - exp(-1/b))^2. Exact until the last step: only here the estimation makes a budget a float.
    """
    if allocation.definition == "zcdp":
        return float(1 / parameter(allocation, share, alpha))
    return 2 * sinh(float(1 / (2 * parameter(allocation, share, alpha)))) ** 2


def weights(allocation: Allocation, level: str, queries: list[str], shares: IntArray, denominator: int) -> FloatArray:
    """Return (queries, geounits) inverse variances for geounits with these shares (numerators over the denominator)."""
    distinct, index = np.unique(shares, return_inverse=True)
    alphas = allocation.queries[level]
    table = [
        [inverse_variance(allocation, Fraction(n, denominator), alphas[query]) if n else 0.0 for n in distinct.tolist()]
        for query in queries
    ]
    return np.array(table, float).reshape(len(queries), len(distinct))[:, index]
