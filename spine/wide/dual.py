"""The least squares of one parent by the dual in its sums: semismooth Newton in a metric of theirs.

    min over x:  sum over children s_c [ sum over cells m/2 (x_ic - y_ic)^2 + sum over sums w_j/2 (A_j x_c - y_jc)^2 ]
    subject to the transportation problems of `transport`: the parent's cells, and the children's known sums.

A sum j is a coordinate of a query that several cells share. With a multiplier u for each of them,

    x(u) = the projection of y - A'u / (s m) onto the transportation problems in the metric s m,

and the dual is concave with the gradient A x(u) - y - u / (w s). Its curvature is at most that of the metric
B = 1 / w + A (1 / m) A', over s: the matrix of all dense sums, inverted once for all children, and the diagonal of the
other sums, which are many. A cell that lies in r kinds of the latter counts r + 1 times (Cauchy-Schwarz).

Some accelerated steps u + B^-1 gradient (FISTA with restart) find the faces; Newton then solves the curvature on them,
1 / (w s) + A J A' with J the projection onto the face, by conjugate gradients in the same metric.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import FloatArray, IntArray
from spine.wide.transport import (
    Face,
    Point,
    Problems,
    face_of,
    factor,
    onto_face,
    project,
    project_problem,
    solve_factored,
    start,
)

STEP = 1e-6  # records; a Newton step that changes no entry by more is the last, where the gradient is small too
GRADIENT = 1e-6  # records, or units of 10^-6 of an answer; x is the least squares of answers that differ by no more
LOOSE = 1e-9  # records, in a projection's column sums
FIRST_STEPS = 20  # accelerated ones
NEWTON_STEPS = 60
CONJUGATE_STEPS = 150
CONJUGATE = 1e-2  # share of the gradient's norm in the metric
OVERSHOT = -0.3  # share of the first slope; a longer step is shortened


class Objective(NamedTuple):
    """The misfit of one parent's children.

    up: (rows, k) the sums that a row of the problems lies in, -1 for none. weight: (sums,). y: (sums, children)
    answers. scale: (children,) s_c. target: (entries,) y of the cells. inverse: (dense, dense) inverse of B of the
    dense sums, which are the first. diagonal: (sums,) B of the others.
    """

    up: IntArray
    weight: FloatArray
    y: FloatArray
    scale: FloatArray
    target: FloatArray
    inverse: FloatArray
    diagonal: FloatArray


@compiled
def metric(up: IntArray, weight: FloatArray, inverse_cell: FloatArray, dense: int) -> tuple[FloatArray, FloatArray]:
    """Return the inverse of B for the dense sums, and the diagonal of B. inverse_cell: (rows,) 1 / m."""
    matrix, diagonal = np.zeros((dense, dense)), np.zeros(len(weight))
    for j in range(len(weight)):
        diagonal[j] = 1.0 / weight[j]
    for j in range(dense):
        matrix[j, j] = diagonal[j]
    for i in range(len(up)):
        kinds = 1
        for k in range(up.shape[1]):
            kinds += up[i, k] >= dense
        for k in range(up.shape[1]):
            j = up[i, k]
            if j >= dense:
                diagonal[j] += kinds * inverse_cell[i]
            elif j >= 0:
                for h in range(up.shape[1]):
                    if 0 <= up[i, h] < dense:
                        matrix[j, up[i, h]] += kinds * inverse_cell[i]
    factor(matrix, 0.0)
    inverse = np.zeros((dense, dense))
    for j in range(dense):
        inverse[j, j] = 1.0
        solve_factored(matrix, inverse[j])
    return inverse, diagonal


@compiled
def precondition(objective: Objective, gradient: FloatArray, out: FloatArray) -> None:
    """Write B^-1 gradient into `out`, (sums, children)."""
    dense, scale = len(objective.inverse), objective.scale
    own = np.empty(dense)
    for c in range(len(scale)):  # along the sums, which are more than the children
        own[:] = 0.0
        fours = dense - dense % 4
        for k in range(0, fours, 4):  # four rows at once, added in their order: `own` is read a fourth as often
            p, q = gradient[k, c] * scale[c], gradient[k + 1, c] * scale[c]
            r, s = gradient[k + 2, c] * scale[c], gradient[k + 3, c] * scale[c]
            rows = objective.inverse[k : k + 4]
            for j in range(dense):
                own[j] = own[j] + p * rows[0, j] + q * rows[1, j] + r * rows[2, j] + s * rows[3, j]
        for k in range(fours, dense):
            part, row = gradient[k, c] * scale[c], objective.inverse[k]
            for j in range(dense):
                own[j] += part * row[j]
        for j in range(dense):
            out[j, c] = own[j]
    for j in range(dense, len(gradient)):
        for c in range(len(scale)):
            out[j, c] = gradient[j, c] * scale[c] / objective.diagonal[j]


@compiled
def potentials(problems: Problems, objective: Objective, g: int, u: FloatArray, out: FloatArray) -> None:
    """Write A'u of every entry of problem g into `out`."""
    up, at = objective.up, 0
    child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
    columns = len(child)
    for i in range(problems.first_row[g], problems.first_row[g + 1]):
        own = out[at : at + columns]
        own[:] = 0.0
        for k in range(up.shape[1]):
            if up[i, k] >= 0:
                row = u[up[i, k]]
                for c in range(columns):
                    own[c] += row[child[c]]
        at += columns


@compiled
def add_sums(problems: Problems, objective: Objective, x: FloatArray, out: FloatArray) -> None:
    """Add A x to `out`, (sums, children)."""
    up = objective.up
    for g in range(len(problems.first) - 1):
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        at, columns = problems.first[g], len(child)
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            own = x[at : at + columns]
            for k in range(up.shape[1]):
                if up[i, k] >= 0:
                    row = out[up[i, k]]
                    for c in range(columns):
                        row[child[c]] += own[c]
            at += columns


@compiled
def evaluate(
    problems: Problems, objective: Objective, u: FloatArray, tolerance: float, point: Point, out: FloatArray
) -> float:
    """Write x(u) into the point and the dual's gradient into `out`; return the largest miss of a known sum."""
    missed, largest = 0.0, 0
    for g in range(len(problems.first) - 1):
        largest = max(largest, problems.first[g + 1] - problems.first[g])
    scratch = np.empty(largest)
    for g in range(len(problems.first) - 1):
        begin, end = problems.first[g], problems.first[g + 1]
        v = scratch[: end - begin]
        potentials(problems, objective, g, u, v)
        for k in range(len(v)):
            v[k] = objective.target[begin + k] - problems.a[begin + k] * v[k]
        missed = max(missed, project_problem(problems, g, v, tolerance, point))
    for j in range(len(u)):
        for c in range(len(objective.scale)):
            out[j, c] = -objective.y[j, c] - u[j, c] / (objective.weight[j] * objective.scale[c])
    add_sums(problems, objective, point.x, out)
    return missed


@compiled
def inner(one: FloatArray, other: FloatArray) -> float:
    """Return the inner product of two arrays of (sums, children)."""
    total = 0.0
    for j in range(one.shape[0]):
        own = 0.0
        for c in range(one.shape[1]):
            own += one[j, c] * other[j, c]
        total += own
    return total


@compiled
def curvature_times(
    problems: Problems,
    objective: Objective,
    point: Point,
    face: Face,
    d: FloatArray,
    scratch: FloatArray,
    out: FloatArray,
) -> None:
    """Write (1 / (w s) + A J A') d into `out`. scratch: (free entries,)."""
    up, child, entries = objective.up, face.child, face.entries
    for i in range(len(face.row)):
        sums = up[face.row[i]]
        for e in range(entries[i], entries[i + 1]):
            scratch[e] = 0.0
        for k in range(len(sums)):
            if sums[k] >= 0:
                row = d[sums[k]]
                for e in range(entries[i], entries[i + 1]):
                    scratch[e] += row[child[e]]
    onto_face(problems, point.x, face, scratch)
    for j in range(len(d)):
        for c in range(d.shape[1]):
            out[j, c] = d[j, c] / (objective.weight[j] * objective.scale[c])
    for i in range(len(face.row)):
        sums = up[face.row[i]]
        for k in range(len(sums)):
            if sums[k] >= 0:
                row = out[sums[k]]
                for e in range(entries[i], entries[i + 1]):
                    row[child[e]] += scratch[e]


@compiled
def newton_direction(problems: Problems, objective: Objective, point: Point, gradient: FloatArray) -> FloatArray:
    """Return the solution of curvature x direction = gradient by conjugate gradients in the metric."""
    face = face_of(problems, point.x)
    scratch = np.empty(len(face.a))
    direction, residual = np.zeros(gradient.shape), gradient.copy()
    better, image = np.empty(gradient.shape), np.empty(gradient.shape)
    precondition(objective, residual, better)
    search, power = better.copy(), inner(residual, better)
    enough = CONJUGATE * CONJUGATE * power
    for _ in range(CONJUGATE_STEPS):
        if power <= enough:
            break
        curvature_times(problems, objective, point, face, search, scratch, image)
        step = power / inner(search, image)
        for j in range(len(search)):
            for c in range(len(objective.scale)):
                direction[j, c] += step * search[j, c]
                residual[j, c] -= step * image[j, c]
        precondition(objective, residual, better)
        following = inner(residual, better)
        for j in range(len(search)):
            for c in range(len(objective.scale)):
                search[j, c] = better[j, c] + following / power * search[j, c]
        power = following
    return direction


@compiled
def largest_change(one: FloatArray, other: FloatArray) -> float:
    """Return the largest difference of two arrays of entries."""
    largest = 0.0
    for k in range(len(one)):
        largest = max(largest, abs(one[k] - other[k]))
    return largest


class Solution(NamedTuple):
    """x: (entries,). projections: their number. step, gradient: the last. missed: the largest miss of a known sum."""

    x: FloatArray
    projections: int
    step: float
    gradient: float
    missed: float


@compiled
def accelerated(
    problems: Problems, objective: Objective, u: FloatArray, steps: int, stop: float, point: Point
) -> tuple[int, float, float]:
    """Take steps of FISTA with restart from u, in place; return their number, the last change of x and the miss."""
    ahead, gradient, better = u.copy(), np.empty(u.shape), np.empty(u.shape)
    before, t, step, missed = np.empty(len(problems.a)), 1.0, np.inf, 0.0
    for iteration in range(steps):
        for k in range(len(before)):
            before[k] = point.x[k]
        missed = evaluate(problems, objective, ahead, LOOSE, point, gradient)
        step = largest_change(before, point.x)
        if iteration and step < stop:
            return iteration + 1, step, missed
        precondition(objective, gradient, better)
        uphill = 0.0
        for j in range(len(u)):
            for c in range(len(objective.scale)):
                better[j, c] += ahead[j, c]
                uphill += gradient[j, c] * (better[j, c] - u[j, c])
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        beta = (t - 1.0) / following
        t = following
        if uphill < 0.0:
            t, beta = 1.0, 0.0
        for j in range(len(u)):
            for c in range(len(objective.scale)):
                ahead[j, c] = better[j, c] + beta * (better[j, c] - u[j, c])
                u[j, c] = better[j, c]
    return steps, step, missed


@compiled
def largest_gradient(objective: Objective, gradient: FloatArray) -> float:
    """Return the largest entry of the dual's gradient, next to rounding errors of large answers.

    x(u) is the least squares of the answers plus the gradient. At a vertex a step may leave x as it is and u far away.
    """
    largest = 0.0
    for j in range(gradient.shape[0]):
        for c in range(gradient.shape[1]):
            largest = max(largest, abs(gradient[j, c]) / max(1.0, 1e-6 * abs(objective.y[j, c])))
    return largest


@compiled
def minimize(problems: Problems, objective: Objective, stop: float) -> Solution:
    """Return the minimum: accelerated steps, then Newton until a full step changes no entry by `stop`.

    The gradient must be small too.
    """
    point, u = start(problems), np.zeros(objective.y.shape)
    if len(u) == 0:
        return Solution(point.x, 1, 0.0, 0.0, project(problems, objective.target, LOOSE, point))
    projections, step, missed = accelerated(problems, objective, u, FIRST_STEPS, stop, point)
    gradient = np.empty(u.shape)
    missed = evaluate(problems, objective, u, LOOSE, point, gradient)
    projections, rest = projections + 1, np.inf
    for _ in range(NEWTON_STEPS):
        direction = newton_direction(problems, objective, point, gradient)
        origin, before = u.copy(), point.x.copy()  # which need no memory beside a face
        first, length = inner(direction, gradient), 1.0
        while True:
            for j in range(len(u)):
                for c in range(len(objective.scale)):
                    u[j, c] = origin[j, c] + length * direction[j, c]
            missed = evaluate(problems, objective, u, LOOSE, point, gradient)
            projections += 1
            slope = inner(direction, gradient)
            if slope >= OVERSHOT * first or length < 1e-3:
                break
            length *= max(0.1, first / (first - slope))
        step, rest = largest_change(before, point.x), largest_gradient(objective, gradient)
        if step < stop * length and rest < GRADIENT:
            break
    return Solution(point.x, projections, step, rest, missed)
