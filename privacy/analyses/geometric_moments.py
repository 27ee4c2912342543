"""Closed forms of the two-sided geometric law, and of sums of independent draws of it, as floats for tables and plots.

With e = epsilon / sensitivity and a = exp(-e): P(k) = (1-a)/(1+a) a^|k|. Margins of error are not here: they are proved
in `privacy.noise.margins`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, log, tanh

import numpy as np

SMALLEST = 1e-60  # of epsilon over sensitivity: its inverse fourth power is a float


@dataclass(frozen=True)
class Moments:
    """Of one draw: p = 1 - a, P(0), E|N|, Var N, E N^4; in counts."""

    p: float
    zero: float
    absolute: float
    variance: float
    fourth: float


def moments(e: float) -> Moments:
    """Return P(0) = tanh(e/2), E|N| = 1/sinh e = 2a/(1-a^2), Var = 2a/(1-a)^2, E N^4 = 2a(1+10a+a^2)/(1-a)^4."""
    _check(e)
    a, p = exp(-e), -expm1(-e)  # 1 - exp(-e) would lose digits for small e
    fourth = 2 * a * (1 + 10 * a + a * a) / p**4
    return Moments(p, tanh(e / 2), 2 * a / (p * (1 + a)), 2 * a / p**2, fourth)


def absolute_sum(e: float, cells: int) -> float:
    """Return E|S|, S the sum of `cells` independent draws: the expected absolute error of a marginal of `cells` cells.

    With phi(t) = E cos(tX) and Fejer's kernel, |k| = 1/(2 pi) times the integral of (1 - cos kt) / (1 - cos t) over a
    period, so E|S| = (1/pi) times that of (1 - phi(t)^cells) / (1 - cos t) over half of it. With s = tan(t/2) = e^y,

        E|S| = (1/pi) integral over y of (1 - phi^cells) e^-y,    1/phi = 1 + c s^2 / (1 + s^2),    c = 4a / (1-a)^2.

    The integrand is analytic and bounded where |Im y| < pi/4, so the trapezoid rule at steps of 0.1 errs by a factor of
    exp(-2 pi (pi/4) / 0.1), at any scale and number of cells.
    """
    _check(e)
    if cells < 1:
        raise ValueError(f"a sum has at least one cell, not {cells}")
    c = 4 * exp(-e) / expm1(-e) ** 2
    low = min(0.0, -log(c * cells) / 2) if c else 0.0  # where phi^cells begins to fall
    y = np.arange(low - 40, 40, step := 0.1)
    squares = np.exp(2 * y)
    log_phi = -np.log1p(c * squares / (1 + squares))
    return float(-np.expm1(cells * log_phi) @ np.exp(-y)) * step / np.pi


def _check(e: float) -> None:
    if not SMALLEST <= e < float("inf"):
        raise ValueError(f"epsilon over sensitivity must be at least {SMALLEST:g}, and finite")
