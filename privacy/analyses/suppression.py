"""What suppression does to a published total: how often it is removed, and how large the bias is if it stays.

SafeTab-P, section 5.3.2: a total n + X is published iff it exceeds the threshold T. T: `privacy.noise.margins`, eq. 12.
"""

from __future__ import annotations

from math import exp, expm1, pi, sqrt

import numpy as np
from scipy.special import log_ndtr

from privacy.noise.laws import DiscreteGaussian, Law


def suppression_probability(noise: Law, threshold: int, size: int) -> float:
    """Return P(n + X <= T) for a group of true size n (Figure 1); exact, to the digits of a float."""
    return float(noise.cdf(threshold - size))


def published_bias(noise: Law, threshold: int, size: int) -> float:
    """Return E[X | n + X > T] in counts (Figure 2), of the exact discrete law; to 1e-12 of it.

    Terms of X beyond T - n that cancel in pairs are left out, so all that is added is positive.
    """
    beyond = threshold - size
    from_here = max(beyond, -beyond - 1)
    mean = _mean_beyond(noise, from_here)
    if beyond >= 0:
        return mean
    return mean * float(noise.cdf(-from_here - 1)) / float(noise.cdf(-beyond - 1))


def continuous_bias(sigma: float, threshold: int, size: int) -> float:
    """Return eq. (13) as printed, of the continuous law: sigma phi(u) / (1 - Phi(u)) at u = (T - n) / sigma."""
    u = (threshold - size) / sigma
    return sigma * exp(-u * u / 2 - float(log_ndtr(-u))) / sqrt(2 * pi)


def _mean_beyond(noise: Law, k: int) -> float:
    """Return E[X | X > k], k >= 0."""
    if isinstance(noise, DiscreteGaussian):
        variance = float(noise.sigma_squared)
        steps = np.arange(int(9 * sqrt(variance)) + 2)  # exp(-81/2) of the first term is left out
        weights = np.exp(-steps * (steps + 2 * (k + 1)) / (2 * variance))
        return float(k + 1 + (steps * weights).sum() / weights.sum())
    rate = 1 / float(noise.scale)
    return k + 1 - exp(-rate) / expm1(-rate)
