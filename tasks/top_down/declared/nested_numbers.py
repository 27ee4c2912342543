"""Divide totals among leaves and parts under nested bounds, near wanted numbers: what synthetic records are made of.

Bounded sets of parts nest, so the parts of a leaf, its bounded sets and its whole are a tree. The fewest and most
records of each are found from the parts upwards; then every total is divided from the whole downwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.top_down.bounds import NO_LIMIT, Sets


class _Node(NamedTuple):
    """A part, a bounded set, or the whole; low, high, wanted: (leaves,) records. below: the nodes that it sums."""

    parts: frozenset[int]
    low: IntArray
    high: IntArray
    wanted: IntArray
    below: list[_Node]


def divide_totals(sets: Sets, allowed: BoolArray, wanted: IntArray, groups: Iterable[tuple[IntArray, int]]) -> IntArray:
    """Return the (leaves, parts) records that meet the leaves' bounds and the totals of groups of leaves.

    allowed, wanted: (leaves, parts). groups: the leaves of each, and their total. The bounds and totals must admit some
    division (`figures.not_inherited`).
    """
    whole = _tree(sets, allowed, wanted)
    totals, numbers = np.clip(whole.wanted, whole.low, whole.high), np.zeros_like(wanted)
    for inside, total in groups:
        most = np.minimum(whole.high[inside], total)
        shares = _divide(np.array([total]), totals[None, inside], whole.low[None, inside], most[None])
        totals[inside] = shares[0]
    _fill(whole, totals, numbers)
    return numbers


def _tree(sets: Sets, allowed: BoolArray, wanted: IntArray) -> _Node:
    """Return the whole; the fewest and most records of a node are those that the nodes below it admit, too."""
    none = np.zeros(len(allowed), np.int64)
    tops = [
        _Node(frozenset((part,)), none, np.where(allowed[:, part], NO_LIMIT, 0), wanted[:, part], [])
        for part in range(allowed.shape[1])
    ]
    whole = np.ones(allowed.shape[1], bool), none, none + NO_LIMIT
    bounds = [*zip(sets.member, sets.low[-1].T, sets.high[-1].T, strict=True), whole]
    for member, low, high in sorted(bounds, key=lambda each: each[0].sum()):
        own = frozenset(np.flatnonzero(member).tolist())
        below = [node for node in tops if node.parts <= own]
        if below:
            lows, highs, wants = (
                np.sum([getattr(node, name) for node in below], axis=0) for name in _Node._fields[1:4]
            )
            tops = [node for node in tops if not node.parts <= own]
            tops.append(_Node(own, np.maximum(low, lows), np.minimum(high, highs), wants, below))
    return tops[0]


def _fill(node: _Node, totals: IntArray, numbers: IntArray) -> None:
    """Write the records of the node's parts into (leaves, parts) numbers; totals: (leaves,) of the node."""
    if not node.below:
        numbers[:, [*node.parts]] = totals[:, None]
        return
    wanted, low, high = (
        np.stack([getattr(each, name) for each in node.below], axis=1) for name in ("wanted", "low", "high")
    )
    for each, share in zip(node.below, _divide(totals, wanted, low, high).T, strict=True):
        _fill(each, share, numbers)


def _divide(totals: IntArray, wanted: IntArray, low: IntArray, high: IntArray) -> IntArray:
    """Return (rows, k) numbers within their bounds that sum to the (rows,) totals, near the wanted ones."""
    found = np.clip(wanted, low, high)
    missing = (totals - found.sum(axis=1))[:, None]
    room = np.minimum(np.where(missing > 0, high - found, found - low), abs(missing))
    steps = abs(missing) * room // np.maximum(room.sum(axis=1, keepdims=True), 1)
    rest, room = abs(missing) - steps.sum(axis=1, keepdims=True), room - steps
    steps += np.clip(rest - (np.cumsum(room, axis=1) - room), 0, room)
    found += np.sign(missing) * steps
    return found
