"""Whole numbers in given proportions that sum exactly to a total."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def apportion(weights: np.ndarray, total: int, *, least: int = 0) -> NDArray[np.int64]:
    """Split `total` in proportion to weights by largest remainders, after `least` for each; int64 like `weights`.

    Raises ValueError when the total is less than `least` for each.
    """
    rest = total - least * len(weights)
    if rest < 0:
        raise ValueError(f"{total} cannot be split into {len(weights)} parts of at least {least}")
    exact = weights * (rest / weights.sum())
    whole: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    largest = np.argsort(whole - exact, kind="stable")
    whole[largest[: rest - whole.sum()]] += 1
    whole += least
    return whole
