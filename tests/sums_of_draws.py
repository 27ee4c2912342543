"""The law of a sum of two-sided geometric draws, by Fourier inversion, to compare closed forms with."""

from math import exp, expm1

import numpy as np
from numpy.typing import NDArray


def variance(e: float) -> float:
    """The variance of a draw, 2a/(1-a)^2 with a = exp(-e)."""
    return 2 * exp(-e) / expm1(-e) ** 2


def fourth_moment(e: float) -> float:
    """E N^4 of a draw, 2a(1+10a+a^2)/(1-a)^4."""
    a = exp(-e)
    return 2 * a * (1 + 10 * a + a * a) / expm1(-e) ** 4


def pmf_of_sum(e: float, cells: int) -> NDArray[np.float64]:
    """P(S = k) for k = -K ... K, where S is the sum of `cells` draws, to ~1e-15.

    Folding at the period 2K + 1 adds P(|S| > K), which K (at least 60 standard deviations and 60/e) makes nothing.
    """
    reach = int(60 * (cells * variance(e)) ** 0.5 + 60 / e) + 1
    period = 2 * reach + 1
    t = 2 * np.pi * np.arange(period) / period
    a, p = exp(-e), -expm1(-e)
    characteristic = p * p / (p * p + 4 * a * np.sin(t / 2) ** 2)
    folded: NDArray[np.float64] = np.fft.ifft(characteristic**cells).real
    return np.concatenate([folded[-reach:], folded[: reach + 1]]).clip(min=0.0)
