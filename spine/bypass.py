"""Bypass of parents with few children (paper, section 5, Algorithm 3), in exact integer shares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine
from spine.settings import SpineSettings


def bypass(spine: Spine, settings: SpineSettings) -> Spine:
    """Return the spine that Algorithm 3 makes, from the blocks up; path sums of shares do not change at all.

    Each child of a bypassed parent gets a new parent of its own at that level, with the shares of both; the child keeps
    its level, with share 0. Raises ValueError if the settings would split the root (docs/spec/spine.md#bypass).
    """
    if settings.levels and settings.levels[0] in settings.split:
        raise ValueError(f"the root level {settings.levels[0]} cannot be split: leave it out of `split`")
    for level in range(len(spine.levels) - 2, -1, -1):
        spine = _replace_parents(spine, level, _chosen(spine, level, settings))
    return spine


def _chosen(spine: Spine, level: int, settings: SpineSettings) -> BoolArray:
    """Return which geounits of `level` Algorithm 3 bypasses."""
    children = spine.children(level)
    only_child: BoolArray = children == 1
    passes: BoolArray
    if settings.definition == "zcdp" or spine.levels[level] not in settings.split:
        return only_child
    passes = exact_rule(spine, level) if settings.exact_bypass else minimum_rule(spine, level)
    if settings.bypass_cutoff is not None:
        passes = _within_cutoff(spine.parents[level], children, passes, settings.bypass_cutoff)
    return passes | only_child


def minimum_rule(spine: Spine, level: int) -> BoolArray:
    """Return which parents pass Theorem 2 as used in Algorithm 3: the least share of their c children is at least
    (c - 1) / 2 times their own."""
    least: IntArray = np.minimum.reduceat(spine.shares[level + 1], spine.first_child[level][:-1])
    return 2 * least >= (spine.children(level) - 1) * spine.shares[level]


def exact_rule(spine: Spine, level: int) -> BoolArray:
    """Return which parents pass the exact rule for unequal shares: no variance rises if and only if the sum of
    1 / (1 + 2 gamma_v / gamma_p) over the children is at most 1.

    docs/spec/spine.md#bypass has the reason. Exact: geounits of a level have few distinct shares, so a family is a few
    counts, compared in rational numbers.
    """
    parents, shares = spine.parents[level + 1], spine.shares[level]
    child, child_kind = np.unique(spine.shares[level + 1], return_inverse=True)
    counts = np.zeros((len(shares), len(child)), np.int64)
    np.add.at(counts, (parents, child_kind), 1)
    families, kind = np.unique(np.column_stack([shares, counts]), axis=0, return_inverse=True)
    verdict = [_keeps_variances(row[0], row[1:], child) for row in families]
    return np.array(verdict, bool)[kind.ravel()]


def _keeps_variances(parent: np.int64, counts: IntArray, shares: IntArray) -> bool:
    share = int(parent)
    terms = (
        int(number) * Fraction(share, share + 2 * int(child))
        for number, child in zip(counts, shares, strict=True)
        if number and share
    )
    return sum(terms, Fraction(0)) <= 1


def _within_cutoff(grandparent: IntArray, children: IntArray, wanted: BoolArray, cutoff: int) -> BoolArray:
    """Return which of the wanted parents, taken in order, keep the fan-out above them within the cutoff."""
    fanout = np.bincount(grandparent)
    accepted = np.zeros(len(wanted), bool)
    waiting = np.flatnonzero(wanted)
    while len(waiting):  # a round decides the next candidate of every grandparent
        now = np.unique(grandparent[waiting], return_index=True)[1]
        candidate = waiting[now]
        above = grandparent[candidate]
        fits = fanout[above] - 1 + children[candidate] <= cutoff
        accepted[candidate] = fits
        fanout[above[fits]] += children[candidate[fits]] - 1
        waiting = np.delete(waiting, now)
    return accepted


def _replace_parents(spine: Spine, level: int, chosen: BoolArray) -> Spine:
    """Bypass the `chosen` geounits of a level."""
    parents, starts = spine.parents[level + 1], list(spine.starts)
    moved = chosen[parents]  # children whose share moves to the new parent
    new_begins = np.union1d(starts[level], starts[level + 1][moved])
    old = np.searchsorted(starts[level], new_begins, side="right") - 1
    shares = list(spine.shares)
    upper = spine.shares[level][old]
    child = np.searchsorted(starts[level + 1], new_begins)
    upper += np.where(chosen[old], spine.shares[level + 1][child], 0)
    shares[level], shares[level + 1] = upper, np.where(moved, 0, spine.shares[level + 1])
    starts[level] = new_begins
    return replace(spine, starts=tuple(starts), shares=tuple(shares))
