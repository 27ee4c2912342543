"""One pass of one parent: which answers its least squares reads, what it solves, and the integers of its children."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down import integer_programs
from spine.top_down.least_squares import MISSED
from spine.top_down.own_answers import ParentProblem
from spine.top_down.solve_parent import By, EstimationError, Solver
from spine.wide import general, rounding
from spine.wide.dual import STEP, Objective, metric, minimize
from spine.wide.plan import Numbers, Pass
from spine.wide.rounding import Rounding
from spine.wide.transport import Problems

# Noisy answers of a query, for children (from 0) at coordinates.
Answers = Callable[[str, IntArray, IntArray], IntArray]


class Rows(NamedTuple):
    """A parent's cells in one pass, and what is known of its children.

    number: (n,) coordinates, ascending. counts: (n,), None at a root. kept: (n,) the known sum of each. kind: (n,) its
    part. sums: (sums, children) by `kept`. open: (children, parts). scale: (children,).
    """

    number: IntArray
    counts: IntArray | None
    kept: IntArray
    kind: IntArray
    sums: IntArray
    open: BoolArray
    scale: FloatArray


class Solved(NamedTuple):
    """whole: (n, children), integers. entries: that answers decide. projections: of the dual."""

    whole: IntArray
    entries: int
    projections: int
    solver: Solver
    by: By


@dataclass(frozen=True, eq=False)
class Undecided:
    """The entries that answers decide. rows: which of the cells. problems: without a metric. child, row: of entries."""

    rows: IntArray
    problems: Problems
    child: IntArray
    row: IntArray
    open: BoolArray


def undecided(own: Rows, whole: IntArray) -> Undecided:
    """Return the undecided entries, and write the others into `whole`, (n, children).

    A known sum with one cell of the parent, or with one child, leaves nothing to decide.
    """
    kept, begin, rows = np.unique(own.kept, return_index=True, return_counts=True)  # rows are sorted by it
    sums = own.sums[kept]
    columns = (sums > 0).sum(axis=1)
    alone = rows == 1
    whole[begin[alone]] = sums[alone]
    single = ~alone & (columns == 1) & (own.counts is not None)
    if own.counts is not None:
        group = np.repeat(np.arange(len(kept)), rows)
        of_one = np.flatnonzero(single[group])
        whole[of_one, sums.argmax(axis=1)[group[of_one]]] = own.counts[of_one]
    left = np.flatnonzero(~alone & ~single & (columns > 0))
    of_row = np.repeat(np.arange(len(left)), rows[left])
    first_row = np.append(0, np.cumsum(rows[left]))
    chosen = np.repeat(begin[left] - first_row[:-1], rows[left]) + np.arange(first_row[-1])
    at, child = np.nonzero(sums[left] > 0)
    first_column = np.searchsorted(at, np.arange(len(left) + 1))
    first = np.append(0, np.cumsum(rows[left] * columns[left]))
    wide = columns[left][of_row]
    row = np.repeat(np.arange(len(chosen)), wide)
    begins = np.cumsum(wide) - wide
    of_entry = child[first_column[of_row][row] + np.arange(first[-1]) - begins[row]]
    counts = np.zeros(0) if own.counts is None else own.counts[chosen].astype(float)
    known = sums[left][at, child].astype(float)
    problems = Problems(first_row, first_column, first, child, counts, known, np.zeros(first[-1]))
    return Undecided(chosen, problems, of_entry, row, own.open[of_entry, own.kind[chosen][row]])


class Sums(NamedTuple):
    """The sums of a query over undecided rows: their coordinates, (sums,), and the sum of each row, (rows,).

    held: (sums, children) what decided entries have in them.
    """

    coordinate: IntArray
    of_row: IntArray
    held: IntArray


def sums_of(above: Numbers, own: Rows, left: Undecided, whole: IntArray) -> Sums:
    """Return the sums of a query. above: its coordinate of each coordinate of the pass's cells."""
    coordinate, of_row = np.unique(above[own.number[left.rows]], return_inverse=True)
    held = np.zeros((len(coordinate), whole.shape[1]), np.int64)
    rest = np.ones(len(own.number), bool)
    rest[left.rows] = False
    at = above[own.number[rest]]
    place = np.minimum(np.searchsorted(coordinate, at), len(coordinate) - 1)
    inside = coordinate[place] == at
    np.add.at(held, place[inside], whole[rest][inside])
    return Sums(coordinate.astype(np.int64), of_row.astype(np.int64), held)


def objective_of(
    pass_: Pass, own: Rows, left: Undecided, whole: IntArray, answers: Answers, weight: Callable[[str], float]
) -> tuple[Problems, Objective]:
    """Read the answers; return the problems with their metric, and the objective."""
    open_, child, row = left.open, left.child, left.row
    children, rows = whole.shape[1], len(left.rows)
    target, cell = np.zeros(len(child)), np.ones(rows)
    target[open_] = answers(pass_.cells, child[open_], own.number[left.rows][row[open_]])
    up: list[IntArray] = []
    of_sum: list[FloatArray] = []
    weights: list[FloatArray] = []
    number = dense = 0
    for name in (*pass_.dense, *pass_.large):
        sums, w = sums_of(pass_.up[name], own, left, whole), weight(name)
        shared = np.ones(len(sums.coordinate), bool)
        if name in pass_.large:
            shared = np.bincount(sums.of_row) > 1
            alone = ~shared[sums.of_row]  # a sum of one cell is another answer of the cell
            entries = open_ & alone[row]
            at = sums.of_row[row[entries]]
            found = answers(name, child[entries], sums.coordinate[at]) - sums.held[at, child[entries]]
            target[entries] += w * found
            cell += w * alone
        place = np.cumsum(shared) - 1 + number
        up.append(np.where(shared[sums.of_row], place[sums.of_row], -1))
        needed = np.zeros((len(sums.coordinate), children), bool)
        needed[sums.of_row[row[open_]], child[open_]] = True
        at, of = np.nonzero(needed & shared[:, None])
        y = np.zeros(needed.shape)
        y[at, of] = answers(name, of, sums.coordinate[at]) - sums.held[at, of]
        of_sum.append(y[shared])
        weights.append(np.full(int(shared.sum()), w))
        number += int(shared.sum())
        dense = number if name in pass_.dense else dense
    a = np.where(open_, 1.0 / (own.scale[child] * cell[row]), 0.0)
    target /= cell[row]
    up_ = np.ascontiguousarray(np.array(up, np.int64).reshape(len(up), rows).T)
    w_ = np.concatenate([*weights, np.zeros(0)])
    y_ = np.concatenate([*of_sum, np.zeros((0, children))])
    objective = Objective(up_, w_, y_, own.scale, target, *metric(up_, w_, 1.0 / cell, dense))
    return left.problems._replace(a=a), objective


def solve(
    pass_: Pass, own: Rows, answers: Answers, weight: Callable[[str], float], how: Rounding, stop: float = STEP
) -> Solved:
    """Divide a parent's cells among its children. weight: of a query next to the cells. how: it is rounded."""
    whole = np.zeros((len(own.number), len(own.scale)), np.int64)
    left = undecided(own, whole)
    if not len(left.child):
        return Solved(whole, 0, 0, "own", "flow")
    problems, objective = objective_of(pass_, own, left, whole, answers, weight)
    found = minimize(problems, objective, stop)
    solver: Solver = "own"
    if not (found.step < stop and found.missed <= MISSED):
        solver, x = "clarabel", general.least_squares(problems, objective)
        if x is None:
            raise EstimationError("least squares: no solver met the known sums of a parent")
    else:
        x = found.x
    x = np.rint(x * rounding.GRID) / rounding.GRID
    nested = [pass_.up[name][own.number[left.rows]] for name in pass_.chain]
    integers, by = to_integers(problems, x, objective, nested, how)
    whole[left.rows[left.row], left.child] = integers
    return Solved(whole, len(left.child), found.projections, solver, by)


def to_integers(
    problems: Problems, x: FloatArray, objective: Objective, nested: list[Numbers], how: Rounding
) -> tuple[IntArray, By]:
    """Round x; a problem that the flow cannot round goes to HiGHS. Raises EstimationError if a sum is missed."""
    group = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first_row))
    chain = np.zeros((len(nested), len(group)), np.int64)
    for level, own in enumerate(nested):  # numbered within each problem, whose rows are neighbours
        place = np.unique(group * (int(own.max()) + 1) + own, return_inverse=True)[1]
        chain[level] = place - np.minimum.reduceat(place, problems.first_row[:-1])[group]
    lost = np.zeros(objective.y.shape)
    whole, missing = rounding.round_all(problems, x, chain, objective.up, how == "carried", lost)
    for g in np.flatnonzero(missing).tolist():
        parent, at = rounding.problem(problems, g, chain), slice(problems.first[g], problems.first[g + 1])
        alone: Any = ParentProblem(None, parent)  # type: ignore[arg-type]  # no objective is needed
        found, _ = integer_programs.rounding(alone, x[at].reshape(parent.allowed.shape), False)
        if found is None:
            raise EstimationError("rounding: neither the flow nor HiGHS found integers with the known sums")
        whole[at] = found.ravel()
    if not meets(problems, whole):
        raise EstimationError("rounding: the children miss a known sum")
    return whole, "highs" if missing.any() else "flow"


def meets(problems: Problems, whole: IntArray) -> bool:
    """Return whether integers, (entries,), have every sum, and nobody where a child is closed."""
    entries = np.arange(len(whole))
    wide = np.diff(problems.first_column)
    of = np.searchsorted(problems.first, entries, side="right") - 1
    row, column = np.divmod(entries - problems.first[of], wide[of])
    by_row = np.bincount(problems.first_row[of] + row, whole, problems.first_row[-1])
    by_column = np.bincount(problems.first_column[of] + column, whole, len(problems.child))
    right = np.array_equal(by_column, problems.columns) and not (whole[problems.a == 0] != 0).any()
    return bool(right and (whole >= 0).all() and (not len(problems.rows) or np.array_equal(by_row, problems.rows)))
