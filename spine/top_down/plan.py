"""The public inputs of an estimation: product, spine with shares, allocation, invariants, and the order of its passes.

The passes are those of the redistricting run (Strategy1b_ST_CTY_TR_BG_isoTot_Ordering_dsepJune3 of the production
program): on all levels except the blocks the children's totals are estimated first (pass 0), and the other query groups
within a band around them (last pass).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from spine.allocations import Allocation
from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.top_down.histogram import Product
from spine.top_down.invariants import Invariants
from spine.top_down.queries import DETAILED, TOTAL, QueryHierarchy, query_group, query_hierarchy

Rounding = Literal["program", "l1"]
# Nested sums whose rounded values the rounding keeps close to, coarse to fine; the cells themselves come last.
ROUNDED = ("hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace")


def has_total_pass(level: str) -> bool:
    """Return whether the totals of a level's geounits have a pass of their own: everywhere except at the blocks."""
    return level != "Block"


@dataclass(frozen=True)
class Plan:
    """The public inputs of an estimation.

    product: PERSONS or UNITS. spine: with its shares; its top level is one root or a forest of states' parts.
    allocation: budget and shares alpha, for (at least) the spine's levels. invariants: declared, on the spine's levels.
    rounding: the production program's objective, or the L1 distance to the least-squares solution at every query.
    rows: about how many geounits are measured at once (memory: rows x coordinates of all query groups).
    free: whether estimates by `spine.gls` leave the declared totals and the zeros of blocks unused.
    """

    product: Product
    spine: Spine
    allocation: Allocation
    invariants: Invariants
    rounding: Rounding = "program"
    rows: int = 512
    free: bool = False

    def __post_init__(self) -> None:
        for name in self.spine.levels:
            if DETAILED not in self.allocation.queries[name]:
                raise ValueError(f"level {name} does not ask the detailed query: its cells would not be determined")

    @cached_property
    def nested(self) -> IntArray:
        """Return the (sums, cells) coordinates of the sums that rounding keeps close to, coarse to fine."""
        return np.array([query_group(self.product, name).coordinate for name in ROUNDED])

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

        The total is among them at the blocks only; at the roots and the states it is declared or has its own pass.
        """
        levels = enumerate(self.spine.levels)
        return tuple(self._hierarchy(name, without_total=has_total_pass(name) or not level) for level, name in levels)

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
