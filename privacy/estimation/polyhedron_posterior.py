"""The posterior of noisy counts and their ratios under a flat prior on the whole numbers of a polyhedron.

The Census Bureau published the S-DHC as estimates of this model, by draws of a Gibbs sampler with normal noise. Here
the same posterior is summed: weights are the law of the noise itself, so nothing depends on a seed.

    count    y >= 0                                     weight p(z - y)
    ratio    d >= 1, least d <= n <= most d             weight p(z_n - n) q(z_d - d), n = sum of its cells, each >= 0

z: the noisy counts. A flat prior on y >= 0 pulls small counts up: the mean of an empty cell is 0.90 standard deviations
of its noise on average. So the posterior is no substitute for unbiased counts, and its intervals do not cover at their
level for every true count.

Noise with more values than a lattice has (densities.LONGEST) is rounded to a coarser one, and counts with it: time and
memory depend on neither the counts nor the budget, and means and quantiles are off by a hundredth of a standard
deviation of the noise at most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.densities import Density, Lattice

GRID = 10_000  # steps of a ratio's unit
NEGLIGIBLE = 1e-14  # of the largest weight
EXACT = 1e-7  # of a step: n / d that is no step is farther from one, for d below 10^7
AT_ONCE = 1 << 17  # numbers of one pass
LEVELS = (0.05, 0.95)  # of the published intervals: 90%


@dataclass(frozen=True)
class Posterior:
    """The probabilities of the whole numbers from `first` on, of each `step`-th; they sum to 1."""

    first: int
    chances: Density
    step: int = 1

    @cached_property
    def values(self) -> NDArray[np.int64]:
        """The whole numbers."""
        return self.first + self.step * np.arange(len(self.chances))

    @cached_property
    def mean(self) -> float:
        """Their mean."""
        return float(self.values @ self.chances)

    def quantile(self, level: float) -> int:
        """Return the smallest number with P(y <= number) >= level."""
        return self.first + self.step * min(int(np.searchsorted(self._sums[1:], level)), len(self.chances) - 1)

    def cumulated(self, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return P(number <= y)."""
        return np.asarray(self._sums[self._place(y)])

    def moment(self, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return E(number; number <= y)."""
        return np.asarray(self._moments[self._place(y)])

    def _place(self, y: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.clip((y - self.first) // self.step + 1, 0, len(self.chances))

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        return np.concatenate([[0.0], np.cumsum(self.chances)])

    @cached_property
    def _moments(self) -> NDArray[np.float64]:
        return np.concatenate([[0.0], np.cumsum(self.values * self.chances)])


@dataclass(frozen=True)
class RatioPosterior:
    """The means of a ratio, its numerator and denominator, and the ratio's quantiles of LEVELS, rounded up to GRID."""

    mean: float
    low: float
    high: float
    numerator: float
    denominator: float


def posterior(noisy: int, noise: Lattice, least: int = 0) -> Posterior:
    """Return the posterior of a count that is `least` at least, from the noisy one and the density of its noise."""
    reach, step = len(noise.chances) // 2, noise.step
    left_out = max(0, -((noisy - least) // step) + reach)  # multiples of the step that are below
    if left_out > 2 * reach:  # farther below than the noise reaches: the limit
        return Posterior(least, np.ones(1), step)
    return _normalized(noisy + step * (left_out - reach), noise.chances[left_out:], step)


def sum_of(cells: Sequence[Posterior]) -> Posterior:
    """Return the posterior of a sum of independent counts whose noise has one law."""
    total = cells[0]
    for each in cells[1:]:
        total = _normalized(total.first + each.first, np.convolve(total.chances, each.chances), total.step)
    return total


def ratio(numerator: Posterior, denominator: Posterior, least: int, most: int) -> RatioPosterior:
    """Return the posterior of n / d with least d <= n <= most d; the denominator is 1 at least."""
    d, q = denominator.values, denominator.chances
    below = least * d - 1

    def share(steps: int) -> float:
        top = np.minimum(steps * d // GRID, most * d)
        return float(q @ np.maximum(numerator.cumulated(top) - numerator.cumulated(below), 0))

    whole = share(most * GRID)
    if whole == 0:
        return _nearest(numerator.mean, denominator.mean, least, most)
    within = numerator.cumulated(most * d) - numerator.cumulated(below)
    moments = numerator.moment(most * d) - numerator.moment(below)
    means = (float(q @ each) / whole for each in (moments / d, moments, within * d))
    low, high = (_quantile(share, level * whole, least, most) for level in LEVELS)
    mean, above, beneath = means
    return RatioPosterior(mean, low, high, above, beneath)


def part_ratio(part: Posterior, rest: Posterior, denominator: Posterior, least: int, most: int) -> RatioPosterior:
    """Return the posterior of n / d of one part n, where n and the rest together are least d to most d."""
    ends = [denominator.values[[0, -1]], part.values[[0, -1]] + rest.values[[0, -1]]]
    if ends[1][1] <= most * ends[0][0] and ends[1][0] >= least * ends[0][1]:
        return ratio(part, denominator, 0, most)  # no bound is near: part and denominator are independent
    n = part.values
    shares, sums = np.zeros(most * GRID + 1), np.zeros(3)
    rows = max(1, AT_ONCE // len(n))
    for start in range(0, len(denominator.values), rows):
        d = denominator.values[start : start + rows, None]
        bracket = rest.cumulated(most * d - n) - rest.cumulated(np.maximum(least * d - n, 0) - 1)
        weights = denominator.chances[start : start + rows, None] * part.chances * np.maximum(bracket, 0)
        ratios = n / d
        steps = np.ceil(ratios * GRID - EXACT).astype(np.int64)  # the smallest step of the grid from n / d on
        shares += np.bincount(np.minimum(steps, most * GRID).ravel(), weights.ravel(), minlength=len(shares))
        sums += [(weights * ratios).sum(), weights.sum(axis=0) @ n, (weights.sum(axis=1) @ d).item()]
    shares = np.cumsum(shares)
    if shares[-1] == 0:
        return _nearest(part.mean, denominator.mean, 0, most)
    low, high = (_quantile(lambda step: float(shares[step]), level * shares[-1], 0, most) for level in LEVELS)
    mean, above, beneath = (sums / shares[-1]).tolist()
    return RatioPosterior(mean, low, high, above, beneath)


def _quantile(share: Callable[[int], float], level: float, least: int, most: int) -> float:
    """Return the smallest ratio of the grid whose share reaches the level."""
    return (least * GRID + bisect_left(range(least * GRID, most * GRID), level, key=share)) / GRID


def _nearest(numerator: float, denominator: float, least: int, most: int) -> RatioPosterior:
    """Return the possible ratio that is nearest: the counts contradict the polyhedron beyond any noise."""
    nearest = float(min(max(numerator / denominator, least), most))
    return RatioPosterior(nearest, nearest, nearest, numerator, denominator)


def _normalized(first: int, weights: Density, step: int) -> Posterior:
    """Return a posterior of these weights, without negligible ones at the ends."""
    kept = np.flatnonzero(weights > NEGLIGIBLE * weights.max())
    weights = weights[kept[0] : kept[-1] + 1]
    return Posterior(first + step * int(kept[0]), weights / weights.sum(), step)
