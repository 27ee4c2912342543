"""Integers of transportation problems, one after another: by `top_down.rounding`, with every child's sum exact.

"program": the cells and nested sums nearest to the fractions' nearest integers, as the production programs have it.
That drifts where many fractions are small: each of a hundred problems rounds the same sum its own way.

"carried": the least distance to the fractions themselves; problems by falling size, and each fraction above 0 first
raised by KAPPA times what the sums that it lies in have lost so far in that child. Sums and zeros hold as before, and
each problem is still one flow of least cost.

"stepwise": carried, in two steps. First the finest nested sums of every problem are rounded, each close to its own
fraction. Then each sum is a transportation problem of few rows, which carries on what the queries' sums have lost in
those before it. The integers of the first step need not divide in the second, where entries rise by at most one: then
one step rounds all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.least_squares import Parent
from spine.top_down.rounding import distributed, remainder
from spine.wide.dual import Objective
from spine.wide.plan import Numbers
from spine.wide.transport import Problems
from spine.wide.undecided import Rows, Undecided, open_entries, undecided

Rounding: TypeAlias = Literal["program", "carried", "stepwise"]
KAPPA = 0.02
LEAST, MOST = 2e-6, 0.999  # bounds of a raised fraction
UNIT = 1 << 20  # parts of a record in which distances are counted


def numbered(problems: Problems, nested: Sequence[NDArray[np.signedinteger[Any]]]) -> IntArray:
    """Return (chain, rows) the nested sum of each row, numbered from 0 within each problem."""
    group = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first_row))
    chain = np.zeros((len(nested), len(group)), np.int64)
    for level, own in enumerate(nested):  # a problem's rows are neighbours
        place = np.unique(group * (int(own.max()) + 1) + own, return_inverse=True)[1]
        chain[level] = place - np.minimum.reduceat(place, problems.first_row[:-1])[group]
    return chain


@compiled
def problem(problems: Problems, g: int, nested: IntArray) -> Parent:
    """Return problem g as a parent whose children have declared totals. nested: (chain, rows) sums of each row."""
    rows = slice(problems.first_row[g], problems.first_row[g + 1])
    sums = problems.columns[problems.first_column[g] : problems.first_column[g + 1]].astype(np.int64)
    n, children = problems.first_row[g + 1] - problems.first_row[g], len(sums)
    allowed = problems.a[problems.first[g] : problems.first[g + 1]].reshape((n, children)) > 0.0
    number, at_root = np.arange(n), len(problems.rows) == 0
    counts = problems.rows[0 if at_root else rows.start : 0 if at_root else rows.stop].astype(np.int64)
    # Not the constants: in a kernel these are read-only, another type, for which the rounding is compiled once more.
    no_floats, no_integers, no_bounds = np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 0))
    return Parent(
        number,
        number,
        counts,
        allowed,
        np.zeros((n, children), np.int64),
        nested[:, rows].copy(),
        no_floats,
        no_floats,
        sums if at_root else no_integers,
        no_integers if at_root else np.arange(children),
        no_integers if at_root else sums,
        1,
        np.zeros((0, 0), np.bool_),
        no_bounds,
        no_bounds,
        np.zeros((0, 0), np.int64),
    )


def round_all(
    problems: Problems, x: FloatArray, nested: IntArray, up: IntArray, carried: bool, lost: FloatArray
) -> tuple[NDArray[np.int32], IntArray]:
    """Return (entries,) integers, and for every problem the records that found no place, 0 if it was feasible.

    x: on the grid. up: (rows, k) the sums that fractions are raised by, -1 for none. lost: (sums, children) zeros.
    """
    order = np.arange(len(problems.first) - 1)
    if carried:
        order = np.argsort(-np.add.reduceat(problems.columns, problems.first_column[:-1]), kind="stable")
    return round_in_order(problems, order, x, nested, up, carried, lost)


@compiled
def round_in_order(
    problems: Problems, order: IntArray, x: FloatArray, nested: IntArray, up: IntArray, carried: bool, lost: FloatArray
) -> tuple[NDArray[np.int32], IntArray]:
    """Round the problems in an order of theirs, as `round_all` does."""
    whole, missing = np.empty(len(x), np.int32), np.zeros(len(order), np.int64)
    for g in order:
        parent, at = problem(problems, g, nested), slice(problems.first[g], problems.first[g + 1])
        own = x[at].reshape(parent.allowed.shape)
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        rows = slice(problems.first_row[g], problems.first_row[g + 1])
        rest = remainder(own, parent)
        if carried:
            raise_fractions(rest.fraction, up[rows], child, lost)
        found, missing[g] = distributed(rest, parent, False, UNIT if carried else 1)
        entry = at.start
        for i in range(len(found)):
            for c in range(len(child)):
                whole[entry] = found[i, c]
                entry += 1
        if carried:
            for i in range(len(found)):
                for k in range(up.shape[1]):
                    if up[rows.start + i, k] >= 0:
                        for c in range(len(child)):
                            lost[up[rows.start + i, k], child[c]] += own[i, c] - found[i, c]
    return whole, missing


@compiled
def raise_fractions(fraction: FloatArray, up: IntArray, child: IntArray, lost: FloatArray) -> None:
    """Raise fractions by what their sums have lost; those that are 0 stay: they would hide the others in the sums."""
    for i in range(len(fraction)):
        for c in range(len(child)):
            if fraction[i, c] > 0.0:
                push = 0.0
                for k in range(up.shape[1]):
                    if up[i, k] >= 0:
                        push += lost[up[i, k], child[c]]
                fraction[i, c] = min(MOST, max(LEAST, fraction[i, c] + KAPPA * push))


def in_two_steps(left: Undecided, x: FloatArray, objective: Objective, nested: list[Numbers]) -> IntArray | None:
    """Return (entries,) integers, or None where the sums' integers do not divide among the cells."""
    rows, children, problems = len(left.rows), len(objective.scale), left.problems
    group = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first_row))
    fraction, open_ = np.zeros((rows, children)), np.zeros((rows, children), bool)
    entry, *at = open_entries(problems, 0, children)
    fraction[*at], open_[*at] = x[entry], True
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
    whole, found = np.empty((rows, children), np.int64), np.zeros(len(x), np.int64)
    whole[order] = inner
    found[entry] = whole[*at]
    return found


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
    _, row, child = open_entries(left.problems, 0, len(objective.scale))  # all of them: no child is closed yet
    at = left.rows[row], child
    lost, decided = np.zeros(objective.y.shape), np.ones(whole.shape, np.bool_)
    decided[at] = False
    for own in up.T:
        use = own >= 0
        np.add.at(lost, own[use], np.where(decided, fraction - whole, 0.0)[use])
    if len(left):
        problems = left.problems._replace(a=open_[at].astype(float))
        chain = numbered(problems, [own[left.rows] for own in nested])
        integers, missing = round_all(problems, fraction[at], chain, np.ascontiguousarray(up[left.rows]), True, lost)
        if missing.any():
            return None
        whole[at] = integers
    return None if whole[~open_].any() else whole
