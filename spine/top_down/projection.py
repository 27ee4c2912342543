"""The projection onto the constraints of one parent, in a diagonal metric.

The constraints: x >= 0; x[i, c] = 0 if child c lacks quarters of cell i's type; sum over children = the parent's count,
cell by cell; and for some pairs of a child and a group of cells (all cells, the cells of one type, or those of a set of
types), lo <= sum <= hi.
Each group has a variable S in [lo, hi] of its own with S = sum of x over the group, so that the dual is smooth:

    x[i, c] = max(0, v[i, c] + (lambda_i - sum of tau_g over groups of (i, c)) a[i, c])
    S_g = clip(anchor_g + tau_g / mu_g)

for multipliers lambda (cells) and tau (groups), with a = 1 / metric. Given tau, lambda is exact, cell by cell; tau
maximizes the concave, piecewise quadratic dual by semismooth Newton with conjugate gradients.

Arrays are (cells, children), a child's siblings next to each other in memory. Cells are sorted by type: `types` holds
the first cell of each type and the end. Group arrays are (groups, children): the types, the whole child, the sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray

ARMIJO = 1e-4
NEWTON_STEPS = 60
HALVINGS = 30


class Polytope(NamedTuple):
    """The constraints to project onto, and the metric.

    a: (cells, children) 1 / metric, 0 if the child lacks quarters of the cell's type. counts: (cells,) the parent's;
    empty at a root. types: (types + 1,) first cell of each. active, lo, hi, mu: one per group. set_groups: the groups
    of the sets that contain a type, from first_set[type] on, (types + 1,).
    """

    a: FloatArray
    counts: FloatArray
    types: IntArray
    active: BoolArray
    lo: FloatArray
    hi: FloatArray
    mu: FloatArray
    first_set: IntArray
    set_groups: IntArray


class Point(NamedTuple):
    """A point of the projection, primal and dual.

    x: (cells, children). levels: the groups' variables S. tau, multipliers: the dual, and the start of the next
    projection. sums: x summed over the groups. short: sums - S. free: scratch, a where x > 0.
    """

    x: FloatArray
    levels: FloatArray
    tau: FloatArray
    multipliers: FloatArray
    sums: FloatArray
    short: FloatArray
    free: FloatArray


@compiled
def start(cells: int, children: int, groups: int) -> Point:
    """Return a point of zeros."""
    return Point(
        np.zeros((cells, children)),
        np.zeros((groups, children)),
        np.zeros((groups, children)),
        np.zeros(cells),
        np.zeros((groups, children)),
        np.zeros((groups, children)),
        np.zeros((cells, children)),
    )


@compiled
def folded(values: FloatArray) -> float:
    """Return the sum of the values, overwriting them: halves are added to halves, so that the additions vectorize."""
    length = len(values)
    while length > 8:
        half = (length + 1) // 2
        for c in range(length - half):
            values[c] += values[c + half]
        length = half
    total = 0.0
    for c in range(length):
        total += values[c]
    return total


@compiled
def balance(
    v: FloatArray,
    a: FloatArray,
    potential: FloatArray,
    count: float,
    multiplier: float,
    x: FloatArray,
    scratch: FloatArray,
) -> float:
    """Solve one cell: x = max(0, v + (multiplier - potential) a) with sum(x) = count; return the multiplier.

    Newton on an increasing convex piecewise linear function: monotone after at most one overshoot, and finite.
    """
    children = len(v)
    terms, slopes = scratch[0], scratch[1]
    for _ in range(200):
        for c in range(children):
            z = v[c] + (multiplier - potential[c]) * a[c]
            z = z if z > 0.0 else 0.0
            x[c] = terms[c] = z
            slopes[c] = a[c] * (z > 0.0)
        missing = count - folded(terms)
        if abs(missing) <= 1e-13 * (1.0 + count):
            break
        slope = folded(slopes)
        if slope > 0.0:
            following = multiplier + missing / slope
        else:  # all x are 0: jump to the multiplier at which the first positive child has the whole count
            following = np.inf
            for c in range(children):
                if a[c] > 0.0:
                    following = min(following, potential[c] + (count - v[c]) / a[c])
        if following == multiplier or not np.isfinite(following):
            break
        multiplier = following
    return multiplier


@compiled
def add_to_sets(onto: Polytope, values: FloatArray) -> None:
    """Write the sums of types' rows into the sets' rows of a group array."""
    n_types, children = len(onto.types) - 1, values.shape[1]
    values[n_types + 1 :] = 0.0
    for t in range(n_types):
        for k in range(onto.first_set[t], onto.first_set[t + 1]):
            for c in range(children):
                values[onto.set_groups[k], c] += values[t, c]


@compiled
def add_from_sets(onto: Polytope, t: int, values: FloatArray, out: FloatArray) -> None:
    """Add the rows of all sets that contain a type to `out`, (children,)."""
    for k in range(onto.first_set[t], onto.first_set[t + 1]):
        for c in range(len(out)):
            out[c] += values[onto.set_groups[k], c]


@compiled
def evaluate(onto: Polytope, v: FloatArray, anchor: FloatArray, point: Point) -> float:
    """Write the x and S for the point's tau into it; return max |sum - S|."""
    n_types, children = len(onto.types) - 1, v.shape[1]
    potential, scratch = np.zeros(children), np.empty((2, children))
    sums, tau = point.sums, point.tau
    sums[: n_types + 1] = 0.0
    for t in range(n_types):
        for c in range(children):
            potential[c] = tau[t, c] + tau[n_types, c]
        add_from_sets(onto, t, tau, potential)
        here = sums[t]
        for i in range(onto.types[t], onto.types[t + 1]):
            row = point.x[i]
            if len(onto.counts):
                count, multiplier = onto.counts[i], point.multipliers[i]
                point.multipliers[i] = balance(v[i], onto.a[i], potential, count, multiplier, row, scratch)
            else:
                for c in range(children):
                    row[c] = max(0.0, v[i, c] - potential[c] * onto.a[i, c])
            for c in range(children):
                here[c] += row[c]
    largest = 0.0
    for t in range(n_types):
        for c in range(children):
            sums[n_types, c] += sums[t, c]
    add_to_sets(onto, sums)
    for g in range(len(sums)):
        for c in range(children):
            if onto.active[g, c]:
                level = anchor[g, c] + tau[g, c] / onto.mu[g, c]
                point.levels[g, c] = min(onto.hi[g, c], max(onto.lo[g, c], level))
                point.short[g, c] = sums[g, c] - point.levels[g, c]
                largest = max(largest, abs(point.short[g, c]))
    return largest


@compiled
def dual(onto: Polytope, anchor: FloatArray, point: Point) -> float:
    """Return the dual's value, up to a constant, after `evaluate`."""
    value = 0.0
    for i in range(point.x.shape[0]):
        for c in range(point.x.shape[1]):
            if point.x[i, c] > 0.0:
                value -= point.x[i, c] * point.x[i, c] / (2.0 * onto.a[i, c])
    for i in range(len(onto.counts)):
        value += point.multipliers[i] * onto.counts[i]
    for g in range(anchor.shape[0]):
        for c in range(anchor.shape[1]):
            if onto.active[g, c]:
                away = point.levels[g, c] - anchor[g, c]
                value += 0.5 * onto.mu[g, c] * away * away - point.tau[g, c] * point.levels[g, c]
    return value


@compiled
def free_metric(onto: Polytope, point: Point, mean: FloatArray, diagonal: FloatArray) -> None:
    """Write point.free = a where x > 0, mean = 1 / its sums over the children, and the diagonal of the Hessian."""
    n_types, children = len(onto.types) - 1, point.x.shape[1]
    scratch = np.empty(children)
    for t in range(n_types):
        for i in range(onto.types[t], onto.types[t + 1]):
            row, x, a = point.free[i], point.x[i], onto.a[i]
            for c in range(children):
                row[c] = scratch[c] = a[c] * (x[c] > 0.0)
            total = folded(scratch)
            mean[i] = 1.0 / total if len(onto.counts) and total > 0.0 else 0.0
            for c in range(children):
                diagonal[t, c] += row[c] * (1.0 - row[c] * mean[i])
        for c in range(children):
            diagonal[n_types, c] += diagonal[t, c]
    add_to_sets(onto, diagonal)


@compiled
def hessian_times(
    onto: Polytope, free: FloatArray, mean: FloatArray, ridge: FloatArray, direction: FloatArray, image: FloatArray
) -> None:
    """Write the negative Hessian of the reduced dual times a direction of tau. ridge: added to its diagonal."""
    n_types, children = len(onto.types) - 1, free.shape[1]
    fours = children - children % 4
    shift = np.zeros(children)
    image[: n_types + 1] = 0.0
    for t in range(n_types):
        for c in range(children):
            shift[c] = direction[t, c] + direction[n_types, c]
        add_from_sets(onto, t, direction, shift)
        here = image[t]
        for i in range(onto.types[t], onto.types[t + 1]):
            row, common = free[i], 0.0
            if mean[i] > 0.0:
                q0 = q1 = q2 = q3 = 0.0
                for c in range(0, fours, 4):
                    q0 += row[c] * shift[c]
                    q1 += row[c + 1] * shift[c + 1]
                    q2 += row[c + 2] * shift[c + 2]
                    q3 += row[c + 3] * shift[c + 3]
                for c in range(fours, children):
                    q0 += row[c] * shift[c]
                common = ((q0 + q1) + (q2 + q3)) * mean[i]
            for c in range(children):
                here[c] += row[c] * (shift[c] - common)
    for t in range(n_types):
        for c in range(children):
            image[n_types, c] += image[t, c]
    add_to_sets(onto, image)
    for g in range(len(image)):
        for c in range(children):
            image[g, c] = image[g, c] + ridge[g, c] * direction[g, c] if onto.active[g, c] else 0.0


@compiled
def inner(one: FloatArray, other: FloatArray) -> float:
    """Return the inner product of two group arrays."""
    total = 0.0
    for g in range(one.shape[0]):
        for c in range(one.shape[1]):
            total += one[g, c] * other[g, c]
    return total


@compiled
def towards(origin: FloatArray, step: float, direction: FloatArray, out: FloatArray) -> None:
    """Write out = origin + step x direction, of group arrays."""
    for g in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[g, c] = origin[g, c] + step * direction[g, c]


@compiled
def newton_direction(onto: Polytope, largest: float, point: Point, direction: FloatArray) -> None:
    """Solve Hessian x direction = gradient by conjugate gradients with a diagonal preconditioner.

    The direction that raises all totals and lambdas together is nearly singular, hence a ridge that vanishes with the
    gradient.
    """
    groups, children = direction.shape
    mean = np.empty(len(point.x))
    diagonal, ridge = np.zeros((groups, children)), np.zeros((groups, children))
    residual, search, image = np.zeros((groups, children)), np.zeros((groups, children)), np.zeros((groups, children))
    free_metric(onto, point, mean, diagonal)
    direction[:] = 0.0
    power = 0.0
    for g in range(groups):
        for c in range(children):
            if onto.active[g, c]:
                inside = onto.lo[g, c] < point.levels[g, c] < onto.hi[g, c]
                ridge[g, c] = (min(1e-2, 1e-2 * largest) + (1.0 if inside else 0.0)) / onto.mu[g, c]
                diagonal[g, c] += ridge[g, c]
                residual[g, c] = point.short[g, c]
                search[g, c] = residual[g, c] / diagonal[g, c]
                power += residual[g, c] * search[g, c]
            else:
                diagonal[g, c] = np.inf
    accuracy = min(1e-2, max(1e-6, 0.1 * largest))
    enough = accuracy * accuracy * power
    for _ in range(4 * groups * children + 10):
        if power <= enough:
            break
        hessian_times(onto, point.free, mean, ridge, search, image)
        curvature = inner(search, image)
        if not curvature > 0.0:
            break
        step, following = power / curvature, 0.0
        for g in range(groups):
            for c in range(children):
                direction[g, c] += step * search[g, c]
                residual[g, c] -= step * image[g, c]
                following += residual[g, c] * residual[g, c] / diagonal[g, c]
        for g in range(groups):
            for c in range(children):
                search[g, c] = residual[g, c] / diagonal[g, c] + following / power * search[g, c]
        power = following


@compiled
def ascend(onto: Polytope, v: FloatArray, anchor: FloatArray, largest: float, point: Point) -> float:
    """Take one Newton step on tau; return max |sum - S| after it, infinity if no step raises the dual.

    The full step is taken if it halves the residual, else the dual must rise (Armijo).
    """
    direction, origin = np.empty(anchor.shape), np.empty(anchor.shape)
    newton_direction(onto, largest, point, direction)
    slope, step = inner(direction, point.short), 1.0
    towards(point.tau, 0.0, direction, origin)
    value = np.nan  # dual at the origin, needed only if the full step does not halve the residual
    for _ in range(HALVINGS):
        towards(origin, step, direction, point.tau)
        residual = evaluate(onto, v, anchor, point)
        if residual <= 0.5 * largest:
            return residual
        if np.isnan(value):
            towards(origin, 0.0, direction, point.tau)
            evaluate(onto, v, anchor, point)
            value = dual(onto, anchor, point)
            towards(origin, step, direction, point.tau)
            residual = evaluate(onto, v, anchor, point)
        if dual(onto, anchor, point) - value >= ARMIJO * step * slope:
            return residual
        step *= 0.5
    towards(origin, 0.0, direction, point.tau)
    evaluate(onto, v, anchor, point)
    return np.inf


@compiled
def project(onto: Polytope, v: FloatArray, anchor: FloatArray, tolerance: float, point: Point) -> float:
    """Project v, and `anchor` of the groups' variables, into `point`; return max |sum - S| over the groups."""
    largest = evaluate(onto, v, anchor, point)
    for _ in range(NEWTON_STEPS):
        if largest <= tolerance:
            break
        following = ascend(onto, v, anchor, largest, point)
        if following == np.inf:
            break
        largest = following
    return largest
