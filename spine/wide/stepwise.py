"""Rounding in two steps: the finest nested sums of every problem, then the cells of each of these sums.

In the first step each sum comes close to its own fraction. In the second, each sum is a transportation problem of few
rows, which carries on what the queries' sums have lost in those before it (`rounding`). The integers of the first step
need not divide in the second, where entries rise by at most one: then one step rounds all.
"""

from __future__ import annotations

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.wide.dual import Objective
from spine.wide.plan import Numbers
from spine.wide.rounding import numbered, round_all
from spine.wide.transport import Problems
from spine.wide.undecided import Rows, Undecided, undecided


def in_two_steps(
    left: Undecided, problems: Problems, x: FloatArray, objective: Objective, nested: list[Numbers]
) -> IntArray | None:
    """Return (entries,) integers, or None where the sums' integers do not divide among the cells."""
    rows, children = len(left.rows), len(objective.scale)
    group = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first_row))
    fraction, open_ = np.zeros((rows, children)), np.zeros((rows, children), bool)
    fraction[left.row, left.child], open_[left.row, left.child] = x, left.open
    known = np.zeros((len(problems.first) - 1, children), np.int64)
    known[np.repeat(np.arange(len(known)), np.diff(problems.first_column)), problems.child] = problems.columns
    counts = problems.rows.astype(np.int64) if len(problems.rows) else None

    last = nested[-1].astype(np.int64)
    _, first, of_row = np.unique(group * (last.max() + 1) + last, return_index=True, return_inverse=True)
    sums, open_sums = np.zeros((len(first), children)), np.zeros((len(first), children), bool)
    np.add.at(sums, of_row, fraction)
    np.logical_or.at(open_sums, of_row, open_)
    of_sums = None if counts is None else np.bincount(of_row, counts).astype(np.int64)
    none = np.zeros((len(first), 0), np.int64)
    outer = _rounded(
        group[first], of_sums, known, sums, open_sums, [own[first] for own in nested[:-1]], none, objective
    )
    if outer is None:
        return None

    order = np.argsort(of_row, kind="stable")
    of_cells = None if counts is None else counts[order]
    inner = _rounded(of_row[order], of_cells, outer, fraction[order], open_[order], [], objective.up[order], objective)
    if inner is None:
        return None
    whole = np.empty((rows, children), np.int64)
    whole[order] = inner
    return whole[left.row, left.child]


def _rounded(
    kept: IntArray,
    counts: IntArray | None,
    sums: IntArray,
    fraction: FloatArray,
    open_: BoolArray,
    nested: list[Numbers],
    up: IntArray,
    objective: Objective,
) -> IntArray | None:
    """Return (rows, children) integers of rows that are sorted by the sum that they are kept in; None without any."""
    whole = np.zeros(fraction.shape, np.int64)
    everywhere: BoolArray = np.ones((len(objective.scale), 1), np.bool_)
    rows = Rows(np.arange(len(kept)), counts, kept, np.zeros(len(kept), np.int64), sums, everywhere, objective.scale)
    left = undecided(rows, whole)
    at = left.rows[left.row], left.child
    lost, decided = np.zeros(objective.y.shape), np.ones(whole.shape, np.bool_)
    decided[at] = False
    for own in up.T:
        use = own >= 0
        np.add.at(lost, own[use], np.where(decided, fraction - whole, 0.0)[use])
    if len(left.child):
        problems = left.problems._replace(a=open_[at].astype(float))
        chain = numbered(problems, [own[left.rows] for own in nested])
        integers, missing = round_all(problems, fraction[at], chain, np.ascontiguousarray(up[left.rows]), True, lost)
        if missing.any():
            return None
        whole[at] = integers
    return None if whole[~open_].any() else whole
