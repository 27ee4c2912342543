"""Uniform draws by address, draws of laws with them, and whole numbers in given proportions.

Uniform draws are Philox 4x32-10, keyed by seed and purpose, counted by tract and row: J. K. Salmon, M. A. Moraes,
R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC '11.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
PARTS = 4  # parts of a law's guide for each of its outcomes
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_BELL_PARTS = 1024


class Purpose(IntEnum):
    """The purpose of a stream of draws."""

    QUARTERS = 1
    MINORS_IN_QUARTERS = auto()
    MINORS = auto()
    SIZE = auto()
    VACANCY = auto()
    TYPE = auto()
    ORDER = auto()
    MEMBER = auto()
    ROOMMATES = auto()
    ROLE = auto()
    AGE = auto()
    TYPICAL_AGE = auto()
    AGE_SWAP = auto()
    SAME_SEX = auto()
    SEX = auto()
    SETTLEMENT = auto()
    ORIGIN = auto()
    NEIGHBOUR = auto()
    MIXED = auto()
    BODY = auto()
    CODES = auto()
    SHARED_CODES = auto()
    TENURE = auto()
    POPULATION = auto()


@dataclass(frozen=True)
class Draws:
    """The draws of some tracts. tracts: uint64 (t, 2), the codes of each one's state and county, and of the tract."""

    seed: int
    tracts: NDArray[np.uint64]

    def uniform(self, purpose: Purpose, tract: NDArray[np.int64]) -> FloatArray:
        """Return a number in (0, 1) for each row; tract: (n,), the number of each row's tract, ascending."""
        numbers = np.empty(len(tract))
        fill_uniforms(np.uint64(self.seed & (2**64 - 1)), np.uint64(purpose), self.tracts, tract, numbers)
        return numbers

    def normal(self, purpose: Purpose, tract: NDArray[np.int64]) -> FloatArray:
        """Return a standard normal number for each row, within 1/1,024 of the law."""
        numbers: FloatArray = _bell()[(self.uniform(purpose, tract) * _BELL_PARTS).astype(np.int64)]
        return numbers


@cache
def _bell() -> FloatArray:
    """Return the standard normal quantiles at the middles of equal parts of [0, 1)."""
    return np.array([NormalDist().inv_cdf((part + 0.5) / _BELL_PARTS) for part in range(_BELL_PARTS)])


@compiled
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four 32-bit words of a counter under a key; all are uint64 below 2^32."""
    for _ in range(10):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c2 = (second >> _HALF) ^ c1 ^ k0, (first >> _HALF) ^ c3 ^ k1
        c1, c3 = second & _LOW, first & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


@compiled
def fill_uniforms(
    seed: Any, purpose: Any, tracts: NDArray[np.uint64], tract: NDArray[np.int64], numbers: FloatArray
) -> None:
    """Fill `numbers`: four rows of a tract take the four words of a counter."""
    row, rows = 0, len(numbers)
    while row < rows:
        here, counter = tract[row], np.uint64(0)
        while row < rows and tract[row] == here:
            words = philox(counter, tracts[here, 1], tracts[here, 0], seed >> _HALF, seed & _LOW, purpose)
            for word in words:
                if row < rows and tract[row] == here:
                    numbers[row] = (np.float64(word) + 0.5) * 2.0**-32
                    row += 1
            counter += np.uint64(1)


def shares(weights: FloatArray) -> FloatArray:
    """Return the probabilities that are proportional to weights."""
    return np.asarray(weights / weights.sum())


def fraction(numbers: FloatArray) -> FloatArray:
    """Return numbers modulo 1; several times as fast as numpy's remainder."""
    return np.asarray(numbers - np.floor(numbers))


@dataclass(frozen=True)
class Laws:
    """Laws over the same outcomes, drawn by inverse CDF. Law i is on [i, i + 1), so one search serves them all.

    edges: cumulative probabilities, law after law. guide: by part of [0, laws), the outcome where the search begins.
    """

    count: int
    edges: FloatArray
    guide: IntArray

    def draw(self, at: FloatArray) -> IntArray:
        """Return the outcome at each point: the number of a law plus a draw in [0, 1)."""
        return self._find(at) % (len(self.edges) // self.count)

    def split(self, at: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the outcome at each point, and the point's position in [0, 1) within that outcome's part."""
        found = self._find(at)
        lower = np.concatenate([[0.0], self.edges[:-1]])
        width = np.maximum(self.edges - lower, np.finfo(float).tiny)
        rest = np.clip((at - lower[found]) / width[found], 0.0, np.nextafter(1.0, 0.0))
        return found % (len(self.edges) // self.count), rest

    def _find(self, at: FloatArray) -> IntArray:
        found = np.empty(len(at), np.int64)
        _search(self.edges, self.guide, len(self.guide) / self.count, at, found)
        return found


def make_laws(*laws: FloatArray) -> Laws:
    """Return laws by their probabilities; the last possible outcome ends at exactly 1, in spite of rounding."""
    ends = []
    for place, chances in enumerate(laws):
        end = np.minimum(chances.cumsum(), 1.0)
        end[np.flatnonzero(chances)[-1] :] = 1.0
        ends.append(place + end)
    edges = np.concatenate(ends)
    starts = np.arange(PARTS * len(edges)) / (PARTS * len(laws[0]))
    return Laws(len(laws), edges, np.minimum(np.searchsorted(edges, starts, side="right"), len(edges) - 1))


@compiled
def _search(edges: FloatArray, guide: IntArray, parts: float, at: FloatArray, found: IntArray) -> None:
    """Fill the number of edges that are not above each point; parts: the guide's, per interval of 1."""
    last = len(edges) - 1
    for row in range(len(at)):
        place = guide[min(int(at[row] * parts), len(guide) - 1)]
        while place < last and edges[place] <= at[row]:
            place += 1
        while place > 0 and edges[place - 1] > at[row]:  # the guide's part was rounded up
            place -= 1
        found[row] = place


def apportion(weights: np.ndarray, total: int, *, least: int = 0) -> IntArray:
    """Split `total` in proportion to weights, after `least` for each; int64 like `weights`.

    Cumulative sums are rounded, so the fractions of neighbours offset each other: a small total is spread over all
    parts instead of going to the largest. Weight 0 gets `least`. Raises ValueError if `total` is too small.
    """
    rest = total - least * len(weights)
    if rest < 0:
        raise ValueError(f"{total} cannot be split into {len(weights)} parts of at least {least}")
    upto = np.cumsum(weights, dtype=float)
    parts: IntArray = np.diff(np.rint(upto * (rest / upto[-1])).astype(np.int64), prepend=0)
    return parts + least


def number_within(counts: IntArray) -> IntArray:
    """Return 0, 1, ... counts[i] - 1 for each i in turn, concatenated; int64 of shape (counts.sum(),)."""
    starts = counts.cumsum() - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)
