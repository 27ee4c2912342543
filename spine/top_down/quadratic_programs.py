"""The least squares of one parent by general solvers, PIQP and Clarabel, if ours does not converge."""

from __future__ import annotations

from typing import Any, Literal

import clarabel
import numpy as np
import piqp
import scipy.sparse as sp

from spine.geography import FloatArray
from spine.top_down.integer_programs import sums_of, sums_of_sets, upper_bounds
from spine.top_down.own_answers import ParentProblem

QPSolver = Literal["piqp", "clarabel"]
SOLVERS: tuple[QPSolver, ...] = ("piqp", "clarabel")  # the first to meet the constraints is used
LARGEST = 12_000  # unknowns: a child's cells are all coupled, so matrices grow with their square
Sparse = Any  # a scipy.sparse array


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
    equalities = int(equal.sum() + barred.sum())
    cones = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(len(bound) - equalities)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    upper_triangle = sp.csc_matrix(sp.triu(p))
    solution = clarabel.DefaultSolver(upper_triangle, c, sp.csc_matrix(matrix), bound, cones, settings).solve()
    return np.array(solution.x) if solution.status == clarabel.SolverStatus.Solved else None
