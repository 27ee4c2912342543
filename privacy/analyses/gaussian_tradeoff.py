"""From rho to (epsilon, delta): in closed form, and tightly as if the noise were a continuous Gaussian."""

from __future__ import annotations

from math import exp, expm1, log, log1p, sqrt

from scipy.special import log_ndtr


def zcdp_analytic(rho: float, delta: float) -> float:
    """Return epsilon = rho + 2 sqrt(rho ln(1/delta)): Bun, Steinke (2016), Proposition 1.3. True, not tight."""
    return rho + 2 * sqrt(rho * log(1 / delta))


def gaussian_delta(rho: float, epsilon: float) -> float:
    """Return the exact delta of the Gaussian mechanism of this rho: Balle, Wang (2018), Theorem 8, mu = sqrt(2 rho)."""
    mu = sqrt(2 * rho)
    above, below = float(log_ndtr(mu / 2 - epsilon / mu)), float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = epsilon + below - above  # of logarithms; never positive
    return 0.0 if gap >= 0 else exp(above + (log(-expm1(gap)) if gap > -1 else log1p(-exp(gap))))


def gaussian_epsilon(rho: float, delta: float) -> float:
    """Return the exact epsilon at `delta` of Gaussian mechanisms whose rhos add up to `rho`, in any adaptive order.

    For the discrete Gaussian it is no bound; at SafeTab's scales the two differ by less than their printed digits.
    """
    low, high = 0.0, zcdp_analytic(rho, delta)
    if gaussian_delta(rho, low) <= delta:
        return 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(rho, middle) > delta else (low, middle)
    return high
