"""The same problems for general solvers: a fallback, and what the tests and benchmarks compare with.

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
    from spine.top_down.failures import Division

QPSolver = Literal["piqp", "clarabel"]
LARGEST = 12_000  # unknowns: a child's cells are all coupled, so matrices grow with their square
Sparse = Any  # a scipy.sparse array


def installed() -> list[QPSolver]:
    """The quadratic solvers at hand, best first."""
    names: tuple[QPSolver, ...] = ("piqp", "clarabel")
    return [name for name in names if find_spec(name)]


def quadratic(division: Division) -> tuple[Sparse, FloatArray]:
    """P and r of the objective x'Px/2 - r'x, x the (n, K) cells in C order."""
    d, n, children = division, len(division.cells), division.children
    if d.told is not None:
        return told_matrix(division), d.told.linear.ravel()
    scale = d.weights[0].max()
    hessian, linear = sp.csc_array((n * children, n * children)), np.zeros((n, children))
    rows: dict[int, IntArray] = {0: np.arange(d.ladder.offsets[1])}
    for q in range(len(d.ladder.source)):
        if q:
            width = d.ladder.offsets[d.ladder.source[q] + 1] - d.ladder.offsets[d.ladder.source[q]]
            through = d.ladder.through[d.ladder.through_at[q] :][:width]
            rows[q] = through[rows[int(d.ladder.source[q])]]
        at = rows[q][d.cells]
        sums = sp.csc_array((np.ones(n), (at, np.arange(n))), shape=(int(rows[q].max()) + 1, n))
        weight = d.weights[q] / scale
        hessian = hessian + sp.kron(sums.T @ sums, sp.diags_array(weight), format="csc")
        linear += weight * d.answers[:, d.ladder.offsets[q] + at].T
    return hessian, linear.ravel()


def told_matrix(division: Division) -> Sparse:
    """The Hessian of what the children are told to be, each child's entries P between all cells of the parent."""
    d = division
    assert d.told is not None
    v = d.cells % 252
    agree = sum(
        weight * np.equal.outer(axis, axis).astype(np.int64)
        for weight, axis in ((4, v // 126), (2, v // 63 % 2), (1, v % 63))
    )
    entries = d.told.between[:, agree, d.kind[:, None], d.kind]
    each = [sp.kron(entry, unit(c, d.children), format="csc") for c, entry in enumerate(entries)]
    return sp.csc_array(sum(each[1:], start=each[0]))


def unit(c: int, children: int) -> Sparse:
    """(children, children) with one 1, at c."""
    return sp.csc_array(([1.0], ([c], [c])), shape=(children, children))


def constraints(division: Division) -> tuple[Sparse, FloatArray, FloatArray]:
    """(A, low, high) of low <= A x <= high: the parent's counts, bands of totals, lower bounds of types."""
    d, n, children = division, len(division.cells), division.children
    each, ones = sp.eye_array(children), np.ones((1, n))
    parts: list[Any] = []
    low: list[FloatArray] = []
    high: list[FloatArray] = []
    if d.counts is not None:
        parts.append(sp.kron(sp.eye_array(n), np.ones((1, children))))
        low.append(d.counts.astype(float))
        high.append(d.counts.astype(float))
    if d.low is not None and d.high is not None:
        parts.append(sp.kron(ones, each))
        low.append(d.low)
        high.append(d.high)
    types = sp.csc_array((np.ones(n), (d.kind, np.arange(n))), shape=(len(d.allowed), n))
    bounded = np.flatnonzero(d.least.ravel() > 0)
    parts.append(sp.csr_array(sp.kron(types, each))[bounded])
    low.append(d.least.ravel()[bounded].astype(float))
    high.append(np.full(len(bounded), np.inf))
    return sp.csc_array(sp.vstack(parts)), np.concatenate(low), np.concatenate(high)


def least_squares(division: Division, solver: QPSolver, accuracy: float = 1e-9) -> FloatArray | None:
    """(n, K) by a general solver, or None if it gives up."""
    hessian, linear = quadratic(division)
    a, low, high = constraints(division)
    upper = np.where(division.allowed[division.kind], np.inf, 0.0).ravel()
    solution = (_piqp if solver == "piqp" else _clarabel)(hessian, -linear, a, low, high, upper, accuracy)
    return None if solution is None else np.clip(solution, 0.0, upper).reshape(len(division.cells), -1)


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
    division: Division, x: FloatArray, total_first: bool
) -> tuple[FloatArray, LinearConstraint, Bounds, IntArray]:
    """The program's rounding as a linear program: costs, constraints, bounds, and the integers below x.

    Variables: b, (n, K) in C order, then a distance for every child's sum that has a target.
    """
    d, n, children = division, len(division.cells), division.children
    whole, fraction = floors(x, d.allowed, d.kind)
    each = sp.eye_array(children)
    counts = np.full(n, children) if d.counts is None else d.counts - whole.sum(axis=1)
    live = (d.allowed[d.kind] & (counts > 0)[:, None]).ravel()
    cell_cost = np.where(fraction > 0.5, -CELL_WEIGHT, CELL_WEIGHT).ravel()
    amount = int(counts.sum()) if d.total is None else d.total - int(whole.sum())
    first_weight = 1 + 2 * (len(d.nested) + CELL_WEIGHT) * amount if total_first else 1
    sums: list[Any] = [np.ones((1, n))]
    for coordinate in d.nested:
        dense = np.unique(coordinate, return_inverse=True)[1]
        sums.append(sp.csc_array((np.ones(n), (dense, np.arange(n)))))
    matrix = sp.csr_array(sp.vstack([sp.kron(part, each) for part in sums]))
    target = np.rint(np.concatenate([(part @ fraction).ravel() for part in sums]))
    weight = np.where(np.arange(len(target)) < children, first_weight, 1)
    distance = sp.eye_array(len(target))
    rows: list[Any] = [sp.hstack([matrix, -distance]), sp.hstack([matrix, distance])]
    low, high = [np.full(len(target), -np.inf), target], [target, np.full(len(target), np.inf)]

    def add(part: Any, least: FloatArray | IntArray, most: FloatArray | IntArray) -> None:
        rows.append(sp.hstack([part, sp.csr_array((part.shape[0], len(target)))]))
        low.append(least)
        high.append(most)

    if d.counts is not None:
        add(sp.kron(sp.eye_array(n), np.ones((1, children))), counts, counts)
    if d.total is not None:
        add(sp.csr_array(np.ones((1, n * children))), np.array([amount]), np.array([amount]))
    if d.state is not None and d.state_totals is not None:
        of_state = sp.csc_array((np.ones(children), (d.state, np.arange(children))))
        left = d.state_totals - of_state @ whole.sum(axis=0)
        add(sp.kron(np.ones((1, n)), of_state), left, left)
    types = sp.csc_array((np.ones(n), (d.kind, np.arange(n))), shape=(len(d.allowed), n))
    needed = (d.least - types @ whole).ravel()
    add(sp.csr_array(sp.kron(types, each)), needed, np.full(len(needed), np.inf))
    cost = np.concatenate([cell_cost, weight]).astype(float)
    upper = np.concatenate([live.astype(float), np.full(len(target), np.inf)])
    together = LinearConstraint(sp.csc_array(sp.vstack(rows)), np.concatenate(low), np.concatenate(high))
    return cost, together, Bounds(np.zeros(len(cost)), upper), whole


def rounding(division: Division, x: FloatArray, total_first: bool) -> IntArray | None:
    """(n, K) integers by HiGHS's branch and bound, or None if there are none."""
    cost, together, bounds, whole = rounding_program(division, x, total_first)
    integral = np.zeros(len(cost), np.int64)
    integral[: x.size] = 1
    solution = milp(cost, integrality=integral, bounds=bounds, constraints=together)
    if not solution.success:
        return None
    return whole + np.rint(solution.x[: x.size]).astype(np.int64).reshape(x.shape)
