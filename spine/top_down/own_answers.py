"""The problem of one parent: an objective, and the constraints of its children.

The program's objective and targets of totals are the children's own noisy answers. Another estimator passes a subclass
of `OwnAnswers` with other objectives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down import units
from spine.top_down.least_squares import Parent, Solution, least_squares
from spine.top_down.plan import Plan
from spine.top_down.queries import DETAILED, TOTAL, Measure, QueryHierarchy, coordinates_of, weights


class Objective(Protocol):
    """The objective of one parent's least squares, over its n cells and K children."""

    def without_total(self, allowed: BoolArray, total: FloatArray) -> Objective:
        """Return the objective of the last pass, where bands keep the children's totals close to `total`, (K,).

        allowed: (n, K) whether a child may have persons in a cell.
        """

    def minimum(self, parent: Parent, careful: bool, stop: float) -> Solution:
        """Return the minimum under the parent's constraints. careful, stop: as in `least_squares.minimize`."""

    def quadratic(self, cells: IntArray) -> tuple[Any, FloatArray]:
        """Return the sparse P and the r of the objective x'Px/2 - r'x, where x are the (n, K) cells in C order."""


@dataclass(frozen=True)
class Siblings:
    """The data that a range of geounits of one level is estimated from.

    first: its first geounit. total, total_weight: (geounits,) targets of their totals and the inverse variances of
    these; empty if the total is not queried. objective: maps (first, last, cells) to the objective of those geounits.
    earlier: the same for the passes before the last.
    """

    first: int
    total: FloatArray
    total_weight: FloatArray
    objective: Callable[[int, int, IntArray], Objective]
    earlier: tuple[Callable[[int, int, IntArray], Objective], ...] = ()


@dataclass(frozen=True)
class ChildAnswers:
    """The misfit of one parent's K children.

    queries: those of the last pass. answers: (K, coordinates) noisy answers. weights: (groups, K) inverse variances.
    """

    queries: QueryHierarchy
    answers: FloatArray
    weights: FloatArray

    def without_total(self, allowed: BoolArray, total: FloatArray) -> ChildAnswers:
        """Return itself: the last pass does not query the total."""
        return self

    def minimum(self, parent: Parent, careful: bool, stop: float) -> Solution:
        """See `Objective`."""
        scale = self.weights[0].max() or self.weights.max()  # a pass may not query the cells
        return least_squares(self.queries, parent, self.answers, self.weights / scale, careful, stop)

    def quadratic(self, cells: IntArray) -> tuple[Any, FloatArray]:
        """See `Objective`."""
        import scipy.sparse as sp

        n, children, scale = len(cells), len(self.answers), self.weights[0].max() or self.weights.max()
        hessian, linear = sp.csc_array((n * children, n * children)), np.zeros((n, children))
        for weight, at in zip(self.weights / scale, coordinates_of(self.queries, cells), strict=True):
            sums = sp.csc_array((np.ones(n), (at - at.min(), np.arange(n))))
            hessian = hessian + sp.kron(sums.T @ sums, sp.diags_array(weight), format="csc")
            linear += weight * self.answers[:, at].T
        return hessian, linear.ravel()


@dataclass(frozen=True)
class OwnAnswers:
    """The answers that the geounits of a spine are estimated from; in the program, each geounit's own measurements."""

    plan: Plan
    measure: Measure

    def siblings(self, level: int, first: int, last: int) -> Siblings:
        """Return the data for the geounits first, ..., last - 1 of a level; their answers are read once."""
        plan, name = self.plan, self.plan.spine.levels[level]
        given = self.measure(level, first, last).answers
        shares = plan.spine.shares[level][first:last]

        def weigh(names: list[str]) -> FloatArray:
            return weights(plan.allocation, name, names, shares, plan.spine.denominator)

        def objectives(names: list[str], queries: QueryHierarchy, last: bool) -> Callable[..., ChildAnswers]:
            answers, weight = np.concatenate([given[query] for query in names], axis=1, dtype=float), weigh(names)
            weight[0] *= last  # an earlier pass does not query the cells

            def objective(start: int, end: int, cells: IntArray) -> ChildAnswers:
                at = slice(start - first, end - first)
                return ChildAnswers(queries, answers[at], np.ascontiguousarray(weight[:, at]))

            return objective

        last_pass = objectives(*plan.last_pass[level], last=True)
        earlier = tuple(objectives(*each, last=False) for each in plan.earlier_passes[level])
        if TOTAL not in plan.allocation.queries[name]:
            return Siblings(first, np.zeros(0), np.zeros(0), last_pass, earlier)
        return Siblings(first, np.asarray(given[TOTAL], float)[:, 0], weigh([TOTAL])[0], last_pass, earlier)

    def second(self, level: int, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return targets and weights of the second of two cells (occupied units), for some geounits."""
        plan = self.plan
        batches = [(at, min(at + plan.rows, last)) for at in range(first, last, plan.rows)]
        answers = [self.measure(level, *batch).answers[DETAILED] for batch in batches]
        fixed = plan.bounds.number(level)[first:last]
        # An only child may have the share 0: it is copied from its parent.
        weight = np.maximum(plan.spine.shares[level][first:last], 1) / plan.spine.denominator
        return units.targets(fixed, np.concatenate(answers)), weight


@dataclass(frozen=True)
class ParentProblem:
    """The problem of one parent with n cells and K children: the objective of its least squares, and its constraints.

    earlier: for each pass before the last, the objective and the (groups, n) sums that later passes keep in a band.
    """

    objective: Objective
    parent: Parent
    earlier: tuple[tuple[Objective, IntArray], ...] = ()

    @property
    def children(self) -> int:
        """Return K."""
        return int(self.parent.allowed.shape[1])

    @cached_property
    def allowed_cells(self) -> BoolArray:
        """The (n, K) cells in which a child may have persons."""
        return self.parent.allowed[self.parent.quarters_type]

    @cached_property
    def first_cell(self) -> IntArray:
        """The (types,) first cell of each type."""
        return np.searchsorted(self.parent.quarters_type, np.arange(len(self.parent.allowed)))

    def with_totals(self, totals: FloatArray, band: float = 0.0, **declared: Any) -> ParentProblem:
        """Return the problem of the last pass, with the children's totals within a band around `totals`, (K,).

        declared: further constraints, by their names in `Parent`.
        """
        objective = self.objective.without_total(self.allowed_cells, totals)
        return replace(
            self, objective=objective, parent=self.parent._replace(low=totals - band, high=totals + band, **declared)
        )

    def banded(self, x: FloatArray, sums: IntArray, band: float) -> ParentProblem:
        """Return the problem of a later pass, with sums of x, (n, K), within a band around their present values.

        sums: (groups, n) coordinates of cells; each sum covers whole types.
        """
        p = self.parent
        sets = np.concatenate([own[self.first_cell] == np.unique(own)[:, None] for own in sums])
        found = sets @ np.add.reduceat(x, self.first_cell)
        return replace(
            self,
            parent=p._replace(
                sets=np.concatenate([p.sets.reshape(-1, sets.shape[1]), sets]),
                low_of=np.concatenate([p.low_of.reshape(-1, self.children), found - band]),
                high_of=np.concatenate([p.high_of.reshape(-1, self.children), found + band]),
            ),
        )

    def missed(self, x: FloatArray | IntArray) -> dict[str, float]:
        """Return, by kind of constraint, the largest violation by x, (n, K); not positive if x meets them."""
        p, by_type = self.parent, np.add.reduceat(x, self.first_cell)
        found = {
            "a count is negative": -np.min(x),
            "persons are in a geounit without living quarters of their type": np.abs(x * ~self.allowed_cells).max(),
        }
        if len(p.counts):
            found["the children do not sum to their parent"] = np.abs(x.sum(axis=1) - p.counts).max()
        found["a group-quarters facility is empty"] = np.max(p.lower_bound - by_type)
        if len(p.sets):
            off = np.maximum(p.low_of - p.sets @ by_type, p.sets @ by_type - p.high_of)
            found["a declared count has fewer or more records than it allows"] = off.max()
        return found

    def violation(self, x: FloatArray) -> float:
        """Return the largest violation of a constraint or a band of the totals by x, (n, K)."""
        p, total = self.parent, x.sum(axis=0)
        band = np.maximum(p.low - total, total - p.high) if len(p.low) else total * 0
        return float(np.max([0.0, band.max(), *self.missed(x).values()]))  # NaN if x has any: no solution
