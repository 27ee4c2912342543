"""The noise laws as arrays of probabilities, for exact sums over both answers of a group.

A density is float64[2R + 1], the probabilities of -R ... R: symmetric, and cut where they are negligible. Its entries
come from positive terms only, so each is right to the last digits of a float, even in the tails by which estimates
divide.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import NDArray

from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric

Density = NDArray[np.float64]
FAR = 1e-25  # probabilities below this are cut
COVERAGE = 0.95  # the coverage of a margin of error
LONGEST = 1 << 14  # the most values of a law on a lattice, give or take a few
SMOOTH = 4  # from this sigma^2, a sum of discrete Gaussians differs from one by 2 exp(-pi^2 sigma^2), or 1e-17


@dataclass(frozen=True)
class Lattice:
    """The density of noise rounded to multiples of `step`: the probabilities of -R step, ..., R step.

    off: the largest change by rounding; 0 if the step is 1. A law with more than LONGEST values gets a larger step, so
    that sums over it take bounded time and memory; a draw then moves by at most a two-hundredth of its standard
    deviation.
    """

    chances: Density
    step: int = 1
    off: int = 0

    @property
    def values(self) -> NDArray[np.int64]:
        """The multiples."""
        return self.step * values(self.chances)

    @property
    def variance(self) -> float:
        """The variance of the rounded noise."""
        return self.step**2 * moment(self.chances)

    def cumulated(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return P(noise <= x)."""
        first = -self.step * (len(self.chances) // 2)
        return self._sums.take((x - first) // self.step + 1, mode="clip")

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        return np.concatenate([[0.0], np.cumsum(self.chances)])


@lru_cache(maxsize=64)  # the laws of a table's or an average's rows
def lattice(law: Law, draws: int = 1) -> Lattice:
    """Return the density of a sum of independent draws, rounded if it would be too long."""
    if isinstance(law, DiscreteGaussian) and law.sigma_squared >= SMOOTH:
        law, draws = DiscreteGaussian(draws * law.sigma_squared), 1
    step = ceil(2 * _reach(law, FAR) / LONGEST) | 1  # odd, so that each multiple is the middle of what is rounded to it
    if step == 1:
        return Lattice(density(law) if draws == 1 else density_of_sum(law, draws))
    alone = density(law)
    missing = (step // 2 - len(alone) // 2) % step
    rounded = np.pad(alone, missing).reshape(-1, step).sum(axis=1)
    total = rounded
    for _ in range(draws - 1):
        total = _cut(np.convolve(total, rounded), FAR)
    return Lattice(total / total.sum(), step, draws * (step // 2))


def density(law: Law, cut: float = FAR) -> Density:
    """Return P(-R) ... P(R), R the last k with P(k) > cut."""
    reach = int(_reach(law, cut)) + 2
    k = np.arange(-reach, reach + 1)
    if isinstance(law, DiscreteGaussian):
        weights = np.exp(-(k * k) / (2 * float(law.sigma_squared)))
    else:
        weights = np.exp(-np.abs(k) / float(law.scale))
    weights /= weights.sum()
    return _cut(weights, cut)


def density_of_sum(law: Law, cells: int) -> Density:
    """Return the law of the sum of `cells` independent draws, by convolution: a Fourier transform would lose the tails.

    At sigma >= 2 a sum of discrete Gaussians is a discrete Gaussian, up to 2 exp(-pi^2 sigma^2) of each probability.
    """
    if isinstance(law, DiscreteGaussian) and law.sigma_squared >= SMOOTH:
        return density(DiscreteGaussian(cells * law.sigma_squared))
    power, total = density(law, FAR / 1000), np.ones(1)
    while cells:
        if cells & 1:
            total = _cut(np.convolve(total, power), FAR)
        cells >>= 1
        if cells:
            power = _cut(np.convolve(power, power), FAR / 1000)
    summed: Density = total / total.sum()
    return summed


def coarser(law: Law, scale: int) -> Law:
    """Return the law of about X / scale."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma_squared / scale**2)
    return TwoSidedGeometric(Fraction(law.scale, scale))


def values(density: Density) -> NDArray[np.int64]:
    """Return -R ... R."""
    reach = len(density) // 2
    return np.arange(-reach, reach + 1)


def moment(density: Density) -> float:
    """Return the variance."""
    return float((values(density) ** 2 * density).sum())


def smallest_margin(density: Density) -> int:
    """Return the smallest m with P(|X| <= m) >= .95.

    Raises ArithmeticError if some P(|X| <= m) is within 1e-9, the precision of the sum, of .95; no such law is known.
    """
    return margin_of_sizes(np.abs(values(density)), density)


def margin_of_sizes(sizes: NDArray[np.int64], chances: Density) -> int:
    """Return the smallest m with P(size <= m) >= .95; errors of these sizes have these chances, which sum to 1."""
    within = np.cumsum(np.bincount(sizes, weights=chances))
    if np.abs(within - COVERAGE).min() < 1e-9:
        raise ArithmeticError(
            f"a margin whose coverage is {COVERAGE} to the ninth digit cannot be decided in floating point"
        )
    return int(np.argmax(within > COVERAGE))


def tails(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of the numbers, or rows, from each one to the end, smallest first; the last, empty sum is 0."""
    return np.concatenate([np.cumsum(numbers[::-1], axis=0)[::-1], np.zeros_like(numbers[:1])])


def _reach(law: Law, cut: float) -> float:
    if isinstance(law, DiscreteGaussian):
        return sqrt(-2 * float(law.sigma_squared) * log(cut))
    return -float(law.scale) * log(cut)


def _cut(weights: Density, cut: float) -> Density:
    return weights[weights > cut]
