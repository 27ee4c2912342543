"""L1 and L2 errors of the bottom-up mechanism and its accuracy curve over epsilon, in closed form.

Source: Clark, Dajani (2019), Method, slide 2: L1 and L2 norms are "the average absolute and squared distance" of the
counts, and a curve of accuracy over epsilon, which the slides call a ROC curve, guides the choice of epsilon. They
give no formula for accuracy; this is the simple one that reaches 1 as epsilon grows and agrees with their remark that
L2 reaches it sooner because the counts are large:

    A1 = 1 - sum|t - c| / sum t,    A2 = 1 - sum (t - c)^2 / sum t^2        (t true, c released)

A curve computed on confidential counts leaks: use it only internally to choose epsilon, or compute it on other data.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1
from typing import NamedTuple


class Errors(NamedTuple):
    """Mean absolute error, mean squared error, and the accuracies A1 and A2."""

    l1: float
    l2: float
    a1: float
    a2: float


def expected(truth: Sequence[int], e: float) -> Errors:
    """Return the expected errors of n counts at e = epsilon / sensitivity, without calibration and clipping.

    E A1 = 1 - n E|N| / sum t, E A2 = 1 - n Var N / sum t^2, with a = exp(-e), E|N| = 2a/(1-a^2), Var N = 2a/(1-a)^2.
    Raises ValueError where no true count is positive.
    """
    if not any(truth):
        raise ValueError("accuracy is relative to the true counts, and these sum to 0")
    a, p, n = exp(-e), -expm1(-e), len(truth)  # 1 - exp(-e) would lose digits for small e
    absolute, squared = 2 * a / (p * (1 + a)), 2 * a / p**2
    squares = sum(count**2 for count in truth)
    return Errors(absolute, squared, 1 - n * absolute / sum(truth), 1 - n * squared / squares)
