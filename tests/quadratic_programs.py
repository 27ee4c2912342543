"""The least squares of one parent as a quadratic program, by PIQP and Clarabel: what ours is compared with."""

from __future__ import annotations

from typing import Any, Literal

import clarabel
import numpy as np
import piqp
import scipy.sparse as sp

from spine.geography import FloatArray, IntArray
from spine.gls.tree_answers import ChildInformation, coordinates
from spine.top_down.bounds import NO_LIMIT
from spine.top_down.own_answers import ChildAnswers, ParentProblem
from spine.top_down.queries import QueryHierarchy

QPSolver = Literal["piqp", "clarabel"]
Sparse = Any  # a scipy.sparse array


def coordinates_of(queries: QueryHierarchy, cells: IntArray) -> list[IntArray]:
    """For each group the (cells,) coordinate, among those of all groups, that each cell is counted in."""
    found = [cells]
    for q in range(1, len(queries.finer)):
        own = found[queries.finer[q]] - queries.offsets[queries.finer[q]]
        found.append(queries.offsets[q] + queries.parent_of[queries.parent_offsets[q] + own])
    return found


def quadratic(problem: ParentProblem) -> tuple[Sparse, FloatArray]:
    """The sparse P and the r of the objective x'Px/2 - r'x, x the (n, K) cells in C order."""
    own, cells = problem.objective, problem.parent.cells
    if isinstance(own, ChildInformation):
        agree = np.zeros((len(cells), len(cells)), np.int64)
        for axis in coordinates(cells, np.array(own.grid.axes)):
            agree = 2 * agree + np.equal.outer(axis, axis)
        entries = own.between[:, agree, own.quarters_type[:, None], own.quarters_type]
        number = len(entries)
        each = [
            sp.kron(entry, sp.csc_array(([1.0], ([c], [c])), shape=(number, number)), format="csc")
            for c, entry in enumerate(entries)
        ]
        return sp.csc_array(sum(each[1:], start=each[0])), own.linear.ravel()
    assert isinstance(own, ChildAnswers)
    n, children, scale = len(cells), len(own.answers), own.weights[0].max() or own.weights.max()
    hessian, linear = sp.csc_array((n * children, n * children)), np.zeros((n, children))
    for weight, at in zip(own.weights / scale, coordinates_of(own.queries, cells), strict=True):
        sums = sp.csc_array((np.ones(n), (at - at.min(), np.arange(n))))
        hessian = hessian + sp.kron(sums.T @ sums, sp.diags_array(weight), format="csc")
        linear += weight * own.answers[:, at].T
    return hessian, linear.ravel()


def constraints(problem: ParentProblem) -> tuple[Sparse, FloatArray, FloatArray]:
    """(A, low, high) of low <= A x <= high: the parent's counts, bands of totals, bounds of types and sets."""
    p, n, children = problem.parent, len(problem.parent.cells), problem.children
    each = sp.eye_array(children)
    rows: list[tuple[Any, Any, Any]] = []
    if len(p.counts):
        rows.append((sp.kron(sp.eye_array(n), np.ones((1, children))), p.counts, p.counts))
    if len(p.low):
        rows.append((sp.kron(np.ones((1, n)), each), p.low, p.high))
    bounded = np.flatnonzero(p.lower_bound.ravel() > 0)
    lower = p.lower_bound.ravel()[bounded]
    types = sp.csc_array((np.ones(n), (p.quarters_type, np.arange(n))))
    rows.append((sp.csr_array(sp.kron(types, each))[bounded], lower, np.full(len(bounded), np.inf)))
    if len(p.sets):
        high = np.where(p.high_of > NO_LIMIT / 2, np.inf, p.high_of)
        rows.append((sp.kron(p.sets.astype(float) @ types, each), p.low_of.ravel(), high.ravel()))
    parts, low, high = zip(*rows, strict=True)
    return sp.csc_array(sp.vstack(parts)), np.concatenate(low).astype(float), np.concatenate(high).astype(float)


def least_squares(problem: ParentProblem, solver: QPSolver, accuracy: float = 1e-9) -> FloatArray | None:
    """(n, K) by a general solver, or None if it gives up."""
    hessian, linear = quadratic(problem)
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
