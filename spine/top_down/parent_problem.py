"""The problem of one parent: an objective and the constraints of its children."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.least_squares import Parent
from spine.top_down.own_answers import Objective


class Leaves(NamedTuple):
    """The leaves below a parent's children, among which the children's whole numbers must divide, too.

    child: (leaves,) of each. allowed: (leaves, types). low, high: (leaves, sets) of `Parent.sets`. groups, totals: for
    each level below with declared totals the (leaves,) group and the (groups,) total.
    """

    child: IntArray
    allowed: BoolArray
    low: IntArray
    high: IntArray
    groups: tuple[IntArray, ...]
    totals: tuple[IntArray, ...]


@dataclass(frozen=True)
class ParentProblem:
    """The problem of one parent with n cells and K children: the objective of its least squares, its constraints.

    earlier: of the passes before the last, the objective and the (groups, n) sums that later passes keep in a band.
    leaves: where a division among them is found together with the children. general: whether the rounding is HiGHS's.
    """

    objective: Objective
    parent: Parent
    earlier: tuple[tuple[Objective, IntArray], ...] = ()
    leaves: Leaves | None = None
    general: bool = False

    @property
    def children(self) -> int:
        """Return K."""
        return int(self.parent.allowed.shape[1])

    @cached_property
    def allowed_cells(self) -> BoolArray:
        """Return (n, K) whether a child may have persons in a cell."""
        return self.parent.allowed[self.parent.quarters_type]

    def with_totals(self, totals: FloatArray, band: float = 0.0, **declared: Any) -> ParentProblem:
        """Return the problem of the last pass: the children's totals, (K,), within the band of these.

        declared: further constraints, by their names in `Parent`.
        """
        objective = self.objective.without_total(self.allowed_cells, totals)
        return replace(
            self, objective=objective, parent=self.parent._replace(low=totals - band, high=totals + band, **declared)
        )

    def banded(self, x: FloatArray, sums: IntArray, band: float) -> ParentProblem:
        """Return the problem of a later pass, which keeps these sums of x, (n, K), within the band.

        sums: (groups, n) coordinates of cells; each sum is of whole types.
        """
        p = self.parent
        first = np.searchsorted(p.quarters_type, np.arange(len(p.allowed)))
        by_type = np.add.reduceat(x, first)
        sets = np.concatenate([own[first] == np.unique(own)[:, None] for own in sums])
        found = sets @ by_type
        return replace(
            self,
            parent=p._replace(
                sets=np.concatenate([p.sets.reshape(-1, sets.shape[1]), sets]),
                low_of=np.concatenate([p.low_of.reshape(-1, self.children), found - band]),
                high_of=np.concatenate([p.high_of.reshape(-1, self.children), found + band]),
            ),
        )

    def violation(self, x: FloatArray | IntArray) -> float:
        """Return the most by which x, (n, K), misses a count of the parent, a band or a lower bound, or is negative."""
        p, by_type = self.parent, np.zeros(self.parent.allowed.shape)
        np.add.at(by_type, p.quarters_type, x)
        worst = [np.max(p.lower_bound - by_type), -np.min(x), np.max(np.where(self.allowed_cells, 0, np.abs(x)))]
        if len(p.counts):
            worst.append(np.abs(x.sum(axis=1) - p.counts).max())
        if len(p.low):
            worst += [np.max(p.low - x.sum(axis=0)), np.max(x.sum(axis=0) - p.high)]
        if len(p.sets):
            by_set = p.sets @ by_type
            worst += [np.max(p.low_of - by_set), np.max(by_set - p.high_of)]
        return max(0.0, float(max(worst)))
