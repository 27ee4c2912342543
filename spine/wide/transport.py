"""Transportation problems: the rows and the columns of each have known sums. The projection onto them, and onto a face.

A parent with known sums of its children divides into one problem for each known sum: rows are its cells, columns the
children that have records of the sum. A root has free rows: each of its problems is a simplex. In the metric 1 / a

    x[i, c] = max(0, v[i, c] + (lambda_i - tau_c) a[i, c])

for multipliers lambda (rows) and tau (columns). Given tau, lambda is exact, row by row (`projection.balance`). tau
maximizes the concave, piecewise quadratic dual by Newton on M = diag - F'A^-1 F over the positive entries.

Noise much larger than the counts puts solutions at vertices: M is then singular in as many directions as the positive
entries have components. A ridge that grows after a shortened step and shrinks after a full one, and from time to time
an exact ascent column by column, leave no direction in which the method stalls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from spine.geography import FloatArray, IntArray
from spine.top_down.projection import ARMIJO, balance

NEWTON_STEPS = 150
HALVINGS = 12
ROUNDED = 1e-9  # share of the dual by which rounding errors may lower it; a step that lowers it more is too long
ASCENT_EVERY = 8
DENSE = 60  # columns; above, Newton directions come from conjugate gradients
FIRST_RIDGE, LEAST_RIDGE, MOST_RIDGE = 1e-2, 1e-10, 1e6  # shares of the largest diagonal entry of M


class Problems(NamedTuple):
    """The transportation problems of one parent; entries are in row-major order, problem after problem.

    first_row, first_column, first: (problems + 1,) first row, column and entry of each. child: (columns,) the child of
    a column. rows, columns: their sums; no row sums at a root. a: (entries,) 1 / metric, 0 where a child is closed.
    """

    first_row: IntArray
    first_column: IntArray
    first: IntArray
    child: IntArray
    rows: FloatArray
    columns: FloatArray
    a: FloatArray


class Point(NamedTuple):
    """A projection, primal and dual: x (entries,), lambda (rows,) and tau (columns,), the start of the next one."""

    x: FloatArray
    rows: FloatArray
    columns: FloatArray


@compiled
def start(problems: Problems) -> Point:
    """Return a point of zeros."""
    return Point(np.zeros(len(problems.a)), np.zeros(problems.first_row[-1]), np.zeros(problems.first_column[-1]))


@compiled
def solve_rows(
    v: FloatArray,
    a: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    rows: FloatArray,
    tau: FloatArray,
    short: FloatArray,
    scratch: FloatArray,
) -> float:
    """Solve every row for the tau given; write the excess of each column into `short`; return the largest."""
    for c in range(len(tau)):
        short[c] = -sums[c]
    for i in range(len(v)):
        rows[i] = balance(v[i], a[i], tau, counts[i], rows[i], x[i], scratch)
        for c in range(len(tau)):
            short[c] += x[i, c]
    largest = 0.0
    for c in range(len(tau)):
        largest = max(largest, abs(short[c]))
    return largest


@compiled
def dual(
    a: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    rows: FloatArray,
    tau: FloatArray,
) -> float:
    """Return the value of the dual, up to a constant, at the solution of its rows."""
    value = 0.0
    for i in range(len(x)):
        own = rows[i] * counts[i]
        for c in range(len(tau)):
            if x[i, c] > 0.0:
                own -= x[i, c] * x[i, c] / (2.0 * a[i, c])
        value += own
    for c in range(len(tau)):
        value -= tau[c] * sums[c]
    return value


@compiled
def column_matrix(a: FloatArray, x: FloatArray, out: FloatArray) -> float:
    """Write M = diag - F'A^-1 F over the rows with two or more positive entries; return its largest diagonal entry."""
    n, columns = x.shape
    out[:] = 0.0
    place = np.empty(columns, np.int64)
    for i in range(n):
        free, total = 0, 0.0
        for c in range(columns):
            if x[i, c] > 0.0:
                place[free] = c
                free += 1
                total += a[i, c]
        if free > 1:
            for k in range(free):
                c = place[k]
                part = a[i, c] / total
                for j in range(k):
                    out[c, place[j]] -= part * a[i, place[j]]
                out[c, c] += a[i, c] - part * a[i, c]
    top = 0.0
    for c in range(columns):
        top = max(top, out[c, c])
        for j in range(c):
            lower = out[c, j] + out[j, c]
            out[c, j] = out[j, c] = lower
    return top


@compiled
def factor(matrix: FloatArray, ridge: float) -> None:
    """Factor a positive semidefinite matrix plus a ridge in place: L below the diagonal, 1 / D on it.

    A pivot that vanishes next to its diagonal entry belongs to a direction in which the matrix is 0: 1 / D is 0 there.
    """
    n = len(matrix)
    scaled = np.empty(n)
    for j in range(n):
        own = matrix[j, j] + ridge
        pivot = own
        for k in range(j):
            scaled[k] = matrix[j, k] / matrix[k, k] if matrix[k, k] > 0.0 else 0.0
            pivot -= matrix[j, k] * scaled[k]
        matrix[j, j] = 1.0 / pivot if pivot > 1e-11 * own else 0.0
        for i in range(j + 1, n):
            value = matrix[i, j]
            for k in range(j):
                value -= matrix[i, k] * scaled[k]
            matrix[i, j] = value * matrix[j, j]


@compiled
def solve_factored(matrix: FloatArray, right: FloatArray) -> None:
    """Solve in place for a right-hand side, (n,)."""
    n = len(matrix)
    for i in range(n):
        value = right[i]
        for k in range(i):
            value -= matrix[i, k] * right[k]
        right[i] = value
    for i in range(n - 1, -1, -1):
        right[i] *= matrix[i, i]
        value = right[i]
        for k in range(i + 1, n):
            value -= matrix[k, i] * right[k]
        right[i] = value


@compiled
def times_columns(a: FloatArray, x: FloatArray, ridge: float, d: FloatArray, out: FloatArray) -> None:
    """Write (M + ridge) d into `out`, without forming M."""
    n, columns = x.shape
    for c in range(columns):
        out[c] = ridge * d[c]
    for i in range(n):
        free, total, mean = 0, 0.0, 0.0
        for c in range(columns):
            if x[i, c] > 0.0:
                free += 1
                total += a[i, c]
                mean += a[i, c] * d[c]
        if free > 1:
            mean /= total
            for c in range(columns):
                if x[i, c] > 0.0:
                    out[c] += a[i, c] * (d[c] - mean)


@compiled
def column_diagonal(a: FloatArray, x: FloatArray, out: FloatArray) -> float:
    """Write the diagonal of M; return its largest entry."""
    n, columns = x.shape
    out[:] = 0.0
    for i in range(n):
        total = 0.0
        for c in range(columns):
            total += a[i, c] * (x[i, c] > 0.0)
        for c in range(columns):
            if x[i, c] > 0.0:
                out[c] += a[i, c] * (total - a[i, c]) / total
    top = 0.0
    for c in range(columns):
        top = max(top, out[c])
    return top


@compiled
def conjugate_columns(
    a: FloatArray, x: FloatArray, ridge: float, diagonal: FloatArray, accuracy: float, right: FloatArray
) -> None:
    """Solve (M + ridge) d = right in place by conjugate gradients with a diagonal preconditioner."""
    columns = len(right)
    d, residual, search, image = np.zeros(columns), right.copy(), np.zeros(columns), np.empty(columns)
    power = 0.0
    for c in range(columns):
        if diagonal[c] + ridge > 0.0:
            search[c] = residual[c] / (diagonal[c] + ridge)
            power += residual[c] * search[c]
    enough = accuracy * accuracy * power
    for _ in range(4 * columns + 10):
        if power <= enough:
            break
        times_columns(a, x, ridge, search, image)
        curvature = 0.0
        for c in range(columns):
            curvature += search[c] * image[c]
        if not curvature > 0.0:
            break
        step, following = power / curvature, 0.0
        for c in range(columns):
            d[c] += step * search[c]
            residual[c] -= step * image[c]
            if diagonal[c] + ridge > 0.0:
                following += residual[c] * residual[c] / (diagonal[c] + ridge)
        for c in range(columns):
            own = residual[c] / (diagonal[c] + ridge) if diagonal[c] + ridge > 0.0 else 0.0
            search[c] = own + following / power * search[c]
        power = following
    for c in range(columns):
        right[c] = d[c]


@compiled
def newton_direction(
    a: FloatArray, x: FloatArray, ridge: float, largest: float, matrix: FloatArray, direction: FloatArray
) -> None:
    """Replace the excess of the columns, in `direction`, by the Newton step.

    ridge: as a share of the largest entry of M or of a (`largest`). All tau and lambda together may be shifted: the
    first column's tau stays as it is.
    """
    if len(matrix):
        top = column_matrix(a, x, matrix)
        factor(matrix, ridge * max(top, largest))
        solve_factored(matrix, direction)
    else:
        diagonal = np.empty(len(direction))
        top = column_diagonal(a, x, diagonal)
        conjugate_columns(a, x, ridge * max(top, largest), diagonal, 1e-3, direction)
    shift = direction[0]
    for c in range(len(direction)):
        direction[c] -= shift


@compiled
def ascend_columns(v: FloatArray, a: FloatArray, sums: FloatArray, rows: FloatArray, tau: FloatArray) -> None:
    """Maximize the dual over the tau of each column, for the present lambda."""
    n = len(v)
    potential, own, scale = np.empty(n), np.empty(n), np.empty(n)
    x, scratch = np.empty(n), np.empty((2, n))
    for i in range(n):
        potential[i] = -rows[i]
    for c in range(len(tau)):
        for i in range(n):
            own[i], scale[i] = v[i, c], a[i, c]
        tau[c] = -balance(own, scale, potential, sums[c], -tau[c], x, scratch)


@compiled
def project_one(
    v: FloatArray,
    a: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    tolerance: float,
    x: FloatArray,
    rows: FloatArray,
    tau: FloatArray,
) -> float:
    """Project v onto one problem; return the largest excess of a column."""
    columns = len(tau)
    scratch, short, origin = np.empty((2, columns)), np.empty(columns), np.empty(columns)
    direction = np.empty(columns)
    dense = columns if columns <= DENSE else 0
    matrix, ridge, steepest = np.empty((dense, dense)), FIRST_RIDGE, 0.0
    for i in range(a.shape[0]):
        for c in range(columns):
            steepest = max(steepest, a[i, c])
    largest = solve_rows(v, a, counts, sums, x, rows, tau, short, scratch)
    for iteration in range(NEWTON_STEPS):
        if largest <= tolerance:
            break
        if iteration % ASCENT_EVERY == ASCENT_EVERY - 1:
            ascend_columns(v, a, sums, rows, tau)
            largest = solve_rows(v, a, counts, sums, x, rows, tau, short, scratch)
            continue
        for c in range(columns):
            direction[c], origin[c] = short[c], tau[c]
        newton_direction(a, x, ridge, steepest, matrix, direction)
        value, slope = dual(a, counts, sums, x, rows, tau), 0.0
        for c in range(columns):
            slope += direction[c] * short[c]
        step, cuts, before = 1.0, 0, largest
        while True:
            for c in range(columns):
                tau[c] = origin[c] + step * direction[c]
            largest = solve_rows(v, a, counts, sums, x, rows, tau, short, scratch)
            gained = dual(a, counts, sums, x, rows, tau) - value
            ends = largest <= 0.5 * before and gained >= -ROUNDED * (1.0 + abs(value))  # where rounding errors hide it
            if ends or gained >= ARMIJO * step * slope or cuts == HALVINGS:
                break
            step *= 0.5
            cuts += 1
        if cuts == HALVINGS:
            for c in range(columns):
                tau[c] = origin[c]
            largest = solve_rows(v, a, counts, sums, x, rows, tau, short, scratch)
        ridge = ridge / 5.0 if cuts == 0 else ridge * (4.0 if cuts < 3 else 10.0)
        ridge = min(MOST_RIDGE, max(LEAST_RIDGE, ridge))
    return largest


@compiled
def project_problem(problems: Problems, g: int, v: FloatArray, tolerance: float, point: Point) -> float:
    """Project v, (entries of problem g,), into `point`; return the largest excess of a column, 0 if rounding errors
    allow it.

    Without row sums each problem is a simplex of one column, which is solved exactly.
    """
    r, s = problems.first_row[g], problems.first_row[g + 1]
    k, m = problems.first_column[g], problems.first_column[g + 1]
    at = slice(problems.first[g], problems.first[g + 1])
    sums, tau = problems.columns[k:m], point.columns[k:m]
    if len(problems.rows) == 0:
        potential, scratch = np.zeros(s - r), np.empty((2, s - r))
        tau[0] = -balance(v, problems.a[at], potential, sums[0], -tau[0], point.x[at], scratch)
        return 0.0
    shape = (s - r, m - k)
    own, x = v.reshape(shape), point.x[at].reshape(shape)
    enough = tolerance
    for c in range(m - k):
        enough = max(enough, 1e-13 * sums[c])
    counts, rows = problems.rows[r:s], point.rows[r:s]
    missed = project_one(own, problems.a[at].reshape(shape), counts, sums, enough, x, rows, tau)
    return missed if missed > enough else 0.0


@compiled
def project(problems: Problems, v: FloatArray, tolerance: float, point: Point) -> float:
    """Project v, (entries,), into `point`; return the largest excess of a column, as `project_problem` does."""
    largest = 0.0
    for g in range(len(problems.first) - 1):
        own = v[problems.first[g] : problems.first[g + 1]]
        largest = max(largest, project_problem(problems, g, own, tolerance, point))
    return largest


class Face(NamedTuple):
    """The face of a projection, to which small changes of v are projected: only its free entries can change.

    An entry is free if it is positive, and another of its row is (at a root: if it is positive). first: (problems + 1,)
    where the factored M of each problem begins in `factors`; empty for problems of more than DENSE columns. rows:
    (problems + 1,) and entries: (free rows + 1,) first of each. row: (free rows,) its number. total: (free rows,) sum
    of a over its free entries. column, child, a: (free entries,) those of each; columns are numbered in their problem.
    """

    first: IntArray
    factors: FloatArray
    rows: IntArray
    entries: IntArray
    row: IntArray
    total: FloatArray
    column: NDArray[np.int32]
    child: NDArray[np.int32]
    a: FloatArray


@compiled
def face_of(problems: Problems, x: FloatArray) -> Face:
    """Return the face of a projected x."""
    count, positive, of_rows = len(problems.first) - 1, 0, problems.first_row[-1]
    for k in range(len(x)):
        positive += x[k] > 0.0
    first, rows, entries = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(of_rows + 1, np.int64)
    for g in range(count):
        columns = problems.first_column[g + 1] - problems.first_column[g]
        first[g + 1] = first[g] + (columns * columns if columns <= DENSE and len(problems.rows) else 0)
    factors, row, total = np.empty(first[count]), np.empty(of_rows, np.int64), np.zeros(of_rows)
    column, child, a = np.empty(positive, np.int32), np.empty(positive, np.int32), np.empty(positive)
    others, i, e = 1 if len(problems.rows) else 0, 0, 0
    for g in range(count):
        at, begin = problems.first[g], problems.first_column[g]
        columns = problems.first_column[g + 1] - begin
        for r in range(problems.first_row[g], problems.first_row[g + 1]):
            end = e
            for c in range(columns):
                if x[at + c] > 0.0:
                    column[end], child[end], a[end] = c, problems.child[begin + c], problems.a[at + c]
                    end += 1
            if end - e > others:
                for k in range(e, end):
                    total[i] += a[k]
                row[i], e, i = r, end, i + 1
                entries[i] = e
            at += columns
        rows[g + 1] = i
        if first[g + 1] > first[g]:
            shape = (problems.first_row[g + 1] - problems.first_row[g], columns)
            own = slice(problems.first[g], problems.first[g + 1])
            matrix = factors[first[g] : first[g + 1]].reshape((columns, columns))
            column_matrix(problems.a[own].reshape(shape), x[own].reshape(shape), matrix)
            factor(matrix, 0.0)
    return Face(first, factors, rows, entries[: i + 1], row[:i], total[:i], column[:e], child[:e], a[:e])


@compiled
def onto_face(problems: Problems, x: FloatArray, face: Face, q: FloatArray) -> None:
    """Replace q, (free entries,) changes of v / a, by the changes of x."""
    for g in range(len(problems.first) - 1):
        begin, end = face.rows[g], face.rows[g + 1]
        columns = problems.first_column[g + 1] - problems.first_column[g]
        if len(problems.rows) == 0:
            mean, total = 0.0, 0.0
            for e in range(face.entries[begin], face.entries[end]):
                mean += face.a[e] * q[e]
                total += face.a[e]
            for e in range(face.entries[begin], face.entries[end]):
                q[e] = face.a[e] * (q[e] - mean / total)
            continue
        if begin == end:
            continue
        right = np.zeros(columns)
        for i in range(begin, end):
            mean = 0.0
            for e in range(face.entries[i], face.entries[i + 1]):
                mean += face.a[e] * q[e]
            mean /= face.total[i]
            for e in range(face.entries[i], face.entries[i + 1]):
                q[e] -= mean
                right[face.column[e]] += face.a[e] * q[e]
        if face.first[g + 1] > face.first[g]:
            solve_factored(face.factors[face.first[g] : face.first[g + 1]].reshape((columns, columns)), right)
        else:
            shape = (problems.first_row[g + 1] - problems.first_row[g], columns)
            own, diagonal = slice(problems.first[g], problems.first[g + 1]), np.empty(columns)
            a, of_x = problems.a[own].reshape(shape), x[own].reshape(shape)
            column_diagonal(a, of_x, diagonal)
            conjugate_columns(a, of_x, 0.0, diagonal, 1e-9, right)
        for i in range(begin, end):
            mean = 0.0
            for e in range(face.entries[i], face.entries[i + 1]):
                mean += face.a[e] * right[face.column[e]]
            mean /= face.total[i]
            for e in range(face.entries[i], face.entries[i + 1]):
                q[e] = face.a[e] * (q[e] - right[face.column[e]] + mean)
