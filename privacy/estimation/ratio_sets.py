"""Exact confidence sets of a ratio of two counts, from their noisy counts and the laws of their noise.

With N = n + X and D = d + Y, X and Y independent, N - r D = X - r Y for r = n / d, whatever n and d are. So

    C = { r : P(|X - r Y| >= |N - r D|) > alpha }

covers n / d with probability at least 1 - alpha, and contains every r if d = 0. It assumes no normal law, and any
denominator will do. For normal laws C is Fieller's set (Fieller 1954).

The hull of C within a range is returned on a grid, rounded outwards: a step of the grid is excluded only if a bound
that holds for every r in it proves that C contains no such r. r and the counts are whole numbers of grid steps, so
comparisons are exact; sums of probabilities are floats, whose error SLACK covers. Noise that is rounded to a coarser
lattice (densities.Lattice) widens a set by the largest change of X - r Y by rounding, and never narrows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.densities import Lattice

GRID = 1000  # steps of a ratio's unit
COARSE = 64  # steps that are tested together first
SLACK = 1e-9  # the error of a sum of probabilities
NEGLIGIBLE = 1e-11  # the probability of a tail that is cut
AT_FIRST, AT_ONCE = 1 << 12, 1 << 18  # numbers in the first pass and in the largest; a pass of fewer takes as long

Extent = Literal["set", "all", "none"]


@dataclass(frozen=True)
class Interval:
    """The hull of a confidence set within the possible ratios.

    extent: `all` if no possible ratio is excluded, `none` if all are; then low = high is the nearest possible ratio.
    """

    low: Fraction
    high: Fraction
    extent: Extent = "set"


@dataclass(frozen=True)
class NoisyRatio:
    """Two noisy counts with the densities of their noise, and the range [low, high] of possible ratios."""

    numerator: int
    denominator: int
    of_numerator: Lattice
    of_denominator: Lattice
    low: int
    high: int

    def interval(self, alpha: Fraction) -> Interval:
        """Return the hull of the set that covers the ratio with probability at least 1 - alpha."""
        if self.low == self.high:
            return Interval(Fraction(self.low), Fraction(self.high), "all")
        first, last = self.low * GRID, self.high * GRID
        start = self._find(first, last, float(alpha), forwards=True)
        if start is None:
            below = self.numerator < self.low * self.denominator if self.denominator > 0 else self.numerator <= 0
            nearest = self.low if below else self.high
            return Interval(Fraction(nearest), Fraction(nearest), "none")
        end = self._find(first, last, float(alpha), forwards=False)
        assert end is not None
        everything = start == first and end + 1 == last
        return Interval(Fraction(start, GRID), Fraction(end + 1, GRID), "all" if everything else "set")

    def chance(self, ratio: Fraction) -> float:
        """Return P(|X - r Y| >= |N - r D|), for r in steps of the grid."""
        return float(self._bound(np.array([int(ratio * GRID)]), 0)[0])

    def _find(self, first: int, last: int, alpha: float, *, forwards: bool) -> int | None:
        """Return the first, or the last, step from `first` to `last` - 1 that may hold a ratio of the set."""
        starts = np.arange(first, last, COARSE)
        starts = starts[self._near(starts, COARSE, alpha)]
        for start in self._candidates(starts if forwards else starts[::-1], COARSE, alpha):
            steps = np.arange(start, min(start + COARSE, last))
            found = next(self._candidates(steps if forwards else steps[::-1], 1, alpha), None)
            if found is not None:
                return found
        return None

    def _candidates(self, starts: NDArray[np.int64], width: int, alpha: float) -> Iterator[int]:
        """Yield, in order, the starts of spans of the grid that may hold a ratio of the set, in growing batches."""
        at, (batch, most) = 0, (max(1, numbers // len(self._chances.chances)) for numbers in (AT_FIRST, AT_ONCE))
        while at < len(starts):
            part = starts[at : at + batch]
            yield from part[self._bound(part, width) > alpha - SLACK].tolist()
            at, batch = at + batch, min(2 * batch, most)

    def _least(self, starts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the least |N - r D| over each span, minus the largest change of X - r Y by rounding, in 1 / GRID."""
        ends = [GRID * self.numerator - (starts + at) * self.denominator for at in (0, width)]
        crossed = np.sign(ends[0]) * np.sign(ends[1]) <= 0
        least: NDArray[np.int64] = np.where(crossed, 0, np.minimum(np.abs(ends[0]), np.abs(ends[1])))
        rounding = GRID * self.of_numerator.off + (starts + width) * self.of_denominator.off
        farthest: NDArray[np.int64] = np.maximum(least - rounding, 0)
        return farthest

    def _near(self, starts: NDArray[np.int64], width: int, alpha: float) -> NDArray[np.bool_]:
        """Return which spans Chebyshev's inequality does not exclude."""
        widest = ((starts + width) / GRID) ** 2 * self._variances[1] + self._variances[0]
        return (self._least(starts, width) / GRID) ** 2 * (alpha - SLACK) <= widest

    def _bound(self, starts: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Return a bound on P(|X - r Y| >= |N - r D|) over all r in each span; for width 0 the probability itself.

        For r in [a, b] it implies max(|X - a Y|, |X - b Y|) >= the least |N - r D|, as |X - r Y| is convex in r.
        """
        y = self._chances.values
        ends = [np.multiply.outer(starts + at, y) for at in (0, width)]
        least = self._least(starts, width)[:, None]
        above = (np.minimum(*ends) + least - 1) // GRID  # the largest x with GRID x < r y + least
        below = (np.maximum(*ends) - least) // GRID  # the largest x with GRID x <= r y - least
        x = self.of_numerator
        within = np.maximum(x.cumulated(above) - x.cumulated(below), 0) @ self._chances.chances
        return np.where(least[:, 0] == 0, 1.0, 1 - within)

    @cached_property
    def _chances(self) -> Lattice:
        """The density of Y without tails of NEGLIGIBLE probability, which count as if they were always far out."""
        noise = self.of_denominator
        cut = int(np.searchsorted(np.cumsum(noise.chances), NEGLIGIBLE))
        return replace(noise, chances=noise.chances[cut : len(noise.chances) - cut])

    @cached_property
    def _variances(self) -> tuple[float, float]:
        return self.of_numerator.variance, self.of_denominator.variance
