"""One parent's least squares and rounding, and what happens when a solver fails.

A solve that does not converge, or misses a band by more than 1e-6, is done again from the start with other settings,
then by a reference solver if one is installed (`das-flows[solvers]`); else the best iterate goes on: every iterate
meets sums and zeros, so it can be rounded as long as it misses bands and bounds by less than half a person. No
constraint is dropped, no noise drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.top_down import reference
from spine.top_down.least_squares import MISSED, STEP, Ladder, Parent, Solution, least_squares, tree_least_squares
from spine.top_down.rounding import rounded
from spine.workload import FloatArray

Solver = Literal["own", "own, careful", "piqp", "clarabel", "best iterate"]
SOUND = 0.5  # persons by which all sums together may be missed for rounding to be sound

NO_FLOATS, NO_INTEGERS = np.zeros(0), np.zeros(0, np.int64)


class EstimationError(Exception):
    """An estimate would break a sum or an invariant: the step and the rule, never a count."""


@dataclass(frozen=True)
class Told:
    """What the children of one parent, and all below them, say of its n cells (tree.Information, divided by `scale`).

    precision: (K, 8, T, T) P by component. between: (K, 8, T, T) the entries of P by agreement (tree.PATTERNS).
    linear: (n, K) h. begin: (n, K) the estimate without the parent.
    """

    precision: FloatArray
    between: FloatArray
    linear: FloatArray
    begin: FloatArray
    scale: float


@dataclass(frozen=True)
class Division:
    """The problem of one parent: n cells, K children, T types of living quarters among the cells.

    cells: (n,) ascending. kind: (n,) type, from 0. counts: (n,) the parent's; None at a root. answers: (K, coordinates)
    noisy answers of the ladder's query groups. weights: (groups, K) inverse variances. told: what takes the place of
    these two, where all below the children is used. allowed, least: (T, K).
    low, high: (K,) bands of the totals; None where totals have no pass of their own. nested: (sums, n) coordinates of
    the sums that rounding keeps close to. total: of all children at a root. state, state_totals: where sums of
    children's totals are declared.
    """

    ladder: Ladder
    cells: IntArray
    kind: IntArray
    counts: IntArray | None
    answers: FloatArray
    weights: FloatArray
    allowed: BoolArray
    least: IntArray
    nested: IntArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    total: int | None = None
    state: IntArray | None = None
    state_totals: IntArray | None = None
    told: Told | None = None

    @property
    def children(self) -> int:
        """K."""
        return int(self.allowed.shape[1])

    def violation(self, x: FloatArray | IntArray) -> float:
        """The largest by which x, (n, K), misses a count of the parent, a band or a lower bound, or is negative."""
        by_type = np.zeros(self.allowed.shape)
        np.add.at(by_type, self.kind, x)
        worst = [np.max(self.least - by_type), -np.min(x), np.max(np.where(self.allowed[self.kind], 0, np.abs(x)))]
        if self.counts is not None:
            worst.append(np.abs(x.sum(axis=1) - self.counts).max())
        if self.low is not None and self.high is not None:
            worst += [np.max(self.low - x.sum(axis=0)), np.max(x.sum(axis=0) - self.high)]
        return max(0.0, float(max(worst)))


def divide(division: Division) -> tuple[FloatArray, int, Solver, float]:
    """(n, K) least-squares solution, iterations, what found it, and the most by which it misses a constraint."""
    iterations = 0
    for name in ("own", "own, careful"):
        solution = _own(division, careful=name != "own")
        iterations += solution.iterations
        if solution.step < _stop(division) and solution.missed <= MISSED:
            return solution.x, iterations, name, float(solution.missed)
    for solver in reference.installed() if len(division.cells) * division.children <= reference.LARGEST else []:
        x = reference.least_squares(division, solver)
        if x is not None and division.violation(x) <= MISSED:
            return x, iterations, solver, division.violation(x)
    violation = division.violation(solution.x)
    if violation * division.children >= SOUND:
        raise EstimationError("least squares: no solver met the bands and bounds of a parent to half a person")
    return solution.x, iterations, "best iterate", violation


def _stop(division: Division) -> float:
    return STEP if division.counts is not None else 10 * STEP  # a root has the widest counts


def _own(division: Division, careful: bool) -> Solution:
    d, counts = division, NO_FLOATS if division.counts is None else division.counts.astype(float)
    low, high = (NO_FLOATS if band is None else band for band in (d.low, d.high))
    parent = Parent(d.cells, d.kind, counts, d.allowed, d.least.astype(float), low, high)
    if d.told is None:
        return least_squares(d.ladder, parent, d.answers, d.weights, careful, _stop(d))
    precision, between, linear, begin = d.told.precision, d.told.between, d.told.linear, d.told.begin
    return tree_least_squares(parent, precision, between, linear, begin, careful, _stop(d))


def to_integers(
    division: Division, x: FloatArray, total_first: bool, exact: bool
) -> tuple[IntArray, Literal["flow", "highs"]]:
    """(n, K) integers next to x, and what found them; EstimationError if they break a sum, a zero or a bound."""
    d = division
    result = rounded(
        x,
        NO_INTEGERS if d.counts is None else d.counts,
        d.kind,
        d.nested,
        d.allowed,
        d.least,
        NO_INTEGERS if d.total is None else np.array([d.total]),
        NO_INTEGERS if d.state is None else d.state,
        NO_INTEGERS if d.state_totals is None else d.state_totals,
        total_first,
        exact,
    )
    whole, by = result.x, "flow"
    if result.missing or broken(division, whole):
        solution = reference.rounding(division, x, total_first)
        if solution is None:
            raise EstimationError("rounding: neither the flow nor HiGHS found integers that meet every sum and bound")
        whole, by = solution, "highs"
    rule = broken(division, whole)
    if rule:
        raise EstimationError(f"rounding: {rule}")
    return whole, "flow" if by == "flow" else "highs"


def broken(division: Division, x: IntArray) -> str:
    """The rule that these integers break, or nothing."""
    if (x < 0).any():
        return "a count is negative"
    if (x[~division.allowed[division.kind]] != 0).any():
        return "persons are in a geounit without living quarters of their type"
    if division.counts is not None and not np.array_equal(x.sum(axis=1), division.counts):
        return "the children do not sum to their parent"
    if division.total is not None and x.sum() != division.total:
        return "the root does not have the declared total"
    if division.state is not None and division.state_totals is not None:
        sums = np.bincount(division.state, x.sum(axis=0), minlength=len(division.state_totals))
        if not np.array_equal(sums, division.state_totals):
            return "the parts of a state do not have its declared total"
    types = np.searchsorted(division.kind, np.arange(len(division.allowed)))
    if (np.add.reduceat(x, types, axis=0) < division.least).any():
        return "a group-quarters facility is empty"
    return ""
