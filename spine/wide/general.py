"""The least squares of one parent by Clarabel, if our own does not converge; also its reference in tests.

The sums are variables of their own: matrices then have an entry for each cell of a sum, not for each pair of cells.
"""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from spine.geography import FloatArray
from spine.wide.dual import Objective
from spine.wide.transport import Problems


def matrices(problems: Problems, objective: Objective) -> tuple[sp.csr_array, sp.csr_array, FloatArray]:
    """Return A of the (sums x children) sums of the entries, and C, d of the known sums C x = d."""
    entries, children = len(problems.a), objective.y.shape[1]
    of = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first))
    wide = np.diff(problems.first_column)[of]
    row, column = np.divmod(np.arange(entries) - problems.first[of], wide)
    row, column = row + problems.first_row[of], column + problems.first_column[of]
    child, at = problems.child[column], np.arange(entries)
    parts = [objective.up[row, k] for k in range(objective.up.shape[1])]
    which = [(own[own >= 0] * children + child[own >= 0], at[own >= 0]) for own in parts]
    places, cells = (np.concatenate([each[end] for each in which] or [np.zeros(0, np.int64)]) for end in (0, 1))
    sums = sp.csr_array((np.ones(len(cells)), (places, cells)), shape=(objective.y.size, entries))
    known, right = sp.csr_array((np.ones(entries), (column, at))), problems.columns
    if len(problems.rows):
        known = sp.vstack([known, sp.csr_array((np.ones(entries), (row, at)))], format="csr")
        right = np.append(right, problems.rows)
    return sums, known, right


def value(problems: Problems, objective: Objective, x: FloatArray) -> float:
    """Return the objective at x, (entries,)."""
    sums, _, _ = matrices(problems, objective)
    open_ = problems.a > 0
    off = sums @ x - objective.y.ravel()
    w = np.outer(objective.weight, objective.scale).ravel()
    return float(((x - objective.target)[open_] ** 2 / problems.a[open_]).sum() + (w * off**2).sum()) / 2


def least_squares(problems: Problems, objective: Objective, accuracy: float = 1e-10) -> FloatArray | None:
    """Return x, (entries,), or None if Clarabel gives up."""
    open_ = np.flatnonzero(problems.a > 0)
    sums, known, right = matrices(problems, objective)
    sums, known = sums[:, open_], known[:, open_]
    n, m = len(open_), sums.shape[0]
    w = np.outer(objective.weight, objective.scale).ravel()
    p = sp.diags_array(np.append(1.0 / problems.a[open_], w), format="csc")
    linear = -np.append(objective.target[open_] / problems.a[open_], w * objective.y.ravel())
    blocks: Any = [[sums, -sp.eye_array(m)], [known, None], [-sp.eye_array(n), sp.csr_array((n, m))]]
    bound = np.concatenate([np.zeros(m), right, np.zeros(n)])
    cones = [clarabel.ZeroConeT(m + len(right)), clarabel.NonnegativeConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    matrix = sp.csc_matrix(sp.block_array(blocks))
    solution = clarabel.DefaultSolver(sp.csc_matrix(p), linear, matrix, bound, cones, settings).solve()
    if solution.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        return None
    x = np.zeros(len(problems.a))
    x[open_] = np.clip(np.array(solution.x)[:n], 0.0, None)
    return x
