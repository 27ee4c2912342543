"""The same problems for general solvers: a fallback, and the reference of tests and benchmarks.

PIQP and Clarabel solve the least squares (extra `das-flows[solvers]`), HiGHS, as SciPy has it, the rounding.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from spine.geography import IntArray
from spine.top_down.rounding import CELL_WEIGHT, floors
from spine.workload import FloatArray

if TYPE_CHECKING:
    from spine.top_down.parent_problem import ParentProblem

QPSolver = Literal["piqp", "clarabel"]
LARGEST = 12_000  # unknowns: a child's cells are all coupled, so matrices grow with their square
Sparse = Any  # a scipy.sparse array


def installed() -> list[QPSolver]:
    """Return the installed quadratic solvers, best first."""
    names: tuple[QPSolver, ...] = ("piqp", "clarabel")
    return [name for name in names if find_spec(name)]


def constraints(problem: ParentProblem) -> tuple[Sparse, FloatArray, FloatArray]:
    """Return (A, low, high) of low <= A x <= high: the parent's counts, bands of totals, lower bounds of types."""
    p, n, children = problem, len(problem.cells), problem.children
    each, ones = sp.eye_array(children), np.ones((1, n))
    parts: list[Any] = []
    low: list[FloatArray] = []
    high: list[FloatArray] = []
    if p.counts is not None:
        parts.append(sp.kron(sp.eye_array(n), np.ones((1, children))))
        low.append(p.counts.astype(float))
        high.append(p.counts.astype(float))
    if p.low is not None and p.high is not None:
        parts.append(sp.kron(ones, each))
        low.append(p.low)
        high.append(p.high)
    types = sp.csc_array((np.ones(n), (p.quarters_type, np.arange(n))), shape=(len(p.allowed), n))
    bounded = np.flatnonzero(p.lower_bound.ravel() > 0)
    parts.append(sp.csr_array(sp.kron(types, each))[bounded])
    low.append(p.lower_bound.ravel()[bounded].astype(float))
    high.append(np.full(len(bounded), np.inf))
    return sp.csc_array(sp.vstack(parts)), np.concatenate(low), np.concatenate(high)


def least_squares(problem: ParentProblem, solver: QPSolver, accuracy: float = 1e-9) -> FloatArray | None:
    """Return (n, K) by a general solver, or None if it gives up."""
    hessian, linear = problem.objective.quadratic(problem.cells)
    a, low, high = constraints(problem)
    upper = np.where(problem.allowed_cells, np.inf, 0.0).ravel()
    solution = (_piqp if solver == "piqp" else _clarabel)(hessian, -linear, a, low, high, upper, accuracy)
    return None if solution is None else np.clip(solution, 0.0, upper).reshape(len(problem.cells), -1)


def _piqp(
    p: Sparse, c: FloatArray, a: Sparse, low: FloatArray, high: FloatArray, upper: FloatArray, accuracy: float
) -> FloatArray | None:
    import piqp

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
    import clarabel

    equal, rows, free = low == high, sp.csr_array(a), sp.eye_array(len(c), format="csr")
    above, below, barred = ~equal & np.isfinite(high), ~equal & np.isfinite(low), upper == 0
    matrix = sp.vstack([rows[equal], free[barred], rows[above], -rows[below], -free], format="csc")
    bound = np.concatenate([low[equal], np.zeros(barred.sum()), high[above], -low[below], np.zeros(len(c))])
    equalities = int(equal.sum() + barred.sum())
    cones = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(len(bound) - equalities)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    upper_triangle = sp.csc_matrix(sp.triu(p))
    solution = clarabel.DefaultSolver(upper_triangle, c, sp.csc_matrix(matrix), bound, cones, settings).solve()
    return np.array(solution.x) if solution.status == clarabel.SolverStatus.Solved else None


def rounding_program(
    problem: ParentProblem, x: FloatArray, total_first: bool
) -> tuple[FloatArray, LinearConstraint, Bounds, IntArray]:
    """Return the program's rounding as a linear program: costs, constraints, bounds, and the integers below x.

    Variables: b, (n, K) in C order, then a distance for every child's sum that has a target.
    """
    p, n, children = problem, len(problem.cells), problem.children
    whole, fraction = floors(x, p.allowed, p.quarters_type)
    each = sp.eye_array(children)
    counts = np.full(n, children) if p.counts is None else p.counts - whole.sum(axis=1)
    live = (p.allowed_cells & (counts > 0)[:, None]).ravel()
    cell_cost = np.where(fraction > 0.5, -CELL_WEIGHT, CELL_WEIGHT).ravel()
    amount = int(counts.sum()) if p.total is None else p.total - int(whole.sum())
    first_weight = 1 + 2 * (len(p.nested) + CELL_WEIGHT) * amount if total_first else 1
    sums: list[Any] = [np.ones((1, n))]
    for coordinate in p.nested:
        dense = np.unique(coordinate, return_inverse=True)[1]
        sums.append(sp.csc_array((np.ones(n), (dense, np.arange(n)))))
    matrix = sp.csr_array(sp.vstack([sp.kron(part, each) for part in sums]))
    target = np.rint(np.concatenate([(part @ fraction).ravel() for part in sums]))
    weight = np.where(np.arange(len(target)) < children, first_weight, 1)
    distance = sp.eye_array(len(target))
    rows: list[Any] = [sp.hstack([matrix, -distance]), sp.hstack([matrix, distance])]
    low, high = [np.full(len(target), -np.inf), target], [target, np.full(len(target), np.inf)]

    def add(part: Any, lowest: FloatArray | IntArray, highest: FloatArray | IntArray) -> None:
        rows.append(sp.hstack([part, sp.csr_array((part.shape[0], len(target)))]))
        low.append(lowest)
        high.append(highest)

    if p.counts is not None:
        add(sp.kron(sp.eye_array(n), np.ones((1, children))), counts, counts)
    if p.total is not None:
        add(sp.csr_array(np.ones((1, n * children))), np.array([amount]), np.array([amount]))
    if p.state is not None and p.state_totals is not None:
        of_state = sp.csc_array((np.ones(children), (p.state, np.arange(children))))
        left = p.state_totals - of_state @ whole.sum(axis=0)
        add(sp.kron(np.ones((1, n)), of_state), left, left)
    types = sp.csc_array((np.ones(n), (p.quarters_type, np.arange(n))), shape=(len(p.allowed), n))
    needed = (p.lower_bound - types @ whole).ravel()
    add(sp.csr_array(sp.kron(types, each)), needed, np.full(len(needed), np.inf))
    cost = np.concatenate([cell_cost, weight]).astype(float)
    upper = np.concatenate([live.astype(float), np.full(len(target), np.inf)])
    together = LinearConstraint(sp.csc_array(sp.vstack(rows)), np.concatenate(low), np.concatenate(high))
    return cost, together, Bounds(np.zeros(len(cost)), upper), whole


def rounding(problem: ParentProblem, x: FloatArray, total_first: bool) -> IntArray | None:
    """Return (n, K) integers by HiGHS's branch and bound, or None if there are none."""
    cost, together, bounds, whole = rounding_program(problem, x, total_first)
    integral = np.zeros(len(cost), np.int64)
    integral[: x.size] = 1
    solution = milp(cost, integrality=integral, bounds=bounds, constraints=together)
    if not solution.success:
        return None
    return whole + np.rint(solution.x[: x.size]).astype(np.int64).reshape(x.shape)
