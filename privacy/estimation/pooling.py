"""The two noisy answers of a group pooled into one: the estimate of its total far from any threshold.

Step 1 of SafeTab-P gives T = N + A, step 2 a total or the sum of k cells S = N + B. Under a flat prior of N the
posterior mean of B given D = S - T = B - A is

    m(d) = E[B | D = d] = sum_b b q(b) p(b - d) / r(d),        p, q, r the laws of A, B and D,

S - m(D) is the posterior mean of N. It has the least variance of all translation-equivariant estimates, whatever the
laws are (Pitman 1939, "The estimation of the location and scale parameters of a continuous population"). For normal
laws m is linear and S - m(D) is the mean of T and S with inverse-variance weights.

Given D the errors of the k cells are exchangeable, so a cell's posterior mean is its answer minus m(D)/k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.densities import Density, coarser, density, density_of_sum, moment, smallest_margin, values
from privacy.noise.laws import Law

STAGE_1_CUT = 1e-13  # probabilities of A below this are dropped
WIDEST_STAGE_1, WIDEST_SUM = 256, 2048  # standard deviations up to which sums use the laws in single counts
NARROWEST = 4  # the least standard deviation of A in a coarser unit
DIGITS = 2.0**20  # m is rounded to multiples of 1/DIGITS, so that both sides of a tie are decided the same way


@dataclass(frozen=True)
class AnswerLaws:
    """The laws of a group's two answers: step 1's total, and each cell that step 2 measures."""

    stage_1: Law
    stage_2: Law
    cells: int

    def coarser(self, scale: int) -> AnswerLaws:
        """Return the answers in units of `scale` counts, approximately: noise that many times narrower."""
        return replace(self, stage_1=coarser(self.stage_1, scale), stage_2=coarser(self.stage_2, scale))

    @property
    def deviations(self) -> tuple[float, float]:
        """The standard deviations of A and B."""
        return self.stage_1.variance() ** 0.5, (self.cells * self.stage_2.variance()) ** 0.5


@dataclass(frozen=True)
class Pooling:
    """A pooled total and the law of its error, away from thresholds.

    first, second, difference: p, q and r, the laws of A, B and D. pull: the weight times m(d) for each value of D,
    which is subtracted from S. Odd in d.
    """

    first: Density
    second: Density
    difference: Density
    pull: NDArray[np.float64]

    @property
    def reach(self) -> int:
        """The largest |d| of the arrays."""
        return len(self.pull) // 2

    @cached_property
    def far(self) -> Density:
        """The law of the error B - rnd(pull(D)), by the double sum over (A, B)."""
        b = values(self.second)
        half = len(self.second) + self.reach
        law = np.zeros(2 * half + 1)
        whole = nearest(self.pull)
        for a, chance in zip(values(self.first), self.first, strict=True):
            law += np.bincount(b - whole[b - a + self.reach] + half, chance * self.second, minlength=len(law))
        return symmetric(law)

    @property
    def variance(self) -> float:
        """The variance of the error, for whole numbers."""
        return moment(self.far)

    @property
    def margin(self) -> int:
        """The 95% margin of error, exact."""
        return smallest_margin(self.far)


def nearest(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the nearest integers, halves away from zero."""
    return (np.sign(x) * np.floor(np.abs(x) + 0.5)).astype(np.int64)


def symmetric(law: Density) -> Density:
    """Return a law without rounding errors between its sides: their mean on both, trimmed of zeros; it sums to 1."""
    law = (law + law[::-1]) / 2
    outermost = np.flatnonzero(law)[0]
    cut: Density = law[outermost : len(law) - outermost] / law.sum()
    return cut


def own_scale(answers: AnswerLaws) -> int:
    """Return the unit of sums over the laws: 1 count, unless noise is far wider than any in production."""
    return scale_within(answers, WIDEST_STAGE_1, WIDEST_SUM)


def scale_within(answers: AnswerLaws, widest: float, widest_sum: float, scale: int = 1) -> int:
    """Return the least power of two, from `scale` on, in whose units A and B are no wider than this.

    A narrow A, which a coarse unit would hide, takes precedence over a wide B.
    """
    first, second = answers.deviations
    while first > widest * scale or (second > widest_sum * scale and first > 2 * NARROWEST * scale):
        scale *= 2
    return scale


@lru_cache(maxsize=16)
def pool(answers: AnswerLaws, weight: float = 1.0) -> Pooling:
    """Pool two answers; a weight below 1 subtracts only that part of m(D) from S."""
    p = density(answers.stage_1, STAGE_1_CUT)
    p /= p.sum()
    q = density_of_sum(answers.stage_2, answers.cells)
    mean = posterior_mean(density(answers.stage_1), q)
    r = np.convolve(q, p)
    outside = (len(mean) - len(r)) // 2
    mean = mean[outside : outside + len(r)]
    return Pooling(p, q, r, np.round(weight * mean * DIGITS) / DIGITS)


def posterior_mean(p: Density, q: Density) -> NDArray[np.float64]:
    """Return m(d), for every d."""
    mean = np.convolve(values(q) * q, p) / np.convolve(q, p)
    return (mean - mean[::-1]) / 2
