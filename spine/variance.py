"""Variances of the weighted least squares on a spine (paper, equation 19): one pass up, one down, linear in geounits.

All query groups are small together on orthogonal parts of the histogram (`split`): in each part, the information of a
level is one number, or a (d, d) matrix if queries ask for groups of hhgq. In a part the estimate of equation 18 is that
of a Gaussian tree whose parents are the sums of their children, as in `gls`. Here no geounit has declared counts, so
blocks with one parent and one share have one variance, which is kept once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from spine.allocations import Allocation
from spine.entities import Entities
from spine.geography import BoolArray, FloatArray, IntArray
from spine.hierarchy import Spine, changes
from spine.osed import Pairs
from spine.split import Split, Tables, joint, split
from spine.top_down.histogram import Product


@dataclass(frozen=True)
class Part:
    """One orthogonal part of the histogram, and its share in a marginal.

    information: for each level the (d, d) information that a share of 1 buys (of the share squared under pure DP).
    cell: (d, d) M: the part adds trace(M V) to the variance of the marginal's cell, where V is the (d, d) variance of a
        geounit or entity in this part.
    """

    information: Mapping[str, FloatArray]
    cell: FloatArray


def marginal_parts(marginal: str, product: Product | None, allocation: Allocation) -> list[Part]:
    """Return the parts that make up one cell of a marginal: the mean over its cells, if their variances differ.

    Without a product (DHC: its recodes do not nest) the marginal must be a query group of the allocation, and is
    estimated from that query group alone: an upper bound of the variance.
    """
    if product is None:
        if any(marginal not in allocation.queries[level] for level in allocation.levels):
            raise ValueError(f"{marginal} is not asked on every level")
        return [_part(allocation, {marginal: np.ones((1, 1))}, np.ones((1, 1)))]
    splits = {
        axis.name: split(axis, [own for own in product.recodes if own.axis == axis.name]) for axis in product.axes
    }

    def in_parts(query: str, tables: Callable[[Split, str | None], Tables]) -> Tables:
        asked = product.asked(query)
        return joint([tables(own, asked.get(name)) for name, own in splits.items()])

    queries = {query for asked in allocation.queries.values() for query in asked}
    squared = {query: in_parts(query, Split.squared) for query in queries}
    return [
        _part(allocation, {query: tables[number][0] for query, tables in squared.items()}, cells.mean(axis=0))
        for number, cells in enumerate(in_parts(marginal, Split.sums))
        if cells.any()
    ]


def _part(allocation: Allocation, squared: Mapping[str, FloatArray], cell: FloatArray) -> Part:
    """Return a part of the information from these query groups; squared: (d, d) Q'Q of each."""
    information: dict[str, FloatArray] = {}
    for level in allocation.levels:
        asked = [(query, alpha) for query, alpha in allocation.queries[level].items() if query in squared]
        information[level] = np.sum(
            [_weight(allocation, float(alpha)) * squared[query] for query, alpha in asked], axis=0
        )
    return Part(information, cell)


def _weight(allocation: Allocation, alpha: float) -> float:
    """Return 1 / variance of a coordinate at share 1: rho alpha, or (epsilon alpha)^2 / 8 under pure DP (2 b^2)."""
    budget = float(allocation.budget)
    return budget * alpha if allocation.definition == "zcdp" else (budget * alpha) ** 2 / 8


@dataclass(frozen=True)
class Upward:
    """The pass up, for all levels, top first; on the lowest level a row is the blocks of one parent with one share.

    parent: (rows,) the geounit of the level above. variance: (rows, d, d) of the estimate of a geounit from its own
    subtree; 0 for an only child, which adds nothing to its parent's information. below: (geounits, d, d) information
    on a geounit from its children's subtrees, for levels above the lowest. row_of_block: (blocks,).
    """

    parent: tuple[IntArray, ...]
    variance: tuple[FloatArray, ...]
    below: tuple[FloatArray, ...]
    row_of_block: IntArray


def upward(spine: Spine, part: Part, power: int) -> Upward:
    """Return the pass up a spine or forest. power: 1 under zCDP, 2 under pure DP (docs/spec/spine.md#noise).

    Raises ValueError if a block with siblings is not measured: then nothing separates it from them.
    """
    last, parents = len(spine.levels) - 1, len(spine.starts[-2])
    distinct, kind = np.unique(spine.shares[last], return_inverse=True)
    row_of_block = spine.parents[last] * len(distinct) + kind
    parent = (*spine.parents[:last], np.repeat(np.arange(parents), len(distinct)))
    shares = (*spine.shares[:last], np.tile(distinct, parents))
    number = [np.ones(len(own), np.int64) for own in spine.starts[:last]]  # geounits in a row
    number.append(np.bincount(row_of_block, minlength=len(shares[last])))
    information = [
        ((own / spine.denominator) ** power)[:, None, None] * part.information[name]
        for own, name in zip(shares, spine.levels, strict=True)
    ]
    variance, below = [], []
    for level in range(last, 0, -1):
        is_only_child = (spine.children(level - 1) == 1)[parent[level]]
        separate = ~is_only_child & (number[level] > 0)
        if level == last and (separate & (shares[last] == 0)).any():
            raise ValueError("a block with siblings has no share of the budget, so its count cannot be estimated")
        variance.append(_inverse(information[level], separate))
        known = np.where(is_only_child[:, None, None], information[level], variance[-1])
        first = np.flatnonzero(changes(parent[level]))
        sums = np.add.reduceat(number[level][:, None, None] * known, first)
        below.append(np.where(is_only_child[first, None, None], sums, _inverse(sums, ~is_only_child[first])))
        information[level - 1] += below[-1]
    variance.append(_inverse(information[0], number[0] > 0))
    return Upward(parent, tuple(reversed(variance)), tuple(reversed(below)), row_of_block)


def spread(variance: FloatArray, covariance: FloatArray, below: FloatArray, above: FloatArray) -> FloatArray:
    """Return the variance of an estimate of children's counts, given that of their parent; `variance`: without it.

    covariance: with the sum of all of the parent's children, whose information is `below`. above: the variance of the
    parent's estimate.
    """
    weight = covariance @ below
    return variance - weight @ covariance.swapaxes(-1, -2) + weight @ above @ weight.swapaxes(-1, -2)


@dataclass(frozen=True)
class Root:
    """The root above all top geounits; a single top geounit is the root itself.

    own: (d, d) information of its own measurement. below: (d, d) information from the top geounits, the inverse of the
    sum of their variances. tops: their number.
    """

    own: FloatArray
    below: FloatArray
    tops: int

    @property
    def variance(self) -> FloatArray:
        """The (d, d) variance of the root's estimate."""
        return np.linalg.inv(self.below + self.own)


def downward(spine: Spine, up: Upward, root: Root) -> tuple[FloatArray, ...]:
    """Return the (rows, d, d) variance of the estimate of every geounit, per level; rows as in `Upward`."""
    variances = [spread(up.variance[0], up.variance[0], root.below, root.variance)]
    for level in range(1, len(spine.levels)):
        parent, alone = up.parent[level], up.variance[level]
        is_only_child = (spine.children(level - 1) == 1)[parent, None, None]
        above = variances[-1][parent]
        given = spread(alone, alone, up.below[level - 1][parent], above)
        variances.append(np.where(is_only_child, above, given))
    return tuple(variances)


@dataclass(frozen=True)
class EntityVariances:
    """A family's entities in the top geounits, summed over these, each (entities, d, d).

    variance: that of the estimates of their counts. covariance: between these and the estimates of all top geounits.
    """

    variance: FloatArray
    covariance: FloatArray

    def under(self, root: Root) -> FloatArray:
        """Return the (entities, d, d) variance of each entity's estimate."""
        return spread(self.variance, self.covariance, root.below, root.variance)


def entity_sums(spine: Spine, up: Upward, family: Entities, pairs: Sequence[Pairs]) -> EntityVariances:
    """Regress each entity's count on the geounits that it meets, level by level up to the top of the forest.

    Given a geounit's count x, the count of an entity in it is W x up to an independent error; the weight W is (d, d).
    """
    last = len(spine.levels) - 1
    gather = _gather(pairs[last].parent, up.row_of_block, (len(pairs[-2].geounit), len(up.variance[last])))
    variance = covariance = gather(up.variance[last])
    weight: FloatArray = np.broadcast_to(np.eye(variance.shape[-1]), variance.shape)
    for level in range(last - 1, -1, -1):
        geounit, parent, number = pairs[level].geounit, pairs[level].parent, len(pairs[level].geounit)
        has_one_child = (spine.children(level) == 1)[geounit, None, None]
        weight = np.where(has_one_child, weight, covariance @ up.below[level][geounit])
        error = variance - weight @ covariance.swapaxes(1, 2)  # the covariance with an only child is 0
        weighted = weight @ up.variance[level][geounit]
        groups = len(pairs[level - 1].geounit) if level else len(family.codes)
        gather = _gather(parent, np.arange(number), (groups, number))
        variance = gather(error + weighted @ weight.swapaxes(1, 2))
        covariance, weight = gather(weighted), gather(weight)
    return EntityVariances(variance, covariance)


def cell_variance(part: Part, variance: FloatArray) -> FloatArray:
    """Return this part's contribution to the variance of the marginal's cell: trace(M V) for each V, (..., d, d)."""
    added: FloatArray = np.einsum("ij,...ij->...", part.cell, variance)
    return added


def _inverse(matrices: FloatArray, chosen: BoolArray) -> FloatArray:
    """Return inverses of a stack of matrices, and 0 for matrices that are not selected."""
    inverse = np.zeros_like(matrices)
    try:
        inverse[chosen] = np.linalg.inv(matrices[chosen])
    except np.linalg.LinAlgError as singular:
        raise ValueError(
            "the queries of some geounit do not determine its histogram: ask 'detailed' there"
        ) from singular
    return inverse


def _gather(group: IntArray, row: IntArray, shape: tuple[int, int]) -> Callable[[FloatArray], FloatArray]:
    """Return a function that sums rows of (n, d, d) stacks over groups; shape: (groups, n)."""
    matrix = sparse.csr_array((np.ones(len(group)), (group, row)), shape=shape)
    return lambda stack: np.asarray(matrix @ stack.reshape(len(stack), -1)).reshape(-1, *stack.shape[1:])
