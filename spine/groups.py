"""The groups of the paper's Algorithm 2: optimized block groups and tract groups.

Optimized block groups are runs of bounded size inside each intersection of OSEs. Tract groups result from greedily
merging a county's tracts so that OSEs come closer to the spine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from spine.entities import Entities
from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine, changes
from spine.objective import OsedObjective, objectives
from spine.settings import SpineSettings


def with_tract_groups(spine: Spine, families: Sequence[Entities], settings: SpineSettings) -> Spine:
    """Return `spine` with Tract_Group between County and Tract; the order of blocks changes, and shares are zero."""
    tract_level = spine.levels.index("Tract")
    group = np.empty(len(spine.starts[tract_level]), np.int64)
    ranges = pairwise(spine.first_child[tract_level - 1].tolist())
    for (first, last), objective in zip(ranges, objectives(spine, families, settings), strict=True):
        for members in county_groups(objective, settings):
            group[first + members] = first + members.min()
        objective.finish_county(group[first:last] - first)
    return _insert(spine, tract_level, group)


def county_groups(objective: OsedObjective, settings: SpineSettings) -> list[IntArray]:
    """Return the tracts of one county as groups (arrays of positions), in the order of their first tracts."""
    tracts = objective.tracts
    cap = int(size_cap(np.array(tracts), settings.fanout_cutoff, settings.tract_group_cap_extra))
    groups = [np.array([t]) for t in range(tracts)]
    if settings.premerge:
        groups = _premerged(objective, cap)
    objective.ignore_near(settings.entity_threshold)
    if not objective.entities:
        return (
            [np.concatenate(groups[i : i + cap]) for i in range(0, len(groups), cap)] if settings.premerge else groups
        )
    objective.start(groups)
    merge = _merge_one_by_one if settings.premerge else _merge_in_sweeps
    return merge(objective, groups, cap)


def _merge_in_sweeps(objective: OsedObjective, groups: list[IntArray], cap: int) -> list[IntArray]:
    """Merge sibling pairs unless the sorted OSEDs grow, in sweeps until nothing changes, as in the paper."""
    changed = True
    while changed:
        changed = False
        u = 0
        while u < len(groups):
            v = _partner(objective, groups, u, u + 1, cap)
            while v is not None:
                _merge(objective, groups, u, v)
                changed = True
                v = _partner(objective, groups, u, v, cap)
            u += 1
    return groups


def _merge_one_by_one(objective: OsedObjective, groups: list[IntArray], cap: int) -> list[IntArray]:
    """Start over after a merge; a group without a partner is final (docs/spec/spine.md#tract-groups, point 5)."""
    u = 0
    while u < len(groups):
        v = _partner(objective, groups, u, u + 1, cap)
        if v is None:
            u += 1
        else:
            _merge(objective, groups, u, v)
    return groups


def _partner(objective: OsedObjective, groups: list[IntArray], u: int, start: int, cap: int) -> int | None:
    """Return the first group from `start` on that fits under the cap with u and does not increase the sorted OSEDs."""
    sizes = np.array([len(g) for g in groups[start:]], np.int64)
    candidates = start + np.flatnonzero(sizes + len(groups[u]) <= cap)
    begin, size = 0, 8  # the first candidates are often accepted: try a few, then growing batches, at once
    while begin < len(candidates):
        tried = candidates[begin : begin + size]
        accepted = np.flatnonzero(objective.no_larger(u, tried))
        if len(accepted):
            return int(tried[accepted[0]])
        begin, size = begin + size, 2 * size
    return None


def _merge(objective: OsedObjective, groups: list[IntArray], u: int, v: int) -> None:
    objective.merge(u, v)
    groups[u] = np.concatenate([groups[u], groups.pop(v)])


def _premerged(objective: OsedObjective, cap: int) -> list[IntArray]:
    """Return tracts with equal sets of OSEs, in chunks of the cap (docs/spec/spine.md#tract-groups, point 3)."""
    alike: dict[bytes, list[int]] = {}
    for tract, met in enumerate(objective.met):
        alike.setdefault(np.packbits(met).tobytes(), []).append(tract)
    chunks = [np.array(members[i : i + cap]) for members in alike.values() for i in range(0, len(members), cap)]
    return sorted(chunks, key=lambda chunk: int(chunk[0]))


def _insert(spine: Spine, tract_level: int, group: IntArray) -> Spine:
    """Return the spine with its tracts arranged by group; a group is named by its first tract."""
    tracts = np.lexsort((np.arange(len(group)), group, spine.parents[tract_level]))
    begins, ends = spine.starts[tract_level], spine.ends(tract_level)
    moved = np.argsort(np.argsort(tracts, kind="stable")[spine.geounit_of_block(tract_level)], kind="stable")
    new_position = np.empty(spine.blocks, np.int64)
    new_position[moved] = np.arange(spine.blocks)
    starts = [np.sort(new_position[s]) for s in spine.starts]
    # A county starts with its first group, which holds its first tract: starts above the tracts do not change.
    starts[:tract_level] = spine.starts[:tract_level]
    new_tracts = np.concatenate([[0], np.cumsum((ends - begins)[tracts])[:-1]])
    new_group: BoolArray = np.append(True, np.diff(group[tracts]) != 0)
    starts.insert(tract_level, new_tracts[new_group])
    levels = (*spine.levels[:tract_level], "Tract_Group", *spine.levels[tract_level:])
    zero = tuple(np.zeros(len(s), np.int64) for s in starts)
    return replace(spine, levels=levels, order=spine.order[moved], starts=tuple(starts), shares=zero)


def size_cap(members: IntArray, fanout_cutoff: int, extra: int) -> IntArray:
    """Return the largest number of children of a group in a parent of n members: floor(sqrt(n)) + cutoff + extra.

    The paper's bound is sqrt(n) + cutoff (extra = 0); the production programs allow one child more (extra = 1).
    """
    return np.floor(np.sqrt(members)).astype(np.int64) + fanout_cutoff + extra


def group_starts(
    parent: IntArray, classes: tuple[IntArray, ...], cap: IntArray, division: Literal["runs", "even"] = "runs"
) -> BoolArray:
    """Return where groups begin: consecutive members of one parent and one class, at most `cap` of them.

    parent: (members,) parent of each member, in order. classes: (members,) codes; equal codes are adjacent inside a
    parent. cap: (members,) the largest size in the member's parent. "runs" fills groups one after the other, so the
    last may be short; "even" makes ceil(n / cap) groups of two adjacent sizes, small ones first, unless n <= cap or
    n mod cap is 0 or 1 (docs/spec/spine.md#optimized-block-groups).
    """
    begins = changes(parent, *classes)
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(parent)))
    position = np.arange(len(parent)) - np.repeat(starts, sizes)
    runs: BoolArray = position % cap == 0
    if division == "runs":
        return runs
    n = np.repeat(sizes, sizes)
    groups = -(-n // cap)
    small = n // groups
    in_small = (groups - n % groups) * small  # members of the small groups, which come first
    even: BoolArray = np.where(position < in_small, position % small == 0, (position - in_small) % (small + 1) == 0)
    return np.where((n <= cap) | (n % cap <= 1), runs, even)
