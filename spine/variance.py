"""Weighted least squares on a spine (paper, equation 19) without its matrix: one pass up, one down, linear in geounits.

Query groups are Kronecker products (paper, section 2.3): W' diag(alpha) W of a level is a sum of products of identities
I and all-ones matrices J, one factor an axis. These commute, so the histogram splits into orthogonal parts, "mean" or
"residual" on each axis, and in each the information of a level is one number. The one exception are the grouped levels
of hhgq: their matrix does not commute with J, so the mean part of hhgq is as wide as there are groups, and the
information a small matrix, (d, d). In a part the estimate of equation 18 is that of a Gaussian tree whose parents are
the sums of their children.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from spine.allocations import Allocation
from spine.entities import Entities
from spine.geography import BoolArray, FloatArray, IntArray
from spine.hierarchy import Spine
from spine.osed import Pairs
from spine.top_down.histogram import Product


@dataclass(frozen=True)
class Part:
    """One orthogonal part of the histogram, as a marginal meets it.

    information: for each level the (d, d) information that a share of 1 buys (of the share squared under pure DP).
    cell: (d, k) matrix C: the part adds trace(C' V C) to the variance of the marginal's cell, V the (d, d) variance of
        a geounit or entity in this part.
    """

    information: Mapping[str, FloatArray]
    cell: FloatArray


def marginal_parts(marginal: str, product: Product | None, allocation: Allocation) -> list[Part]:
    """Return the parts that make up one cell of a marginal (on the grouped axis: the mean over its cells).

    Without a product (DHC: its recodes do not nest) the marginal must be a query group of the allocation, and is
    estimated from that query group alone: an upper bound of the variance.
    """
    if product is None:
        rows = {level: allocation.queries[level].get(marginal) for level in allocation.levels}
        if None in rows.values():
            raise ValueError(f"{marginal} is not asked on every level")
        own = {level: np.array([[_weight(allocation, float(alpha or 0))]]) for level, alpha in rows.items()}
        return [Part(own, np.ones((1, 1)))]
    kept, grouping = kept_axes(product, marginal)
    if grouping:
        raise ValueError(f"{marginal}: cells of grouped levels have no common variance")
    grouped, _ = groups(product)
    parts = []
    plain = sorted(kept - {grouped})
    for residual in chain.from_iterable(combinations(plain, r) for r in range(len(plain) + 1)):
        scale = prod(
            ((len(axis) - 1) / len(axis) if axis.name in residual else 1 / len(axis))
            if axis.name in kept
            else len(axis)
            for axis in product.axes
            if axis.name != grouped
        )
        for between in (True, False):
            cell = _grouped_cell(product, grouped in kept, between)
            if cell is not None:
                parts.append(Part(_information(product, allocation, residual, between), np.sqrt(scale) * cell))
    return parts


def groups(product: Product) -> tuple[str | None, FloatArray]:
    """Return the axis that queries ask in groups, and the sizes of the groups; ValueError where there are several."""
    if len(product.recodes) > 1:
        raise ValueError(f"{product.name}: query groups commute only where one axis has groups")
    return next(
        ((recode.axis, np.bincount(recode.part).astype(float)) for recode in product.recodes), (None, np.ones(1))
    )


def kept_axes(product: Product, query: str) -> tuple[frozenset[str], bool]:
    """Return the axes that a query asks cell by cell, and whether it asks the grouped axis in groups."""
    asked = product.asked(query)
    kept = frozenset(axis for axis, name in asked.items() if axis == name)
    return kept, len(kept) < len(asked)


def _grouped_cell(product: Product, kept: bool, between: bool) -> FloatArray | None:
    """Return the grouped axis of a cell, between the groups (in the basis of their unit indicators) or within them."""
    grouped, sizes = groups(product)
    if grouped is None:
        return np.ones((1, 1)) if between else None
    size = sizes.sum()
    if not kept:
        return np.sqrt(sizes)[:, None] if between else None
    return np.eye(len(sizes)) / np.sqrt(size) if between else np.full((1, 1), np.sqrt((size - len(sizes)) / size))


def _information(
    product: Product, allocation: Allocation, residual: tuple[str, ...], between: bool
) -> dict[str, FloatArray]:
    """Return the information of each level in one part: the sum of weight times Kronecker eigenvalue."""
    grouped, sizes = groups(product)
    identity = np.eye(len(sizes)) if between else np.ones((1, 1))
    ones = np.outer(np.sqrt(sizes), np.sqrt(sizes)) if between else np.zeros((1, 1))
    by_group = np.diag(sizes) if between else np.zeros((1, 1))
    information: dict[str, FloatArray] = {}
    for level in allocation.levels:
        total: Any = np.zeros_like(identity)
        for query, alpha in allocation.queries[level].items():
            kept, grouping = kept_axes(product, query)
            factor = prod(
                1 if axis.name in kept else (0 if axis.name in residual else len(axis))
                for axis in product.axes
                if axis.name != grouped
            )
            matrix = identity if grouped is None or grouped in kept else by_group if grouping else ones
            total = total + _weight(allocation, float(alpha)) * factor * matrix
        information[level] = total
    return information


def _weight(allocation: Allocation, alpha: float) -> float:
    """Return 1 / variance of a coordinate at share 1: rho alpha, or (epsilon alpha)^2 / 8 under pure DP (2 b^2)."""
    budget = float(allocation.budget)
    return budget * alpha if allocation.definition == "zcdp" else (budget * alpha) ** 2 / 8


@dataclass(frozen=True)
class Upward:
    """The information of the subtrees, per level above the blocks.

    from_children: (geounits, d, d) information on a geounit from its children's subtrees.
    from_subtree: the same with the geounit's own measurement added.
    variance: (geounits, d, d) inverse of `from_subtree`; 0 for an only child, which says nothing that its parent does
        not know.
    only_child: (geounits,) whether it is an only child.
    counts: (parents, k) blocks of each of the k distinct shares; kind_of_block: (blocks,) which of these it has.
    kind_information, kind_variance: (k, d, d) of a block with such a share; the variance is 0 where the share is 0.
    """

    from_children: tuple[FloatArray, ...]
    from_subtree: tuple[FloatArray, ...]
    variance: tuple[FloatArray, ...]
    only_child: tuple[BoolArray, ...]
    counts: IntArray
    kind_of_block: IntArray
    kind_information: FloatArray
    kind_variance: FloatArray


def upward(spine: Spine, part: Part, power: int) -> Upward:
    """Return the pass up a spine or forest. power: 1 under zCDP, 2 under pure DP (docs/spec/spine.md#noise).

    ValueError where some block with siblings is not measured: then nothing separates it from them.
    """

    def own_information(level: int, shares: IntArray) -> FloatArray:
        return ((shares / spine.denominator) ** power)[:, None, None] * part.information[spine.levels[level]]

    last = len(spine.levels) - 1
    own = [own_information(level, spine.shares[level]) for level in range(last)]
    kinds, kind_of_block = np.unique(spine.shares[last], return_inverse=True)
    kind_information = own_information(last, kinds)
    kind_variance = _inverse(kind_information, kinds == 0)
    parents = len(spine.starts[last - 1])
    counts = np.bincount(spine.parents[last] * len(kinds) + kind_of_block, minlength=parents * len(kinds))
    counts = counts.reshape(parents, len(kinds))
    single = counts.sum(1) == 1
    if (counts[~single] @ (kinds == 0)).any():
        raise ValueError("a block with siblings has no share of the budget, so its count cannot be estimated")
    below = _inverse(np.einsum("pk,kij->pij", counts, kind_variance), single)
    below[single] = kind_information[counts[single].argmax(1)]
    from_children, from_subtree = [below], [below + own[-1]]
    variances: list[FloatArray] = []
    only_children: list[BoolArray] = []
    for level in range(last - 1, 0, -1):
        parent = spine.parents[level]
        only_child = (spine.children(level - 1) == 1)[parent]
        variance = _inverse(from_subtree[-1], only_child)
        first = np.searchsorted(parent, np.arange(len(spine.starts[level - 1])))
        one_child = only_child[first]
        below = _inverse(np.add.reduceat(variance, first, axis=0), one_child)
        below[one_child] = from_subtree[-1][first[one_child]]
        variances.append(variance)
        only_children.append(only_child)
        from_children.append(below)
        from_subtree.append(below + own[level - 1])
    silent = np.logical_not(from_subtree[-1].any(axis=(1, 2)))  # a lone top that gave its share away
    variances.append(_inverse(from_subtree[-1], silent))
    only_children.append(silent)
    return Upward(
        tuple(reversed(from_children)),
        tuple(reversed(from_subtree)),
        tuple(reversed(variances)),
        tuple(reversed(only_children)),
        counts,
        kind_of_block,
        kind_information,
        kind_variance,
    )


def downward(spine: Spine, up: Upward, outside: FloatArray) -> tuple[FloatArray, ...]:
    """Return the (geounits, d, d) variance of the estimate of every geounit, per level; the lowest (parents, k, d, d).

    outside: (tops, d, d) information on each top geounit from outside its subtree (`Root.outside`; 0 for a lone root).
    Blocks of one parent and one kind of share have one variance: the last entry holds it, by parent and kind.
    """
    identity = np.eye(outside.shape[-1])
    variances: list[FloatArray] = [np.linalg.inv(up.from_subtree[0] + outside)]
    # What is known of a geounit but from its children: from above, and by its own measurement.
    known = outside + up.from_subtree[0] - up.from_children[0]
    for level in range(1, len(spine.levels) - 1):
        parent = spine.parents[level]
        rest = _total_below(up, level - 1)[parent] - up.variance[level]
        rest[up.only_child[level]] = 0
        above = known[parent]
        from_above = np.linalg.solve(identity + above @ rest, above)
        variances.append(np.linalg.inv(up.from_subtree[level] + from_above))
        known = from_above + up.from_subtree[level] - up.from_children[level]
    rest = _total_below(up, len(spine.levels) - 2)[:, None] - up.kind_variance[None]
    rest[up.counts.sum(1) == 1] = 0
    above = known[:, None]
    blocks = up.kind_information[None] + np.linalg.solve(identity + above @ rest, np.broadcast_to(above, rest.shape))
    blocks[up.counts == 0] = identity
    return (*variances, np.linalg.inv(blocks))


def _total_below(up: Upward, level: int) -> FloatArray:
    """Return the variance of the sum of the children's own estimates; any value where there is one child."""
    information = up.from_children[level].copy()
    information[~information.any(axis=(1, 2))] = np.eye(information.shape[-1])
    return np.linalg.inv(information)


@dataclass(frozen=True)
class Sums:
    """A family's entities in the top geounits, summed over these: all that a root needs to know.

    weighted: sum of b V; weight: sum of b; squared: sum of r + b V b'; rest: sum of r; each (entities, d, d), where the
    entity's count is b times the top geounit's count plus an independent error of variance r.
    """

    weighted: FloatArray
    weight: FloatArray
    squared: FloatArray
    rest: FloatArray


def entity_sums(spine: Spine, up: Upward, family: Entities, pairs: Sequence[Pairs]) -> Sums:
    """Regress each entity's count on the geounits it meets, level by level up to the top of the forest."""
    last = len(spine.levels) - 1
    d = up.kind_variance.shape[-1]
    here = pairs[last - 1]
    cells = np.bincount(
        pairs[last].parent * len(up.kind_variance) + up.kind_of_block,
        minlength=len(here.geounit) * len(up.kind_variance),
    ).reshape(len(here.geounit), -1)
    single = up.counts.sum(1)[here.geounit] == 1
    part = np.einsum("pk,kij->pij", cells, up.kind_variance)
    weight = np.where(single[:, None, None], np.eye(d), part @ up.from_children[last - 1][here.geounit])
    rest = np.where(single[:, None, None], 0.0, part - weight @ part)
    for level in range(last - 1, 0, -1):
        below, here = pairs[level], pairs[level - 1]
        weighted = weight @ up.variance[level][below.geounit]
        gather = _gather(below.parent, len(here.geounit))
        covariance = gather(weighted)
        squared = gather(rest + weighted @ weight.swapaxes(1, 2))
        one_child = (spine.children(level - 1) == 1)[here.geounit]
        weight = np.where(
            one_child[:, None, None], gather(weight), covariance @ up.from_children[level - 1][here.geounit]
        )
        rest = squared - np.where(one_child[:, None, None], 0.0, weight @ covariance.swapaxes(1, 2))
    gather = _gather(here.entity, len(family.codes))
    weighted = weight @ up.variance[0][here.geounit]
    return Sums(gather(weighted), gather(weight), gather(rest + weighted @ weight.swapaxes(1, 2)), gather(rest))


@dataclass(frozen=True)
class Root:
    """The root above a forest.

    own: (d, d) information of its own measurement. below: (d, d) information from the top geounits: the inverse of the
    sum of their variances, or what the only one knows. tops: how many there are.
    """

    own: FloatArray
    below: FloatArray
    tops: int

    @property
    def variance(self) -> FloatArray:
        """The (d, d) variance of the root's estimate."""
        return np.linalg.inv(self.below + self.own)

    def outside(self, variance: FloatArray) -> FloatArray:
        """Return what every top geounit, of own variance (tops, d, d), learns from the root and from the other tops."""
        rest = np.linalg.inv(self.below) - variance if self.tops > 1 else np.zeros_like(variance)
        own = np.broadcast_to(self.own, rest.shape)
        return np.linalg.solve(np.eye(self.own.shape[-1]) + own @ rest, own)

    def entities(self, sums: Sums) -> FloatArray:
        """Return the (entities, d, d) variance of each entity's estimate."""
        if self.tops == 1:
            weight, rest = sums.weight, sums.rest
        else:
            weight = sums.weighted @ self.below
            rest = sums.squared - weight @ sums.weighted.swapaxes(1, 2)
        return weight @ self.variance @ weight.swapaxes(1, 2) + rest


def cell_variance(part: Part, variance: FloatArray) -> FloatArray:
    """Return what this part adds to the variance of the marginal's cell: trace(C' V C) for each V of (..., d, d)."""
    added: FloatArray = np.einsum("ik,...ij,jk->...", part.cell, variance, part.cell)
    return added


def _inverse(matrices: FloatArray, skipped: BoolArray) -> FloatArray:
    """Return inverses of a stack of matrices, 0 for those that are skipped."""
    inverse = np.zeros_like(matrices)
    try:
        inverse[~skipped] = np.linalg.inv(matrices[~skipped])
    except np.linalg.LinAlgError as singular:
        raise ValueError(
            "the queries of some geounit do not determine its histogram: ask 'detailed' there"
        ) from singular
    return inverse


def _gather(group: IntArray, groups: int) -> Callable[[FloatArray], FloatArray]:
    """Return the function that sums (n, d, d) stacks over groups."""
    n = len(group)
    matrix = sparse.csr_array((np.ones(n), (group, np.arange(n))), shape=(groups, n))
    return lambda stack: np.asarray(matrix @ stack.reshape(n, -1)).reshape(-1, *stack.shape[1:])
