"""The slides' own samplers: inverse CDFs in floating point, for comparison with the exact one. Not for real data.

Source: Clark, Dajani (2019), Method, slide 1. Both routes have the law P(k) = (1-a)/(1+a) a^|k|, a = exp(-e), on paper.
In floats neither is epsilon-DP:

* The tail is cut. One uniform of 53 bits gives X <= ceil(53 ln 2 / e), 37 at e = 1 and 368 at e = .1; an output beyond
  that is possible under one of two neighbours only, so the ratio of their probabilities is infinite.
* The grid is coarse. Where a^k nears 2^-53 some k have probability 0 or a multiple of the grid, and ratios leave
  [exp(-e), exp(e)].
* `log` and `ceil` round at the edges of cells, by ulps and differently from platform to platform.
* 1 - U loses the upper tail's digits, and random() in [0, 1) yields log 0; here U is never 0 or 1.
* Near e = 37 p = 1 - exp(-e) rounds to 1 and all noise is 0, as it nearly is in truth.
* The time that a draw takes depends on it; never let it be measured.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from privacy.noise.sampler import Words


def two_tailed(words: Words, e: float) -> NDArray[np.int64]:
    """Return noise by the inverse CDF of the two-tailed law, one draw a word.

    k = ceil(ln(U (1+a)) / e) where U <= 1/(1+a), else ceil(-ln((1-U)(1+a)) / e) - 1.
    """
    _check(e)
    a = exp(-e)
    u = (2.0 * (words >> np.uint64(12)).astype(np.float64) + 1.0) / 2.0**53
    lower = np.ceil(np.log(u * (1 + a)) / e)
    upper = np.ceil(-np.log((1 - u) * (1 + a)) / e) - 1
    return np.where(u <= 1 / (1 + a), lower, upper).astype(np.int64)


def difference(words: Words, e: float) -> NDArray[np.int64]:
    """Return noise as X - Y of two geometric draws, one from each half of the words: "by taking their difference"."""
    x, y = np.split(one_sided(words, e), 2)
    return x - y


def one_sided(words: Words, e: float) -> NDArray[np.int64]:
    """Return draws of P(X = x) = (1-p)^(x-1) p, x = 1, 2, ..., p = 1 - exp(-e): max(1, ceil(-ln U / e)), one a word."""
    _check(e)
    u = ((words >> np.uint64(11)).astype(np.float64) + 1.0) / 2.0**53
    return np.maximum(1, np.ceil(-np.log(u) / e)).astype(np.int64)


def _check(e: float) -> None:
    if not 0 < e < np.inf:
        raise ValueError("epsilon over sensitivity must be positive and finite")
