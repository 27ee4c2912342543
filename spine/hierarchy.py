"""A spine as nested partitions of an ordered list of blocks.

In spine order every geounit of every level is a range of adjacent blocks. A level is the list of its ranges' first
blocks, and nesting means that the starts of a level are among the starts of the level below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm

import numpy as np

from spine.geography import IntArray, Integers


@dataclass(frozen=True)
class Spine:
    """The matrix A of the paper's section 3 and the shares gamma of its geounits.

    levels: geolevel names, top first, blocks last. One geounit at the top makes a spine; several (for example a state's
        AIAN and non-AIAN part) make a forest, to be put under one root.
    order: (blocks,) rows of the geography in spine order.
    starts: for each level the (geounits,) positions in spine order at which its geounits begin; starts[-1] is 0, 1...
    shares: for each level the (geounits,) shares gamma, as numerators over `denominator`, which is exact and fast.
    """

    levels: tuple[str, ...]
    order: IntArray
    starts: tuple[IntArray, ...]
    shares: tuple[IntArray, ...]
    denominator: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.order)

    def ends(self, level: int) -> IntArray:
        """Return where each geounit of a level ends in spine order (exclusive)."""
        return np.append(self.starts[level][1:], self.blocks)

    @cached_property
    def parents(self) -> tuple[IntArray, ...]:
        """For each level the (geounits,) index of the parent in the level above (the top level's are all 0)."""
        above = [
            np.searchsorted(up, down, side="right") - 1 for up, down in zip(self.starts, self.starts[1:], strict=False)
        ]
        return (np.zeros(len(self.starts[0]), np.int64), *above)

    @cached_property
    def first_child(self) -> tuple[IntArray, ...]:
        """For each level above the lowest, the (geounits + 1,) first child of every geounit, and the last one's end."""
        return tuple(
            np.append(np.searchsorted(down, up), len(down))
            for up, down in zip(self.starts, self.starts[1:], strict=False)
        )

    def children(self, level: int) -> IntArray:
        """Return the fan-out of each geounit of a level (not the lowest)."""
        return np.diff(self.first_child[level])

    def pieces(self, level: int, *limits: tuple[int, int]) -> list[tuple[int, int]]:
        """Cut a level into ranges of geounits (first, last + 1), each of one at the least.

        limits: a lower level, and the number of its geounits that a range of several has at most.
        """
        number, cuts = len(self.starts[level]), [0]
        begins = [
            np.append(np.searchsorted(self.starts[lowest], self.starts[level]), len(self.starts[lowest]))
            for lowest, _ in limits
        ]
        while cuts[-1] < number:
            ends = [
                int(np.searchsorted(own, own[cuts[-1]] + size, side="right")) - 1
                for own, (_, size) in zip(begins, limits, strict=True)
            ]
            cuts.append(max(min(ends), cuts[-1] + 1))
        return [*pairwise(cuts)]

    def geounit_of_block(self, level: int) -> IntArray:
        """Return the geounit of `level` that contains each block, in spine order."""
        return np.repeat(np.arange(len(self.starts[level])), self.ends(level) - self.starts[level])

    def without_root(self) -> Spine:
        """Return the forest below the root: a state's own geounits, to be combined with those of other states."""
        return replace(self, levels=self.levels[1:], starts=self.starts[1:], shares=self.shares[1:])

    def with_shares(self, shares: dict[str, Fraction]) -> Spine:
        """Return the same geounits, each with its level's share beta."""
        numerators, denominator = common_denominator([shares[name] for name in self.levels])
        given = tuple(np.full(len(s), n, np.int64) for s, n in zip(self.starts, numerators, strict=True))
        return replace(self, shares=given, denominator=denominator)


def common_denominator(shares: list[Fraction]) -> tuple[list[int], int]:
    """Return numerators over one denominator. Raises ValueError if 64-bit integers could overflow."""
    denominator = lcm(*(share.denominator for share in shares))
    if denominator >= 2**40:  # below it, sums over levels and products with fan-outs stay far inside 64 bits
        raise ValueError(f"the geolevel shares have the common denominator {denominator}: write them with fewer digits")
    return [share.numerator * (denominator // share.denominator) for share in shares], denominator


def changes(*keys: Integers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return where runs of equal keys begin: True at 0 and wherever some key differs from the one before."""
    begins = np.ones(len(keys[0]), bool)
    begins[1:] = False
    for key in keys:
        begins[1:] |= key[1:] != key[:-1]
    return begins
