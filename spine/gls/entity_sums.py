"""Sums of blocks off the spine (places, tabulation tracts): their best linear unbiased estimates and variances.

Level by level, from the blocks up, the count of an entity within a geounit is regressed on the geounit's own count:
given all measurements below, it is W x + c, with an error that is independent of x. A family of entities partitions the
blocks, so a level has exactly one pair for each geounit and entity that meet (`spine.osed`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.columns import Columns, Covariances
from spine.gls.grid import Blue, SiblingSums, times

NAMES = ("geounit", "entity", "weight", "known", "spread", "whole", "cut")


@dataclass(frozen=True)
class Regressed:
    """Counts of entities within geounits of a level, given the geounits' own counts.

    geounit, entity: (pairs,) sorted by geounit, then entity. weight: (pairs, components, types, types) W. known,
    spread: (pairs, K) c for every column, and the variance of its error. whole: (pairs,) whether the entity contains
    the whole geounit, so that W is 1, and c and error are 0. cut: (pairs,) the number of block groups that it contains
    in part.
    """

    geounit: IntArray
    entity: IntArray
    weight: FloatArray
    known: FloatArray
    spread: FloatArray
    whole: BoolArray
    cut: IntArray

    def only(self, first: int, last: int) -> Regressed:
        """Return the counts within the geounits first, ..., last - 1."""
        rows = slice(*np.searchsorted(self.geounit, (first, last)).tolist())
        return Regressed(*(getattr(self, name)[rows] for name in NAMES))


def joined(parts: list[Regressed]) -> Regressed:
    """Join consecutive ranges of geounits."""
    return Regressed(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))


def regress_block_groups(
    columns: Columns,
    given: SiblingSums,
    first: int,
    entity: IntArray,
    sums: FloatArray | None = None,
    covariances: Covariances | None = None,
) -> Regressed:
    """Regress the pairs of block groups; given: those of their blocks; entity: (blocks,) numbers, -1 outside all.

    first: the number of the first block group. sums: (blocks, K) the columns of given.z, if that is not kept.
    covariances: where to add the covariances.
    """
    inside = np.flatnonzero(entity >= 0)
    pairs = _paired(given, inside, entity[inside], np.ones(len(inside), bool))
    at = inside[pairs.parts]
    variance = given.variance[at]
    found = _regressed(
        columns,
        given,
        first,
        pairs,
        weighted=variance,
        straight=np.broadcast_to(np.eye(variance.shape[-1]), variance.shape),
        known=columns.sums(given.z[at]) if sums is None else sums[at],
        spread=columns.variances(variance),
        covariances=covariances,
    )
    return replace(found, cut=(~found.whole).astype(np.int64))


def regress_parents(
    columns: Columns,
    given: SiblingSums,
    first: int,
    child: int,
    below: Regressed,
    covariances: Covariances | None = None,
) -> Regressed:
    """Regress the pairs of the level above `below`; given: those of the geounits of below's level.

    first, child: the numbers of the first geounit of either level. covariances: where to add the covariances.
    """
    pairs = _paired(given, below.geounit - child, below.entity, below.whole)
    at, parts = pairs.child[pairs.parts], pairs.parts
    weight = below.weight[parts]
    weighted = weight @ given.variance[at]
    found = _regressed(
        columns,
        given,
        first,
        pairs,
        weighted=weighted,
        straight=weight,
        known=below.known[parts] + columns.sums(times(weight, given.z[at], columns.signs)),
        spread=below.spread[parts] + columns.variances(weighted @ weight.swapaxes(-1, -2)),
        covariances=covariances,
    )
    return replace(found, cut=np.bincount(pairs.pair, below.cut, len(found.cut)).astype(np.int64))


class _Pairs(NamedTuple):
    """Pairs of children and entities, and those of their parents.

    child: (children's pairs,) the child. pair: the pair of its parent. parent, entity, whole: (pairs,) those of the
    parents, and whether the entity contains the whole parent. parts: the children's pairs with a parent that is cut.
    """

    child: IntArray
    pair: IntArray
    parent: IntArray
    entity: IntArray
    whole: BoolArray
    parts: IntArray


def _paired(given: SiblingSums, child: IntArray, entity: IntArray, whole: BoolArray) -> _Pairs:
    """Return the pairs of the parents of these; whole: whether the entity contains the whole child."""
    parent = given.parent[child]
    width = int(entity.max(initial=0)) + 1
    key, pair = np.unique(parent * width + entity, return_inverse=True)
    above = key // width
    all_of = np.bincount(pair, whole, len(key)) == np.bincount(given.parent, minlength=len(given.b))[above]
    return _Pairs(child, pair, above, key % width, all_of, np.flatnonzero(~all_of[pair]))


def _regressed(
    columns: Columns,
    given: SiblingSums,
    first: int,
    pairs: _Pairs,
    *,
    weighted: FloatArray,
    straight: FloatArray,
    known: FloatArray,
    spread: FloatArray,
    covariances: Covariances | None,
) -> Regressed:
    """Add up the children's pairs to those of their parents, and regress these; `cut` remains 0.

    Only geounits that an entity contains in part are processed. weighted, straight: W V and W of every such child's
    pair; known, spread: W z + c, and their variances.
    """
    cut = np.flatnonzero(~pairs.whole)
    above, row = pairs.parent[cut], (np.cumsum(~pairs.whole) - 1)[pairs.pair[pairs.parts]]

    def summed(values: FloatArray) -> FloatArray:
        """Sum over the parts of each pair that is cut."""
        sums = np.zeros((len(cut), *values.shape[1:]))
        np.add.at(sums, row, values)
        return sums

    only = np.zeros(len(cut), bool)
    only[row] = given.is_only_child[pairs.child[pairs.parts]]
    covariance = summed(weighted)  # 0 above an only child, whose z and V are 0
    weight = np.where(only[:, None, None, None], summed(straight), covariance @ given.below[above])
    rest = summed(known) - columns.sums(times(covariance, given.b[above], columns.signs))
    left = summed(spread) - columns.variances(weight @ covariance.swapaxes(-1, -2))
    if covariances is not None:
        child, entity = pairs.child[pairs.parts], pairs.entity[pairs.pair[pairs.parts]]
        covariances.add(weighted.sum(axis=-2), straight.sum(axis=-2), entity, child)
        explained = covariance.sum(axis=-2)[..., None, :] @ given.below[above]
        covariances.add(-explained[..., 0, :], covariance.sum(axis=-2), pairs.entity[cut], above)
    number, width = len(pairs.whole), len(columns)
    found = Regressed(
        pairs.parent + first,
        pairs.entity,
        np.zeros((number, *given.variance.shape[1:])),
        np.zeros((number, width)),
        np.zeros((number, width)),
        pairs.whole,
        np.zeros(number, np.int64),
    )
    found.weight[pairs.whole] = np.eye(given.variance.shape[-1])
    found.weight[cut], found.known[cut], found.spread[cut] = weight, rest, np.maximum(left, 0.0)
    return found


def entity_estimates(
    columns: Columns, states: Blue, top: Regressed, covariances: Covariances | None = None
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """Return the entities, their (entities, K) estimates and standard errors, and how many block groups each cuts.

    top: the pairs of whole states or, if each part has a declared total, of the parts, whose errors are independent.
    covariances: where to add the covariances.
    """
    at = top.geounit - states.first
    weighted = top.weight @ states.variance[at]
    spread = top.spread + columns.variances(weighted @ top.weight.swapaxes(-1, -2))
    if covariances is not None:
        covariances.add(weighted.sum(axis=-2), top.weight.sum(axis=-2), top.entity, at)
    estimate = top.known + columns.sums(times(top.weight, states.x[at], columns.signs))
    entity, row = np.unique(top.entity, return_inverse=True)
    sums = []
    for values in (estimate, spread, top.cut):
        sums.append(np.zeros((len(entity), *values.shape[1:]), values.dtype))
        np.add.at(sums[-1], row, values)
    return entity, sums[0], np.sqrt(sums[1]), sums[2]
