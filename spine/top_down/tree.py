"""What a geounit's own noisy answers and those of everything below it say of its histogram: least squares on the tree.

Noise is independent between geounits and a parent is the sum of its children, so the measurements of a spine are a
Gaussian tree. Every subtree is summarized exactly by the information of its top geounit, the pair (h, P): half the
weighted squares of its measurements, minimized over all that lies below, are x'Px/2 - h'x plus a constant. Only
children hand theirs up as it is; siblings with estimates z = Vh of variance V = 1/P tell their parent B = 1/(sum of V)
and b = B (sum of z), to which its own answers are added. What is measured above and beside a geounit enters through its
parent's count alone, so dividing a parent by the children's (h, P) uses every measurement of the spine (generalized
least squares); only that descendants are not negative is not seen from above.

P is small. A geounit without quarters of a type has nobody of that type: these are public zeros, and A is the rest of
the 8 types. Query groups treat every type alike on votingage (2), hispanic (2), cenrace (63), or ask types alone. So on
each of the 8 components, "mean" or "residual" on each of these axes, P is one matrix between types: 8 symmetric 8 x 8
matrices, 0 outside A. Component 4 a + 2 b + c is residual on votingage, hispanic, cenrace where a, b, c are 1.

Arrays over cells are (..., 8, 4, 63): type, sums and differences on votingage and hispanic (orthonormal; `signed`),
race. That under 18 nobody is in nursing homes is left to the division: it would break the components.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as each

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, IntArray
from spine.top_down.histogram import TYPES, Product
from spine.top_down.least_squares import Ladder, signed
from spine.workload import FloatArray

SIGNS, RACES = 4, 63
COMPONENTS = 8
V_CELLS = SIGNS * RACES  # cells of votingage*hispanic*cenrace


@dataclass(frozen=True)
class Information:
    """What the geounits first, first + 1, ... of a level, and all below them, say of their histograms.

    Public: a function of noisy answers and declared invariants. linear: (geounits, 8, 4, 63) h. precision: (geounits,
    8, 8, 8) P, component by component. Of housing units both are (geounits,): of the number that is occupied.
    """

    level: int
    first: int
    linear: FloatArray
    precision: FloatArray

    def __len__(self) -> int:
        return len(self.linear)

    @property
    def last(self) -> int:
        """The geounit after the last one."""
        return self.first + len(self)

    def only(self, first: int, last: int) -> Information:
        """The geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Information(self.level, first, self.linear[rows], self.precision[rows])


def information_joined(parts: list[Information]) -> Information:
    """Ranges of geounits of one level that follow each other as one."""
    linear, precision = (
        np.concatenate(arrays) for arrays in zip(*((p.linear, p.precision) for p in parts), strict=True)
    )
    return Information(parts[0].level, parts[0].first, linear, precision)


def ready(given: Information) -> Information:
    """Arrays as the kernels take them: what was read from a file may be read-only, another type to numba."""
    linear, precision = (np.require(array, float, ["C", "W"]) for array in (given.linear, given.precision))
    return Information(given.level, given.first, linear, precision)


def components(product: Product, queries: list[str]) -> FloatArray:
    """(queries, 8, 8, 8) the precision that one query group of weight 1 adds, component by component, between types."""
    workload = product.workload
    axes = [axis for axis in workload.axes if axis != workload.grouped]
    group = np.repeat(np.arange(len(workload.groups)), workload.groups)
    alike, same = np.equal.outer(group, group).astype(float), np.eye(TYPES)
    information = np.zeros((len(queries), COMPONENTS, TYPES, TYPES))
    for at, query in enumerate(queries):
        kept, grouping = workload.keeps(query)
        between = same if workload.grouped in kept else alike if grouping else np.ones((TYPES, TYPES))
        for component, residual in enumerate(each((False, True), repeat=len(axes))):
            factor = 1.0
            for axis, rest in zip(axes, residual, strict=True):
                factor *= 1.0 if axis in kept else 0.0 if rest else workload.axes[axis]
            information[at, component] = factor * between
    return information


def own_information(
    level: int,
    first: int,
    ladder: Ladder,
    parts: FloatArray,
    answers: FloatArray,
    weights: FloatArray,
    allowed: BoolArray,
) -> Information:
    """What the answers of geounits say by themselves; nothing where the share is 0.

    ladder: of the level's query groups. parts: their `components`. answers: (geounits, coordinates). weights: (groups,
    geounits) inverse variances. allowed: (geounits, 8).
    """
    kinds, kind = np.unique(weights, axis=1, return_inverse=True)
    table = np.zeros((kinds.shape[1], COMPONENTS, TYPES, TYPES))
    for weight, part in zip(kinds, parts, strict=True):
        table += weight[:, None, None, None] * part
    precision = table[kind.ravel()] * (allowed[:, None, :, None] & allowed[:, None, None, :])
    linear = np.zeros((len(allowed), TYPES, SIGNS, RACES))
    weighted_sums(ladder, answers, weights, allowed, linear)
    return Information(level, first, linear, precision)


@compiled
def weighted_sums(
    ladder: Ladder, answers: FloatArray, weights: FloatArray, allowed: BoolArray, linear: FloatArray
) -> None:
    """h = sum over query groups of w Q'y, each added to the finer group that it is summed from, down to the cells."""
    groups = len(ladder.source)
    table = np.empty(ladder.offsets[-1])
    for u in range(len(answers)):
        for q in range(groups):
            for j in range(ladder.offsets[q], ladder.offsets[q + 1]):
                table[j] = weights[q, u] * answers[u, j]
        for q in range(groups - 1, 0, -1):
            source = ladder.source[q]
            begin, coarse, through = ladder.offsets[source], ladder.offsets[q], ladder.through_at[q]
            for j in range(ladder.offsets[source + 1] - begin):
                table[begin + j] += table[coarse + ladder.through[through + j]]
        for t in range(linear.shape[1]):
            if allowed[u, t]:
                for s in range(linear.shape[2]):
                    for r in range(linear.shape[3]):
                        linear[u, t, s, r] = table[(t * 4 + s) * 63 + r]
        signed(linear[u])


@compiled
def inverse(matrix: FloatArray, allowed: BoolArray, out: FloatArray) -> None:
    """The inverse of each component on the allowed types, 0 outside them; by Cholesky's factors."""
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
    """y += (8 components between types) x, both (types, 4, 63)."""
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
    """z = V h and V of every geounit."""
    for u in range(len(linear)):
        inverse(precision[u], allowed[u], variance[u])
        add_times(variance[u], linear[u], z[u])


@compiled
def from_children(
    first: IntArray, linear: FloatArray, precision: FloatArray, allowed: BoolArray, b: FloatArray, below: FloatArray
) -> None:
    """What the children tell each parent, into (parents, ...) arrays of 0: b = B (sum of z) and B.

    first: (parents + 1,) first child of every parent. allowed: (children, 8).
    """
    variance, zs = np.zeros(precision.shape[1:]), np.zeros(linear.shape[1:])
    spread, some = np.zeros(precision.shape[1:]), np.zeros(allowed.shape[1], np.bool_)
    for p in range(len(first) - 1):
        if first[p + 1] - first[p] == 1:
            b[p], below[p] = linear[first[p]], precision[first[p]]
            continue
        zs[:], spread[:], some[:] = 0.0, 0.0, False
        for c in range(first[p], first[p + 1]):
            variance[:] = 0.0
            inverse(precision[c], allowed[c], variance)
            add_times(variance, linear[c], zs)
            spread += variance
            some |= allowed[c]
        inverse(spread, some, below[p])
        add_times(below[p], zs, b[p])


def children_say(parent: int, first: IntArray, given: Information, allowed: BoolArray) -> Information:
    """What the children tell the parents numbered from `parent`, without the parents' own answers.

    first, allowed: as for `from_children`.
    """
    given, parents = ready(given), len(first) - 1
    b, below = np.zeros((parents, *given.linear.shape[1:])), np.zeros((parents, *given.precision.shape[1:]))
    from_children(first, given.linear, given.precision, allowed, b, below)
    return Information(given.level - 1, parent, b, below)


def states_say(given: Information, allowed: BoolArray, state: IntArray, declared: IntArray) -> Information:
    """What the states' parts tell the nation, where the total of each state's parts is declared.

    A state is the sum of its parts, known to sum to its total: its variance has no part along the total. So B has none
    either, and the nation's own total says nothing new: it is the sum of the declared ones.
    """
    z, variance = estimates(given, allowed)
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
    """Estimates and variances once the total of each geounit is known."""
    along = variance[:, 0].sum(axis=-1)  # V 1, but for the factor 2 of the sums on votingage and hispanic
    spread = along.sum(axis=-1)
    moved, known = z.copy(), variance.copy()
    missing = (total - total_of(z)) / (V_CELLS * spread)
    moved[:, :, 0, :] += 2 * (along * missing[:, None])[:, :, None]
    known[:, 0] -= along[:, :, None] * along[:, None, :] / spread[:, None, None]
    return moved, known


def estimates(given: Information, allowed: BoolArray) -> tuple[FloatArray, FloatArray]:
    """z = V h and V; only of geounits that are measured, or have something below them that is."""
    given = ready(given)
    z, variance = np.zeros(given.linear.shape), np.zeros(given.precision.shape)
    solved(given.linear, given.precision, allowed, z, variance)
    return z, variance


def total_of(z: FloatArray) -> FloatArray:
    """(geounits,) sums over the cells."""
    total: FloatArray = 2 * z[:, :, 0, :].sum(axis=(1, 2))
    return total


def total_variance(variance: FloatArray) -> FloatArray:
    """(geounits,) variance of the total."""
    spread: FloatArray = V_CELLS * variance[:, 0].sum(axis=(1, 2))
    return spread


def to_cells(z: FloatArray) -> FloatArray:
    """(geounits, 2016) values of the cells."""
    grid = z.reshape(len(z), TYPES, 2, 2, RACES)
    signs = np.stack([grid[:, :, 0] + grid[:, :, 1], grid[:, :, 0] - grid[:, :, 1]], axis=2)
    cells = np.stack([signs[:, :, :, 0] + signs[:, :, :, 1], signs[:, :, :, 0] - signs[:, :, :, 1]], axis=3)
    return 0.5 * cells.reshape(len(z), -1)


# (patterns, components): the share of a component in an entry of P between two cells whose votingage, hispanic, race
# agree as the pattern says (bits as the components').
PATTERNS = np.array(
    [
        [
            np.prod([(e - 1 / n) if r else 1 / n for e, r, n in zip(agree, rest, (2, 2, RACES), strict=True)])
            for rest in each((0, 1), repeat=3)
        ]
        for agree in each((0, 1), repeat=3)
    ]
)


def entries(precision: FloatArray) -> FloatArray:
    """(..., 8 patterns, types, types) the entries of P between two cells, from its 8 components."""
    matrices: FloatArray = (PATTERNS[:, :, None, None] * precision[..., None, :, :, :]).sum(axis=-3)
    return matrices
