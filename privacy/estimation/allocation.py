"""Spread a change of a total over the cells of its table, in whole numbers that add up.

The errors of the k cells are exchangeable given T and S, so each cell takes an equal part of e. The remainder goes to
single cells, in an order that changes sex at every step and strides through the ages, from a random start. So cells,
and the two sexes, differ by at most 1; every (cell, rank) is equally likely, so each cell and sex is unbiased.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, sqrt

import numpy as np
from numpy.typing import NDArray

GOLDEN_PART = (3 - sqrt(5)) / 2  # steps of this part of a circle keep neighbours apart


def allocate(change: NDArray[np.int64], turn: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Spread each table's change over its cells: len(change) x cells, the ages of sex 1, then those of sex 2.

    turn : 0 ... cells - 1, uniform
        The cell at which the order of the table's cells begins.
    """
    share, rest = np.divmod(np.abs(change), cells)
    spread: NDArray[np.int64] = np.sign(change)[:, None] * (share[:, None] + (ranks(cells)[turn] < rest[:, None]))
    return spread


@lru_cache(maxsize=8)
def ranks(cells: int) -> NDArray[np.int64]:
    """Return the rank of each cell, for each turn: cells x cells."""
    ages = cells // 2
    strides = (step for step in range(1, ages + 1) if gcd(step, ages) == 1)
    stride = min(strides, key=lambda step: abs(step - GOLDEN_PART * ages))
    turn, rank = np.arange(cells)[:, None], np.arange(cells)
    sex = (rank + turn) % 2
    age = (turn // 2 + rank // 2 * stride) % ages
    of_cell = np.empty((cells, cells), np.int64)
    of_cell[turn, sex * ages + age] = rank
    of_cell.flags.writeable = False
    return of_cell


def sex_margin(total: NDArray[np.int64], measured: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the margin of one sex's sum, from the margins of the estimated and the measured total: at most 1 too wide.

    Half of the estimated total's error and half of the difference of the measured sexes' errors are independent.
    """
    margins: NDArray[np.int64] = np.ceil(np.sqrt(total.astype(float) ** 2 + np.square(measured)) / 2).astype(np.int64)
    return margins
