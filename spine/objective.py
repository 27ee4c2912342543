"""The objective of Algorithm 2 when it merges tract groups: the OSEDs of a county's entities, largest first.

A county with the tracts A, B, C, D, an entity P made of A and C, and an entity Q made of B and D:

    tract   cost x of P   cost y of its complement   cost x of Q   cost y of its complement
    A, C    1             0                          0             1
    B, D    0             1                          1             0

Before any merge P is A + C, two tracts, and so is Q: both OSEDs are 2. After merging A and C, P is one group, and Q is
still B + D. Merging B into the group of A and C would make P cost 2 again (B must be subtracted), so it is refused.
Merging B and D makes Q one group as well.

>>> in_p = np.array([1, 0, 1, 0])
>>> x = np.column_stack([in_p, 1 - in_p])
>>> county = Objective(x, y=1 - x, met=x > 0, ids=np.arange(2), above=[])
>>> county.start([np.array([tract]) for tract in range(4)])
>>> county.distances
array([2, 2])
>>> county.merge(0, 2)  # A and C; the groups are now AC, B, D
>>> county.distances
array([2, 1])
>>> county.no_larger(0, np.array([1, 2]))  # AC with B? AC with D?
array([False, False])
>>> county.no_larger(1, np.array([2]))  # B with D?
array([ True])
>>> county.merge(1, 2)
>>> county.distances
array([1, 1])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spine.entities import Entities
from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine
from spine.osed import cheaper, costs_by_level, overlap
from spine.settings import SpineSettings

Sums = tuple[IntArray, IntArray]  # c and c' of every entity, over the children of every geounit: (geounits, entities)


class OsedObjective:
    """The OSEDs of one county's entities while its tracts are being grouped.

    tracts: their number. met: (tracts, codes) whether a tract has blocks of an entity's code. The codes of areas
    outside all entities are included, whether or not they are in the objective. distances: (entities,) the OSEDs with
    the current groups, largest first.
    """

    def __init__(self, x: IntArray, y: IntArray, met: BoolArray, ids: IntArray, above: list[tuple[Sums, int]]) -> None:
        self.tracts, self.met = len(x), met
        self._tract_x, self._tract_y, self._ids, self._above = x, y, ids, above
        self._kept = np.arange(len(ids))
        self._before = cheaper(x.sum(0), y.sum(0))
        self._x, self._y = x, y
        self.distances: IntArray

    @property
    def entities(self) -> int:
        """The number of entities still in the objective."""
        return len(self._kept)

    def ignore_near(self, threshold: int) -> None:
        """Drop entities within `threshold` without tract groups (docs/spec/spine.md#tract-groups, point 4)."""
        self._kept = np.flatnonzero(self._osed_if(*self._before, np.arange(len(self._ids))) > threshold)

    def start(self, groups: Sequence[IntArray]) -> None:
        """Start from these groups of tracts."""
        self._x = np.array([self._tract_x[g].sum(0) for g in groups])[:, self._kept]
        self._y = np.array([self._tract_y[g].sum(0) for g in groups])[:, self._kept]
        self._total()

    def _total(self) -> None:
        x, y = cheaper(self._x, self._y)
        self._county_x, self._county_y = x.sum(0), y.sum(0)
        now = self._osed_if(*cheaper(self._county_x, self._county_y), self._kept)
        self.distances = np.sort(now)[::-1]

    def no_larger(self, u: int, others: IntArray) -> BoolArray:
        """Return whether merging each of `others` with group u does not increase the descending OSEDs."""
        ux, uy = cheaper(self._x[u], self._y[u])
        vx, vy = cheaper(self._x[others], self._y[others])
        wx, wy = cheaper(self._x[u] + self._x[others], self._y[u] + self._y[others])
        county = cheaper(self._county_x - ux - vx + wx, self._county_y - uy - vy + wy)
        merged = np.sort(self._osed_if(*county, self._kept), axis=1)[:, ::-1]
        return lexicographically_no_larger(merged, self.distances)

    def merge(self, u: int, v: int) -> None:
        """Merge group v into group u; later groups move up one place."""
        self._x[u] += self._x[v]
        self._y[u] += self._y[v]
        self._x, self._y = np.delete(self._x, v, axis=0), np.delete(self._y, v, axis=0)
        self._total()

    def finish_county(self, group_of_tract: IntArray) -> None:
        """Add the county's final groups to the sums above it, for the remaining counties."""
        if not self._above:
            return
        groups = np.unique(group_of_tract, return_inverse=True)[1]
        x = np.zeros((groups.max() + 1, len(self._ids)), np.int64)
        y = np.zeros_like(x)
        np.add.at(x, groups, self._tract_x)
        np.add.at(y, groups, self._tract_y)
        x, y = cheaper(x, y)
        self._osed_if(*cheaper(x.sum(0), y.sum(0)), np.arange(len(self._ids)), keep=True)

    def _osed_if(self, x: IntArray, y: IntArray, which: IntArray, *, keep: bool = False) -> IntArray:
        """Return the OSED at the top of the spine if the county's own (c, c') become (x, y); keep: store these sums."""
        old_x, old_y = self._before[0][which], self._before[1][which]
        ids = self._ids[which]
        for (above_x, above_y), geounit in self._above:
            had_x, had_y = above_x[geounit, ids], above_y[geounit, ids]
            new_x, new_y = had_x - old_x + x, had_y - old_y + y
            if keep:
                above_x[geounit, ids], above_y[geounit, ids] = new_x, new_y
            old_x, old_y = cheaper(had_x, had_y)
            x, y = cheaper(new_x, new_y)
        return x


def lexicographically_no_larger(candidates: IntArray, current: IntArray) -> BoolArray:
    """Return which rows are lexicographically no larger: equal, or smaller at the first difference."""
    difference = candidates - current
    first = np.argmax(difference != 0, axis=1)
    no_larger: BoolArray = difference[np.arange(len(difference)), first] <= 0
    return no_larger


def objectives(spine: Spine, families: Sequence[Entities], settings: SpineSettings) -> Iterator[OsedObjective]:
    """Yield the objective of each county of a spine without tract groups, in order. Finish one before the next.

    At the root, entities of several states are measured by their blocks on this spine only.
    """
    county_level = spine.levels.index("County")
    tables: list[list[IntArray]] = [[], [], [], []]  # tract, entity, c, c'
    sets: list[list[IntArray]] = [[], []]  # tract, code
    entities = sum(len(family.codes) for family in families)
    fanouts = (spine.children(level)[:, None] for level in range(county_level - 1, -1, -1))
    above = [(np.zeros((len(fanout), entities), np.int64), np.repeat(fanout, entities, axis=1)) for fanout in fanouts]
    offset = 0
    for family in families:
        pairs = overlap(spine, family.of_block, len(family.codes))
        values = costs_by_level(spine, pairs)
        kept = ~family.outside | settings.objective_outside
        here, (x, y) = pairs[county_level + 1], values[county_level + 1]
        use = kept[here.entity]
        sets[0].append(here.geounit)
        sets[1].append(here.entity + offset)
        for table, column in zip(tables, (here.geounit, here.entity + offset, x, y), strict=True):
            table.append(column[use])
        for level, sums in zip(range(county_level - 1, -1, -1), above, strict=True):
            below, (x, y) = pairs[level + 1], values[level + 1]
            at = spine.parents[level + 1][below.geounit], below.entity + offset
            np.add.at(sums[0], at, x)
            np.add.at(sums[1], at, y - 1)  # the sum starts with 1 for each child, as if the entity did not meet it
        offset += len(family.codes)
    tract, entity, x, y = (np.concatenate(table) for table in tables)
    order = np.lexsort((entity, tract))
    tract, entity, x, y = tract[order], entity[order], x[order], y[order]
    county = spine.parents[county_level + 1]
    bounds = np.searchsorted(county[tract], np.arange(len(spine.starts[county_level]) + 1))
    first_tract = spine.first_child[county_level]
    met = _met(np.concatenate(sets[0]), np.concatenate(sets[1]), first_tract)
    for c in range(len(bounds) - 1):
        rows = slice(bounds[c], bounds[c + 1])
        ids, column = np.unique(entity[rows], return_inverse=True)
        shape = (first_tract[c + 1] - first_tract[c], len(ids))
        at = tract[rows] - first_tract[c], column
        cx, cy = np.zeros(shape, np.int64), np.ones(shape, np.int64)
        cx[at], cy[at] = x[rows], y[rows]
        yield OsedObjective(cx, cy, next(met), ids, _ancestors(spine, county_level, c, above, settings))


def _met(tract: IntArray, code: IntArray, first_tract: IntArray) -> Iterator[BoolArray]:
    """Yield for each county a (tracts, codes) mask of the tracts that have blocks of a code of the county."""
    order = np.argsort(tract, kind="stable")
    tract, code = tract[order], code[order]
    bounds = np.searchsorted(tract, first_tract)
    for first, last, start, stop in zip(first_tract, first_tract[1:], bounds, bounds[1:], strict=False):
        codes, column = np.unique(code[start:stop], return_inverse=True)
        met = np.zeros((last - first, len(codes)), bool)
        met[tract[start:stop] - first, column] = True
        yield met


def _ancestors(
    spine: Spine, county_level: int, county: int, above: list[Sums], settings: SpineSettings
) -> list[tuple[Sums, int]]:
    """Return the sums of the geounits above a county, nearest first; empty if the OSED is measured at the county."""
    if settings.objective_at == "county":
        return []
    chain, geounit = [], county
    for level, sums in zip(range(county_level - 1, -1, -1), above, strict=True):
        geounit = int(spine.parents[level + 1][geounit])
        chain.append((sums, geounit))
    return chain
