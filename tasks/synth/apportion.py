"""Split a total into whole numbers in given proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
