"""The two-tailed geometric bottom-up mechanism: what it spends, and the noise of every cell.

Source: Clark, Dajani (2019), Method. A record is in one cell, so one epsilon pays for the whole histogram (parallel
composition), by adding or removing a record; replacing one moves two cells and costs 2 epsilon. Marginals are sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, log, log1p

from privacy.accounting.composition import Spend, spend
from privacy.noise.exact import exact
from privacy.noise.laws import TwoSidedGeometric

LARGEST = 700  # epsilon whose exponential is a float


@dataclass(frozen=True)
class BottomUp:
    """The mechanism at a privacy-loss budget epsilon, for records that weigh at most `most`.

    Unweighted: most = grid = 1. Weighted totals are counted in whole steps of `grid`, each record's weight rounded to
    its nearest step, so that a record changes one cell by at most ceil(most / grid) steps: global sensitivity, which
    weights raise. `most` is public or fixed beforehand. record: what a record is, in words.
    """

    epsilon: Fraction
    most: Fraction = Fraction(1)
    grid: Fraction = Fraction(1)
    record: str = "person"

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
        """Epsilon where a record is added or removed, 2 epsilon where one is replaced."""
        return spend("puredp", [self.epsilon], record=self.record)


def sampled_epsilon(epsilon: float, share: float) -> float:
    """Return the epsilon for a person added to a population or removed, of which the table is a secret sample.

    ln(1 + share (e^epsilon - 1)), where each person is in the sample with chance `share`, independently of all others
    (Balle, Barthe, Gaboardi 2018, Theorem 8).
    """
    return log1p(share * expm1(epsilon)) if epsilon < LARGEST else epsilon + log(share)
