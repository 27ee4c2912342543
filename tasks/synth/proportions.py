"""Draws and whole numbers in given proportions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
PARTS = 4  # of the guide of a law, for each of its outcomes


def shares(weights: FloatArray) -> FloatArray:
    """Return the chances that are proportional to weights."""
    return np.asarray(weights / weights.sum())


def fraction(numbers: FloatArray) -> FloatArray:
    """Return numbers modulo 1; several times as fast as numpy's remainder."""
    return np.asarray(numbers - np.floor(numbers))


@dataclass(frozen=True)
class Laws:
    """Laws over the same outcomes, drawn by inverse CDF: law i is on [i, i + 1), so that one search serves them all.

    edges: cumulative chances, law after law. guide: the outcome at which the search begins, by part of [0, laws).
    """

    count: int
    edges: FloatArray
    guide: IntArray

    def draw(self, at: FloatArray) -> IntArray:
        """Return the outcome at each point: the number of a law plus a draw in [0, 1)."""
        return self._find(at) % (len(self.edges) // self.count)

    def split(self, at: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the outcome at each point, and the point's place in [0, 1) of that outcome's part."""
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
    """Return laws by their chances; the last outcome that has a chance ends at exactly 1, whatever the rounding."""
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
    """Fill the number of edges that are not above each point; parts: of the guide, of an interval of 1."""
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

    Cumulative sums are rounded, so the fractions of neighbours offset each other: a small total is spread over all of
    them instead of going to the largest. Weight 0 gets `least`. Raises ValueError when `total` is too small.
    """
    rest = total - least * len(weights)
    if rest < 0:
        raise ValueError(f"{total} cannot be split into {len(weights)} parts of at least {least}")
    upto = np.cumsum(weights, dtype=float)
    parts: IntArray = np.diff(np.rint(upto * (rest / upto[-1])).astype(np.int64), prepend=0)
    return parts + least


def number_within(counts: IntArray) -> IntArray:
    """Return 0, 1, ... counts[i] - 1 for each i in turn, joined; int64 of shape (counts.sum(),)."""
    starts = counts.cumsum() - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)
