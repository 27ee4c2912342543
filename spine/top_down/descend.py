"""The descent: the roots, and the children of a range of parents.

It reads `OwnAnswers`: the program's, or those of another estimator.
"""

from __future__ import annotations

from time import process_time
from typing import Literal, NamedTuple

import numpy as np

from spine.geography import IntArray
from spine.redistricting import OCCUPIED
from spine.top_down import totals, units
from spine.top_down.histogram import UNITS, Estimates, joined
from spine.top_down.least_squares import NO_INTEGERS, Parent
from spine.top_down.own_answers import OwnAnswers, Siblings
from spine.top_down.parent_problem import ParentProblem
from spine.top_down.plan import Plan, has_total_pass
from spine.top_down.solve_parent import EstimationError, Solver, solve, to_integers

BAND = 0.1  # persons: how far a child's total in the last pass may be from that of pass 0


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
        """Return whether the first attempt was not good enough."""
        return self.solver != "own" or self.rounding != "flow"


def estimate_roots(plan: Plan, answers: OwnAnswers) -> tuple[Estimates, list[Solve]]:
    """Estimate the top level of the spine: each state's parts (or the nation) sum to the declared total."""
    number = len(plan.spine.starts[0])
    if plan.product is UNITS:
        hu, target = plan.invariants.housing_units(0), answers.occupied(0, 0, number)[0]
        return units.estimates(0, 0, hu, np.rint(np.clip(target, 0, hu)).astype(np.int64)), []
    siblings = answers.siblings(0, 0, number)
    state, declared = np.zeros(number, np.int64), plan.invariants.state_totals.sum(keepdims=True)
    if plan.spine.levels[0] == "State":
        state, declared = plan.invariants.state_of, plan.invariants.state_totals
    total = np.zeros(number, np.int64)
    for s, of_state in enumerate(declared.tolist()):
        parts = np.flatnonzero(state == s)
        total[parts] = _root_totals(plan, parts, of_state, siblings)
    roots = [_root(plan, root, int(total[root]), int(state[root]), siblings) for root in range(number)]
    return joined([estimates for estimates, _ in roots]), [made for _, solved in roots for made in solved]


def _root_totals(plan: Plan, parts: IntArray, declared: int, siblings: Siblings) -> IntArray:
    """Return the totals of a state's parts: next to their noisy totals, summing to the declared one."""
    if len(parts) == 1:
        return np.array([declared])
    if not len(siblings.total):
        raise ValueError(f"the level {plan.spine.levels[0]} has states of several parts: it must ask the total")
    lower_bound = plan.invariants.lower_bound(0)[parts].sum(axis=1)
    any_allowed = np.array([np.any(plan.invariants.allowed(0)[parts], axis=1)])
    weight, supply = siblings.total_weight[parts], np.array([float(declared)])
    nearest = totals.totals(
        siblings.total[parts], weight / weight.max(), any_allowed, lower_bound[None].astype(float), supply
    )
    return totals.to_integers(nearest, lower_bound, declared)


def _root(plan: Plan, root: int, total: int, state: int, siblings: Siblings) -> tuple[Estimates, list[Solve]]:
    """Estimate one geounit without a parent, its total known."""
    allowed = plan.invariants.allowed(0)[root]
    cells = np.flatnonzero(plan.product.possible & allowed[plan.product.types])
    if total == 0 or not len(cells):
        return _estimates(0, root, np.zeros((0, 1), np.int64), cells[:0]), []
    problem = _problem(plan, 0, (root, root + 1), siblings, cells, NO_INTEGERS)
    problem = problem.with_totals(np.array([float(total)]), total=np.array([total]))
    x, made = _solve(plan, 0, state, problem)
    return _estimates(0, root, x, cells), [made]


def estimate_children(plan: Plan, parents: Estimates, answers: OwnAnswers) -> tuple[Estimates, list[Solve]]:
    """Estimate the children of a range of parents: they sum to their parent, cell by cell, and meet the invariants."""
    level = parents.level + 1
    plan.check_measured(parents.level, parents.first, parents.last)
    if plan.product is UNITS:
        return _units_of_children(plan, parents, answers), []
    estimates: list[Estimates] = []
    solves: list[Solve] = []
    for batch in plan.batches(parents.level, parents.first, parents.last):
        siblings: Siblings | None = None  # not asked if all parents of a batch are copied
        for parent in range(*batch):
            children = plan.children_of(parents.level, parent, parent + 1)
            number = children[1] - children[0]
            cells, counts = parents.of(parent)
            x = np.repeat(counts[:, None], number, axis=1)
            if number > 1 and len(cells):
                if siblings is None:
                    siblings = answers.siblings(level, *plan.children_of(parents.level, *batch))
                x, made = _parent(plan, level, parent, children, siblings, cells, counts)
                solves.append(made)
            estimates.append(_estimates(level, children[0], x, cells))
    return joined(estimates), solves


def _parent(
    plan: Plan,
    level: int,
    parent: int,
    children: tuple[int, int],
    siblings: Siblings,
    cells: IntArray,
    counts: IntArray,
) -> tuple[IntArray, Solve]:
    """Solve one parent: pass 0 for the children's totals, the last pass within their bands, rounding."""
    name = plan.spine.levels[level]
    problem = _problem(plan, level, children, siblings, cells, counts)
    if not has_total_pass(name):
        return _solve(plan, level, parent, problem)
    if not len(siblings.total):
        raise ValueError(f"the level {name} must ask the total: its children's totals are estimated first")
    by_type = np.bincount(problem.parent.quarters_type, counts).astype(float)
    at = slice(children[0] - siblings.first, children[1] - siblings.first)
    total, weight = siblings.total[at], siblings.total_weight[at]
    pass_0 = total, weight / weight.max(), problem.parent.allowed, problem.parent.lower_bound.astype(float), by_type
    if name != "State":
        return _solve(plan, level, parent, problem.with_totals(totals.totals(*pass_0), BAND))
    state, declared = plan.invariants.state_of, plan.invariants.state_totals
    by_state = totals.totals_in_groups(*pass_0, state, declared)
    return _solve(plan, level, parent, problem.with_totals(by_state, state=state, state_totals=declared))


def _problem(
    plan: Plan, level: int, children: tuple[int, int], siblings: Siblings, cells: IntArray, counts: IntArray
) -> ParentProblem:
    """Return the problem of one parent with these children (the first, and after the last), without bands.

    counts: the parent's, empty at a root.
    """
    types, quarters_type = np.unique(plan.product.types[cells], return_inverse=True)
    of_children = slice(*children)
    cells = np.array(cells, np.int64)  # a copy: what was read from a file may be read-only, another type to numba
    constraints = Parent(
        cells=cells,
        quarters_type=quarters_type,
        counts=np.array(counts, np.int64),
        allowed=np.ascontiguousarray(plan.invariants.allowed(level)[of_children, types].T),
        lower_bound=np.ascontiguousarray(plan.invariants.lower_bound(level)[of_children, types].T),
        nested=np.ascontiguousarray(plan.nested[:, cells]),
    )
    return ParentProblem(siblings.objective(*children, cells), constraints)


def _solve(plan: Plan, level: int, parent: int, problem: ParentProblem) -> tuple[IntArray, Solve]:
    """Solve the least squares of one parent and round it."""
    total_first = has_total_pass(plan.spine.levels[level]) and level > 0
    start = process_time()
    x, iterations, solver, violation = solve(problem)
    middle = process_time()
    whole, by = to_integers(problem, x, total_first, plan.rounding == "l1")
    end = process_time()
    cells, children = x.shape
    made = Solve(level, parent, children, cells, iterations, solver, violation, by, middle - start, end - middle)
    return whole, made


def _estimates(level: int, first: int, x: IntArray, cells: IntArray) -> Estimates:
    """Return the estimates of children from (cells, children) counts."""
    child, at = np.nonzero(x.T)
    starts = np.searchsorted(child, np.arange(x.shape[1] + 1))
    return Estimates(level, first, starts, cells[at], x[at, child])


def _units_of_children(plan: Plan, parents: Estimates, answers: OwnAnswers) -> Estimates:
    """Estimate H1 of the children of a range of parents."""
    level = parents.level + 1
    first, last = plan.children_of(parents.level, parents.first, parents.last)
    hu = plan.invariants.housing_units(level)[first:last].copy()
    occupied = parents.dense(plan.product.cells)[:, OCCUPIED]
    first_child = plan.first_child[parents.level][parents.first : parents.last + 1] - first
    occupied = units.children(occupied, first_child, hu, *answers.occupied(level, first, last))
    return units.estimates(level, first, hu, occupied)


__all__ = ["EstimationError", "Solve", "estimate_children", "estimate_roots"]
