"""The two-tailed geometric bottom-up mechanism: what it spends, the noise of every cell, and the accuracy of counts.

Source: Clark, Dajani (2019), Method. A record is in one cell, so one epsilon pays for the whole histogram (parallel
composition), by adding or removing a record; replacing one moves two cells and costs 2 epsilon. Marginals are sums.

Slide 2: L1 and L2 norms are "the average absolute and squared distance" of the counts, and a curve of accuracy over
epsilon, which the slides call a ROC curve, guides the choice of epsilon. They give no formula for accuracy; this is the
simple one that reaches 1 as epsilon grows and agrees with their remark that L2 reaches it sooner because the counts are
large:

    A1 = 1 - sum|t - c| / sum t,    A2 = 1 - sum (t - c)^2 / sum t^2        (t true, c released)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, log, log1p
from typing import NamedTuple

from privacy.accounting.composition import Spend, UnitOfPrivacy, spend
from privacy.noise.exact import exact
from privacy.noise.laws import TwoSidedGeometric

LARGEST = 700  # the largest epsilon whose exponential is a float


@dataclass(frozen=True)
class BottomUp:
    """The mechanism at a privacy-loss budget epsilon, for records of weight at most `most`.

    Unweighted: most = grid = 1. Weighted totals are counted in whole steps of `grid`, with each record's weight rounded
    to its nearest step, so a record changes one cell by at most ceil(most / grid) steps: the global sensitivity, which
    weights raise. `most` is public or fixed beforehand. record: what a record is, in words. unit: the unit of privacy,
    whether a record is a person's or a household's.
    """

    epsilon: Fraction
    most: Fraction = Fraction(1)
    grid: Fraction = Fraction(1)
    record: str = "person"
    unit: UnitOfPrivacy = "person"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        if self.epsilon <= 0:
            raise ValueError(f"epsilon must be positive, not {self.epsilon}")
        if not 0 < self.grid <= self.most:
            raise ValueError(f"weights need 0 < grid <= most; grid is {self.grid}, most is {self.most}")

    @property
    def sensitivity(self) -> int:
        """The most steps by which adding or removing a record changes its cell."""
        return ceil(self.most / self.grid)

    @property
    def law(self) -> TwoSidedGeometric:
        """The noise of a cell, in steps: P(k) = (1-a)/(1+a) a^|k| with a = exp(-epsilon / sensitivity)."""
        return TwoSidedGeometric(self.sensitivity / self.epsilon)

    @property
    def spend(self) -> Spend:
        """Epsilon if a record is added or removed, 2 epsilon if one is replaced."""
        return spend("puredp", [self.epsilon], self.unit, self.record)


def sampled_epsilon(epsilon: float, share: float) -> float:
    """Return the epsilon for a person added to or removed from the population of which the table is a secret sample.

    ln(1 + share (e^epsilon - 1)), if each person is in the sample with probability `share`, independently of all others
    (Balle, Barthe, Gaboardi 2018, Theorem 8).
    """
    return log1p(share * expm1(epsilon)) if epsilon < LARGEST else epsilon + log(share)


class ExpectedErrors(NamedTuple):
    """Mean absolute error, mean squared error, and the accuracies A1 and A2."""

    l1: float
    l2: float
    a1: float
    a2: float


def expected(truth: Sequence[int], e: float) -> ExpectedErrors:
    """Return the expected errors of n counts at e = epsilon / sensitivity, without calibration and clipping.

    E A1 = 1 - n E|N| / sum t, E A2 = 1 - n Var N / sum t^2, with a = exp(-e), E|N| = 2a/(1-a^2), Var N = 2a/(1-a)^2.
    Raises ValueError unless a true count is positive.
    """
    if not any(truth):
        raise ValueError("accuracy is relative to the true counts, and these sum to 0")
    a, p, n = exp(-e), -expm1(-e), len(truth)  # 1 - exp(-e) would lose digits for small e
    absolute, squared = 2 * a / (p * (1 + a)), 2 * a / p**2
    squares = sum(count**2 for count in truth)
    return ExpectedErrors(absolute, squared, 1 - n * absolute / sum(truth), 1 - n * squared / squares)
