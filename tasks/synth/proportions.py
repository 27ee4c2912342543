"""Draws and whole numbers in given proportions.

Draws are by inverse CDF: the cumulative chances of one or more laws, each on a unit interval of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def shares(weights: FloatArray) -> FloatArray:
    """Return the chances that are proportional to weights."""
    return np.asarray(weights / weights.sum())


def edges(*laws: np.ndarray) -> np.ndarray:
    """Return the cumulative chances of laws over the same outcomes, law i on [i, i + 1): one search serves them all.

    The last outcome that has a chance ends at exactly i + 1, whatever the rounding.
    """
    ends = []
    for place, chances in enumerate(laws):
        end = np.minimum(chances.cumsum(), 1.0)
        end[np.flatnonzero(chances)[-1] :] = 1.0
        ends.append(place + end)
    return np.concatenate(ends)


def outcomes(ends: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the index into `edges(...)` of the outcome at each point of [0, number of laws)."""
    return np.searchsorted(ends, at, side="right")


def apportion(weights: np.ndarray, total: int, *, least: int = 0) -> NDArray[np.int64]:
    """Split `total` in proportion to weights, after `least` for each; int64 like `weights`.

    Cumulative sums are rounded, so the fractions of neighbours offset each other: a small total is spread over all of
    them instead of going to the largest. Weight 0 gets `least`. Raises ValueError when `total` is too small.
    """
    rest = total - least * len(weights)
    if rest < 0:
        raise ValueError(f"{total} cannot be split into {len(weights)} parts of at least {least}")
    upto = np.cumsum(weights, dtype=float)
    parts: NDArray[np.int64] = np.diff(np.rint(upto * (rest / upto[-1])).astype(np.int64), prepend=0)
    return parts + least


def number_within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ... counts[i] - 1 for each i in turn, joined; int64 of shape (counts.sum(),)."""
    starts = counts.cumsum() - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)
