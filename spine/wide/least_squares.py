"""One pass of one parent: which answers its least squares reads, what it solves, and the integers of its children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import FloatArray, IntArray
from spine.top_down.least_squares import MISSED
from spine.top_down.own_answers import ParentProblem
from spine.top_down.rounding import on_grid
from spine.top_down.solve_parent import By, EstimationError, Solver
from spine.wide import rounding
from spine.wide.dual import GRADIENT, STEP, Objective, metric, minimize
from spine.wide.plan import Numbers, Pass
from spine.wide.rounding import Rounding, in_two_steps
from spine.wide.transport import Problems
from spine.wide.undecided import Rows, Undecided, put, undecided

# Noisy answers of a query, for children (from 0) at coordinates.
Answers = Callable[[str, IntArray, IntArray], IntArray]


class Solved(NamedTuple):
    """entries: those that answers decide. projections: the dual's."""

    entries: int
    projections: int
    solver: Solver
    by: By


class Sums(NamedTuple):
    """The sums of a query over undecided rows: their coordinates, (sums,), and the sum of each row, (rows,).

    held: (sums, children) what decided entries have in them.
    """

    coordinate: IntArray
    of_row: IntArray
    held: IntArray


def sums_of(above: Numbers, own: Rows, left: Undecided, whole: Numbers) -> Sums:
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
    pass_: Pass,
    own: Rows,
    left: Undecided,
    whole: Numbers,
    answers: Answers,
    weight: Callable[[str], float],
    every: IntArray | None = None,
) -> Objective:
    """Read the answers; return the objective, and write its metric into the problems.

    every: with anchors, the coordinates of all possible cells, whose answers they are sums of.
    """
    children, rows = whole.shape[1], len(left.rows)
    target, cell, number_of = np.zeros(len(left)), np.ones(rows), own.number[left.rows]
    anchors: dict[str, IntArray] = {}
    if every is None:
        for entry, row, child in left.open_entries(children):
            target[entry] = answers(pass_.cells, child, number_of[row])
    else:
        of_all = answers(pass_.cells, np.zeros(len(every), np.int64), every)
        for entry, row, _ in left.open_entries(children):
            target[entry] = of_all[np.searchsorted(every, number_of[row])]
        anchors = {name: np.bincount(pass_.up[name][every], of_all).astype(np.int64) for name in pass_.anchors}
    up: list[IntArray] = []
    of_sum: list[FloatArray] = []
    weights: list[FloatArray] = []
    number = dense = 0
    for name in (*pass_.dense, *anchors, *pass_.large):
        sums, w = sums_of(pass_.up[name], own, left, whole), pass_.anchors[name] if name in anchors else weight(name)
        shared = np.ones(len(sums.coordinate), bool)
        if name in pass_.large:
            shared = np.bincount(sums.of_row) > 1
            cell += w * ~shared[sums.of_row]
        place = np.cumsum(shared) - 1 + number
        up.append(np.where(shared[sums.of_row], place[sums.of_row], -1))
        y, needed = np.zeros((len(sums.coordinate), children)), np.zeros((len(sums.coordinate), children), bool)
        for entry, row, child in left.open_entries(children):
            at = sums.of_row[row]
            needed[at, child] = shared[at]
            if not shared.all():
                alone = ~shared[at]  # a sum of one cell is another answer of the cell
                entry, at, child = entry[alone], at[alone], child[alone]
                target[entry] += w * (answers(name, child, sums.coordinate[at]) - sums.held[at, child])
        for first, last in left.children_at_once(children):
            at, child = np.nonzero(needed[:, first:last])
            asked, child = sums.coordinate[at], child + first
            found = anchors[name][asked] if name in anchors else answers(name, child, asked)
            y[at, child] = found - sums.held[at, child]
        of_sum.append(y[shared])
        weights.append(np.full(int(shared.sum()), w))
        number += int(shared.sum())
        dense = dense if name in pass_.large else number
    in_metric(left.problems, own.scale, cell, target)
    up_ = np.ascontiguousarray(np.array(up, np.int64).reshape(len(up), rows).T)
    w_ = np.concatenate([*weights, np.zeros(0)])
    y_ = np.concatenate([*of_sum, np.zeros((0, children))])
    return Objective(up_, w_, y_, own.scale, target, *metric(up_, w_, 1.0 / cell, dense))


@compiled
def in_metric(problems: Problems, scale: FloatArray, cell: FloatArray, target: FloatArray) -> None:
    """Divide targets by the weights of their cells, and write the metric over the ones of the problems."""
    at = 0
    for g in range(len(problems.first) - 1):
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            for c in child:
                if problems.a[at] > 0.0:
                    problems.a[at] = 1.0 / (scale[c] * cell[i])
                target[at] /= cell[i]
                at += 1


def solve(
    pass_: Pass,
    own: Rows,
    answers: Answers,
    weight: Callable[[str], float],
    how: Rounding,
    every: IntArray | None = None,
    stop: float = STEP,
) -> tuple[Numbers, Solved]:
    """Divide a parent's cells among its children; return (n, children) integers. weight: a query's, next to the cells.

    how: the rounding. every: as in `objective_of`. Arrays of all entries are freed as soon as nobody needs them.
    """
    whole = np.zeros((len(own.number), len(own.scale)), np.int32)  # as histograms are kept
    left = undecided(own, whole)
    if not len(left):
        return whole, Solved(0, 0, "own", "flow")
    objective = objective_of(pass_, own, left, whole, answers, weight, every)
    found = minimize(left.problems, objective, stop)
    solver: Solver = "own"
    if not (found.step < stop and found.gradient < GRADIENT and found.missed <= MISSED):
        solver, x = "clarabel", least_squares(left.problems, objective)
        if x is None:
            raise EstimationError("least squares: no solver met the known sums of a parent")
        found = found._replace(x=x)
    objective, x, projections = objective._replace(target=np.zeros(0)), on_grid(found.x), found.projections
    del found
    nested = [pass_.up[name][own.number[left.rows]] for name in pass_.chain]
    integers, by = to_integers(left, x, objective, nested, how)
    put(left.problems, left.rows, integers, whole)
    return whole, Solved(len(left), projections, solver, by)


def to_integers(
    left: Undecided, x: FloatArray, objective: Objective, nested: list[Numbers], how: Rounding
) -> tuple[Numbers, By]:
    """Round x; a problem that the flow cannot round goes to HiGHS. Raises EstimationError if a sum is missed.

    The targets of the objective are not read.
    """
    problems = left.problems
    if how == "stepwise" and nested:
        found = in_two_steps(left, x, objective, nested)
        if found is not None and meets(problems, found):
            return found, "flow"
    chain = rounding.numbered(problems, nested)
    lost = np.zeros(objective.y.shape)
    whole, missing = rounding.round_all(problems, x, chain, objective.up, how != "program", lost)
    for g in np.flatnonzero(missing).tolist():
        from spine.top_down import general_solvers  # scipy with it

        parent, at = rounding.problem(problems, g, chain), slice(problems.first[g], problems.first[g + 1])
        alone: Any = ParentProblem(None, parent)  # type: ignore[arg-type]  # no objective is needed
        found, _ = general_solvers.rounding(alone, x[at].reshape(parent.allowed.shape), False)
        if found is None:
            raise EstimationError("rounding: neither the flow nor HiGHS found integers with the known sums")
        whole[at] = found.ravel()
    if not meets(problems, whole):
        raise EstimationError("rounding: the children miss a known sum")
    return whole, "highs" if missing.any() else "flow"


@compiled
def meets(problems: Problems, whole: Numbers) -> bool:
    """Return whether integers, (entries,), have every sum, and 0 where a child is closed."""
    at, by_column = 0, np.zeros(len(problems.child), np.int64)
    for g in range(len(problems.first) - 1):
        k, m = problems.first_column[g], problems.first_column[g + 1]
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            by_row = 0
            for c in range(k, m):
                if whole[at] < 0 or (whole[at] > 0 and problems.a[at] == 0.0):
                    return False
                by_row += whole[at]
                by_column[c] += whole[at]
                at += 1
            if len(problems.rows) and by_row != problems.rows[i]:
                return False
    missed = 0
    for c in range(len(by_column)):
        missed += by_column[c] != problems.columns[c]
    return missed == 0


def matrices(problems: Problems, objective: Objective) -> tuple[Any, Any, FloatArray]:
    """Return A of the (sums x children) sums of the entries, and C, d of the known sums C x = d, sparse."""
    import scipy.sparse as sp  # which few processes need

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
    """Return x, (entries,), by Clarabel, or None if it gives up.

    The sums are variables of their own: matrices then have an entry for each cell of a sum, not for each pair of cells.
    """
    import clarabel
    import scipy.sparse as sp

    from spine.top_down import general_solvers

    open_ = np.flatnonzero(problems.a > 0)
    sums, known, right = matrices(problems, objective)
    sums, known = sums[:, open_], known[:, open_]
    n, m = len(open_), sums.shape[0]
    w = np.outer(objective.weight, objective.scale).ravel()
    p = sp.diags_array(np.append(1.0 / problems.a[open_], w), format="csc")
    linear = -np.append(objective.target[open_] / problems.a[open_], w * objective.y.ravel())
    blocks: Any = [[sums, -sp.eye_array(m)], [known, None], [-sp.eye_array(n), sp.csr_array((n, m))]]
    bound = np.concatenate([np.zeros(m), right, np.zeros(n)])
    matrix = sp.csc_matrix(sp.block_array(blocks))
    found, status = general_solvers.clarabel_minimum(p, linear, matrix, bound, m + len(right), accuracy)
    if status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        return None
    x = np.zeros(len(problems.a))
    x[open_] = np.clip(found[:n], 0.0, None)
    return x
