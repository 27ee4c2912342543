"""The public inputs of an estimation: product, spine with shares, allocation, bounds, and the order of passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from spine.allocations import Allocation
from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.top_down.bounds import Bounds
from spine.top_down.histogram import Product
from spine.top_down.queries import DETAILED, TOTAL, QueryGroup, QueryHierarchy, query_group, query_hierarchy

MOST_PARTS = 12  # of the bounded partition: up to it every set of parts is checked


@dataclass(frozen=True)
class Passes:
    """The passes that estimate the children of a level.

    total_first: the levels whose totals have their own pass (pass 0). The last pass estimates the other query groups
    within `band` records of them, and rounding gives the totals priority.
    rounded: the nested query groups whose rounded sums the rounding approximates, coarse to fine; the cells come last,
    with weight `cell_weight`.
    earlier: by level, the query groups of passes between the total's and the last; each pass is kept within the band.
    kept: by level, the number of earlier passes after which the last of `rounded` is rounded and from then on kept
    exactly; the last rounding then approximates `then`, which refines it.
    on_grid: whether fractions are first rounded to a grid, so that a solver's last digits decide no tie.
    """

    total_first: frozenset[str] = frozenset()
    rounded: tuple[str, ...] = ()
    band: float = 0.1
    cell_weight: int = 1
    earlier: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    then: tuple[str, ...] = ()
    on_grid: bool = False


def _widest(group: QueryGroup) -> tuple[int, bool]:
    """Return the sort key of query groups: the widest first, then the cells in their own order."""
    return -group.width, group.width == len(group.coordinate) and bool((np.diff(group.coordinate) < 0).any())


@dataclass(frozen=True)
class Plan:
    """The public inputs of an estimation.

    spine: with its shares; its top level is one root, or a forest with declared totals. allocation: budget and shares
    alpha, at least for the spine's levels; its last level is the leaves'. bounds: declared, on the spine's levels.
    rows: about how many geounits are measured at once (memory: rows x coordinates of all query groups).
    """

    product: Product
    spine: Spine
    allocation: Allocation
    bounds: Bounds
    passes: Passes
    rows: int = 512

    def __post_init__(self) -> None:
        for name in self.spine.levels:
            if DETAILED not in self.allocation.queries[name]:
                raise ValueError(f"level {name} lacks the detailed query, without which its cells are not determined")
        if not self.closed_form and self.bounds.least.any() and self.passes.rounded[:1] != (self.product.bounded,):
            raise ValueError(
                f"counts of {self.product.bounded} are declared: it must be the first of the rounded queries"
            )

    @property
    def closed_form(self) -> bool:
        """Whether each geounit has one unknown: two cells, and a fixed number of records (`units`)."""
        return self.product.cells == 2 and self.bounds.fixed and bool(self.product.possible.all())

    def is_leaf(self, level: int) -> bool:
        """Return whether a level is the leaves of the whole hierarchy; the spine may be a part of it."""
        return self.spine.levels[level] == [*self.allocation.levels][-1]

    def has_total_pass(self, level: int) -> bool:
        """Return whether the totals of a level's geounits have their own pass; those of roots never do."""
        return level > 0 and self.spine.levels[level] in self.passes.total_first

    @cached_property
    def asked(self) -> frozenset[str]:
        """The axes and recodes that the query groups of any level ask for."""
        queries = {query for asked in self.allocation.queries.values() for query in asked}
        return frozenset(name for query in queries for name in self.product.asked(query).values())

    def coordinates(self, names: Iterable[str]) -> IntArray:
        """Return the (names, cells) coordinates of query groups."""
        found = [query_group(self.product, name).coordinate for name in names]
        return np.array(found, np.int64).reshape(-1, self.product.cells)

    @cached_property
    def nested(self) -> tuple[IntArray, IntArray]:
        """The (sums, cells) sums that rounding approximates, coarse to fine, and the bounded set of each, or -1.

        Bounded sets are among the sums: for each cell, the largest first.
        """
        sets, rounded = self.bounds.sets, self.passes.rounded
        if sets is None:
            nested = self.coordinates(rounded)
            return nested, np.full(nested.shape, -1)
        names = [*sets.numbers, *(name for name in rounded if name not in sets.numbers)]
        nested = self.coordinates(names)
        bounded = np.array(
            [
                sets.numbers[name][own] if name in sets.numbers else own * 0 - 1
                for name, own in zip(names, nested, strict=True)
            ]
        )
        size = np.array([np.bincount(own, self.product.possible)[own] for own in nested])
        order = np.argsort(-size, axis=0, kind="stable")
        nested += np.arange(len(names))[:, None] * self.product.cells  # separate sums for each partition
        layers = [np.unique(own, return_inverse=True)[1] for own in np.take_along_axis(nested, order, axis=0)]
        return np.array(layers, np.int64), np.take_along_axis(bounded, order, axis=0)

    @cached_property
    def parts(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """By level, the (cells,) part of every cell, and the declared part of each part.

        On a level with earlier passes, their sums and the kept ones divide the declared parts further.
        """
        found = []
        for name in self.spine.levels:
            names = [query for each in self.passes.earlier.get(name, ()) for query in each]
            names += self.passes.rounded[-1:] if name in self.passes.kept else ()
            together = np.concatenate([self.product.types[None], self.coordinates(names)])
            if names:
                rows, part = np.unique(together, axis=1, return_inverse=True)
                found.append((part.reshape(-1), rows[0]))
            else:
                found.append((self.product.types, np.arange(len(self.bounds.least))))
        return tuple(found)

    @cached_property
    def last_pass(self) -> tuple[tuple[list[str], QueryHierarchy], ...]:
        """By level, the query groups of the last pass, widest first, and their hierarchy.

        They exclude a total that is declared or has its own pass, and the queries of earlier passes.
        """
        return tuple(
            self._hierarchy(
                name,
                [query for each in self.passes.earlier.get(name, ()) for query in each]
                + [TOTAL] * (self.has_total_pass(level) or self.bounds.totals[level] is not None),
            )
            for level, name in enumerate(self.spine.levels)
        )

    @cached_property
    def earlier_passes(self) -> tuple[list[tuple[list[str], QueryHierarchy]], ...]:
        """By level, the query groups of each earlier pass, after `detailed` (with weight 0), and their hierarchy."""
        found = []
        for name in self.spine.levels:
            asked = self.allocation.queries[name]
            found.append(
                [
                    self._hierarchy(name, [query for query in asked if query not in (DETAILED, *each)])
                    for each in self.passes.earlier.get(name, ())
                ]
            )
        return tuple(found)

    @cached_property
    def all_queries(self) -> tuple[tuple[list[str], QueryHierarchy], ...]:
        """By level, all query groups, widest first, and their hierarchy."""
        return tuple(self._hierarchy(name, ()) for name in self.spine.levels)

    def _hierarchy(self, level: str, without: Sequence[str]) -> tuple[list[str], QueryHierarchy]:
        names = (name for name in self.allocation.queries[level] if name not in without)
        groups = sorted((query_group(self.product, name) for name in names), key=_widest)
        return [group.name for group in groups], query_hierarchy(groups)

    def children_of(self, level: int, first: int, last: int) -> tuple[int, int]:
        """Return the first child of the geounits first, ..., last - 1 of a level, and the one after their last."""
        start, end = self.spine.first_child[level][[first, last]].tolist()
        return start, end

    def batches(self, level: int, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Split the geounits first, ..., last - 1 of a level into ranges of about `rows` children."""
        first_child = self.spine.first_child[level]
        while first < last:
            end = int(np.searchsorted(first_child, first_child[first] + self.rows, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield first, end
            first = end

    def check_measured(self, level: int, first: int, last: int) -> None:
        """Raise ValueError if a child of the geounits first, ..., last - 1 has siblings and the share 0.

        Its part of the parent's persons would not be determined.
        """
        first_child = self.spine.first_child[level][first : last + 1]
        siblings = np.repeat(np.diff(first_child), np.diff(first_child))
        if ((self.spine.shares[level + 1][first_child[0] : first_child[-1]] == 0) & (siblings > 1)).any():
            raise ValueError(
                f"a geounit of level {self.spine.levels[level + 1]} has siblings and the share 0: it is not measured"
            )
