"""Bounds on the test and the belief of an attacker who knows everything but one record.

The attacker sees the release and decides between two databases that differ as a neighbour relation says. The bounds
hold for every mechanism of that rho or epsilon, whatever the attacker computes. Gaussian noise alone is guessed less
well: docs/privacy.md#what-a-spend-means shows both.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
from scipy.special import expit, logit

from privacy.noise.laws import Definition

FALSE_ALARMS = 0.05
BELIEF = 0.01
RELEASES = 0.95  # the share of releases in which a belief stays below its bound
# Every order of the Renyi divergence gives a true bound; more orders give a tighter one.
ORDERS = 1 + np.geomspace(1e-3, 1e3, 400)


def detection(definition: Definition, figure: float, false_alarms: float = FALSE_ALARMS) -> float:
    """Return the largest probability that an attacker detects a record that is there.

    `false_alarms`, in (0, 1), is the probability that they claim a record that is not there. Pure DP: Kairouz, Oh,
    Viswanath (2015), Theorem 2.1. zCDP: the two outcomes of a test cannot lie further apart than the release does,
    D_a <= a rho in both directions for every order a (Bun, Steinke 2016, Lemma 2.2). Raises ValueError.
    """
    if not 0 < false_alarms < 1:
        raise ValueError(f"the share of false alarms must lie strictly between 0 and 1, not {false_alarms}")
    if definition == "puredp":
        return min(exp(min(figure, 700)) * false_alarms, 1 - exp(-figure) * (1 - false_alarms))
    if figure == 0:
        return false_alarms
    low, high = false_alarms, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        apart = np.maximum(_divergences(middle, false_alarms), _divergences(false_alarms, middle))
        low, high = (middle, high) if np.all(apart <= ORDERS * figure) else (low, middle)
    return high


def belief(definition: Definition, figure: float, before: float = BELIEF, releases: float = RELEASES) -> float:
    """Return a bound on the belief that a record is there, after a release; `before`, in (0, 1), is the prior belief.

    Under pure DP it holds in every release. Under zCDP it holds in the share `releases` of them: the privacy loss
    exceeds rho + 2 sqrt(rho ln(1/t)) with probability at most t (Bun, Steinke 2016, proof of Proposition 1.3).
    """
    loss = figure if definition == "puredp" else figure + 2 * sqrt(figure * log(1 / (1 - releases)))
    return float(expit(logit(before) + loss))


def _divergences(p: float, q: float) -> np.ndarray:
    """Return the Renyi divergences, at ORDERS, of a coin with probability p of heads from one with probability q."""
    heads = ORDERS * np.log(p) + (1 - ORDERS) * np.log(q)
    tails = ORDERS * np.log1p(-p) + (1 - ORDERS) * np.log1p(-q)
    return np.asarray(np.logaddexp(heads, tails) / (ORDERS - 1))
