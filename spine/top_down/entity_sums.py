"""Sums of blocks off the spine (places, tabulation tracts): their best linear unbiased estimates and variances.

Level by level, from the blocks up, the count of an entity within a geounit is regressed on the geounit's own: given all
that is measured below, it is W x + c, known but for an error that is independent of x. A family of entities partitions
the blocks, so a level has a pair of geounit and entity wherever they meet (`spine.overlap`), and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.top_down.blue import Blue, Said
from spine.top_down.columns import Columns
from spine.workload import FloatArray

NAMES = ("geounit", "entity", "weight", "known", "spread", "whole", "cut")


@dataclass(frozen=True)
class Regressed:
    """Counts of entities within geounits of a level, given the geounits' own.

    geounit, entity: (pairs,) sorted by geounit, then entity. weight: (pairs, components, types, types) W. known,
    spread: (pairs, K) of every column the c, and the variance of its error. whole: (pairs,) whether the entity holds
    the whole geounit, so that W is 1, c and error 0. cut: (pairs,) how many block groups it holds in part.
    """

    geounit: IntArray
    entity: IntArray
    weight: FloatArray
    known: FloatArray
    spread: FloatArray
    whole: BoolArray
    cut: IntArray

    def only(self, first: int, last: int) -> Regressed:
        """Those of the geounits first, ..., last - 1."""
        rows = slice(*np.searchsorted(self.geounit, (first, last)).tolist())
        return Regressed(*(getattr(self, name)[rows] for name in NAMES))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by name, to be saved: no weight where the geounit is held whole."""
        return {name: getattr(self, name) for name in NAMES} | {"weight": self.weight[~self.whole]}


def from_arrays(arrays: dict[str, np.ndarray]) -> Regressed:
    """What gave these arrays."""
    short, whole = arrays["weight"], arrays["whole"]
    weight = np.zeros((len(whole), *short.shape[1:]))
    weight[whole], weight[~whole] = np.eye(short.shape[-1]), short
    return Regressed(**arrays | {"weight": weight})


def joined(parts: list[Regressed]) -> Regressed:
    """Runs of geounits that follow each other as one."""
    return Regressed(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))


def of_blocks(columns: Columns, given: Said, first: int, entity: IntArray) -> Regressed:
    """The pairs of block groups: given says what their blocks do; entity: (blocks,) of each, -1 outside all.

    first: the number of the first block group.
    """
    inside = np.flatnonzero(entity >= 0)
    one = np.eye(given.variance.shape[-1])
    found = _pairs(
        columns,
        given,
        first,
        inside,
        entity[inside],
        weighted=given.variance[inside],
        straight=np.broadcast_to(one, (len(inside), *given.variance.shape[1:])),
        known=columns.sums(given.z)[inside],
        spread=columns.variances(given.variance)[inside],
        whole=np.ones(len(inside), bool),
        cut=np.zeros(len(inside), np.int64),
    )
    return replace(found, cut=(~found.whole).astype(np.int64))


def of_children(columns: Columns, given: Said, first: int, child: int, below: Regressed) -> Regressed:
    """The pairs of the level above `below`; given says what the geounits of below's level do.

    first, child: the numbers of the first geounit of either level.
    """
    at = below.geounit - child
    weighted = below.weight @ given.variance[at]
    return _pairs(
        columns,
        given,
        first,
        at,
        below.entity,
        weighted=weighted,
        straight=below.weight,
        known=below.known + columns.sums_through(below.weight, given.z[at]),
        spread=below.spread + columns.variances(weighted @ below.weight.swapaxes(-1, -2)),
        whole=below.whole,
        cut=below.cut,
    )


def _pairs(
    columns: Columns,
    given: Said,
    first: int,
    child: IntArray,
    entity: IntArray,
    *,
    weighted: FloatArray,
    straight: FloatArray,
    known: FloatArray,
    spread: FloatArray,
    whole: BoolArray,
    cut: IntArray,
) -> Regressed:
    """Add up the pairs of children to those of their parents, and regress these.

    child, entity: of every pair. weighted, straight: its W V and W; known, spread: W z + c, and their variances.
    """
    parent = given.parent[child]
    width = int(entity.max(initial=0)) + 1
    key, pair = np.unique(parent * width + entity, return_inverse=True)
    above = key // width

    def summed(values: np.ndarray) -> np.ndarray:
        sums = np.zeros((len(key), *values.shape[1:]), values.dtype)
        np.add.at(sums, pair, values)
        return sums

    only = np.zeros(len(key), bool)
    only[pair] = given.only[child]
    covariance = summed(weighted)  # 0 above an only child, whose z and V are 0
    weight = np.where(only[:, None, None, None], summed(straight), covariance @ given.below[above])
    rest = summed(known) - columns.sums_through(covariance, given.b[above])
    left = summed(spread) - columns.variances(weight @ covariance.swapaxes(-1, -2))
    all_of = np.bincount(pair, whole, len(key)) == np.bincount(given.parent, minlength=len(given.b))[above]
    weight[all_of], rest[all_of], left[all_of] = np.eye(weight.shape[-1]), 0.0, 0.0
    return Regressed(above + first, key % width, weight, rest, np.maximum(left, 0.0), all_of, summed(cut))


def entity_estimates(
    columns: Columns, states: Blue, top: Regressed
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """The entities that there are, (entities, K) estimates and standard errors, and the block groups that each cuts.

    top: the pairs of whole states, one of them.
    """
    at = top.geounit - states.first
    spread = top.spread + columns.variances(top.weight @ states.variance[at] @ top.weight.swapaxes(-1, -2))
    return top.entity, top.known + columns.sums_through(top.weight, states.x[at]), np.sqrt(spread), top.cut
