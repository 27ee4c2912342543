"""Solve the problem of one parent: least squares, rounding, and fallbacks if a solver fails.

A solve that does not converge, or misses a band by more than 1e-6, is repeated from the start with other settings,
then, up to 12,000 unknowns, by general solvers; else the best iterate is used. Every iterate meets sums and zeros, so
it can be rounded if it misses bands and bounds by less than half a person. Constraints are never dropped, and noise is
never drawn again.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from spine.geography import FloatArray, IntArray
from spine.top_down.least_squares import MISSED, STEP
from spine.top_down.own_answers import ParentProblem
from spine.top_down.rounding import rounded

Solver = Literal["own", "own, careful", "piqp", "clarabel", "best iterate"]
By = Literal["flow", "highs", "any"]
SOUND = 0.5  # persons; rounding is sound if all sums together are missed by less


class EstimationError(Exception):
    """An estimate would break a sum or an invariant: the step and the rule, never a count."""


def solve(problem: ParentProblem) -> tuple[FloatArray, int, Solver, float]:
    """Solve the least squares; return (n, K), the iterations, the solver, and the largest violation of a constraint."""
    iterations = 0
    stop = STEP if len(problem.parent.counts) else 10 * STEP  # a root has the largest counts
    for name in ("own", "own, careful"):
        solution = problem.objective.minimum(problem.parent, name != "own", stop)
        iterations += solution.iterations
        if solution.step < stop and solution.missed <= MISSED:
            return solution.x, iterations, name, float(solution.missed)
    from spine.top_down import general_solvers  # scipy with it, which few processes need

    few = len(problem.parent.cells) * problem.children <= general_solvers.LARGEST
    for solver in general_solvers.SOLVERS if few else ():
        x = general_solvers.least_squares(problem, solver)
        if x is not None and problem.violation(x) <= MISSED:
            return x, iterations, solver, problem.violation(x)
    violation = problem.violation(solution.x)
    if np.isnan(violation) or violation * problem.children >= SOUND:
        raise EstimationError("least squares: no solver met the bands and bounds of a parent to half a person")
    return solution.x, iterations, "best iterate", violation


def to_integers(problem: ParentProblem, x: FloatArray, total_first: bool) -> tuple[IntArray, By]:
    """Round x, (n, K), and return the method. Raises EstimationError if the integers break a sum, a zero or a bound.

    total_first: a child's total outweighs all other costs.
    """
    whole, missing = rounded(x, problem.parent, total_first)
    if not missing and not broken_rule(problem, whole):
        return whole, "flow"
    from spine.top_down import general_solvers  # scipy with it

    solution, nearest = general_solvers.rounding(problem, x, total_first)
    if solution is None:
        raise EstimationError("rounding: neither the flow nor HiGHS found integers that meet every sum and bound")
    if rule := broken_rule(problem, solution):
        raise EstimationError(f"rounding: {rule}")
    return solution, "highs" if nearest else "any"


def broken_rule(problem: ParentProblem, x: IntArray) -> str:
    """Return the rule that the integers x, (n, K), break, or ""."""
    parent = problem.parent
    if wrong := [rule for rule, missed in problem.missed(x).items() if missed > 0]:
        return wrong[0]
    if len(parent.total) and x.sum() != parent.total[0]:
        return "the root does not have the declared total"
    if len(parent.state):
        sums = np.bincount(parent.state, x.sum(axis=0), minlength=len(parent.state_totals))
        if not np.array_equal(sums, parent.state_totals):
            return "the parts of a state do not have its declared total"
    return ""
