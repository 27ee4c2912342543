"""The problem of one parent: an objective and the constraints of its children."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.least_squares import Parent
from spine.top_down.own_answers import Objective


@dataclass(frozen=True)
class ParentProblem:
    """The problem of one parent with n cells and K children: the objective of its least squares, its constraints."""

    objective: Objective
    parent: Parent

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
        return ParentProblem(objective, self.parent._replace(low=totals - band, high=totals + band, **declared))

    def violation(self, x: FloatArray | IntArray) -> float:
        """Return the most by which x, (n, K), misses a count of the parent, a band or a lower bound, or is negative."""
        p, by_type = self.parent, np.zeros(self.parent.allowed.shape)
        np.add.at(by_type, p.quarters_type, x)
        worst = [np.max(p.lower_bound - by_type), -np.min(x), np.max(np.where(self.allowed_cells, 0, np.abs(x)))]
        if len(p.counts):
            worst.append(np.abs(x.sum(axis=1) - p.counts).max())
        if len(p.low):
            worst += [np.max(p.low - x.sum(axis=0)), np.max(x.sum(axis=0) - p.high)]
        return max(0.0, float(max(worst)))
