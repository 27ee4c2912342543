"""The public inputs of an estimation: product, spine with shares, allocation, bounds, and the order of its passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from spine.allocations import Allocation
from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.top_down.bounds import Bounds
from spine.top_down.histogram import Product
from spine.top_down.queries import DETAILED, TOTAL, QueryHierarchy, query_group, query_hierarchy

Rounding = Literal["program", "l1"]
MOST_PARTS = 12  # of the bounded partition: pass 0 looks at every set of them


@dataclass(frozen=True)
class Passes:
    """How the children of a level are estimated.

    total_first: the levels whose totals have a pass of their own (pass 0): the other query groups are then estimated
    within `band` records around them (last pass), and rounding keeps them before all else. rounded: the nested query
    groups whose rounded sums the rounding keeps close to, coarse to fine; the cells themselves come last, with their
    weight.
    """

    total_first: frozenset[str] = frozenset()
    rounded: tuple[str, ...] = ()
    band: float = 0.1
    cell_weight: int = 1


@dataclass(frozen=True)
class Plan:
    """The public inputs of an estimation.

    spine: with its shares; its top level is one root or a forest whose roots have declared totals. allocation: budget
    and shares alpha, for (at least) the spine's levels; the last of its levels is the leaves'. bounds: declared, on the
    spine's levels. rounding: the production program's objective, or the L1 distance to the least-squares solution at
    every query. rows: about how many geounits are measured at once (memory: rows x coordinates of all query groups).
    free: whether estimates by `spine.gls` leave the declared totals and the zeros of leaves unused.
    """

    product: Product
    spine: Spine
    allocation: Allocation
    bounds: Bounds
    passes: Passes
    rounding: Rounding = "program"
    rows: int = 512
    free: bool = False

    def __post_init__(self) -> None:
        for name in self.spine.levels:
            if DETAILED not in self.allocation.queries[name]:
                raise ValueError(f"level {name} does not ask the detailed query: its cells would not be determined")
        if not self.closed_form and len(self.bounds.least) > MOST_PARTS:
            raise ValueError(f"{self.product.bounded} has {len(self.bounds.least)} parts, more than {MOST_PARTS}")
        if not self.closed_form and self.bounds.least.any() and self.passes.rounded[:1] != (self.product.bounded,):
            raise ValueError(f"counts of {self.product.bounded} are declared: it must be the first that is rounded")

    @property
    def closed_form(self) -> bool:
        """Return whether each geounit has one unknown: two cells, and a fixed number of records (`units`)."""
        return self.product.cells == 2 and self.bounds.fixed and bool(self.product.possible.all())

    def is_leaf(self, level: int) -> bool:
        """Return whether a level is that of the leaves of the whole hierarchy, of which a spine may be a part."""
        return self.spine.levels[level] == [*self.allocation.levels][-1]

    def has_total_pass(self, level: int) -> bool:
        """Return whether the totals of a level's geounits have a pass of their own; those of roots never have."""
        return level > 0 and self.spine.levels[level] in self.passes.total_first

    @cached_property
    def nested(self) -> IntArray:
        """Return the (sums, cells) coordinates of the sums that rounding keeps close to, coarse to fine."""
        sums = [query_group(self.product, name).coordinate for name in self.passes.rounded]
        return np.array(sums, np.int64).reshape(-1, self.product.cells)

    @cached_property
    def first_child(self) -> tuple[IntArray, ...]:
        """Return for each level except the lowest the (geounits + 1,) first child of every geounit."""
        spine = self.spine
        return tuple(
            np.append(np.searchsorted(below, above), len(below))
            for above, below in zip(spine.starts, spine.starts[1:], strict=False)
        )

    @cached_property
    def last_pass(self) -> tuple[tuple[list[str], QueryHierarchy], ...]:
        """Return for each level the query groups of the last pass, widest first, and their hierarchy.

        The total is not among them where it is declared or has its own pass.
        """
        return tuple(
            self._hierarchy(name, without_total=self.has_total_pass(level) or self.bounds.totals[level] is not None)
            for level, name in enumerate(self.spine.levels)
        )

    @cached_property
    def all_queries(self) -> tuple[tuple[list[str], QueryHierarchy], ...]:
        """Return for each level all its query groups, widest first, and their hierarchy."""
        return tuple(self._hierarchy(name, without_total=False) for name in self.spine.levels)

    def _hierarchy(self, level: str, without_total: bool) -> tuple[list[str], QueryHierarchy]:
        names = (name for name in self.allocation.queries[level] if not (without_total and name == TOTAL))
        groups = sorted((query_group(self.product, name) for name in names), key=lambda group: -group.width)
        return [group.name for group in groups], query_hierarchy(groups)

    def children_of(self, level: int, first: int, last: int) -> tuple[int, int]:
        """Return the first child of the geounits first, ..., last - 1 of a level, and the one after their last."""
        start, end = self.first_child[level][[first, last]].tolist()
        return start, end

    def batches(self, level: int, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Split the geounits first, ..., last - 1 of a level into ranges of about `rows` children."""
        first_child = self.first_child[level]
        while first < last:
            end = int(np.searchsorted(first_child, first_child[first] + self.rows, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield first, end
            first = end

    def check_measured(self, level: int, first: int, last: int) -> None:
        """Raise ValueError if a child of the geounits first, ..., last - 1 has siblings and the share 0.

        Its part of the parent's persons would not be determined.
        """
        first_child = self.first_child[level][first : last + 1]
        siblings = np.repeat(np.diff(first_child), np.diff(first_child))
        if ((self.spine.shares[level + 1][first_child[0] : first_child[-1]] == 0) & (siblings > 1)).any():
            raise ValueError(
                f"a geounit of level {self.spine.levels[level + 1]} has siblings and the share 0: it is not measured"
            )
