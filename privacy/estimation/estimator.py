"""The estimate of a group's total at one detail: pooled, corrected for selection, with its margin of error.

    U = S + e(T, D),    e = -rnd(w m(D)) + floor(G(T, D) + u),    u uniform on [0, 1)

For both laws and every gamma three statements hold, given the detail, at every size that reaches the detail with
probability .001 (the second: .01) of the largest that any size has. The bias is at most BIAS times the count's standard
deviation, the root mean square error is at most PRICE times it, and the margin covers with probability .95. The bounds
are for the laws in the units of the table of corrections (`Correction.scale`): where a unit is several counts, the bias
of counts may be larger, and reaches .026 for production's parameters under pure differential privacy. To meet them, the
weight w is 1 where possible, else the largest eighth that does (under pure differential privacy with a large gamma).
U = S, w = 0, if no eighth does, if pooling gains almost nothing, and in a window of two thresholds so close that T has
no information within it.

Under the geometric law the price is unavoidable: a T that only its noise brought above the threshold is ancillary
there, so an unbiased change e is uncorrelated with S and adds its own variance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.densities import Density, density_of_sum, tails
from privacy.estimation.near_threshold import EdgeMargins, likely, margins_near, size_laws
from privacy.estimation.pooling import AnswerLaws, Pooling, nearest, own_scale, pool
from privacy.estimation.selection import Correction, correct, fits
from privacy.noise.margins import margin_of_error

PRICE = 1.1  # the largest root mean square error of an estimate at any size, as a multiple of the count's
BIAS = 0.002  # the largest bias in units of the table, in standard deviations of the count
RIDGES = (1e-9, 1e-11, 1e-13)  # tried in order until the bias is small enough
EIGHTHS = 8
GAIN = 0.005  # the reduction of the standard deviation below which pooling is not worth a table
HOPELESS = 12  # sd(A) / sd(S) above which pooling certainly gains less than GAIN
FALSE_DROP = 0.00135  # P(X > 3 sd) of a normal law: the largest probability per test of dropping a group that exists
APART = 40  # sd(A): window width from which the ends are independent; a correction reaches 16 from each
TOO_WIDE = 4096  # sd(S) in the units of a table above which no table is made: gamma is within .001 of 1


@dataclass(frozen=True)
class Edge:
    """The correction of T near one threshold, and the margins of the estimates there."""

    correction: Correction
    margins: EdgeMargins


@dataclass(frozen=True)
class Estimator:
    """The estimator of the groups of one detail. The detail is the event low <= T < high.

    answers: the laws of both answers. low, high: the thresholds of the detail, or None. weight: w; 0 if the estimate is
    the count. margin, variance: the 95% margin and the variance of the error, away from thresholds. pooling: in units
    of own_scale(answers). edge: the same for both thresholds, or one for a whole narrow window; None without
    thresholds.
    """

    answers: AnswerLaws
    low: int | None
    high: int | None
    weight: float
    margin: int
    variance: float
    pooling: Pooling | None = field(default=None, repr=False)
    edge: Edge | None = field(default=None, repr=False)

    @property
    def deviation(self) -> float:
        """The standard deviation of the error away from thresholds."""
        return float(self.variance**0.5)

    @property
    def sex_variance(self) -> float:
        """The variance of one sex's sum: half of the total, and half of the difference of the measured sexes."""
        return (self.variance + self.answers.cells * self.answers.stage_2.variance()) / 4

    @property
    def cell_variance(self) -> float:
        """The variance of a cell, before its part of the change is rounded."""
        cells = self.answers.cells
        return self.variance / cells**2 + self.answers.stage_2.variance() * (1 - 1 / cells)

    def error_law(self, scale: int = 1) -> Density:
        """Return the law of the error away from thresholds, in units of `scale` counts."""
        answers = self.answers.coarser(scale) if scale > 1 else self.answers
        return pool(answers, self.weight).far if self.weight else density_of_sum(answers.stage_2, answers.cells)

    @property
    def reach(self) -> int:
        """H: an estimate is corrected if T is less than this from a threshold."""
        return self.edge.correction.reach if self.edge else 0

    def correction(self, total: NDArray[np.int64], measured: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the correction g of groups with these stage-1 totals T and measured totals S."""
        correction = np.zeros(len(total))
        if self.edge is None:
            return correction
        d = measured - total
        if self.low is not None:
            correction += self.edge.correction.at(total - self.low, d)
        if self.high is not None and not self._narrow:
            correction -= self.edge.correction.at(self.high - 1 - total, -d)
        return correction

    def change(
        self, total: NDArray[np.int64], measured: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return e, which is added to S. `uniform` must be random only where the correction is not whole."""
        if self.pooling is None:
            return np.zeros(len(total), np.int64)
        rounded = np.floor(self.correction(total, measured) + uniform).astype(np.int64)
        return rounded - self._pull(measured - total)

    def margins(self, estimate: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the margin of error of each estimate of a total."""
        margins = np.full(len(estimate), self.margin)
        if self.edge is None:
            return margins
        if self.low is not None:
            margins = np.maximum(margins, self.edge.margins.of(estimate - self.low))
        if self.high is not None and not self._narrow:
            margins = np.maximum(margins, self.edge.margins.of(self.high - 1 - estimate))
        return margins

    @property
    def _narrow(self) -> bool:
        return self.edge is not None and self.edge.correction.width is not None

    @cached_property
    def _whole_pull(self) -> NDArray[np.int64]:
        assert self.pooling is not None
        return nearest(self.pooling.pull)

    def _pull(self, d: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rnd(w m(d))."""
        assert self.pooling is not None
        reach, scale = self.pooling.reach, own_scale(self.answers)
        if scale == 1:
            return self._whole_pull[np.clip(d, -reach, reach) + reach]
        return nearest(scale * np.interp(d / scale, np.arange(-reach, reach + 1), self.pooling.pull))


@lru_cache(maxsize=32)
def make_estimator(answers: AnswerLaws, low: int | None, high: int | None) -> Estimator:
    """Return the estimator of a detail low <= T < high, low < high."""
    if low is not None and high is not None and low >= high:
        raise ValueError("the detail of an empty window has no estimate")
    scale = own_scale(answers)
    first, second = answers.deviations
    if second < 1 or second < first / HOPELESS or second > TOO_WIDE * scale:
        return _unpooled(answers, low, high)
    if low is not None and high is not None and high - low < APART * first and not fits(answers, high - low):
        return _unpooled(answers, low, high)
    for eighths in range(EIGHTHS, 0, -1):
        weight = eighths / EIGHTHS
        pooling = pool(answers.coarser(scale) if scale > 1 else answers, weight)
        variance, margin = scale**2 * pooling.variance, scale * pooling.margin
        if variance > (1 - GAIN) ** 2 * second**2:
            break
        estimator = Estimator(answers, low, high, weight, margin, variance, pooling)
        if low is None and high is None:
            return estimator
        if edge := _edge(estimator):
            return replace(estimator, edge=edge)
    return _unpooled(answers, low, high)


def _edge(estimator: Estimator) -> Edge | None:
    """Return the edge if error and bias near it are small enough, else None."""
    answers, low, high = estimator.answers, estimator.low, estimator.high
    _, second = answers.deviations
    for ridge in RIDGES:
        correction = correct(answers, estimator.weight, ridge=ridge)
        if low is not None and high is not None and high - low < 2 * correction.reach:
            correction = correct(answers, estimator.weight, high - low, ridge)
        laws = size_laws(correction)
        if max(law.deviation for law in likely(laws)) > PRICE * second:
            return None
        if max(abs(law.bias) for law in laws) <= BIAS * second:
            return Edge(correction, margins_near(laws, estimator.margin, correction.width))
    return None


def _unpooled(answers: AnswerLaws, low: int | None, high: int | None) -> Estimator:
    margin = margin_of_error(answers.stage_2, answers.cells)
    return Estimator(answers, low, high, 0.0, margin, answers.cells * answers.stage_2.variance())


def critical_value(group: Estimator, ancestor: Estimator) -> int:
    """Return the c of the ancestor test: the smallest with P(E_g - E_h > c) <= FALSE_DROP, E the errors far from edges.

    A county is part of its state, and a tract of both, so N_g <= N_h for an ancestor h of the same iteration. A group
    with U_g - U_h > c is dropped from the estimates; a group that exists is dropped with probability at most
    FALSE_DROP. Most groups that pass suppression are small, and some are empty; the estimate of an empty group often
    exceeds its ancestor's by more than noise explains. The test reads noisy estimates only.
    """
    scale = max(own_scale(group.answers), own_scale(ancestor.answers))
    difference = np.convolve(group.error_law(scale), ancestor.error_law(scale))
    first = int(np.flatnonzero(tails(difference) <= FALSE_DROP)[0]) - len(difference) // 2
    return scale * first - 1
