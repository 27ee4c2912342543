"""The children's own noisy answers as the descent takes them: the program's objective, and its targets of totals.

Another estimator hands in a subclass of `OwnAnswers`, with objectives of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down import units
from spine.top_down.least_squares import Parent, Solution, least_squares
from spine.top_down.measurements import Measure, weights
from spine.top_down.plan import Plan
from spine.top_down.queries import DETAILED, TOTAL, QueryHierarchy


class Objective(Protocol):
    """The objective of one parent's least squares, over its n cells and K children."""

    def without_total(self, allowed: BoolArray, total: FloatArray) -> Objective:
        """Return the objective of the last pass, where bands keep the children's totals close to `total`, (K,).

        allowed: (n, K) whether a child may have persons in a cell.
        """

    def minimum(self, parent: Parent, careful: bool, stop: float) -> Solution:
        """Return the minimum under the parent's constraints; careful, stop: see `least_squares.minimize`."""


@dataclass(frozen=True)
class Siblings:
    """What a range of geounits of one level is estimated from.

    first: its first geounit. total, total_weight: (geounits,) targets of their totals and the inverse variances of
    these; empty if the total is not asked. objective: of the geounits first, ..., last - 1 over these cells. earlier:
    the objectives of the passes before the last.
    """

    first: int
    total: FloatArray
    total_weight: FloatArray
    objective: Callable[[int, int, IntArray], Objective]
    earlier: tuple[Callable[[int, int, IntArray], Objective], ...] = ()


@dataclass(frozen=True)
class ChildAnswers:
    """The misfit of one parent's K children.

    queries: the last pass's. answers: (K, coordinates) noisy answers. weights: (groups, K) inverse variances.
    """

    queries: QueryHierarchy
    answers: FloatArray
    weights: FloatArray

    def without_total(self, allowed: BoolArray, total: FloatArray) -> ChildAnswers:
        """Return itself: no query group of the last pass asks the total."""
        return self

    def minimum(self, parent: Parent, careful: bool, stop: float) -> Solution:
        """See `Objective`."""
        return least_squares(self.queries, parent, self.answers, self.weights, careful, stop)


@dataclass(frozen=True)
class OwnAnswers:
    """What the geounits of a spine are estimated from: the program's are of each geounit its own measurements."""

    plan: Plan
    measure: Measure

    def siblings(self, level: int, first: int, last: int) -> Siblings:
        """Return what the geounits first, ..., last - 1 of a level are estimated from: their answers, asked once."""
        plan, name = self.plan, self.plan.spine.levels[level]
        given = self.measure(level, first, last).answers
        shares = plan.spine.shares[level][first:last]

        def weigh(names: list[str]) -> FloatArray:
            return weights(plan.allocation, name, names, shares, plan.spine.denominator)

        def objectives(names: list[str], queries: QueryHierarchy, last: bool) -> Callable[..., ChildAnswers]:
            answers, weight = np.concatenate([np.asarray(given[query], float) for query in names], axis=1), weigh(names)
            weight[0] *= last  # an earlier pass does not ask the cells

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
        """Return the targets of the second of two cells (occupied units) of some geounits, and their weights."""
        plan = self.plan
        batches = [(at, min(at + plan.rows, last)) for at in range(first, last, plan.rows)]
        answers = [self.measure(level, *batch).answers[DETAILED] for batch in batches]
        fixed = plan.bounds.number(level)[first:last]
        # An only child may have the share 0: it is copied.
        weight = np.maximum(plan.spine.shares[level][first:last], 1) / plan.spine.denominator
        return units.targets(fixed, np.concatenate(answers)), weight
