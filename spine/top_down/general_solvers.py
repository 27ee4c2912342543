"""General solvers for one parent, also the oracles of our kernels in tests.

HiGHS (SciPy) rounds if the flow fails; PIQP and Clarabel solve the least squares if our kernels do not converge.
"""

from __future__ import annotations

from typing import Any, Literal

import clarabel
import numpy as np
import piqp
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.bounds import NO_LIMIT
from spine.top_down.own_answers import ParentProblem
from spine.top_down.rounding import floors

NODES = 100  # branches of one problem that HiGHS searches; no limit of time, so that a resumed run finds the same
QPSolver = Literal["piqp", "clarabel"]
SOLVERS: tuple[QPSolver, ...] = ("piqp", "clarabel")  # the first to meet the constraints is used
LARGEST = 12_000  # unknowns: a child's cells are all coupled, so matrices grow with their square
Sparse = Any  # a scipy.sparse array


def sums_of(coordinate: IntArray) -> Sparse:
    """Return the (sums, n) matrix that sums cells by coordinate, from 0 to the largest."""
    return sp.csc_array((np.ones(len(coordinate)), (coordinate, np.arange(len(coordinate)))))


def sums_of_sets(sets: BoolArray, types: Sparse) -> Sparse:
    """Return the (sets, n) matrix that sums the cells of sets of types."""
    return sp.csr_array(sets.astype(float)) @ types


def upper_bounds(high: FloatArray | IntArray) -> FloatArray:
    """Return upper bounds in C order, infinity for no bound."""
    return np.where(high > NO_LIMIT / 2, np.inf, high).ravel()


def rounding_program(
    problem: ParentProblem, x: FloatArray, total_first: bool
) -> tuple[FloatArray, LinearConstraint, Bounds, IntArray]:
    """Return the rounding as a linear program: costs, constraints, bounds, and the integers below x.

    Variables: b, (n, K) in C order, then a distance for every child's sum that has a target.
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
    matrix = sp.csr_array(sp.vstack([sp.kron(part, each) for part in sums]))
    target = np.rint(np.concatenate([(part @ fraction).ravel() for part in sums]))
    weight = np.where(np.arange(len(target)) < children, first_weight, 1)
    rows: list[tuple[Any, Any, Any]] = []  # matrices of b, and bounds
    if len(p.counts):
        rows.append((sp.kron(sp.eye_array(n), np.ones((1, children))), counts, counts))
    if len(p.total):
        rows.append((np.ones((1, n * children)), [amount], [amount]))
    if len(p.state):
        of_state = sums_of(p.state)
        remaining = p.state_totals - of_state @ whole.sum(axis=0)
        rows.append((sp.kron(np.ones((1, n)), of_state), remaining, remaining))
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
    cost, upper = np.concatenate([cell_cost, weight]).astype(float), np.append(live.astype(float), unbounded)
    together = LinearConstraint(sp.block_array(blocks, format="csc"), np.concatenate(lows), np.concatenate(highs))
    return cost, together, Bounds(np.zeros(len(upper)), upper), whole


def rounding(problem: ParentProblem, x: FloatArray, total_first: bool) -> tuple[IntArray | None, bool]:
    """Return (n, K) integers by HiGHS's branch and bound, and whether they are proved nearest (gap 0).

    If NODES branches do not prove it, return any integers that meet every sum and bound, or None.
    HiGHS computes in floats: the caller verifies sums and bounds of the integers.
    """
    cost, together, bounds, whole = rounding_program(problem, x, total_first)
    integral = np.zeros(len(cost), np.int64)
    integral[: x.size] = 1
    exact: Any = {"mip_rel_gap": 0.0}  # HiGHS's default is 1e-4: within it a point counts as optimal
    program: Any = {"integrality": integral, "bounds": bounds, "constraints": together}
    found = milp(cost, **program, options=exact | {"node_limit": NODES})
    nearest = found.status == 0
    if found.x is None:
        found = milp(cost * 0, **program, options=exact)
    if found.x is None:
        return None, False
    return whole + np.rint(found.x[: x.size]).astype(np.int64).reshape(x.shape), nearest


def constraints(problem: ParentProblem) -> tuple[Sparse, FloatArray, FloatArray]:
    """Return (A, low, high) of low <= A x <= high: the parent's counts, bands of totals, bounds of types and sets."""
    p, n, children = problem.parent, len(problem.parent.cells), problem.children
    each = sp.eye_array(children)
    rows: list[tuple[Any, Any, Any]] = []
    if len(p.counts):
        rows.append((sp.kron(sp.eye_array(n), np.ones((1, children))), p.counts, p.counts))
    if len(p.low):
        rows.append((sp.kron(np.ones((1, n)), each), p.low, p.high))
    bounded = np.flatnonzero(p.lower_bound.ravel() > 0)
    lower = p.lower_bound.ravel()[bounded]
    types = sums_of(p.quarters_type)
    rows.append((sp.csr_array(sp.kron(types, each))[bounded], lower, np.full(len(bounded), np.inf)))
    if len(p.sets):
        rows.append((sp.kron(sums_of_sets(p.sets, types), each), p.low_of.ravel(), upper_bounds(p.high_of)))
    parts, lows, highs = zip(*rows, strict=True)
    return sp.csc_array(sp.vstack(parts)), np.concatenate(lows).astype(float), np.concatenate(highs).astype(float)


def least_squares(problem: ParentProblem, solver: QPSolver, accuracy: float = 1e-9) -> FloatArray | None:
    """Return (n, K) from a general solver, or None if it gives up."""
    hessian, linear = problem.objective.quadratic(problem.parent.cells)
    a, low, high = constraints(problem)
    upper = np.where(problem.allowed_cells, np.inf, 0.0).ravel()
    solution = (_piqp if solver == "piqp" else _clarabel)(hessian, -linear, a, low, high, upper, accuracy)
    return None if solution is None else np.clip(solution, 0.0, upper).reshape(problem.allowed_cells.shape)


def _piqp(
    p: Sparse, c: FloatArray, a: Sparse, low: FloatArray, high: FloatArray, upper: FloatArray, accuracy: float
) -> FloatArray | None:
    equal = low == high
    rows = sp.csr_array(a)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = accuracy
    solver.settings.check_duality_gap = True
    solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = accuracy
    matrices = [sp.csc_matrix(m) for m in (p, rows[equal], rows[~equal])]
    solver.setup(
        matrices[0], c, matrices[1], low[equal], matrices[2], low[~equal], high[~equal], np.zeros(len(c)), upper
    )
    return np.array(solver.result.x) if solver.solve() == piqp.PIQP_SOLVED else None


def _clarabel(
    p: Sparse, c: FloatArray, a: Sparse, low: FloatArray, high: FloatArray, upper: FloatArray, accuracy: float
) -> FloatArray | None:
    equal, rows, free = low == high, sp.csr_array(a), sp.eye_array(len(c), format="csr")
    above, below, barred = ~equal & np.isfinite(high), ~equal & np.isfinite(low), upper == 0
    matrix = sp.vstack([rows[equal], free[barred], rows[above], -rows[below], -free], format="csc")
    bound = np.concatenate([low[equal], np.zeros(barred.sum()), high[above], -low[below], np.zeros(len(c))])
    x, status = clarabel_minimum(sp.triu(p), c, matrix, bound, int(equal.sum() + barred.sum()), accuracy)
    return x if status == clarabel.SolverStatus.Solved else None


def clarabel_minimum(
    p: Sparse, c: FloatArray, a: Sparse, bound: FloatArray, equalities: int, accuracy: float
) -> tuple[FloatArray, clarabel.SolverStatus]:
    """Minimize x'Px/2 + c'x by Clarabel; return x and the solver's status.

    p: its upper triangle. bound: the first rows of A x, `equalities`, have it, the others at most.
    """
    cones = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(len(bound) - equalities)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    solution = clarabel.DefaultSolver(sp.csc_matrix(p), c, sp.csc_matrix(a), bound, cones, settings).solve()
    return np.array(solution.x), solution.status
