"""From the top of the spine down: the roots, one level of a run of parents, and everything below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from time import process_time
from typing import Literal, NamedTuple

import numpy as np

from spine.allocations import Allocation
from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.top_down import totals, units
from spine.top_down.failures import NO_FLOATS, Division, EstimationError, Solver, divide, to_integers
from spine.top_down.histogram import OCCUPIED, UNITS, VACANT, Estimates, Product, from_entries, joined
from spine.top_down.invariants import Invariants
from spine.top_down.least_squares import Ladder, ladder
from spine.top_down.measurements import Measure, NoisyAnswers, weights
from spine.top_down.passes import BAND, ROUNDED, total_first
from spine.top_down.queries import DETAILED, TOTAL, query_groups
from spine.workload import FloatArray

Rounding = Literal["program", "l1"]


@dataclass(frozen=True)
class Plan:
    """What is public of an estimation.

    product: PERSONS or UNITS. spine: with its shares; its top level is one root or a forest of states' parts.
    allocation: budget and shares alpha, for (at least) the spine's levels. invariants: declared, on the spine's levels.
    rounding: the production program's objective, or the L1 distance to the least-squares solution at every query.
    rows: about how many geounits are measured at once (memory: rows x 2,603 counts).
    """

    product: Product
    spine: Spine
    allocation: Allocation
    invariants: Invariants
    rounding: Rounding = "program"
    rows: int = 512

    def __post_init__(self) -> None:
        for name in self.spine.levels:
            if DETAILED not in self.allocation.queries[name]:
                raise ValueError(f"level {name} does not ask the detailed query: its cells would not be determined")

    @cached_property
    def nested(self) -> IntArray:
        """(sums, cells) coordinates of the sums that rounding keeps close to, coarse to fine."""
        return np.array([group.coordinate for group in query_groups(self.product, ROUNDED)])

    @cached_property
    def first_child(self) -> tuple[IntArray, ...]:
        """For each level but the lowest the (geounits + 1,) first child of every geounit."""
        spine = self.spine
        return tuple(
            np.append(np.searchsorted(below, above), len(below))
            for above, below in zip(spine.starts, spine.starts[1:], strict=False)
        )

    @cached_property
    def asked(self) -> tuple[tuple[list[str], Ladder], ...]:
        """For each level the query groups of the last pass, widest first, and their ladder.

        The total is among them at the blocks only; at the roots and the states it is declared or has its own pass.
        """
        found = []
        for level, name in enumerate(self.spine.levels):
            groups = query_groups(self.product, self.allocation.queries[name])
            if total_first(name) or level == 0:
                groups = [group for group in groups if group.name != TOTAL]
            groups.sort(key=lambda group: -group.width)
            found.append(([group.name for group in groups], ladder(groups)))
        return tuple(found)


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


class Measured(NamedTuple):
    """Noisy answers of a run of geounits as least squares takes them.

    answers: (geounits, coordinates of the last pass's query groups). weights: (groups, geounits) inverse variances.
    total, total_weight: (geounits,) the answers of the total query, and their inverse variance; empty if not asked.
    """

    first: int
    answers: FloatArray
    weights: FloatArray
    total: FloatArray
    total_weight: FloatArray

    def only(self, first: int, last: int) -> Measured:
        """The geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Measured(first, self.answers[rows], self.weights[:, rows], self.total[rows], self.total_weight[rows])


def measured(plan: Plan, level: int, given: NoisyAnswers) -> Measured:
    """The noisy answers of a run of geounits, with their weights."""
    name, spine = plan.spine.levels[level], plan.spine
    shares = spine.shares[level][given.first : given.last]
    queries, _ = plan.asked[level]

    def weigh(names: list[str]) -> FloatArray:
        return weights(plan.allocation, name, names, shares, spine.denominator)

    answers = np.concatenate([np.asarray(given.answers[query], float) for query in queries], axis=1)
    if TOTAL in plan.allocation.queries[name]:
        total, total_weight = np.asarray(given.answers[TOTAL], float)[:, 0], weigh([TOTAL])[0]
    else:
        total, total_weight = NO_FLOATS, NO_FLOATS
    return Measured(given.first, answers, weigh(queries), total, total_weight)


def estimate_roots(plan: Plan, measure: Measure) -> tuple[Estimates, list[Solve]]:
    """The top level of the spine: each state's parts (or the nation) sum to the declared total, and meet the bounds."""
    number = len(plan.spine.starts[0])
    given = measure(0, 0, number)
    if plan.product is UNITS:
        hu = plan.invariants.housing_units(0)
        return _units(0, 0, hu, units.roots(hu, units.targets(hu, given.answers[DETAILED]))), []
    answers = measured(plan, 0, given)
    invariants = plan.invariants
    if plan.spine.levels[0] == "State":
        state, declared = invariants.state_of, invariants.state_totals
    else:
        state, declared = np.zeros(number, np.int64), invariants.state_totals.sum(keepdims=True)
    found, solves = [], []
    for s in range(len(declared)):
        parts = np.flatnonzero(state == s)
        for part, total in zip(parts, _part_totals(plan, parts, int(declared[s]), answers), strict=True):
            estimate, solve = _root(plan, int(part), int(total), s, answers)
            found.append(estimate)
            solves += solve
    order = np.argsort(np.concatenate([np.flatnonzero(state == s) for s in range(len(declared))]))
    return joined([found[at] for at in order]), solves


def _part_totals(plan: Plan, parts: IntArray, declared: int, answers: Measured) -> IntArray:
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


def _root(plan: Plan, part: int, total: int, state: int, answers: Measured) -> tuple[Estimates, list[Solve]]:
    """One geounit without a parent, its total known."""
    allowed = plan.invariants.allowed(0)[part]
    cells = np.flatnonzero(plan.product.possible & allowed[plan.product.types])
    if total == 0 or not len(cells):
        return _estimates(0, part, np.zeros((0, 1), np.int64), np.zeros(0, np.int64)), []
    own = answers.only(part, part + 1)
    fixed = np.array([float(total)])
    division = replace(_division(plan, 0, part, cells, None, own), low=fixed, high=fixed, total=total)
    x, solve = _solve(plan, 0, state, division)
    return _estimates(0, part, x, cells), [solve]


def estimate_children(plan: Plan, parents: Estimates, measure: Measure) -> tuple[Estimates, list[Solve]]:
    """The children of a run of parents: for each parent they sum to it, cell by cell, and meet the invariants."""
    level = parents.level + 1
    _refuse_unmeasured(plan, level, parents)
    if plan.product is UNITS:
        return _children_units(plan, parents, measure), []
    found: list[Estimates] = []
    solves: list[Solve] = []
    for first_parent, last_parent in _runs(plan, parents):
        first_child = plan.first_child[parents.level]
        first, last = int(first_child[first_parent]), int(first_child[last_parent])
        answers: Measured | None = None
        for parent in range(first_parent, last_parent):
            begin, end = int(first_child[parent]), int(first_child[parent + 1])
            cells, counts = parents.of(parent)
            if end - begin == 1:
                found.append(_estimates(level, begin, counts[:, None], cells))
            elif not len(cells):
                found.append(_estimates(level, begin, np.zeros((0, end - begin), np.int64), cells))
            else:
                if answers is None:
                    answers = measured(plan, level, measure(level, first, last))
                x, solve = _parent(plan, level, parent, begin, cells, counts, answers.only(begin, end))
                found.append(_estimates(level, begin, x, cells))
                solves.append(solve)
    return joined(found), solves


def estimate_below(plan: Plan, parents: Estimates, measure: Measure) -> tuple[list[Estimates], list[Solve]]:
    """Every level below a run of parents, top first."""
    found: list[Estimates] = []
    solves: list[Solve] = []
    while parents.level + 1 < len(plan.spine.levels):
        parents, of_level = estimate_children(plan, parents, measure)
        found.append(parents)
        solves += of_level
    return found, solves


def _runs(plan: Plan, parents: Estimates) -> Iterator[tuple[int, int]]:
    """Runs of parents that have about `plan.rows` children together."""
    first_child = plan.first_child[parents.level]
    first = parents.first
    while first < parents.last:
        last = int(np.searchsorted(first_child, first_child[first] + plan.rows, side="right")) - 1
        last = min(max(last, first + 1), parents.last)
        yield first, last
        first = last


def _refuse_unmeasured(plan: Plan, level: int, parents: Estimates) -> None:
    """No geounit with siblings may have the share 0: nothing would say how many of its parent's persons it has."""
    first_child = plan.first_child[parents.level][parents.first : parents.last + 1]
    siblings = np.repeat(np.diff(first_child), np.diff(first_child))
    if ((plan.spine.shares[level][first_child[0] : first_child[-1]] == 0) & (siblings > 1)).any():
        raise ValueError(
            f"a geounit of level {plan.spine.levels[level]} has siblings and the share 0: it is not measured"
        )


def _parent(
    plan: Plan, level: int, parent: int, first: int, cells: IntArray, counts: IntArray, answers: Measured
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
            division = replace(division, low=total, high=total, state=state, state_totals=declared)
        else:
            total = totals.totals(answers.total, weight, division.allowed, least, by_type)
            division = replace(division, low=total - BAND, high=total + BAND)
    return _solve(plan, level, parent, division)


def _division(
    plan: Plan, level: int, first: int, cells: IntArray, counts: IntArray | None, answers: Measured
) -> Division:
    """The problem of one parent, without bands."""
    children = slice(first, first + len(answers.answers))
    types, kind = np.unique(plan.product.types[cells], return_inverse=True)
    return Division(
        ladder=plan.asked[level][1],
        cells=np.array(cells, np.int64),  # a copy: what was read from a file may be read-only, another type to numba
        kind=kind,
        counts=None if counts is None else np.array(counts, np.int64),
        answers=answers.answers,
        weights=np.ascontiguousarray(answers.weights),
        allowed=np.ascontiguousarray(plan.invariants.allowed(level)[children, types].T),
        least=np.ascontiguousarray(plan.invariants.least(level)[children, types].T),
        nested=np.ascontiguousarray(plan.nested[:, cells]),
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


def _children_units(plan: Plan, parents: Estimates, measure: Measure) -> Estimates:
    """H1 of the children of a run of parents."""
    level, first_child = parents.level + 1, plan.first_child[parents.level]
    first, last = int(first_child[parents.first]), int(first_child[parents.last])
    hu, shares = plan.invariants.housing_units(level)[first:last].copy(), plan.spine.shares[level][first:last]
    target = np.concatenate(
        [
            units.targets(hu[at - first : end - first], measure(level, at, end).answers[DETAILED])
            for at in range(first, last, plan.rows)
            for end in [min(at + plan.rows, last)]
        ]
    )
    occupied = parents.dense(plan.product.cells)[:, OCCUPIED]
    begins = first_child[parents.first : parents.last + 1] - first
    weight = np.maximum(shares, 1) / plan.spine.denominator  # an only child may have the share 0: it is copied
    return _units(level, first, hu, units.children(occupied, begins, hu, target, weight))


def _units(level: int, first: int, hu: IntArray, occupied: IntArray) -> Estimates:
    row = np.repeat(np.arange(len(hu)), 2)
    cell = np.tile(np.array([VACANT, OCCUPIED]), len(hu))
    count = np.column_stack([hu - occupied, occupied]).ravel()
    return from_entries(Estimates, level, first, row, cell, count, len(hu))


__all__ = ["EstimationError", "Plan", "Solve", "estimate_below", "estimate_children", "estimate_roots"]
