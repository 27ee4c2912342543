"""The information of geounits from their noisy answers and those of everything below them, as (h, P).

Noise is independent between geounits and a parent is the sum of its children, so the measurements of a spine are a
Gaussian tree. The information of its top geounit summarizes every subtree exactly. It is the pair (h, P): half the
weighted squares of its measurements, minimized over all geounits below, are x'Px/2 - h'x plus a constant. An only child
passes its information up unchanged; siblings with estimates z = Vh of variance V = 1/P give their parent B = 1/(sum of
V) and b = B (sum of z), to which its own answers are added. Measurements above a geounit and of its siblings matter
only through its parent's count, so dividing a parent by the children's (h, P) uses every measurement of the spine
(generalized least squares), except that a parent is estimated as if its descendants could be negative.

P is small. A geounit without quarters of a type has no person of that type: these are public zeros. P is one symmetric
matrix between types on each of the components (`grid`; 8 for redistricting), and 0 outside the geounit's types. The
division handles bounds and other structural zeros, such as nobody under 18 in nursing homes: they would break up the
components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.grid import Grid, Signs, grid, total_of
from spine.top_down.plan import Plan
from spine.top_down.queries import QueryHierarchy


@dataclass(frozen=True)
class Information:
    """The information of the geounits first, first + 1, ... of a level, from their answers and all those below them.

    Public: a function of noisy answers and declared invariants. linear: (geounits, types, signs, races) h. precision:
    (geounits, components, slots x types, slots x types) P. For housing units both are (geounits,), for the number of
    occupied units.
    """

    level: int
    first: int
    linear: FloatArray
    precision: FloatArray

    def __len__(self) -> int:
        return len(self.linear)

    @property
    def last(self) -> int:
        """Return the number after that of the last geounit."""
        return self.first + len(self)

    def only(self, first: int, last: int) -> Information:
        """Return the information of the geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Information(self.level, first, self.linear[rows], self.precision[rows])


def information_joined(parts: list[Information]) -> Information:
    """Join consecutive ranges of geounits of one level."""
    linear, precision = (
        np.concatenate(arrays) for arrays in zip(*((p.linear, p.precision) for p in parts), strict=True)
    )
    return Information(parts[0].level, parts[0].first, linear, precision)


def ready(given: Information) -> Information:
    """Return arrays in the form that kernels take: arrays from a file may be read-only, another type to numba."""
    linear, precision = (np.require(array, float, ["C", "W"]) for array in (given.linear, given.precision))
    return Information(given.level, given.first, linear, precision)


def own_information(
    sizes: Grid,
    level: int,
    first: int,
    queries: list[str],
    hierarchy: QueryHierarchy,
    answers: Mapping[str, IntArray],
    weights: FloatArray,
    allowed: BoolArray,
) -> Information:
    """Return the information in the answers of geounits themselves; zeros for a share of 0.

    queries, hierarchy: the level's query groups. answers: by query group, (geounits, coordinates); empty if no geounit
    is measured. weights: (groups, geounits) inverse variances. allowed: (geounits, types).
    """
    distinct, index = np.unique(weights, axis=1, return_inverse=True)
    parts = _squared(sizes, tuple(queries))
    table = np.zeros((distinct.shape[1], *parts.shape[1:]))
    for weight, part in zip(distinct, parts, strict=True):
        table += weight[:, None, None, None] * part
    linear = np.zeros((len(allowed), *sizes.shape))
    if answers:
        cells, *others = (answers[query] for query in queries)
        sums = np.concatenate([np.zeros((len(cells), 0)), *others], axis=1, dtype=float)
        weighted_sums(hierarchy, cells, sums, weights, allowed, sizes.signs, linear)
    return Information(level, first, linear, _masked(table[index.ravel()], allowed, sizes.slots))


@lru_cache
def _squared(sizes: Grid, queries: tuple[str, ...]) -> FloatArray:
    """Return the precision that each query group of weight 1 adds (`Grid.squared`), for all geounits of a level."""
    return np.array([sizes.squared(query) for query in queries])


def _masked(precision: FloatArray, allowed: BoolArray, slots: int) -> FloatArray:
    """Return a precision with zeros outside the allowed (geounits, types)."""
    rows = np.tile(allowed, (1, slots))
    return precision * (rows[:, None, :, None] & rows[:, None, None, :])


@compiled
def transform(x: FloatArray, signs: Signs, back: bool) -> None:
    """Transform (types, signs, races) into orthonormal sums and contrasts, or back into cells."""
    types, _, races = x.shape
    total = np.empty(races)
    for t in range(types):
        for number in range(len(signs.back)):
            node = signs.back[number] if back else number
            first, last = signs.node[node], signs.node[node + 1] - 1
            whole, scale = x[t, signs.nodes[first]], signs.factors[first]
            if back:
                for r in range(races):
                    total[r] = scale * whole[r]
                for i in range(last, first, -1):
                    other, k = x[t, signs.nodes[i]], float(i - first)
                    for r in range(races):
                        contrast = signs.factors[i] * other[r]
                        other[r] = total[r] - k * contrast
                        total[r] += contrast
                for r in range(races):
                    whole[r] = total[r]
                continue
            for r in range(races):
                total[r] = whole[r]
            for i in range(first + 1, last + 1):
                other, k = x[t, signs.nodes[i]], float(i - first)
                for r in range(races):
                    a, b = total[r], other[r]
                    other[r], total[r] = signs.factors[i] * (a - k * b), a + b
            for r in range(races):
                whole[r] = scale * total[r]


@compiled
def weighted_sums(
    queries: QueryHierarchy,
    cells: IntArray,
    sums: FloatArray,
    weights: FloatArray,
    allowed: BoolArray,
    layout: Signs,
    linear: FloatArray,
) -> None:
    """Write h = sum over query groups of w Q'y: each is added to the finer group that it sums, down to the cells.

    cells, sums: (geounits, coordinates) the answers of the first query group, `detailed`, and of all others.
    """
    groups, offsets = len(queries.finer), queries.offsets - queries.offsets[1]
    table = np.empty(sums.shape[1])
    signs, races = linear.shape[2:]
    for u in range(len(cells)):
        for q in range(1, groups):
            for j in range(offsets[q], offsets[q + 1]):
                table[j] = weights[q, u] * sums[u, j]
        for q in range(groups - 1, 0, -1):
            finer = queries.finer[q]
            if finer > 0:
                fine, coarse, at = offsets[finer], offsets[q], queries.parent_offsets[q]
                for j in range(offsets[finer + 1] - fine):
                    table[fine + j] += table[coarse + queries.parent_of[at + j]]
        for t in range(linear.shape[1]):
            if allowed[u, t]:
                for s in range(signs):
                    for r in range(races):
                        cell = layout.cells[t, s, r]
                        total = weights[0, u] * cells[u, cell]
                        for q in range(groups - 1, 0, -1):
                            if queries.finer[q] == 0:
                                total += table[offsets[q] + queries.parent_of[queries.parent_offsets[q] + cell]]
                        linear[u, t, s, r] = total
        transform(linear[u], layout, False)


@compiled
def inverse(matrix: FloatArray, allowed: BoolArray, slots: IntArray, out: FloatArray) -> None:
    """Write the inverse of each component on the allowed types, by Cholesky's factors; `out` must be 0 outside them.

    slots: (components / 2,).
    """
    types = len(allowed)
    rows, low = np.empty(matrix.shape[1], np.int64), np.zeros(matrix.shape[1:])  # the factor L, then its inverse
    for part in range(len(matrix)):
        k = 0
        for row in range(slots[part // 2] * types):
            if allowed[row % types]:
                rows[k] = row
                k += 1
        for i in range(k):
            for j in range(i + 1):
                value = matrix[part, rows[i], rows[j]]
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
                out[part, rows[i], rows[j]] = out[part, rows[j], rows[i]] = value


@compiled
def add_times(matrix: FloatArray, x: FloatArray, signs: Signs, y: FloatArray) -> None:
    """Add to y the (components, slots x types, slots x types) matrix times x; x, y: (types, signs, races)."""
    types, number, races = x.shape
    mean = np.zeros((types, number))
    for t in range(types):
        for r in range(races):  # the signs inside, so that consecutive additions are independent
            for s in range(number):
                mean[t, s] += x[t, s, r]
        for s in range(number):
            mean[t, s] /= races
    for copy in range(len(signs.part)):
        part, own = signs.part[copy], signs.copies[signs.copy[copy] : signs.copy[copy + 1]]
        for i in range(len(own) * types):
            t, s = i % types, own[i // types]
            for j in range(len(own) * types):
                u, v = j % types, own[j // types]
                rest = matrix[2 * part + 1, i, j]
                if rest != 0.0 or matrix[2 * part, i, j] != 0.0:
                    shift = (matrix[2 * part, i, j] - rest) * mean[u, v]
                    for r in range(races):
                        y[t, s, r] += rest * x[u, v, r] + shift


@compiled
def solved(
    linear: FloatArray, precision: FloatArray, allowed: BoolArray, signs: Signs, z: FloatArray, variance: FloatArray
) -> None:
    """Write z = V h and V of every geounit."""
    for u in range(len(linear)):
        inverse(precision[u], allowed[u], signs.slots, variance[u])
        add_times(variance[u], linear[u], signs, z[u])


@compiled
def from_children(
    first: IntArray,
    linear: FloatArray,
    precision: FloatArray,
    allowed: BoolArray,
    signs: Signs,
    b: FloatArray,
    below: FloatArray,
) -> None:
    """Write b = B (sum of z) and B of each parent's children into (parents, ...) arrays of 0.

    first: (parents + 1,) the first child of every parent; parents of an only child are left out. allowed: (children,
    types).
    """
    variance, zs = np.zeros(precision.shape[1:]), np.zeros(linear.shape[1:])
    spread, any_allowed = np.zeros(precision.shape[1:]), np.zeros(allowed.shape[1], np.bool_)
    entries, own = spread.reshape(-1), variance.reshape(-1)
    for p in range(len(first) - 1):
        if first[p + 1] - first[p] == 1:
            continue
        zs[:], spread[:], any_allowed[:] = 0.0, 0.0, False
        for c in range(first[p], first[p + 1]):
            variance[:] = 0.0
            inverse(precision[c], allowed[c], signs.slots, variance)
            add_times(variance, linear[c], signs, zs)
            for i in range(len(entries)):
                entries[i] += own[i]
            for t in range(len(any_allowed)):
                any_allowed[t] |= allowed[c, t]
        inverse(spread, any_allowed, signs.slots, below[p])
        add_times(below[p], zs, signs, b[p])


def allowed_types(plan: Plan, level: int, first: int, last: int) -> BoolArray:
    """Return a (geounits, types) mask of the types that may have records."""
    return grid(plan).allowed(plan.bounds.allowed(level, slice(first, last)))


def combine_children(plan: Plan, parent: int, first: IntArray, given: Information) -> Information:
    """Return the children's information on the parents numbered from `parent`; first: as for `from_children`."""
    given, parents = ready(given), len(first) - 1
    b, below = np.zeros((parents, *given.linear.shape[1:])), np.zeros((parents, *given.precision.shape[1:]))
    allowed = allowed_types(plan, given.level, given.first, given.last)
    from_children(first, given.linear, given.precision, allowed, grid(plan).signs, b, below)
    only = np.flatnonzero(np.diff(first) == 1)
    b[only], below[only] = given.linear[first[only]], given.precision[first[only]]
    return Information(given.level - 1, parent, b, below)


def combine_declared(plan: Plan, parent: int, first: IntArray, given: Information) -> Information:
    """Return the children's information on their parents, if the totals of groups of children are declared.

    Such a group (a state of the nation, the sum of its parts) has a known total, so its variance has no part along the
    total. So neither has B, and the parents' own totals add nothing: they are sums of declared ones.
    """
    z, variance, scale = declared_groups(plan, given)
    groups = plan.bounds.totals[given.level]
    assert groups is not None
    of_child = groups.group[given.first : given.last]
    at = of_child[first[:-1]] - of_child[0]
    zs, spread = sums(z, at), sums(variance, at)
    below = inverse_declared(spread, np.maximum.reduceat(scale, at))
    b, signs = np.zeros(zs.shape), grid(plan).signs
    for p, only in enumerate(np.diff(first) == 1):
        if only and not plan.spine.shares[given.level][given.first + first[p]]:  # its information is that below it
            b[p], below[p] = given.linear[first[p]], given.precision[first[p]]
        else:
            add_times(below[p], zs[p], signs, b[p])
    return Information(given.level - 1, parent, b, below)


def declared_groups(plan: Plan, given: Information) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return z and V of groups of geounits with declared totals, and the scale of V before these are used.

    given: the information of all geounits of these groups.
    """
    z, variance = estimates(plan, given)
    declared = plan.bounds.totals[given.level]
    assert declared is not None
    group = declared.group[given.first : given.last]
    first = np.searchsorted(group, np.arange(group[0], group[-1] + 1))
    z, variance = sums(z, first), sums(variance, first)
    scale = np.abs(variance).max(axis=(1, 2, 3))
    return *declared_total(z, variance, declared.values[group[0] : group[-1] + 1], grid(plan)), scale


def sums(values: FloatArray, first: IntArray) -> FloatArray:
    """Return the sums of ranges of rows that begin at `first`."""
    return np.array([part.sum(axis=0) for part in np.split(values, first[1:])])


def inverse_declared(variance: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the (parents, ...) inverse of sums of variances that have no part along the total.

    scale: (parents,) of the variances without the declared totals; values that are rounding errors on it become 0.
    """
    largest = np.abs(variance).max(axis=(-2, -1))
    cutoff = 1e-12 * np.maximum(scale[:, None] / np.where(largest > 0, largest, 1.0), 1.0)
    return np.linalg.pinv(variance, cutoff, hermitian=True)


def declared_total(
    z: FloatArray, variance: FloatArray, total: IntArray | FloatArray, sizes: Grid
) -> tuple[FloatArray, FloatArray]:
    """Return estimates and variances once the total of each geounit is known."""
    along = (variance[:, 0] * sizes.ones).sum(axis=-1)  # V 1 on component 0, without the last axis
    spread = (along * sizes.ones).sum(axis=-1)
    moved, known = z.copy(), variance.copy()
    some = np.where(spread > 0, spread, 1.0)  # spread is 0 for a geounit without records
    missing = (total - total_of(z, sizes)) / (sizes.shape[2] * some)
    types = z.shape[1]
    for slot, sign in enumerate(sizes.signs.copies[: sizes.signs.copy[1]]):
        moved[:, :, sign, :] += (along[:, slot * types : (slot + 1) * types] * missing[:, None])[:, :, None]
    known[:, 0] -= along[:, :, None] * along[:, None, :] / some[:, None, None]
    return moved, known


def estimates(plan: Plan, given: Information) -> tuple[FloatArray, FloatArray]:
    """Return z = V h and V of measured geounits; 0 for an only child with the share 0."""
    given = ready(given)
    z, variance = np.zeros(given.linear.shape), np.zeros(given.precision.shape)
    allowed = allowed_types(plan, given.level, given.first, given.last)
    allowed = allowed & (plan.spine.shares[given.level][given.first : given.last] > 0)[:, None]
    solved(given.linear, given.precision, allowed, grid(plan).signs, z, variance)
    return z, variance
