"""Where a family of entities meets the geounits of a spine: the sparse frame of OSED and of entity variances.

A family partitions the blocks, so a level has at most one (geounit, entity) pair for each pair of the level below, and
a whole state's entities are worked through level by level, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.geography import IntArray
from spine.hierarchy import Spine


@dataclass(frozen=True)
class Pairs:
    """The pairs (geounit, entity) of one level that have blocks in common, sorted by geounit.

    geounit, entity: (pairs,) indices. parent: (pairs,) the pair of the level above that each belongs to (all 0 at the
    top level, where pairs are summed by entity instead).
    """

    geounit: IntArray
    entity: IntArray
    parent: IntArray


def overlap(spine: Spine, of_block: IntArray, number: int) -> tuple[Pairs, ...]:
    """Return pairs of every level of `spine`, top first.

    of_block: (blocks,) entity index of the rows of the geography; number: how many entities there are.
    """
    geounit, entity = np.arange(spine.blocks), of_block[spine.order]
    levels = []
    for level in range(len(spine.levels) - 1, 0, -1):
        key = spine.parents[level][geounit] * number + entity
        above, parent = np.unique(key, return_inverse=True)
        levels.append(Pairs(geounit, entity, parent))
        geounit, entity = above // number, above % number
    levels.append(Pairs(geounit, entity, np.zeros(len(geounit), np.int64)))
    return tuple(reversed(levels))
