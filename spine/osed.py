"""Off-spine entity distance (paper, Algorithm 1, equations 20-23), for all entities of a family at once.

A family partitions the blocks, so a level has at most one (geounit, entity) pair for each pair of the level below, and
the entities of a whole state are processed together, level by level (`overlap`): the sparse frame of distances and
variances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.entities import Entities
from spine.geography import IntArray
from spine.hierarchy import Spine


@dataclass(frozen=True)
class EntityCosts:
    """The cost of a family's entities in the top geounits of a forest, summed over these.

    inside, outside: (entities,) sums of c[k] and of c[k'] over the top geounits that the entity meets. met: (entities,)
    the number of top geounits that it meets.
    """

    inside: IntArray
    outside: IntArray
    met: IntArray


def costs_by_level(spine: Spine, pairs: tuple[Pairs, ...]) -> tuple[tuple[IntArray, IntArray], ...]:
    """Return c[k, l, u] and c[k', l, u] of equations 20-23 for the pairs of every level, top first."""
    inside, outside = np.ones(spine.blocks, np.int64), np.zeros(spine.blocks, np.int64)
    levels = [(inside, outside)]
    for level in range(len(spine.levels) - 1, 0, -1):
        below, here = pairs[level], pairs[level - 1]
        x = _sum(below.parent, inside, len(here.geounit))
        met = np.bincount(below.parent, minlength=len(here.geounit))
        # A child that the entity does not meet costs the complement 1, the child itself.
        y = _sum(below.parent, outside, len(here.geounit)) + spine.children(level - 1)[here.geounit] - met
        inside, outside = cheaper(x, y)
        levels.append((inside, outside))
    return tuple(reversed(levels))


def cheaper(x: IntArray, y: IntArray) -> tuple[IntArray, IntArray]:
    """Return the lower cost of entity and complement (equations 22, 23): add up pieces, or subtract the rest."""
    return np.minimum(x, y + 1), np.minimum(y, x + 1)


def costs_at_top(spine: Spine, family: Entities, pairs: tuple[Pairs, ...] | None = None) -> EntityCosts:
    """Return the cost of each entity at the top level of `spine`, summed over the geounits there."""
    number = len(family.codes)
    pairs = pairs or overlap(spine, family.of_block, number)
    inside, outside = costs_by_level(spine, pairs)[0]
    top = pairs[0].entity
    return EntityCosts(_sum(top, inside, number), _sum(top, outside, number), np.bincount(top, minlength=number))


def at_root(total: EntityCosts, tops: int) -> IntArray:
    """Return each entity's OSED at a root above `tops` geounits (equation 22); a single top is the root itself."""
    if tops == 1:
        return total.inside
    return cheaper(total.inside, total.outside + tops - total.met)[0]


def osed(spine: Spine, family: Entities) -> IntArray:
    """Return the (entities,) OSEDs: the least number of geounits to add and subtract to make each entity."""
    return at_root(costs_at_top(spine, family), len(spine.starts[0]))


def _sum(group: IntArray, values: IntArray, groups: int) -> IntArray:
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)  # exact: far below 2^53


@dataclass(frozen=True)
class Pairs:
    """The pairs (geounit, entity) of one level that have blocks in common, sorted by geounit.

    geounit, entity: (pairs,) indices. parent: (pairs,) the pair of the level above that contains each; at the top level
    the entity, by which pairs are summed there.
    """

    geounit: IntArray
    entity: IntArray
    parent: IntArray


def overlap(spine: Spine, of_block: IntArray, number: int) -> tuple[Pairs, ...]:
    """Return the pairs of every level of `spine`, top first.

    of_block: (blocks,) entity index of the rows of the geography. number: the number of entities.
    """
    geounit, entity = np.arange(spine.blocks), of_block[spine.order]
    levels = []
    for level in range(len(spine.levels) - 1, 0, -1):
        key = spine.parents[level][geounit] * number + entity
        above, parent = np.unique(key, return_inverse=True)
        levels.append(Pairs(geounit, entity, parent))
        geounit, entity = above // number, above % number
    levels.append(Pairs(geounit, entity, entity))
    return tuple(reversed(levels))
