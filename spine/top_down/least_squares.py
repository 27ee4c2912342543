"""The least squares of one parent: accelerated projected gradient with an exact projection.

    min over x:  sum over children c and query groups q of  w[q, c] / 2 |Q_q x_c - y_qc|^2
    subject to the polytope of `projection`: the parent's counts, zeros, bands of totals, facilities' lower bounds.

Q_q sums cells, so all entries of the Hessian are non-negative and its row sums majorize it: with D = Hessian times the
vector of ones, a step is x+ = projection of y - (Hessian y - r) / D in the metric D, and the condition number that is
remains is small (median 1.2 at blocks, 50 at tracts). y = x + beta (x - x before) with FISTA's beta, from 0 again
whenever the momentum points uphill (O'Donoghue and Candes 2015). Every iterate meets all sums and zeros to rounding
error and the groups to the projection's tolerance.

`minimum` takes any quadratic objective: it needs a `gradient` of it and the inverse of a diagonal majorizer.

A query group is summed from a finer one (`queries.QueryHierarchy`), along edges between their coordinates, and its
residuals are added back along the same edges: about four additions a sum of votingage*hispanic*cenrace instead of
eleven a cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spine.compiled import compiled, implements
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.projection import Point, Polytope, project, start
from spine.top_down.queries import QueryHierarchy

STEP = 1e-7  # persons; iteration stops at a smaller largest change
MAX_ITERATIONS = 5000
BOUND = 1e-7  # persons; a lower bound missed by more is imposed
MISSED = 1e-6  # persons; a group that misses its band by more is a failure
NARROW = 1.0  # records; a set with bounds this close is imposed from the start
NO_FLOATS, NO_INTEGERS, NO_SETS = np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 0), np.bool_)
NO_BOUNDS, NO_ROWS = np.zeros((0, 0)), np.zeros((0, 0), np.int64)


def gradient(objective: Any, out: FloatArray) -> None:
    """Write the gradient of an objective, (cells, children), into `out`; each kind of objective `implements` its own.

    objective: a NamedTuple whose `table` has the (cells, children) point in its first rows; further rows are scratch.
    """
    raise NotImplementedError


class Sums(NamedTuple):
    """The sums of a parent's cells: rows 0, ..., n - 1 are the cells, further rows the nonempty coordinates.

    coordinate: (rows,) among those of all groups. group: (rows,) query group. up: (cells, k) the rows that a cell is
    added to. tail, head: edges between further rows, finer to coarser, in order.
    """

    coordinate: IntArray
    group: IntArray
    up: IntArray
    tail: IntArray
    head: IntArray


@compiled
def sums_of(queries: QueryHierarchy, cells: IntArray) -> Sums:
    """Return the sums of these cells."""
    groups, everything = len(queries.finer), queries.offsets[-1]
    row, coordinate = np.full(everything, -1), np.empty(everything, np.int64)
    group, first = np.zeros(everything, np.int64), np.zeros(groups + 1, np.int64)
    first[1] = len(cells)
    for i in range(len(cells)):
        coordinate[i] = cells[i]
    direct, edges = 0, 0
    for q in range(1, groups):
        if queries.finer[q] == 0:
            direct += 1
        else:
            edges += queries.offsets[queries.finer[q] + 1] - queries.offsets[queries.finer[q]]
    up = np.empty((len(cells), direct), np.int64)
    tail, head = np.empty(edges, np.int64), np.empty(edges, np.int64)
    parts, direct, edges = len(cells), 0, 0
    for q in range(1, groups):
        finer = queries.finer[q]
        for j in range(first[finer], first[finer + 1]):
            own = coordinate[j] - queries.offsets[finer]
            target = queries.offsets[q] + queries.parent_of[queries.parent_offsets[q] + own]
            if row[target] < 0:
                row[target] = parts
                coordinate[parts], group[parts] = target, q
                parts += 1
            if finer == 0:
                up[j, direct] = row[target]
            else:
                tail[edges], head[edges] = j, row[target]
                edges += 1
        if finer == 0:
            direct += 1
        first[q + 1] = parts
    return Sums(coordinate[:parts], group[:parts], up, tail[:edges], head[:edges])


class Misfit(NamedTuple):
    """The misfit of noisy answers: the program's objective.

    table: (rows of sums, children), as in `gradient`. sums: those of the cells. w: (groups, children) weights. y:
    (rows, children) targets.
    """

    table: FloatArray
    sums: Sums
    w: FloatArray
    y: FloatArray


@compiled
def hessian_parts(sums: Sums, w: FloatArray, y: FloatArray, table: FloatArray) -> None:
    """Write the residuals' contributions to the gradient into the further rows of `table`, at the x in its first rows.

    w: (groups, children) weights. y: (rows, children) targets.
    """
    cells, children = len(sums.up), table.shape[1]
    table[cells:] = 0.0
    for i in range(cells):
        for k in range(sums.up.shape[1]):
            source, target = table[i], table[sums.up[i, k]]
            for c in range(children):
                target[c] += source[c]
    for e in range(len(sums.tail)):
        source, target = table[sums.tail[e]], table[sums.head[e]]
        for c in range(children):
            target[c] += source[c]
    for j in range(cells, len(sums.group)):
        target, weight, wanted = table[j], w[sums.group[j]], y[j]
        for c in range(children):
            target[c] = weight[c] * (target[c] - wanted[c])
    for e in range(len(sums.tail) - 1, -1, -1):
        source, target = table[sums.head[e]], table[sums.tail[e]]
        for c in range(children):
            target[c] += source[c]


@compiled
def inverse_row_sums(sums: Sums, w: FloatArray, allowed: BoolArray, quarters_type: IntArray) -> FloatArray:
    """Return (cells, children) 1 / D, where D = Hessian times ones on the allowed cells; 0 for other cells.

    allowed: (types, children). quarters_type: (cells,) type of each cell.
    """
    cells, children = len(quarters_type), allowed.shape[1]
    table = np.zeros((len(sums.group), children))
    for i in range(cells):
        for c in range(children):
            table[i, c] = allowed[quarters_type[i], c]
    hessian_parts(sums, w, np.zeros(table.shape), table)
    inverse = np.zeros((cells, children))
    for i in range(cells):
        for c in range(children):
            total = w[0, c]
            for k in range(sums.up.shape[1]):
                total += table[sums.up[i, k], c]
            if allowed[quarters_type[i], c]:
                inverse[i, c] = 1.0 / total
    return inverse


@implements(gradient, Misfit)
def misfit_gradient(objective: Misfit, out: FloatArray) -> None:
    """Write the gradient of the misfit."""
    table, sums, w, y = objective.table, objective.sums, objective.w, objective.y
    children = table.shape[1]
    hessian_parts(sums, w, y, table)
    for i in range(len(out)):
        row, at, wanted = out[i], table[i], y[i]
        for c in range(children):
            row[c] = w[0, c] * (at[c] - wanted[c])
        for k in range(sums.up.shape[1]):
            part = table[sums.up[i, k]]
            for c in range(children):
                row[c] += part[c]


@compiled
def minimize(objective: Any, onto: Polytope, point: Point, careful: bool, stop: float) -> tuple[int, float, float]:
    """Iterate from `point` to the minimum; return the iterations, the last step and the largest |sum - S|.

    careful: project to 1e-10 throughout, and reset the momentum every 50 iterations, after a solve that did not
    converge.
    """
    cells, children = point.x.shape
    table, v = objective.table, np.empty((cells, children))
    x, before = point.x.copy(), point.x.copy()
    levels, levels_before, anchor = point.levels.copy(), point.levels.copy(), np.empty(point.levels.shape)
    t, beta, step, missed = 1.0, 0.0, 1e-2, 0.0
    moved, uphill = np.empty(children), np.empty(children)
    iteration = 0
    while iteration < MAX_ITERATIONS:
        iteration += 1
        for i in range(cells):
            for c in range(children):
                table[i, c] = x[i, c] + beta * (x[i, c] - before[i, c])
        for g in range(len(levels)):
            for c in range(children):
                anchor[g, c] = levels[g, c] + beta * (levels[g, c] - levels_before[g, c])
        gradient(objective, v)
        for i in range(cells):
            row, at, target = v[i], table[i], onto.a[i]
            for c in range(children):
                row[c] = at[c] - target[c] * row[c]
        missed = project(onto, v, anchor, 1e-10 if careful else max(1e-9, min(1e-4, 0.02 * step)), point)
        moved[:] = uphill[:] = 0.0
        for i in range(cells):
            at, minimum, last, older, a = table[i], point.x[i], x[i], before[i], onto.a[i]
            for c in range(children):
                change = at[c] - minimum[c]
                moved[c] = max(moved[c], abs(change))
                uphill[c] += change * (minimum[c] - last[c]) / a[c] if a[c] > 0.0 else 0.0
                older[c] = last[c]
                last[c] = minimum[c]
        hill, step = 0.0, 0.0
        for c in range(children):
            hill += uphill[c]
            step = max(step, moved[c])
        for g in range(len(levels)):
            for c in range(children):
                here = point.levels[g, c]
                if onto.active[g, c]:
                    hill += onto.mu[g, c] * (anchor[g, c] - here) * (here - levels[g, c])
                levels_before[g, c] = levels[g, c]
                levels[g, c] = here
        if step < stop and missed < 10.0 * stop:
            break
        if hill > 0.0 or (careful and iteration % 50 == 0):
            t, beta = 1.0, 0.0
        else:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            beta = (t - 1.0) / following
            t = following
    return iteration, step, missed


class Parent(NamedTuple):
    """The constraints of one parent, for its least squares and its integers. Fields for undeclared counts are empty.

    cells: (n,) ascending. quarters_type: (n,) type of each cell, sorted, all from 0. counts: (n,) the parent's, empty
    at a root. allowed, lower_bound: (types, children). nested: (groups, n) coordinate of each cell in the nested query
    groups whose sums the integers approximate, coarse to fine. low, high: (children,) bands of the totals. total: (1,)
    of all children at a root. state, state_totals: (children,) and (states,), if totals of groups of children are
    declared. cell_weight: the cells' weight in rounding. sets: (sets, types) bounded sets of types. low_of, high_of:
    (sets, children) their bounds. nested_set: (groups, n) the set equal to each nested sum, or -1. The lower bounds of
    types apply to the first nested group.
    """

    cells: IntArray
    quarters_type: IntArray
    counts: IntArray
    allowed: BoolArray
    lower_bound: IntArray
    nested: IntArray
    low: FloatArray = NO_FLOATS
    high: FloatArray = NO_FLOATS
    total: IntArray = NO_INTEGERS
    state: IntArray = NO_INTEGERS
    state_totals: IntArray = NO_INTEGERS
    cell_weight: int = 1
    sets: BoolArray = NO_SETS
    low_of: FloatArray = NO_BOUNDS
    high_of: FloatArray = NO_BOUNDS
    nested_set: IntArray = NO_ROWS


class Solution(NamedTuple):
    """x: (cells, children). iterations; step: the last; missed: the largest by which a group misses its band."""

    x: FloatArray
    iterations: int
    step: float
    missed: float


@compiled
def least_squares(
    queries: QueryHierarchy, parent: Parent, answers: FloatArray, w: FloatArray, careful: bool, stop: float
) -> Solution:
    """Divide a parent among its children by their own noisy answers.

    answers: (children, coordinates of all groups). w: (groups, children). careful, stop: as in `minimize`.
    """
    sums = sums_of(queries, parent.cells)
    y = np.empty((len(sums.coordinate), len(answers)))
    for j in range(y.shape[0]):
        for c in range(y.shape[1]):
            y[j, c] = answers[c, sums.coordinate[j]]
    a = inverse_row_sums(sums, w, parent.allowed, parent.quarters_type)
    objective = Misfit(np.zeros(y.shape), sums, w, y)
    return minimum(objective, a, y, parent, careful, stop)


@compiled
def minimum(objective: Any, a: FloatArray, initial: FloatArray, parent: Parent, careful: bool, stop: float) -> Solution:
    """Return the minimum of an objective under the parent's constraints.

    a: (cells, children) 1 / majorizer. initial: the starting point (its first rows are the cells). Lower bounds of
    types, and wide bounds of sets, are imposed only if the solution without them violates them.
    """
    n, children = a.shape
    lower_bound, types = parent.lower_bound, len(parent.lower_bound)
    onto = polytope(a, parent)
    for s in range(len(parent.sets)):
        for c in range(children):
            if parent.high_of[s, c] - parent.low_of[s, c] <= NARROW:
                impose(onto, parent, s, c)
    point = start(n, children, len(onto.active))
    v = np.empty((n, children))
    for i in range(n):
        for c in range(children):
            v[i, c] = max(initial[i, c], 0.0) if a[i, c] > 0.0 else 0.0
    for c in range(children):
        for g in range(types, len(onto.active)):
            point.levels[g, c] = max(onto.lo[g, c], 0.0)
    project(onto, v, point.levels.copy(), 1e-4, point)
    iterations = 0
    while True:
        more, step, missed = minimize(objective, onto, point, careful, stop)
        iterations += more
        imposed = False
        for t in range(types):
            for c in range(children):
                if not onto.active[t, c] and point.sums[t, c] < lower_bound[t, c] - BOUND:
                    onto.active[t, c], imposed = True, True
                    onto.lo[t, c] = point.levels[t, c] = lower_bound[t, c]
        for s in range(len(parent.sets)):
            g = types + 1 + s
            for c in range(children):
                low, high = parent.low_of[s, c], parent.high_of[s, c]
                if not onto.active[g, c] and not low - BOUND <= point.sums[g, c] <= high + BOUND:
                    impose(onto, parent, s, c)
                    imposed = imposed or onto.active[g, c]
                    point.levels[g, c] = min(high, max(low, point.sums[g, c]))
        if not imposed:
            break
    return Solution(point.x, iterations, step, missed)


@compiled
def impose(onto: Polytope, parent: Parent, s: int, c: int) -> None:
    """Impose the bounds of a set on a child that may have records in it."""
    g = len(parent.lower_bound) + 1 + s
    onto.active[g, c] = onto.mu[g, c] > 0.0
    onto.lo[g, c], onto.hi[g, c] = parent.low_of[s, c], parent.high_of[s, c]


@compiled
def polytope(a: FloatArray, parent: Parent) -> Polytope:
    """Return the polytope with the bands of the totals, if any, and no other group yet."""
    quarters_type, sets, low, high = parent.quarters_type, parent.sets, parent.low, parent.high
    types, children = len(parent.lower_bound), a.shape[1]
    groups = types + 1 + len(sets)
    active = np.zeros((groups, children), np.bool_)
    lo, hi, mu = np.zeros((groups, children)), np.full((groups, children), np.inf), np.zeros((groups, children))
    first, first_set = np.zeros(types + 1, np.int64), np.zeros(types + 1, np.int64)
    set_groups, at = np.empty(sets.size, np.int64), 0
    for t in range(types):
        for s in range(len(sets)):
            if sets[s, t]:
                set_groups[at] = types + 1 + s
                at += 1
        first_set[t + 1] = at
    for i in range(len(quarters_type)):
        first[quarters_type[i] + 1] = i + 1
        for c in range(children):
            mu[quarters_type[i], c] += a[i, c]
            mu[types, c] += a[i, c]
    for t in range(types):
        for k in range(first_set[t], first_set[t + 1]):
            for c in range(children):
                mu[set_groups[k], c] += mu[t, c]
    for g in range(groups):
        for c in range(children):
            mu[g, c] = 1.0 / mu[g, c] if mu[g, c] > 0.0 else 0.0
    for c in range(len(low)):
        active[types, c] = mu[types, c] > 0.0
        lo[types, c], hi[types, c] = low[c], high[c]
    return Polytope(a, parent.counts.astype(np.float64), first, active, lo, hi, mu, first_set, set_groups)
