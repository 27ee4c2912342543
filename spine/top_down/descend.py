"""From the top of the spine down: the roots, one level of a range of parents, and everything below."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import Literal, NamedTuple

import numpy as np

from spine.geography import IntArray
from spine.top_down import totals, units
from spine.top_down.answers import Informed, Measured, informed, measured
from spine.top_down.failures import NO_FLOATS, Division, EstimationError, Solver, divide, to_integers
from spine.top_down.histogram import OCCUPIED, UNITS, VACANT, Estimates, from_entries, joined
from spine.top_down.measurements import Measure
from spine.top_down.passes import BAND, total_first
from spine.top_down.plan import Plan
from spine.top_down.queries import DETAILED
from spine.top_down.tree import Information
from spine.top_down.upward import lacking, up_pass
from spine.workload import FloatArray


class Solve(NamedTuple):
    """How one parent's children were found. Public: a function of noisy answers and invariants.

    level: index of the children's level. parent: number of the parent on the level above (at the roots: of the state).
    children, cells: the size of the problem. iterations: of least squares. solver: what gave the result. violation:
    the most by which that misses a band or bound. rounding: "flow", or "highs" where the flow failed.
    least_squares_seconds, rounding_seconds: processor time.
    """

    level: int
    parent: int
    children: int
    cells: int
    iterations: int
    solver: Solver
    violation: float
    rounding: Literal["flow", "highs"]
    least_squares_seconds: float
    rounding_seconds: float

    @property
    def failed(self) -> bool:
        """Whether the first attempt was not good enough."""
        return self.solver != "own" or self.rounding != "flow"


def estimate_roots(plan: Plan, measure: Measure, known: tuple[Information, ...] = ()) -> tuple[Estimates, list[Solve]]:
    """The top level of the spine: each state's parts (or the nation) sum to the declared total, and meet the bounds."""
    number = len(plan.spine.starts[0])
    if plan.product is UNITS:
        hu = plan.invariants.housing_units(0)
        if plan.estimator == "gls":
            target, _ = _told_units(lacking(plan, measure, known, 0, 0, number))
        else:
            target = units.targets(hu, measure(0, 0, number).answers[DETAILED])
        return _units(0, 0, hu, units.roots(hu, target)), []
    answers = _answers(plan, measure, known, 0, 0, number)
    invariants = plan.invariants
    if plan.spine.levels[0] == "State":
        state, declared = invariants.state_of, invariants.state_totals
    else:
        state, declared = np.zeros(number, np.int64), invariants.state_totals.sum(keepdims=True)
    estimates, solves = [], []
    for s in range(len(declared)):
        parts = np.flatnonzero(state == s)
        for part, total in zip(parts, _part_totals(plan, parts, int(declared[s]), answers), strict=True):
            estimate, solve = _root(plan, int(part), int(total), s, answers)
            estimates.append(estimate)
            solves += solve
    order = np.argsort(np.concatenate([np.flatnonzero(state == s) for s in range(len(declared))]))
    return joined([estimates[at] for at in order]), solves


def _answers(
    plan: Plan, measure: Measure, known: tuple[Information, ...], level: int, first: int, last: int
) -> Measured | Informed:
    """What the children of a level are estimated from: at the blocks both estimators take their own answers."""
    if plan.estimator == "gls" and total_first(plan.spine.levels[level]):
        return informed(plan, lacking(plan, measure, known, level, first, last))
    return measured(plan, level, measure(level, first, last))


def _part_totals(plan: Plan, parts: IntArray, declared: int, answers: Measured | Informed) -> IntArray:
    """Totals of a state's parts: next to their noisy totals, summing to the declared one."""
    least = plan.invariants.least(0)[parts].sum(axis=1)
    if len(parts) == 1:
        return np.array([declared])
    if not len(answers.total):
        raise ValueError(f"the level {plan.spine.levels[0]} has states of several parts: it must ask the total")
    some = np.array([np.any(plan.invariants.allowed(0)[parts], axis=1)])
    y, weight = answers.total[parts], answers.total_weight[parts]
    supply = np.array([float(declared)])
    return totals.to_integers(
        totals.totals(y, weight / weight.max(), some, least[None].astype(float), supply), least, declared
    )


def _root(plan: Plan, part: int, total: int, state: int, answers: Measured | Informed) -> tuple[Estimates, list[Solve]]:
    """One geounit without a parent, its total known."""
    allowed = plan.invariants.allowed(0)[part]
    cells = np.flatnonzero(plan.product.possible & allowed[plan.product.types])
    if total == 0 or not len(cells):
        return _estimates(0, part, np.zeros((0, 1), np.int64), np.zeros(0, np.int64)), []
    own = answers.only(part, part + 1)
    fixed = np.array([float(total)])
    division = replace(own.with_total_out(_division(plan, 0, part, cells, None, own), fixed), total=total)
    x, solve = _solve(plan, 0, state, division)
    return _estimates(0, part, x, cells), [solve]


def estimate_children(
    plan: Plan, parents: Estimates, measure: Measure, known: tuple[Information, ...] = ()
) -> tuple[Estimates, list[Solve]]:
    """The children of a range of parents: for each parent they sum to it, cell by cell, and meet the invariants."""
    level = parents.level + 1
    plan.refuse_unmeasured(parents.level, parents.first, parents.last)
    if plan.product is UNITS:
        return _children_units(plan, parents, measure, known), []
    estimates: list[Estimates] = []
    solves: list[Solve] = []
    for first_parent, last_parent in plan.runs(parents.level, parents.first, parents.last):
        first_child = plan.first_child[parents.level]
        first, last = int(first_child[first_parent]), int(first_child[last_parent])
        answers: Measured | Informed | None = None
        for parent in range(first_parent, last_parent):
            begin, end = int(first_child[parent]), int(first_child[parent + 1])
            cells, counts = parents.of(parent)
            if end - begin == 1:
                estimates.append(_estimates(level, begin, counts[:, None], cells))
            elif not len(cells):
                estimates.append(_estimates(level, begin, np.zeros((0, end - begin), np.int64), cells))
            else:
                if answers is None:
                    answers = _answers(plan, measure, known, level, first, last)
                x, solve = _parent(plan, level, parent, begin, cells, counts, answers.only(begin, end))
                estimates.append(_estimates(level, begin, x, cells))
                solves.append(solve)
    return joined(estimates), solves


def estimate_below(
    plan: Plan, parents: Estimates, measure: Measure, known: tuple[Information, ...] = ()
) -> tuple[list[Estimates], list[Solve]]:
    """Every level below a range of parents, top first."""
    if plan.estimator == "gls" and not known and parents.level + 1 < len(plan.spine.levels):
        first, last = plan.first_child[parents.level][[parents.first, parents.last]].tolist()
        known = up_pass(plan, measure, parents.level + 1, first, last)
    estimates: list[Estimates] = []
    solves: list[Solve] = []
    while parents.level + 1 < len(plan.spine.levels):
        parents, of_level = estimate_children(plan, parents, measure, known)
        estimates.append(parents)
        solves += of_level
    return estimates, solves


def _parent(
    plan: Plan, level: int, parent: int, first: int, cells: IntArray, counts: IntArray, answers: Measured | Informed
) -> tuple[IntArray, Solve]:
    """One parent: pass 0 for the children's totals, the last pass within their bands, rounding."""
    name, invariants = plan.spine.levels[level], plan.invariants
    division = _division(plan, level, first, cells, counts, answers)
    if total_first(name):
        if not len(answers.total):
            raise ValueError(f"the level {name} must ask the total: its children's totals are estimated first")
        by_type = np.bincount(division.kind, counts).astype(float)
        weight, least = answers.total_weight / answers.total_weight.max(), division.least.astype(float)
        if name == "State":
            state = invariants.state_of
            declared = invariants.state_totals
            total = totals.totals_in_groups(answers.total, weight, division.allowed, least, by_type, state, declared)
            division = answers.with_total_out(division, total)
            division = replace(division, state=state, state_totals=declared)
        else:
            total = totals.totals(answers.total, weight, division.allowed, least, by_type)
            division = answers.with_total_out(division, total, BAND)
    return _solve(plan, level, parent, division)


def _division(
    plan: Plan, level: int, first: int, cells: IntArray, counts: IntArray | None, answers: Measured | Informed
) -> Division:
    """The problem of one parent, without bands."""
    types, kind = np.unique(plan.product.types[cells], return_inverse=True)
    children = slice(first, first + len(answers))
    return answers.into(
        Division(
            ladder=plan.asked[level][1],
            cells=np.array(
                cells, np.int64
            ),  # a copy: what was read from a file may be read-only, another type to numba
            kind=kind,
            counts=None if counts is None else np.array(counts, np.int64),
            answers=NO_FLOATS,
            weights=NO_FLOATS,
            allowed=np.ascontiguousarray(plan.invariants.allowed(level)[children, types].T),
            least=np.ascontiguousarray(plan.invariants.least(level)[children, types].T),
            nested=np.ascontiguousarray(plan.nested[:, cells]),
        ),
        types,
    )


def _solve(plan: Plan, level: int, parent: int, division: Division) -> tuple[IntArray, Solve]:
    """Least squares and rounding of one parent."""
    name = plan.spine.levels[level]
    start = process_time()
    x, iterations, solver, violation = divide(division)
    middle = process_time()
    whole, by = to_integers(division, x, total_first(name) and level > 0, plan.rounding == "l1")
    end = process_time()
    n, children = x.shape
    return whole, Solve(level, parent, children, n, iterations, solver, violation, by, middle - start, end - middle)


def _estimates(level: int, first: int, x: IntArray, cells: IntArray) -> Estimates:
    """Estimates of children from (cells, children) counts."""
    child, at = np.nonzero(x.T)
    starts = np.searchsorted(child, np.arange(x.shape[1] + 1))
    return Estimates(level, first, starts, cells[at], x[at, child])


def _children_units(plan: Plan, parents: Estimates, measure: Measure, known: tuple[Information, ...]) -> Estimates:
    """H1 of the children of a range of parents."""
    level, first_child = parents.level + 1, plan.first_child[parents.level]
    first, last = int(first_child[parents.first]), int(first_child[parents.last])
    hu = plan.invariants.housing_units(level)[first:last].copy()
    occupied = parents.dense(plan.product.cells)[:, OCCUPIED]
    begins = first_child[parents.first : parents.last + 1] - first
    if plan.estimator == "gls":
        target, weight = _told_units(lacking(plan, measure, known, level, first, last))
    else:
        runs = [(at, min(at + plan.rows, last)) for at in range(first, last, plan.rows)]
        answers = [(hu[at - first : end - first], measure(level, at, end).answers[DETAILED]) for at, end in runs]
        target = np.concatenate([units.targets(*pair) for pair in answers])
        # An only child may have the share 0: it is copied.
        weight = np.maximum(plan.spine.shares[level][first:last], 1) / plan.spine.denominator
    return _units(level, first, hu, units.children(occupied, begins, hu, target, weight))


def _told_units(told: Information) -> tuple[FloatArray, FloatArray]:
    """Targets and weights of occupied units; any weight where there are no units or a copied only child."""
    weight = np.where(told.precision > 0, told.precision, 1.0)
    return told.linear / weight, weight


def _units(level: int, first: int, hu: IntArray, occupied: IntArray) -> Estimates:
    row = np.repeat(np.arange(len(hu)), 2)
    cell = np.tile(np.array([VACANT, OCCUPIED]), len(hu))
    count = np.column_stack([hu - occupied, occupied]).ravel()
    return from_entries(Estimates, level, first, row, cell, count, len(hu))


__all__ = ["EstimationError", "Plan", "Solve", "estimate_below", "estimate_children", "estimate_roots"]
