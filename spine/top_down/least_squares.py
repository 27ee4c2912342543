"""The least squares of one parent: accelerated projected gradient with an exact projection.

    min over x:  sum over children c and query groups q of  w[q, c] / 2 |Q_q x_c - y_qc|^2
    subject to the polytope of `projection`: the parent's counts, zeros, bands of totals, facilities' lower bounds.

Q_q sums cells, so all entries of the Hessian are non-negative and its row sums majorize it: with D = Hessian times the
vector of ones, a step is x+ = projection of y - (Hessian y - r) / D in the metric D, and the condition number that is
left is small (1.2 in the median of blocks, 50 of tracts). y = x + beta (x - x before) with FISTA's beta, from 0 again
whenever the momentum points uphill (O'Donoghue and Candes 2015). Every iterate meets all sums and zeros to rounding
error and the groups to the projection's tolerance.

Where the children bring what everything below them says (`tree`), the sum is over them of x'P_c x/2 - h_c'x instead,
and only the product with the Hessian and its majorizer are others: D = the row sums of |P_c| over the parent's cells.

A query group is summed from a finer one (queries.factors), along edges between their coordinates, and its residuals are
added back along the same edges: about four additions a sum of votingage*hispanic*cenrace instead of eleven a cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, IntArray
from spine.top_down.projection import Point, Polytope, project, start, towards
from spine.top_down.queries import QueryGroup, factors
from spine.workload import FloatArray

STEP = 1e-7  # persons: the largest change in one iteration at which it stops
MOST_ITERATIONS = 5000
BOUND = 1e-7  # persons by which a lower bound may be missed before it is imposed
MISSED = 1e-6  # persons by which a group may miss its band: more is a failure


class Ladder(NamedTuple):
    """Query groups, widest first, the first `detailed`, each but that one summed from a finer one.

    offsets: (groups + 1,) of each group's coordinates among those of all. source: (groups,) the finer group. through:
    the coordinate of each of the source's, all groups' one after the other, from `through_at`.
    """

    offsets: IntArray
    source: IntArray
    through: IntArray
    through_at: IntArray


def ladder(groups: list[QueryGroup]) -> Ladder:
    """The ladder of these groups."""
    steps = factors(groups)
    offsets = np.cumsum([0, *(group.width for group in groups)])
    source = np.array([0, *(source for source, _ in steps)], np.int64)
    through_at = np.cumsum([0, 0, *(len(through) for _, through in steps)])[: len(groups)]
    through = np.concatenate([np.zeros(0, np.int64), *(through for _, through in steps)])
    return Ladder(offsets, source, through, through_at)


class Sums(NamedTuple):
    """The sums of a parent's cells: rows 0, ..., n - 1 are the cells, further rows the coordinates that hold some.

    coordinate: (rows,) among those of all groups. group: (rows,) query group. up: (cells, k) the rows that a cell is
    added to. tail, head: edges between further rows, finer to coarser, in order.
    """

    coordinate: IntArray
    group: IntArray
    up: IntArray
    tail: IntArray
    head: IntArray


@compiled
def sums_of(ladder: Ladder, cells: IntArray) -> Sums:
    """The sums of these cells."""
    groups, everything = len(ladder.source), ladder.offsets[-1]
    row, coordinate = np.empty(everything, np.int64), np.empty(everything, np.int64)
    group, begin = np.zeros(everything, np.int64), np.zeros(groups + 1, np.int64)
    for j in range(everything):
        row[j] = -1
    for j in range(len(cells)):
        coordinate[j] = cells[j]
    begin[1] = len(cells)
    direct = 0
    edges = 0
    for q in range(1, groups):
        if ladder.source[q] == 0:
            direct += 1
        else:
            edges += ladder.offsets[ladder.source[q] + 1] - ladder.offsets[ladder.source[q]]
    up = np.empty((len(cells), direct), np.int64)
    tail, head = np.empty(edges, np.int64), np.empty(edges, np.int64)
    parts, direct, edges = len(cells), 0, 0
    for q in range(1, groups):
        source = ladder.source[q]
        for j in range(begin[source], begin[source + 1]):
            own = coordinate[j] - ladder.offsets[source]
            target = ladder.offsets[q] + ladder.through[ladder.through_at[q] + own]
            if row[target] < 0:
                row[target] = parts
                coordinate[parts], group[parts] = target, q
                parts += 1
            if source == 0:
                up[j, direct] = row[target]
            else:
                tail[edges], head[edges] = j, row[target]
                edges += 1
        if source == 0:
            direct += 1
        begin[q + 1] = parts
    return Sums(coordinate[:parts], group[:parts], up, tail[:edges], head[:edges])


class Objective(NamedTuple):
    """What is minimized: the misfit of a parent's noisy answers, or the children's x'Px/2 - h'x.

    sums, w, y: sums of the cells, (groups, children) weights and (rows, children) targets. precision: (children, 8
    components, types, types), types being those of the parent's cells; linear: (cells, children) h; place: (cells,) of
    each cell in (types, 252). Whichever is not minimized is empty.
    """

    sums: Sums
    w: FloatArray
    y: FloatArray
    precision: FloatArray
    linear: FloatArray
    place: IntArray


@compiled
def hessian_parts(sums: Sums, w: FloatArray, y: FloatArray, table: FloatArray) -> None:
    """With x in the first rows of `table`, put into the further rows what their residuals add to the gradient.

    w: (groups, children) weights; y: (rows, children) targets.
    """
    cells, children = len(sums.up), table.shape[1]
    for j in range(cells, len(sums.group)):
        target = table[j]
        for c in range(children):
            target[c] = 0.0
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
def row_sums(sums: Sums, w: FloatArray, allowed: BoolArray, kind: IntArray) -> FloatArray:
    """(cells, children) 1 / D, D = Hessian times ones on the allowed cells; 0 where a child does not allow the cell.

    allowed: (types, children); kind: (cells,) type of each cell.
    """
    cells, children = len(kind), allowed.shape[1]
    table = np.zeros((len(sums.group), children))
    for i in range(cells):
        for c in range(children):
            table[i, c] = 1.0 if allowed[kind[i], c] else 0.0
    hessian_parts(sums, w, np.zeros(table.shape), table)
    inverse = np.zeros((cells, children))
    for i in range(cells):
        for c in range(children):
            total = w[0, c]
            for k in range(sums.up.shape[1]):
                total += table[sums.up[i, k], c]
            if allowed[kind[i], c]:
                inverse[i, c] = 1.0 / total
    return inverse


@compiled
def answers_gradient(objective: Objective, table: FloatArray, gradient: FloatArray) -> None:
    """The gradient of the answers' misfit at the x in the first rows of `table` (whose further rows it uses)."""
    sums, w, y = objective.sums, objective.w, objective.y
    children = table.shape[1]
    hessian_parts(sums, w, y, table)
    for i in range(len(gradient)):
        row, at, wanted = gradient[i], table[i], y[i]
        for c in range(children):
            row[c] = w[0, c] * (at[c] - wanted[c])
        for k in range(sums.up.shape[1]):
            part = table[sums.up[i, k]]
            for c in range(children):
                row[c] += part[c]


@compiled
def signed(x: FloatArray) -> None:
    """Orthonormal sums and differences on votingage and hispanic of (types, 4, 63), in place; its own inverse."""
    for t in range(x.shape[0]):
        for r in range(x.shape[2]):
            a, b, c, d = x[t, 0, r], x[t, 1, r], x[t, 2, r], x[t, 3, r]
            x[t, 0, r] = 0.5 * ((a + b) + (c + d))
            x[t, 1, r] = 0.5 * ((a - b) + (c - d))
            x[t, 2, r] = 0.5 * ((a + b) - (c + d))
            x[t, 3, r] = 0.5 * ((a - b) - (c - d))


@compiled
def tree_gradient(objective: Objective, table: FloatArray, gradient: FloatArray) -> None:
    """P x - h for every child: by component in sums and differences, of which only the parent's cells are kept."""
    precision, linear, place = objective.precision, objective.linear, objective.place
    kinds, cells = precision.shape[2], len(place)
    x, y, mean = np.empty((kinds, 4, 63)), np.empty((kinds, 4, 63)), np.empty((kinds, 4))
    flat, image = x.reshape(-1), y.reshape(-1)
    for c in range(len(precision)):
        flat[:] = 0.0
        image[:] = 0.0
        for i in range(cells):
            flat[place[i]] = table[i, c]
        signed(x)
        for t in range(kinds):
            m0 = m1 = m2 = m3 = 0.0
            for r in range(63):
                m0 += x[t, 0, r]
                m1 += x[t, 1, r]
                m2 += x[t, 2, r]
                m3 += x[t, 3, r]
            mean[t, 0], mean[t, 1], mean[t, 2], mean[t, 3] = m0 / 63, m1 / 63, m2 / 63, m3 / 63
        for t in range(kinds):
            for u in range(kinds):
                if precision[c, 7, t, t] > 0.0 and precision[c, 7, u, u] > 0.0:
                    for s in range(4):
                        rest = precision[c, 2 * s + 1, t, u]
                        shift = (precision[c, 2 * s, t, u] - rest) * mean[u, s]
                        source, target = x[u, s], y[t, s]
                        for r in range(63):
                            target[r] += rest * source[r] + shift
        signed(y)
        for i in range(cells):
            gradient[i, c] = image[place[i]] - linear[i, c]


@compiled
def tree_row_sums(between: FloatArray, place: IntArray, kind: IntArray, allowed: BoolArray) -> FloatArray:
    """(cells, children) 1 / D, D = row sums of |P| over the parent's cells; 0 where a child does not allow the cell.

    between: (children, 8, types, types) the entries of P by which of votingage, hispanic, race agree (bits 4, 2, 1).
    """
    cells, children, kinds = len(kind), allowed.shape[1], allowed.shape[0]
    inverse, count = np.zeros((cells, children)), np.zeros((kinds, 8))
    for i in range(cells):
        count[:] = 0.0
        for j in range(cells):
            v, w = place[i] % 252, place[j] % 252
            agree = 4 * (v // 126 == w // 126) + 2 * (v // 63 % 2 == w // 63 % 2) + (v % 63 == w % 63)
            count[kind[j], agree] += 1.0
        for c in range(children):
            if allowed[kind[i], c]:
                total = 0.0
                for t in range(kinds):
                    for e in range(8):
                        total += count[t, e] * abs(between[c, e, kind[i], t])
                inverse[i, c] = 1.0 / total
    return inverse


@compiled
def descend(objective: Objective, onto: Polytope, point: Point, careful: bool, stop: float) -> tuple[int, float, float]:
    """Iterate from `point` to the minimum; returns iterations, the last step and the largest |sum - S|.

    careful: projections to 1e-10 throughout, and momentum from 0 every 50 iterations: for what did not converge.
    """
    cells, children = point.x.shape
    of_answers = len(objective.place) == 0
    table, v = np.zeros((max(len(objective.sums.group), cells), children)), np.empty((cells, children))
    x, before = np.empty((cells, children)), np.empty((cells, children))
    towards(point.x, 0.0, point.x, x)
    towards(point.x, 0.0, point.x, before)
    levels, levels_before = np.empty(point.levels.shape), np.empty(point.levels.shape)
    towards(point.levels, 0.0, point.levels, levels)
    towards(point.levels, 0.0, point.levels, levels_before)
    anchor = np.empty(levels.shape)
    t, beta, step, missed = 1.0, 0.0, 1e-2, 0.0
    moved, uphill = np.empty(children), np.empty(children)
    iteration = 0
    while iteration < MOST_ITERATIONS:
        iteration += 1
        for i in range(cells):
            for c in range(children):
                table[i, c] = x[i, c] + beta * (x[i, c] - before[i, c])
        for g in range(len(levels)):
            for c in range(children):
                anchor[g, c] = levels[g, c] + beta * (levels[g, c] - levels_before[g, c])
        if of_answers:
            answers_gradient(objective, table, v)
        else:
            tree_gradient(objective, table, v)
        for i in range(cells):
            row, at, target = v[i], table[i], onto.a[i]
            for c in range(children):
                row[c] = at[c] - target[c] * row[c]
        missed = project(onto, v, anchor, 1e-10 if careful else max(1e-9, min(1e-4, 0.02 * step)), point)
        for c in range(children):
            moved[c] = uphill[c] = 0.0
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
    """What the division of a parent keeps to.

    cells: (n,) the cells of the problem, ascending. kind: (n,) type of each, from 0, sorted, none left out. counts:
    (n,) the parent's, empty at a root. allowed, least: (types, children). low, high: (children,) bands of the totals,
    or empty.
    """

    cells: IntArray
    kind: IntArray
    counts: FloatArray
    allowed: BoolArray
    least: FloatArray
    low: FloatArray
    high: FloatArray


class Solution(NamedTuple):
    """x: (cells, children). iterations; step: the last; missed: the largest by which a group misses its band."""

    x: FloatArray
    iterations: int
    step: float
    missed: float


@compiled
def least_squares(
    ladder: Ladder, parent: Parent, answers: FloatArray, w: FloatArray, careful: bool, stop: float
) -> Solution:
    """Divide a parent among its children by their own noisy answers.

    answers: (children, coordinates of all groups). w: (groups, children).
    """
    children = parent.allowed.shape[1]
    sums = sums_of(ladder, parent.cells)
    y = np.empty((len(sums.group), children))
    for j in range(len(sums.group)):
        for c in range(children):
            y[j, c] = answers[c, sums.coordinate[j]]
    scale, weight = 0.0, np.empty(w.shape)
    for c in range(children):
        scale = max(scale, w[0, c])
    for q in range(len(w)):
        for c in range(children):
            weight[q, c] = w[q, c] / scale
    a = row_sums(sums, weight, parent.allowed, parent.kind)
    objective = Objective(sums, weight, y, np.empty((0, 0, 0, 0)), np.empty((0, 0)), np.empty(0, np.int64))
    return minimum(objective, a, y, parent, careful, stop)


@compiled
def tree_least_squares(
    parent: Parent,
    precision: FloatArray,
    between: FloatArray,
    linear: FloatArray,
    begin: FloatArray,
    careful: bool,
    stop: float,
) -> Solution:
    """Divide a parent among its children by what these and all below them say.

    precision, linear: as `Objective` has them. between: precision's entries, as for `tree_row_sums`. begin: (cells,
    children) where to start.
    """
    place = np.empty(len(parent.cells), np.int64)
    for i in range(len(place)):
        place[i] = parent.kind[i] * 252 + parent.cells[i] % 252
    no_sums = Sums(
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.empty((0, 0), np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
    )
    objective = Objective(no_sums, np.empty((0, 0)), np.empty((0, 0)), precision, linear, place)
    a = tree_row_sums(between, place, parent.kind, parent.allowed)
    return minimum(objective, a, begin, parent, careful, stop)


@compiled
def minimum(
    objective: Objective, a: FloatArray, begin: FloatArray, parent: Parent, careful: bool, stop: float
) -> Solution:
    """The minimum from `begin` (its first rows are the cells), with what lower bounds of types it needs.

    a: (cells, children) 1 / majorizer. Lower bounds of types are imposed when the solution without them misses them; at
    most types + 1 times.
    """
    n, children = a.shape
    least, kinds = parent.least, len(parent.least)
    onto = groups_of(a, parent.counts, parent.kind, kinds, parent.low, parent.high)
    point = start(n, children, kinds)
    v = np.empty((n, children))
    for i in range(n):
        for c in range(children):
            v[i, c] = max(begin[i, c], 0.0) if a[i, c] > 0.0 else 0.0
    for c in range(children):
        point.levels[kinds, c] = max(onto.lo[kinds, c], 0.0)
    project(onto, v, point.levels.copy(), 1e-4, point)
    iterations = 0
    while True:
        more, step, missed = descend(objective, onto, point, careful, stop)
        iterations += more
        imposed = False
        for t in range(kinds):
            for c in range(children):
                if not onto.active[t, c] and point.sums[t, c] < least[t, c] - BOUND:
                    onto.active[t, c], imposed = True, True
                    onto.lo[t, c] = point.levels[t, c] = least[t, c]
        if not imposed:
            break
    return Solution(point.x, iterations, step, missed)


@compiled
def groups_of(
    a: FloatArray, counts: FloatArray, kind: IntArray, kinds: int, low: FloatArray, high: FloatArray
) -> Polytope:
    """The polytope with the bands of the totals, where there are some, and no other group yet."""
    children = a.shape[1]
    active = np.zeros((kinds + 1, children), np.bool_)
    lo, hi, mu = np.zeros((kinds + 1, children)), np.empty((kinds + 1, children)), np.zeros((kinds + 1, children))
    types = np.zeros(kinds + 1, np.int64)
    for i in range(len(kind)):
        types[kind[i] + 1] = i + 1
        for c in range(children):
            mu[kind[i], c] += a[i, c]
            mu[kinds, c] += a[i, c]
    for g in range(kinds + 1):
        for c in range(children):
            hi[g, c] = np.inf
            mu[g, c] = 1.0 / mu[g, c] if mu[g, c] > 0.0 else 0.0
    for c in range(len(low)):
        active[kinds, c] = mu[kinds, c] > 0.0
        lo[kinds, c], hi[kinds, c] = low[c], high[c]
    return Polytope(a, counts, types, active, lo, hi, mu)
