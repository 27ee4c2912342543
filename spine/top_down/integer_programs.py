"""Whole numbers under any bounds by HiGHS, as SciPy has it: where bounds cross, and where the flow fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.bounds import LARGEST_COUNT, NO_LIMIT, Leaves
from spine.top_down.own_answers import ParentProblem
from spine.top_down.rounding import floors

NODES = 100  # branches of one problem that HiGHS searches: docs/declarations.md#what-a-run-costs
Sparse = Any  # a scipy.sparse array


def sums_of(coordinate: IntArray) -> Sparse:
    """Return the (sums, n) matrix that adds up cells by their coordinates, 0 to the last."""
    return sp.csc_array((np.ones(len(coordinate)), (coordinate, np.arange(len(coordinate)))))


def sums_of_sets(sets: BoolArray, types: Sparse) -> Sparse:
    """Return the (sets, n) matrix that adds up the cells of sets of types."""
    return sp.csr_array(sets.astype(float)) @ types


def upper_bounds(high: FloatArray | IntArray) -> FloatArray:
    """Return upper bounds in C order, infinite where there is none."""
    return np.where(high > NO_LIMIT / 2, np.inf, high).ravel()


def rounding_program(
    problem: ParentProblem, x: FloatArray, total_first: bool
) -> tuple[FloatArray, LinearConstraint, Bounds, IntArray]:
    """Return the program's rounding as a linear program: costs, constraints, bounds, and the integers below x.

    Variables: b, (n, K) in C order, then a distance for every child's sum that has a target. In a general problem b is
    any whole number above -x's own, with a distance for every cell, and the numbers of the leaves below come last.
    """
    p, n, children = problem.parent, len(problem.parent.cells), problem.children
    whole, fraction = floors(x, p.allowed, p.quarters_type)
    each = sp.eye_array(children)
    counts = p.counts - whole.sum(axis=1) if len(p.counts) else np.full(n, children)
    live = (problem.allowed_cells & (counts > 0)[:, None]).ravel()
    cell_cost = np.where(fraction > 0.5, -p.cell_weight, p.cell_weight).ravel()
    amount = int(p.total[0] - whole.sum()) if len(p.total) else int(counts.sum())
    first_weight = 1 + 2 * (len(p.nested) + p.cell_weight) * amount if total_first else 1
    sums = [np.ones((1, n)), *(sums_of(np.unique(nested, return_inverse=True)[1]) for nested in p.nested)]
    if problem.general:
        sums.append(sp.eye_array(n))
    matrix = sp.csr_array(sp.vstack([sp.kron(part, each) for part in sums]))
    target = np.rint(np.concatenate([(part @ fraction).ravel() for part in sums]))
    weight = np.where(np.arange(len(target)) < children, first_weight, 1)
    lowest, most = np.zeros(n * children), live.astype(float)
    if problem.general:
        cell_cost, weight[-n * children :] = np.zeros(n * children), p.cell_weight
        lowest, most = -whole.ravel().astype(float), np.where(problem.allowed_cells.ravel(), np.inf, 0.0)
    rows: list[tuple[Any, Any, Any]] = []  # matrices of b, bounds
    if len(p.counts):
        rows.append((sp.kron(sp.eye_array(n), np.ones((1, children))), counts, counts))
    if len(p.total):
        rows.append((np.ones((1, n * children)), [amount], [amount]))
    if len(p.state):
        of_state = sums_of(p.state)
        left = p.state_totals - of_state @ whole.sum(axis=0)
        rows.append((sp.kron(np.ones((1, n)), of_state), left, left))
    types = sums_of(p.quarters_type)
    needed = (p.lower_bound - types @ whole).ravel()
    rows.append((sp.kron(types, each), needed, np.full(len(needed), np.inf)))
    if len(p.sets):
        inside = sums_of_sets(p.sets, types)
        held = inside @ whole
        rows.append((sp.kron(inside, each), (p.low_of - held).ravel(), upper_bounds(p.high_of) - held.ravel()))
    parts, low, high = zip(*rows, strict=True)
    distance, unbounded = sp.eye_array(len(target)), np.full(len(target), np.inf)
    blocks = [[matrix, -distance], [matrix, distance], [sp.vstack(parts), None]]
    lows, highs = [-unbounded, target, *low], [target, unbounded, *high]
    cost, lowest = np.concatenate([cell_cost, weight]).astype(float), np.append(lowest, target * 0)
    upper = np.append(most, unbounded)
    if (leaves := problem.leaves) is not None:
        together, own, own_low, own_high = leaf_rows(leaves, p.sets, children)
        held = types @ whole
        blocks = [[*row, None] for row in blocks]
        blocks += [[sp.kron(types, each), None, -together], [None, None, own]]
        lows, highs = [*lows, -held.ravel(), own_low], [*highs, -held.ravel(), own_high]
        cost, lowest = (np.append(values, np.zeros(leaves.allowed.size)) for values in (cost, lowest))
        upper = np.append(upper, np.where(leaves.allowed.T.ravel(), np.inf, 0.0))
    program = sp.block_array(blocks, format="csc")
    bounds = np.concatenate(lows), np.concatenate(highs)
    return cost, LinearConstraint(program, *bounds), Bounds(lowest, upper), whole


def leaf_rows(leaves: Leaves, sets: BoolArray, children: int) -> tuple[Sparse, Sparse, FloatArray, FloatArray]:
    """Return the sums by type and child of the leaves' (types, leaves) numbers, and (A, low, high) of their bounds."""
    number, types = leaves.allowed.shape
    by_child = sp.csr_array((np.ones(number), (leaves.child, np.arange(number))), shape=(children, number))
    each, bounded = sp.eye_array(number), sp.csr_array(sets.astype(float))
    rows: list[tuple[Any, Any, Any]] = [(sp.kron(bounded, each), leaves.low.T.ravel(), upper_bounds(leaves.high.T))]
    for group, totals in zip(leaves.groups, leaves.totals, strict=True):
        rows.append((sp.kron(np.ones((1, types)), sums_of(group)), totals, totals))
    parts, low, high = zip(*rows, strict=True)
    together = sp.kron(sp.eye_array(types), by_child)
    return together, sp.vstack(parts), np.concatenate(low).astype(float), np.concatenate(high).astype(float)


def range_of_total(leaves: Leaves, sets: BoolArray) -> tuple[int, int] | None:
    """Return the fewest and most records of leaves that meet their bounds and totals; None where HiGHS finds none.

    Both are numbers of records that some leaves have; where NODES branches are not enough, not the fewest or most.
    """
    _, rows, low, high = leaf_rows(leaves, sets, 1)
    upper = np.where(leaves.allowed.T.ravel(), np.inf, 0.0)
    rows, low, high = (
        sp.vstack([rows, sp.csr_array(np.ones((1, len(upper))))]),
        np.append(low, 0),
        np.append(high, LARGEST_COUNT),
    )
    found = []
    for sign in (1.0, -1.0):
        solution = milp(
            np.full(len(upper), sign),
            integrality=np.ones(len(upper), np.int64),
            bounds=Bounds(np.zeros(len(upper)), upper),
            constraints=LinearConstraint(rows, low, high),
            options={"node_limit": NODES},
        )
        if solution.x is None:
            return None
        found.append(round(sign * solution.fun))
    return found[0], found[1] if found[1] < LARGEST_COUNT else NO_LIMIT


def nearest_division(leaves: Leaves, sets: BoolArray, wanted: IntArray) -> IntArray | None:
    """Return the (leaves, parts) records that meet all bounds and totals, nearest to those that are wanted."""
    _, rows, low, high = leaf_rows(leaves, sets, 1)
    target, each = wanted.T.ravel(), sp.eye_array(wanted.size)
    program = sp.block_array([[rows, None], [each, -each], [each, each]], format="csc")
    free = np.full(len(target), np.inf)
    x, _ = _best_found(
        np.repeat([0.0, 1.0], len(target)),
        integrality=np.repeat([1, 0], len(target)),
        bounds=Bounds(0.0, np.append(np.where(leaves.allowed.T.ravel(), np.inf, 0.0), free)),
        constraints=LinearConstraint(
            program, np.concatenate([low, -free, target]), np.concatenate([high, target, free])
        ),
    )
    return None if x is None else np.rint(x[: len(target)]).astype(np.int64).reshape(wanted.T.shape).T


def _best_found(cost: FloatArray, gap: float = 1e-4, **program: Any) -> tuple[FloatArray | None, bool]:
    """Return HiGHS's best point of a program within NODES branches, else any that is feasible, and which of them it is.

    None where there is none. Nothing depends on time: a run that is resumed finds the same point.
    gap: the relative one; 1e-4 is HiGHS's own.
    """
    limited: Any = {"mip_rel_gap": gap, "node_limit": NODES}
    unlimited: Any = {}
    for costs, options in ((cost, limited), (cost * 0, unlimited)):
        if (x := milp(costs, **program, options=options).x) is not None:
            return np.asarray(x), costs is cost
    return None, False


def rounding(problem: ParentProblem, x: FloatArray, total_first: bool) -> tuple[IntArray | None, bool]:
    """Return (n, K) integers by HiGHS's branch and bound, or None if there are none.

    They are the best within NODES branches, else any that meet every sum and bound; and which of them they are.
    """
    cost, together, bounds, whole = rounding_program(problem, x, total_first)
    integral = np.zeros(len(cost), np.int64)
    integral[: x.size] = 1
    if problem.leaves is not None:
        integral[len(integral) - problem.leaves.allowed.size :] = 1
    gap = 0.0 if problem.general else 1e-4
    point, best = _best_found(cost, gap, integrality=integral, bounds=bounds, constraints=together)
    return (None if point is None else whole + np.rint(point[: x.size]).astype(np.int64).reshape(x.shape)), best
