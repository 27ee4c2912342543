"""Optimized block groups (paper, Algorithm 2, first half): runs of bounded size inside each intersection of OSEs."""

from __future__ import annotations

from typing import Literal

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.hierarchy import changes


def size_cap(members: IntArray, fanout_cutoff: int, extra: int) -> IntArray:
    """Return how many children a group may have in a parent of n members: floor(sqrt(n)) + cutoff + extra.

    The paper's bound is sqrt(n) + cutoff (extra = 0); the production programs close a group one later (extra = 1).
    """
    return np.floor(np.sqrt(members)).astype(np.int64) + fanout_cutoff + extra


def group_starts(
    parent: IntArray, classes: tuple[IntArray, ...], cap: IntArray, division: Literal["runs", "even"] = "runs"
) -> BoolArray:
    """Return where groups begin: consecutive members of one parent and one class, at most `cap` of them.

    parent: (members,) parent of each member, in order; classes: (members,) codes, equal ones neighbours inside a
    parent; cap: (members,) the largest size in the member's parent. "runs" fills groups one after the other, the last
    may be short; "even" makes ceil(n / cap) groups of two neighbouring sizes, small ones first, unless n <= cap or
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
    chosen: BoolArray = np.where((n <= cap) | (n % cap <= 1), runs, even)
    return chosen
