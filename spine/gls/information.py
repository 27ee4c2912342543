"""The information of geounits: what their noisy answers and those of everything below them say, as (h, P).

Noise is independent between geounits and a parent is the sum of its children, so the measurements of a spine are a
Gaussian tree. Every subtree is summarized exactly by the information of its top geounit, the pair (h, P): half the
weighted squares of its measurements, minimized over all geounits below, are x'Px/2 - h'x plus a constant. An only child
passes its information up unchanged; siblings with estimates z = Vh of variance V = 1/P give their parent B = 1/(sum of
V) and b = B (sum of z), to which its own answers are added. Measurements above a geounit and of its siblings enter
through its parent's count alone, so dividing a parent by the children's (h, P) uses every measurement of the spine
(generalized least squares), except that a parent is estimated as if its descendants could be negative.

P is small. A geounit without quarters of a type has no person of that type: these are public zeros. P is one symmetric
matrix between types on each of the 8 components (`grid`), 0 outside the types that the geounit has. That under 18
nobody is in nursing homes is left to the division: it would break the components.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.grid import grid, precision_of_queries, total_of
from spine.top_down.histogram import Product
from spine.top_down.plan import Plan
from spine.top_down.queries import QueryHierarchy


@dataclass(frozen=True)
class Information:
    """The information of the geounits first, first + 1, ... of a level, from their answers and all those below them.

    Public: a function of noisy answers and declared invariants. linear: (geounits, types, signs, races) h. precision:
    (geounits, components, types, types) P. Of housing units both are (geounits,): of the number that is occupied.
    """

    level: int
    first: int
    linear: FloatArray
    precision: FloatArray

    def __len__(self) -> int:
        return len(self.linear)

    @property
    def last(self) -> int:
        """Return the geounit after the last one."""
        return self.first + len(self)

    def only(self, first: int, last: int) -> Information:
        """Return those of the geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Information(self.level, first, self.linear[rows], self.precision[rows])


def information_joined(parts: list[Information]) -> Information:
    """Join ranges of geounits of one level that follow each other."""
    linear, precision = (
        np.concatenate(arrays) for arrays in zip(*((p.linear, p.precision) for p in parts), strict=True)
    )
    return Information(parts[0].level, parts[0].first, linear, precision)


def ready(given: Information) -> Information:
    """Return arrays as kernels take them: one read from a file may be read-only, which is another type to numba."""
    linear, precision = (np.require(array, float, ["C", "W"]) for array in (given.linear, given.precision))
    return Information(given.level, given.first, linear, precision)


def own_information(
    product: Product,
    level: int,
    first: int,
    queries: list[str],
    hierarchy: QueryHierarchy,
    answers: FloatArray,
    weights: FloatArray,
    allowed: BoolArray,
) -> Information:
    """Return the information in the answers of geounits themselves; nothing where the share is 0.

    queries, hierarchy: the level's query groups. answers: (geounits, coordinates). weights: (groups, geounits) inverse
    variances. allowed: (geounits, types).
    """
    distinct, index = np.unique(weights, axis=1, return_inverse=True)
    parts = precision_of_queries(product, queries)
    table = np.zeros((distinct.shape[1], *parts.shape[1:]))
    for weight, part in zip(distinct, parts, strict=True):
        table += weight[:, None, None, None] * part
    precision = table[index.ravel()] * (allowed[:, None, :, None] & allowed[:, None, None, :])
    linear = np.zeros((len(allowed), *grid(product).shape))
    weighted_sums(hierarchy, answers, weights, allowed, linear)
    return Information(level, first, linear, precision)


@compiled
def sign(x: FloatArray) -> None:
    """Put (types, signs, races) into orthonormal sums and differences on the axes of two points; its own inverse."""
    types, signs, races = x.shape
    scale = 1.0 / np.sqrt(float(signs))
    for t in range(types):
        half = 1
        while half < signs:
            factor = scale if 2 * half == signs else 1.0
            for first in range(0, signs, 2 * half):
                for s in range(first, first + half):
                    one, other = x[t, s], x[t, s + half]
                    for r in range(races):
                        a, b = one[r], other[r]
                        one[r], other[r] = factor * (a + b), factor * (a - b)
            half *= 2


@compiled
def weighted_sums(
    queries: QueryHierarchy, answers: FloatArray, weights: FloatArray, allowed: BoolArray, linear: FloatArray
) -> None:
    """Write h = sum over query groups of w Q'y, each added to the finer group it is summed from, down to the cells."""
    groups = len(queries.finer)
    table = np.empty(queries.offsets[-1])
    signs, races = linear.shape[2:]
    for u in range(len(answers)):
        for q in range(groups):
            for j in range(queries.offsets[q], queries.offsets[q + 1]):
                table[j] = weights[q, u] * answers[u, j]
        for q in range(groups - 1, 0, -1):
            finer = queries.finer[q]
            fine, coarse, at = queries.offsets[finer], queries.offsets[q], queries.parent_offsets[q]
            for j in range(queries.offsets[finer + 1] - fine):
                table[fine + j] += table[coarse + queries.parent_of[at + j]]
        for t in range(linear.shape[1]):
            if allowed[u, t]:
                for s in range(signs):
                    for r in range(races):
                        linear[u, t, s, r] = table[(t * signs + s) * races + r]
        sign(linear[u])


@compiled
def inverse(matrix: FloatArray, allowed: BoolArray, out: FloatArray) -> None:
    """Write the inverse of each component on the allowed types, by Cholesky's factors; `out` must be 0 outside them."""
    k = 0
    types = np.empty(len(allowed), np.int64)
    for t in range(len(allowed)):
        if allowed[t]:
            types[k] = t
            k += 1
    low = np.zeros((k, k))  # the factor L, then its inverse
    for part in range(len(matrix)):
        for i in range(k):
            for j in range(i + 1):
                value = matrix[part, types[i], types[j]]
                for m in range(j):
                    value -= low[i, m] * low[j, m]
                low[i, j] = np.sqrt(value) if i == j else value / low[j, j]
        for j in range(k):
            low[j, j] = 1.0 / low[j, j]
            for i in range(j + 1, k):
                value = 0.0
                for m in range(j, i):
                    value -= low[i, m] * low[m, j]
                low[i, j] = value / low[i, i]
        for i in range(k):
            for j in range(i + 1):
                value = 0.0
                for m in range(i, k):
                    value += low[m, i] * low[m, j]
                out[part, types[i], types[j]] = out[part, types[j], types[i]] = value


@compiled
def add_times(matrix: FloatArray, x: FloatArray, y: FloatArray) -> None:
    """Add to y the (components, types, types) matrix times x; x, y: (types, signs, races)."""
    types, signs, races = x.shape
    mean = np.empty((types, signs))
    for t in range(types):
        for s in range(signs):
            total = 0.0
            for r in range(races):
                total += x[t, s, r]
            mean[t, s] = total / races
    for t in range(types):
        for u in range(types):
            for s in range(signs):
                rest = matrix[2 * s + 1, t, u]
                if rest != 0.0 or matrix[2 * s, t, u] != 0.0:
                    shift = (matrix[2 * s, t, u] - rest) * mean[u, s]
                    for r in range(races):
                        y[t, s, r] += rest * x[u, s, r] + shift


@compiled
def solved(linear: FloatArray, precision: FloatArray, allowed: BoolArray, z: FloatArray, variance: FloatArray) -> None:
    """Write z = V h and V of every geounit."""
    for u in range(len(linear)):
        inverse(precision[u], allowed[u], variance[u])
        add_times(variance[u], linear[u], z[u])


@compiled
def from_children(
    first: IntArray, linear: FloatArray, precision: FloatArray, allowed: BoolArray, b: FloatArray, below: FloatArray
) -> None:
    """Write b = B (sum of z) and B of each parent's children into (parents, ...) arrays of 0.

    first: (parents + 1,) first child of every parent. allowed: (children, types).
    """
    variance, zs = np.zeros(precision.shape[1:]), np.zeros(linear.shape[1:])
    spread, any_allowed = np.zeros(precision.shape[1:]), np.zeros(allowed.shape[1], np.bool_)
    for p in range(len(first) - 1):
        if first[p + 1] - first[p] == 1:
            b[p], below[p] = linear[first[p]], precision[first[p]]
            continue
        zs[:], spread[:], any_allowed[:] = 0.0, 0.0, False
        for c in range(first[p], first[p + 1]):
            variance[:] = 0.0
            inverse(precision[c], allowed[c], variance)
            add_times(variance, linear[c], zs)
            spread += variance
            any_allowed |= allowed[c]
        inverse(spread, any_allowed, below[p])
        add_times(below[p], zs, b[p])


def allowed_types(plan: Plan, level: int, first: int, last: int) -> BoolArray:
    """Return (geounits, types) whether a geounit has living quarters of a type; every type in blocks of a free plan."""
    allowed = np.ascontiguousarray(plan.bounds.allowed(level)[first:last])
    return np.ones_like(allowed) if plan.free and plan.is_leaf(level) else allowed


def only_allowed(plan: Plan, given: Information) -> Information:
    """Return information on the types that the geounits have: the others are known to be 0."""
    allowed = allowed_types(plan, given.level, given.first, given.last)
    precision = given.precision * (allowed[:, None, :, None] & allowed[:, None, None, :])
    return Information(given.level, given.first, given.linear * allowed[:, :, None, None], precision)


def combine_children(plan: Plan, parent: int, first: IntArray, given: Information) -> Information:
    """Return the children's information on the parents numbered from `parent`; first: as for `from_children`."""
    given, parents = ready(given), len(first) - 1
    b, below = np.zeros((parents, *given.linear.shape[1:])), np.zeros((parents, *given.precision.shape[1:]))
    allowed = allowed_types(plan, given.level, given.first, given.last)
    from_children(first, given.linear, given.precision, allowed, b, below)
    return Information(given.level - 1, parent, b, below)


def combine_states(plan: Plan, given: Information) -> Information:
    """Return the information of the states' parts on the nation, where the total of each state's parts is declared.

    A state is the sum of its parts, known to sum to its total: its variance has no part along the total. So B has none
    either, and the nation's own total adds nothing: it is the sum of the declared ones.
    """
    z, variance = estimates(plan, given)
    state, declared = plan.bounds.lowest_totals.group, plan.bounds.lowest_totals.values
    number = len(declared)
    zs, spread = np.zeros((number, *z.shape[1:])), np.zeros((number, *variance.shape[1:]))
    np.add.at(zs, state, z)
    np.add.at(spread, state, variance)
    zs, spread = declared_total(zs, spread, declared)
    below = np.array([np.linalg.pinv(part, hermitian=True, rcond=1e-12) for part in spread.sum(axis=0)])[None]
    b = np.zeros((1, *z.shape[1:]))
    add_times(below[0], zs.sum(axis=0), b[0])
    return Information(given.level - 1, 0, b, below)


def declared_total(z: FloatArray, variance: FloatArray, total: IntArray | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return estimates and variances once the total of each geounit is known."""
    along = variance[:, 0].sum(axis=-1)  # V 1, without the factor sqrt(signs) of the sums
    spread = along.sum(axis=-1)
    moved, known = z.copy(), variance.copy()
    signs, races = z.shape[2:]
    missing = (total - total_of(z)) / (signs * races * spread)
    moved[:, :, 0, :] += np.sqrt(signs) * (along * missing[:, None])[:, :, None]
    known[:, 0] -= along[:, :, None] * along[:, None, :] / spread[:, None, None]
    return moved, known


def estimates(plan: Plan, given: Information) -> tuple[FloatArray, FloatArray]:
    """Return z = V h and V of geounits that are measured, or have something below them that is."""
    given = ready(given)
    z, variance = np.zeros(given.linear.shape), np.zeros(given.precision.shape)
    solved(given.linear, given.precision, allowed_types(plan, given.level, given.first, given.last), z, variance)
    return z, variance
