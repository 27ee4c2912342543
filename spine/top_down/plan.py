"""What is public of an estimation: product, spine with shares, allocation, invariants, and how it is done."""

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
from spine.top_down.least_squares import Ladder, ladder
from spine.top_down.passes import ROUNDED, total_first
from spine.top_down.queries import DETAILED, TOTAL, query_groups

Rounding = Literal["program", "l1"]
Estimator = Literal["topdown", "gls"]


@dataclass(frozen=True)
class Plan:
    """What is public of an estimation.

    product: PERSONS or UNITS. spine: with its shares; its top level is one root or a forest of states' parts.
    allocation: budget and shares alpha, for (at least) the spine's levels. invariants: declared, on the spine's levels.
    rounding: the production program's objective, or the L1 distance to the least-squares solution at every query.
    rows: about how many geounits are measured at once (memory: rows x 2,603 counts).
    estimator: the program's, where a parent is divided by its children's own answers; or generalized least squares,
    by what these and everything below them say (`tree`).
    """

    product: Product
    spine: Spine
    allocation: Allocation
    invariants: Invariants
    rounding: Rounding = "program"
    rows: int = 512
    estimator: Estimator = "topdown"

    def __post_init__(self) -> None:
        for name in self.spine.levels:
            if DETAILED not in self.allocation.queries[name]:
                raise ValueError(f"level {name} does not ask the detailed query: its cells would not be determined")

    @cached_property
    def nested(self) -> IntArray:
        """(sums, cells) coordinates of the sums that rounding keeps close to, coarse to fine."""
        return np.array([group.coordinate for group in query_groups(self.product, ROUNDED)])

    @cached_property
    def first_child(self) -> tuple[IntArray, ...]:
        """For each level but the lowest the (geounits + 1,) first child of every geounit."""
        spine = self.spine
        return tuple(
            np.append(np.searchsorted(below, above), len(below))
            for above, below in zip(spine.starts, spine.starts[1:], strict=False)
        )

    @cached_property
    def asked(self) -> tuple[tuple[list[str], Ladder], ...]:
        """For each level the query groups of the last pass, widest first, and their ladder.

        The total is among them at the blocks only; at the roots and the states it is declared or has its own pass.
        """
        levels = enumerate(self.spine.levels)
        return tuple(self._ladder(name, apart=total_first(name) or level == 0) for level, name in levels)

    @cached_property
    def asked_in_all(self) -> tuple[tuple[list[str], Ladder], ...]:
        """For each level all its query groups, widest first, and their ladder."""
        return tuple(self._ladder(name, apart=False) for name in self.spine.levels)

    def _ladder(self, level: str, apart: bool) -> tuple[list[str], Ladder]:
        """The level's query groups, without the total if that is apart."""
        names = [name for name in self.allocation.queries[level] if not (apart and name == TOTAL)]
        groups = sorted(query_groups(self.product, names), key=lambda group: -group.width)
        return [group.name for group in groups], ladder(groups)

    def runs(self, level: int, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Runs of the geounits first, ..., last - 1 of a level that have about `rows` children together."""
        first_child = self.first_child[level]
        while first < last:
            end = int(np.searchsorted(first_child, first_child[first] + self.rows, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield first, end
            first = end

    def refuse_unmeasured(self, level: int, first: int, last: int) -> None:
        """No child of the geounits first, ..., last - 1 with siblings may have the share 0.

        Nothing would say how many of its parent's persons it has.
        """
        first_child = self.first_child[level][first : last + 1]
        siblings = np.repeat(np.diff(first_child), np.diff(first_child))
        if ((self.spine.shares[level + 1][first_child[0] : first_child[-1]] == 0) & (siblings > 1)).any():
            raise ValueError(
                f"a geounit of level {self.spine.levels[level + 1]} has siblings and the share 0: it is not measured"
            )
