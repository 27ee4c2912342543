"""L1 and L2 errors and the accuracy curve over epsilon, simulated and in closed form.

Source: Clark, Dajani (2019), Method, slide 2: L1 and L2 norms are "the average absolute and squared distance" of the
counts, and a curve of accuracy over epsilon, which the slides call a ROC curve, guides the choice of epsilon. They
give no formula for accuracy; this is the simple one that reaches 1 as epsilon grows and agrees with their remark that
L2 reaches it sooner because the counts are large:

    A1 = 1 - sum|t - c| / sum t,    A2 = 1 - sum (t - c)^2 / sum t^2        (t true, c released)

A curve computed on confidential counts leaks: use it only internally to choose epsilon, or compute it on other data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privacy.analyses.error_measures import ErrorSums
from privacy.analyses.geometric_moments import moments
from privacy.bottom_up.calibration import Method, calibrate
from privacy.noise.laws import Law, TwoSidedGeometric
from privacy.noise.sampler import Sampler, Words

Counts = NDArray[np.int64]


def operating_system_words(count: int) -> Words:
    """Return uniform 64-bit words from the operating system."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def fresh_noise(law: Law, count: int, words: Callable[[int], Words] = operating_system_words) -> NDArray[np.int64]:
    """Return exact draws for simulations: they belong to no run and cannot be drawn again. Only tests give `words`."""
    return Sampler(law).sample(words(count), lambda position, round: int(words(1)[0]))


@dataclass(frozen=True)
class Errors:
    """Mean absolute error, mean squared error, and the accuracies A1, A2 and the variant 1 - sum|t - c| / (2 sum t)."""

    l1: float
    l2: float
    a1: float
    a2: float
    a1_half: float


def errors(truth: Counts, released: Counts) -> Errors:
    """Return the errors of released counts. Raises ValueError where no true count is positive."""
    return _errors(truth, ErrorSums.of(released - truth))


def expected(truth: Counts, e: float) -> Errors:
    """Return the expected errors of n cells at e = epsilon / sensitivity, without calibration and clipping.

    E A1 = 1 - n E|N| / sum t, E A2 = 1 - n Var N / sum t^2.
    """
    law, n = moments(e), len(truth)
    return _errors(truth, ErrorSums(n, n * law.absolute, 0, n * law.variance))


def _errors(truth: Counts, sums: ErrorSums) -> Errors:
    true = ErrorSums.of(truth)
    if not true.absolute > 0:
        raise ValueError("accuracy is relative to the true counts, and these sum to 0")
    by_sum, by_squares = float(sums.absolute / true.absolute), float(sums.squared / true.squared)
    return Errors(float(sums.mean_absolute), float(sums.mean_squared), 1 - by_sum, 1 - by_squares, 1 - by_sum / 2)


@dataclass(frozen=True)
class Simulation:
    """The mechanism on known counts, to be replicated at any epsilon. Its noise belongs to no run.

    Attributes
    ----------
    truth : int64[cells]
        True counts, in steps of the weights' grid (unweighted: in records).
    sensitivity : int
        The most steps by which a record changes its cell.
    group, totals : int64[cells] and {group: total}, or None
        Calibration to these totals (`privacy.bottom_up.calibration`); groups that would not be reported are left out
        beforehand (`calibrated`).
    method, clip
        How to calibrate; whether negative counts become 0.
    """

    truth: Counts
    sensitivity: int = 1
    group: Counts | None = None
    totals: Mapping[int, int] = field(default_factory=dict)
    method: Method = "additive"
    clip: bool = False
    words: Callable[[int], Words] = operating_system_words

    def calibrated(self, group: Counts, totals: Mapping[int, int]) -> Simulation:
        """Return the same with calibration, over the cells of those groups that are reported."""
        exact = np.zeros(max(*totals, int(group.max())) + 1, np.int64)
        np.add.at(exact, group, self.truth)
        dropped = [number for number, total in totals.items() if exact[number] != total]
        kept = ~np.isin(group, dropped)
        return replace(self, truth=self.truth[kept], group=group[kept], totals=totals)

    def expected(self, epsilon: float) -> Errors | None:
        """Return the closed form at an epsilon; None for calibrated or clipped counts, which have none."""
        plain = self.group is None and not self.clip
        return expected(self.truth, epsilon / self.sensitivity) if plain else None

    def release(self, epsilon: Fraction) -> Counts:
        """Return counts released once at an epsilon."""
        law = TwoSidedGeometric(self.sensitivity / epsilon)
        counts = self.truth + fresh_noise(law, len(self.truth), self.words)
        if self.group is not None:
            counts = calibrate(counts, self.group, self.totals, dict.fromkeys(self.totals, True), self.method).counts
        return counts.clip(min=0) if self.clip else counts

    def curve(self, epsilons: Iterable[Fraction], replicates: int) -> Iterator[Point]:
        """Replicate at each epsilon. Raises ValueError for fewer than two replicates, or where no count is positive."""
        if replicates < 2:
            raise ValueError("a standard error needs at least two replicates")
        for epsilon in epsilons:
            runs = np.array([astuple(errors(self.truth, self.release(epsilon))) for _ in range(replicates)])
            spread = runs.std(axis=0, ddof=1) / replicates**0.5
            mean, error = Errors(*runs.mean(axis=0).tolist()), Errors(*spread.tolist())
            yield Point(epsilon, mean, error, self.expected(float(epsilon)))


@dataclass(frozen=True)
class Point:
    """The curve at one epsilon: means over replicates, their standard errors, the closed forms where they hold."""

    epsilon: Fraction
    mean: Errors
    standard_error: Errors
    expected: Errors | None
