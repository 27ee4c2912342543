"""The descent: estimate the roots, then the children of ranges of parents.

It reads `OwnAnswers`, the program's, or a subclass from another estimator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spine.geography import FloatArray, IntArray
from spine.top_down import totals, units
from spine.top_down.bounds import NO_LIMIT, Totals
from spine.top_down.histogram import Estimates, joined
from spine.top_down.least_squares import NO_INTEGERS, Parent
from spine.top_down.own_answers import OwnAnswers, ParentProblem, Siblings
from spine.top_down.plan import MOST_PARTS, Plan
from spine.top_down.rounding import on_grid
from spine.top_down.solve_parent import By, Solver, solve, to_integers


class Solve(NamedTuple):
    """How one parent's children were found. Public: a function of noisy answers and invariants.

    level: index of the children's level. parent: number of the parent on the level above (for roots, the state).
    children, cells: the size of the problem. iterations: those of least squares. solver: the one whose result was used.
    violation: the most by which the result misses a band or bound. rounding: "flow"; if the flow failed, "highs" if
    HiGHS proved its integers the nearest, else "any", which meet all bounds.
    """

    level: int
    parent: int
    children: int
    cells: int
    iterations: int
    solver: Solver
    violation: float
    rounding: By

    @property
    def failed(self) -> bool:
        """Whether the first attempt was not good enough."""
        return self.solver != "own" or self.rounding != "flow"


def estimate_roots(plan: Plan, answers: OwnAnswers) -> tuple[Estimates, list[Solve]]:
    """Estimate the top level of the spine: the roots of each group sum to its declared total.

    Without a declared total, the only root has its noisy total if the level's totals come first, else the total of the
    least-squares solution; both are rounded.
    """
    number = len(plan.spine.starts[0])
    if plan.closed_form:
        fixed, target = plan.bounds.number(0), answers.second(0, 0, number)[0]
        return units.estimates(0, 0, fixed, np.rint(np.clip(target, 0, fixed)).astype(np.int64)), []
    siblings, declared = answers.siblings(0, 0, number), plan.bounds.totals[0]
    if declared is None:
        if number > 1:
            raise ValueError(f"the level {plan.spine.levels[0]} has {number} geounits, and their total is not declared")
        if plan.spine.levels[0] not in plan.passes.total_first or not len(siblings.total):
            return _root(plan, 0, None, 0, siblings)
        return _root(plan, 0, plan.bounds.nearest_total(int(np.rint(siblings.total[0]))), 0, siblings)
    total = np.zeros(number, np.int64)
    for at, value in enumerate(declared.values.tolist()):
        parts = np.flatnonzero(declared.group == at)
        total[parts] = _root_totals(plan, parts, value, siblings)
    roots = [_root(plan, root, int(total[root]), int(declared.group[root]), siblings) for root in range(number)]
    return joined([estimates for estimates, _ in roots]), [made for _, solved in roots for made in solved]


def _root_totals(plan: Plan, parts: IntArray, declared: int, siblings: Siblings) -> IntArray:
    """Return the totals of a group of roots: near their noisy totals, with the declared sum."""
    if len(parts) == 1:
        return np.array([declared])
    if not len(siblings.total):
        raise ValueError(
            f"the level {plan.spine.levels[0]} has roots with a declared sum: its queries must include the total"
        )
    lower_bound = plan.bounds.lower_bound(0, parts).sum(axis=1)
    any_allowed = np.array([np.any(plan.bounds.allowed(0, parts), axis=1)])
    weight, supply = siblings.total_weight[parts], np.array([float(declared)])
    nearest = totals.totals(
        siblings.total[parts], weight / weight.max(), any_allowed, lower_bound[None].astype(float), supply
    )
    whole = units.whole(declared, np.full(len(parts), NO_LIMIT), nearest)
    if whole.sum() != declared:
        raise ValueError("the totals of the roots do not sum to the declared total")
    return whole


def _root(plan: Plan, root: int, total: int | None, group: int, siblings: Siblings) -> tuple[Estimates, list[Solve]]:
    """Estimate one geounit without a parent. total: None if unknown."""
    allowed = plan.bounds.allowed(0)[root]
    cells = np.flatnonzero(plan.product.possible & allowed[plan.product.types])
    if total == 0 or not len(cells):
        return _estimates(0, root, np.zeros((0, 1), np.int64), cells[:0]), []
    problem = _problem(plan, 0, (root, root + 1), siblings, cells, NO_INTEGERS)
    if total is not None:
        problem = problem.with_totals(np.array([float(total)]), total=np.array([total], np.int64))
    x, made = _solve(plan, 0, group, problem)
    return _estimates(0, root, x, cells), [made]


def estimate_children(plan: Plan, parents: Estimates, answers: OwnAnswers) -> tuple[Estimates, list[Solve]]:
    """Estimate the children of a range of parents. They sum to their parent, cell by cell, and meet the invariants."""
    level = parents.level + 1
    plan.check_measured(parents.level, parents.first, parents.last)
    if plan.closed_form:
        return _units_of_children(plan, parents, answers), []
    estimates: list[Estimates] = []
    solves: list[Solve] = []
    for batch in plan.batches(parents.level, parents.first, parents.last):
        siblings: Siblings | None = None  # not read if all parents of a batch are copied
        for parent in range(*batch):
            children = plan.children_of(parents.level, parent, parent + 1)
            number = children[1] - children[0]
            cells, counts = parents.of(parent)
            x = np.repeat(counts[:, None], number, axis=1)
            if number > 1 and len(cells):
                if siblings is None:
                    siblings = answers.siblings(level, *plan.children_of(parents.level, *batch))
                x, made = _parent(plan, parents, parent, siblings)
                solves.append(made)
            estimates.append(_estimates(level, children[0], x, cells))
    return joined(estimates), solves


def _parent(plan: Plan, parents: Estimates, parent: int, siblings: Siblings) -> tuple[IntArray, Solve]:
    """Solve one parent: pass 0 for the children's totals, the last pass within their bands, and rounding."""
    level, children = parents.level + 1, plan.children_of(parents.level, parent, parent + 1)
    cells, counts = parents.of(parent)
    problem, declared = _problem(plan, level, children, siblings, cells, counts), plan.bounds.totals[level]
    if declared is None and not plan.has_total_pass(level):
        return _solve(plan, level, parent, problem)
    if declared is not None:
        groups, group = np.unique(declared.group[slice(*children)], return_inverse=True)
        declared = Totals(group, declared.values[groups])
        if len(groups) == len(group) and not len(siblings.total):
            return _solve(plan, level, parent, _with_declared(problem, declared))
    if not len(siblings.total):
        raise ValueError(
            f"the level {plan.spine.levels[level]} estimates totals first: its queries must include the total"
        )
    by_type = np.bincount(problem.parent.quarters_type, problem.parent.counts).astype(float)
    at = slice(children[0] - siblings.first, children[1] - siblings.first)
    total, weight = siblings.total[at], siblings.total_weight[at]
    if len(problem.parent.sets) or len(by_type) > MOST_PARTS:
        if declared is not None:
            return _solve(plan, level, parent, _with_declared(problem, declared))
        nearest = totals.totals_in_sets(total, weight / weight.max(), problem.parent, by_type)
        return _solve(plan, level, parent, problem.with_totals(nearest, plan.passes.band))
    pass_0 = total, weight / weight.max(), problem.parent.allowed, problem.parent.lower_bound.astype(float), by_type
    if declared is None:
        return _solve(plan, level, parent, problem.with_totals(totals.totals(*pass_0), plan.passes.band))
    by_group = totals.totals_in_groups(*pass_0, declared.group, declared.values)
    problem = problem.with_totals(by_group, state=declared.group, state_totals=declared.values)
    return _solve(plan, level, parent, problem)


def _with_declared(problem: ParentProblem, declared: Totals) -> ParentProblem:
    """Return the problem of children whose individual totals are declared."""
    return problem.with_totals(declared.values.astype(float), state=declared.group, state_totals=declared.values)


def _problem(
    plan: Plan, level: int, children: tuple[int, int], siblings: Siblings, cells: IntArray, counts: IntArray
) -> ParentProblem:
    """Return the problem of one parent, without bands.

    children: the first child, and the one after the last. counts: the parent's, empty at a root.
    """
    part_of_cell, part_of = plan.parts[level]
    there = np.bincount(part_of_cell[cells]) > 0
    types, quarters_type = np.flatnonzero(there), (there.cumsum() - 1)[part_of_cell[cells]]
    of_children, by_type, types = slice(*children), np.argsort(quarters_type, kind="stable"), part_of[types]
    # Copies: arrays read from a file may be read-only, which is another type to numba.
    cells, counts = np.array(cells[by_type], np.int64), np.array(counts[by_type[: len(counts)]], np.int64)
    constraints = Parent(
        cells=cells,
        quarters_type=quarters_type[by_type],
        counts=counts,
        allowed=np.ascontiguousarray(plan.bounds.allowed(level, of_children)[:, types].T),
        lower_bound=np.ascontiguousarray(plan.bounds.lower_bound(level, of_children)[:, types].T),
        nested=np.ascontiguousarray(plan.nested[0][:, cells]),
        cell_weight=plan.passes.cell_weight,
    )
    problem = ParentProblem(siblings.objective(*children, cells), constraints)
    sets, earlier = plan.bounds.sets, plan.passes.earlier.get(plan.spine.levels[level], ())
    if sets is None and not earlier:
        return problem
    sums = (np.ascontiguousarray(plan.coordinates(each)[:, cells]) for each in earlier)
    return replace(
        problem,
        parent=_with_sets(plan, level, of_children, types, constraints),
        earlier=tuple((make(*children, cells), own) for make, own in zip(siblings.earlier, sums, strict=True)),
    )


def _with_sets(plan: Plan, level: int, of_children: slice, types: IntArray, parent: Parent) -> Parent:
    """Return the constraints with the bounds of sets, including the parts' own if passes divide the parts.

    types: (types,) the declared part of each type.
    """
    sets, nested_set = plan.bounds.sets, plan.nested[1][:, parent.cells]
    if sets is not None:
        member, low, high = sets.member[:, types], sets.low[level][of_children].T, sets.high[level][of_children].T
    else:
        parts = np.unique(types)
        member, low = parts[:, None] == types, plan.bounds.lower_bound(level, of_children)[:, parts].T
        high = np.full(low.shape, NO_LIMIT)
        if plan.bounds.least.any():  # the parts are the first nested sums
            nested_set[0] = np.searchsorted(parts, types[parent.quarters_type])
    return parent._replace(
        lower_bound=np.zeros(parent.lower_bound.shape, np.int64),
        sets=np.ascontiguousarray(member),
        low_of=np.ascontiguousarray(low, float),
        high_of=np.ascontiguousarray(high, float),
        nested_set=np.ascontiguousarray(nested_set),
    )


def _solve(plan: Plan, level: int, parent: int, problem: ParentProblem) -> tuple[IntArray, Solve]:
    """Solve the least squares of one parent and round it. Returns counts in the order of ascending cells."""
    limited, before = problem, 0
    kept, first = plan.passes.kept.get(plan.spine.levels[level], 0), None
    for number, (objective, sums) in enumerate(problem.earlier, 1):
        x, more, *_ = solve(replace(limited, objective=objective))
        before, limited = before + more, limited.banded(x, sums, plan.passes.band)
        if number == kept:
            problem, whole, first = _round(plan, level, problem, x)
            problem = limited = _keeping(plan, problem, whole)
    x, iterations, solver, violation = solve(limited)
    problem, whole, by = _round(plan, level, problem, x)
    cells, children = x.shape
    by = first if first and first != "flow" else by
    made = Solve(level, parent, children, cells, before + iterations, solver, violation, by)
    return whole[np.argsort(problem.parent.cells)], made


def _round(plan: Plan, level: int, problem: ParentProblem, x: FloatArray) -> tuple[ParentProblem, IntArray, By]:
    """Return the problem (a root's with its total found), the integers near x, and the method that found them."""
    known = len(problem.parent.counts) or len(problem.parent.total)
    if not known:  # a root without a declared total
        total = plan.bounds.nearest_total(int(np.rint(x.sum())))
        problem = problem.with_totals(np.array([float(total)]), total=np.array([total]))
    return problem, *to_integers(problem, on_grid(x) if plan.passes.on_grid else x, plan.has_total_pass(level))


def _keeping(plan: Plan, problem: ParentProblem, whole: IntArray) -> ParentProblem:
    """Return the problem whose children keep the finest rounded sums of the integers `whole`, (n, K), exactly."""
    own, then = (
        plan.coordinates(each)[:, problem.parent.cells] for each in (plan.passes.rounded[-1:], plan.passes.then)
    )
    held = problem.banded(whole.astype(float), own, 0.0)
    number = len(held.parent.sets) - len(np.unique(own)) + np.unique(own, return_inverse=True)[1].reshape(own.shape)
    totals = whole.sum(axis=0).astype(float)
    bands = {"low": totals, "high": totals} if len(held.parent.low) else {}
    nested, nested_set = np.concatenate([own, then]), np.concatenate([number, np.full(then.shape, -1)])
    return replace(held, parent=held.parent._replace(nested=nested, nested_set=nested_set, **bands))


def _estimates(level: int, first: int, x: IntArray, cells: IntArray) -> Estimates:
    child, at = np.nonzero(x.T)
    starts = np.searchsorted(child, np.arange(x.shape[1] + 1))
    return Estimates(level, first, starts, cells[at], x[at, child])


def _units_of_children(plan: Plan, parents: Estimates, answers: OwnAnswers) -> Estimates:
    """Estimate the two cells of the children of a range of parents; the sum of the cells is fixed."""
    level = parents.level + 1
    first, last = plan.children_of(parents.level, parents.first, parents.last)
    fixed = plan.bounds.number(level)[first:last].copy()
    second = parents.dense(plan.product.cells)[:, 1].copy()  # contiguous, which is another type to numba
    first_child = plan.spine.first_child[parents.level][parents.first : parents.last + 1] - first
    second = units.children(second, first_child, fixed, *answers.second(level, first, last))
    return units.estimates(level, first, fixed, second)
