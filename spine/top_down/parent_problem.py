"""The problem of one parent: least squares, rounding, and what follows where a solver fails.

A solve that does not converge, or misses a band by more than 1e-6, is done again from the start with other settings,
then by a reference solver if one is installed (`das-flows[solvers]`); else the best iterate is used: every iterate
meets sums and zeros, so it can be rounded as long as it misses bands and bounds by less than half a person. No
constraint is dropped, no noise drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.top_down import reference
from spine.top_down.answers import Objective
from spine.top_down.least_squares import MISSED, STEP, Parent
from spine.top_down.rounding import rounded
from spine.workload import FloatArray

Solver = Literal["own", "own, careful", "piqp", "clarabel", "best iterate"]
SOUND = 0.5  # persons by which all sums together may be missed for rounding to be sound

NO_FLOATS, NO_INTEGERS = np.zeros(0), np.zeros(0, np.int64)


class EstimationError(Exception):
    """An estimate would break a sum or an invariant: the step and the rule, never a count."""


@dataclass(frozen=True)
class ParentProblem:
    """The problem of one parent: n cells, K children, T types of living quarters among the cells.

    objective: of the least squares. The constraints are those of `Parent`; what is not declared is None. total: of all
    children at a root.
    """

    objective: Objective
    cells: IntArray
    quarters_type: IntArray
    counts: IntArray | None
    allowed: BoolArray
    lower_bound: IntArray
    nested: IntArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    total: int | None = None
    state: IntArray | None = None
    state_totals: IntArray | None = None

    @property
    def children(self) -> int:
        """Return K."""
        return int(self.allowed.shape[1])

    @cached_property
    def allowed_cells(self) -> BoolArray:
        """Return (n, K) whether a child may have persons in a cell."""
        return self.allowed[self.quarters_type]

    @cached_property
    def parent(self) -> Parent:
        """Return the constraints as kernels take them."""
        return Parent(
            self.cells,
            self.quarters_type,
            NO_INTEGERS if self.counts is None else self.counts,
            self.allowed,
            self.lower_bound,
            NO_FLOATS if self.low is None else self.low,
            NO_FLOATS if self.high is None else self.high,
            self.nested,
            NO_INTEGERS if self.total is None else np.array([self.total]),
            NO_INTEGERS if self.state is None else self.state,
            NO_INTEGERS if self.state_totals is None else self.state_totals,
        )

    def with_totals(self, total: FloatArray, band: float = 0.0) -> ParentProblem:
        """Return the problem of the last pass: the children's totals, (K,), within the band of these."""
        objective = self.objective.without_total(self.allowed_cells, total)
        return replace(self, objective=objective, low=total - band, high=total + band)

    def violation(self, x: FloatArray | IntArray) -> float:
        """Return the most by which x, (n, K), misses a count of the parent, a band or a lower bound, or is negative."""
        by_type = np.zeros(self.allowed.shape)
        np.add.at(by_type, self.quarters_type, x)
        worst = [np.max(self.lower_bound - by_type), -np.min(x), np.max(np.where(self.allowed_cells, 0, np.abs(x)))]
        if self.counts is not None:
            worst.append(np.abs(x.sum(axis=1) - self.counts).max())
        if self.low is not None and self.high is not None:
            worst += [np.max(self.low - x.sum(axis=0)), np.max(x.sum(axis=0) - self.high)]
        return max(0.0, float(max(worst)))


def solve(problem: ParentProblem) -> tuple[FloatArray, int, Solver, float]:
    """Solve the least squares; return (n, K), iterations, the solver, and the most by which a constraint is missed."""
    iterations = 0
    stop = STEP if problem.counts is not None else 10 * STEP  # a root has the largest counts
    for name in ("own", "own, careful"):
        solution = problem.objective.minimum(problem.parent, name != "own", stop)
        iterations += solution.iterations
        if solution.step < stop and solution.missed <= MISSED:
            return solution.x, iterations, name, float(solution.missed)
    for solver in reference.installed() if len(problem.cells) * problem.children <= reference.LARGEST else []:
        x = reference.least_squares(problem, solver)
        if x is not None and problem.violation(x) <= MISSED:
            return x, iterations, solver, problem.violation(x)
    violation = problem.violation(solution.x)
    if violation * problem.children >= SOUND:
        raise EstimationError("least squares: no solver met the bands and bounds of a parent to half a person")
    return solution.x, iterations, "best iterate", violation


def to_integers(
    problem: ParentProblem, x: FloatArray, total_first: bool, exact: bool
) -> tuple[IntArray, Literal["flow", "highs"]]:
    """Round x, (n, K), and return what rounded it; EstimationError if the integers break a sum, a zero or a bound.

    total_first: a child's total outweighs all else. exact: the rounding `l1`.
    """
    whole, missing = rounded(x, problem.parent, total_first, exact)
    if not missing and not broken_rule(problem, whole):
        return whole, "flow"
    solution = reference.rounding(problem, x, total_first)
    if solution is None:
        raise EstimationError("rounding: neither the flow nor HiGHS found integers that meet every sum and bound")
    if rule := broken_rule(problem, solution):
        raise EstimationError(f"rounding: {rule}")
    return solution, "highs"


def broken_rule(problem: ParentProblem, x: IntArray) -> str:
    """Return the rule that the integers x, (n, K), break, or an empty text."""
    if (x < 0).any():
        return "a count is negative"
    if (x[~problem.allowed_cells] != 0).any():
        return "persons are in a geounit without living quarters of their type"
    if problem.counts is not None and not np.array_equal(x.sum(axis=1), problem.counts):
        return "the children do not sum to their parent"
    if problem.total is not None and x.sum() != problem.total:
        return "the root does not have the declared total"
    if problem.state is not None and problem.state_totals is not None:
        sums = np.bincount(problem.state, x.sum(axis=0), minlength=len(problem.state_totals))
        if not np.array_equal(sums, problem.state_totals):
            return "the parts of a state do not have its declared total"
    types = np.searchsorted(problem.quarters_type, np.arange(len(problem.allowed)))
    if (np.add.reduceat(x, types, axis=0) < problem.lower_bound).any():
        return "a group-quarters facility is empty"
    return ""
