"""Rényi divergences of the geometric mechanism, their composition over SafeTab, and the epsilon at a delta.

Source: "SafeTab[Geometric] vs SafeTab[Discrete Gaussian]", Lemma 8, Corollary 1, eq. (39), (40). Orders alpha > 1 are
arrays, and so are divergences; all in floats, which keep 1e-9 of a divergence down to budgets of 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.composition import LevelBudget

Floats = NDArray[np.float64]
Divergence = Callable[[Floats, float], Floats]

PAPER_ORDERS: Floats = np.arange(101, 1001) / 100  # {1.01, 1.02, ..., 10.00}
ORDERS: Floats = 1 + np.geomspace(1e-4, 1e6, 40_001)  # neighbours differ by 0.06%, so the best one by 1e-7 of epsilon


def lemma_8(alpha: Floats, epsilon: float) -> Floats:
    """Return the divergence of the geometric mechanism as Corollary 1 prints it. Not a bound.

    Its proof integrates the density over the real line but the law is on the integers, so it understates the loss.
    """
    before = np.log(2 * alpha / (epsilon * (2 * alpha - 1))) + (alpha - 1) * epsilon
    after = np.log(2 * (alpha - 1) / (epsilon * (2 * alpha - 1))) - alpha * epsilon
    power: Floats = np.log(np.tanh(epsilon / 2)) + np.logaddexp(before, after)
    return power / (alpha - 1)


def two_sided_geometric(alpha: Floats, epsilon: float) -> Floats:
    """Return the divergence of the two-sided geometric law, P(k) ~ exp(-epsilon |k|), from itself moved by one; exact.

    D_alpha = ln[(e^(alpha epsilon) + e^((1-alpha) epsilon)) / (1 + e^epsilon)] / (alpha - 1): its privacy loss is
    +epsilon with probability e^epsilon / (1 + e^epsilon) and else -epsilon, as that of randomized response.
    """
    power: Floats = np.logaddexp(alpha * epsilon, (1 - alpha) * epsilon) - np.logaddexp(0, epsilon)
    return power / (alpha - 1)


def composed(divergence: Divergence, alpha: Floats, levels: Iterable[LevelBudget], gamma: Fraction) -> Floats:
    """Return f(alpha) of eq. (39): per level s times the larger divergence, of a two-stage or a TotalOnly group."""
    total = np.zeros_like(alpha)
    for level in levels:
        b, share = level.of_a_group, float(gamma)
        two_stage = divergence(alpha, share * b) + divergence(alpha, (1 - share) * b)
        total += level.stability * np.maximum(two_stage, divergence(alpha, b))
    return total


def epsilon_of(alpha: Floats, divergence: Floats, delta: float) -> tuple[float, float]:
    """Return the least epsilon of eq. (40) over these orders, and its order. Each order gives a true statement."""
    epsilons = divergence + (log(1 / delta) + (alpha - 1) * np.log1p(-1 / alpha) - np.log(alpha)) / (alpha - 1)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(alpha[best])
