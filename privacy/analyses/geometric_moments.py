"""Closed forms of the two-sided geometric law, and of sums of independent draws of it, as floats for tables and plots.

With e = epsilon / sensitivity and a = exp(-e): P(k) = (1-a)/(1+a) a^|k|. Margins of error are not here: they are proved
in `privacy.noise.margins`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, sinh, tanh

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Moments:
    """Of one draw: p = 1 - a, P(0), E|N|, Var N, E N^4; in counts."""

    p: float
    zero: float
    absolute: float
    variance: float
    fourth: float


def moments(e: float) -> Moments:
    """p = 1 - e^-e, P(0) = tanh(e/2), E|N| = 1/sinh e, Var = 1/(2 sinh^2(e/2)), E N^4 = 2a(1+10a+a^2)/(1-a)^4."""
    _check(e)
    a, p = exp(-e), -expm1(-e)  # 1 - exp(-e) would lose digits for small e
    half = sinh(e / 2)
    fourth = 2 * a * (1 + 10 * a + a * a) / p**4
    return Moments(p, tanh(e / 2), 1 / sinh(e), 1 / (2 * half * half), fourth)


def pmf_of_sum(e: float, cells: int) -> NDArray[np.float64]:
    """P(S = k) for k = -K ... K, S the sum of `cells` draws, by Fourier inversion, to ~1e-15.

    Folding at the period 2K + 1 adds P(|S| > K), which K (at least 60 standard deviations and 60/e) makes nothing.
    """
    _check(e)
    if cells < 1:
        raise ValueError("a sum has at least one cell")
    reach = int(60 * (cells * moments(e).variance) ** 0.5 + 60 / e) + 1
    period = 2 * reach + 1
    t = 2 * np.pi * np.arange(period) / period
    a, p = exp(-e), -expm1(-e)
    characteristic = p * p / (p * p + 4 * a * np.sin(t / 2) ** 2)
    folded: NDArray[np.float64] = np.fft.ifft(characteristic**cells).real
    return np.concatenate([folded[-reach:], folded[: reach + 1]]).clip(min=0.0)


def absolute_sum(e: float, cells: int) -> float:
    """E|S|, S the sum of `cells` independent draws: the expected absolute error of a margin of so many cells."""
    mass = pmf_of_sum(e, cells)
    reach = len(mass) // 2
    return float(np.abs(np.arange(-reach, reach + 1)) @ mass)


def _check(e: float) -> None:
    if not 0 < e < 700:
        raise ValueError("epsilon over sensitivity must lie strictly between 0 and 700")
