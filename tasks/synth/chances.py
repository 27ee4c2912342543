"""Draws by inverse CDF: cumulative chances of one or more laws, each on a unit interval of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def shares(weights: FloatArray) -> FloatArray:
    """Return the chances that are proportional to weights."""
    return np.asarray(weights / weights.sum())


def edges(*laws: np.ndarray) -> np.ndarray:
    """Return the cumulative chances of laws over the same outcomes.

    Law i lies on [i, i + 1), so that one search serves them all.

    The last outcome that has a chance ends at exactly i + 1, whatever rounding says.
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
