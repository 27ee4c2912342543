"""L1 and L2 errors and the accuracy curve over epsilon, simulated and in closed form.

Source: Clark, Dajani (2019), Method, slide 2: L1 and L2 norms are "the average absolute and squared distance" of the
counts, and a curve ("ROC" in the slides; it is none) of accuracy over epsilon guides the choice of epsilon. The slides
give no formula for accuracy; this is the simple one that reaches 1 as epsilon grows and agrees with their remark that
L2 reaches it sooner because the counts are large:

    A1 = 1 - sum|t - c| / sum t,    A2 = 1 - sum (t - c)^2 / sum t^2        (t true, c released)

A curve computed on confidential counts leaks: it is for choosing epsilon behind closed doors, or on other data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privacy.geometric_moments import moments

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Errors:
    """Mean absolute error, mean squared error, and the accuracies A1, A2 and the variant 1 - sum|t - c| / (2 sum t)."""

    l1: float
    l2: float
    a1: float
    a2: float
    a1_half: float


def errors(truth: Counts, released: Counts) -> Errors:
    """The errors of released counts. Raises ValueError where no true count is positive."""
    distance = np.abs(released - truth).astype(np.float64)
    return _errors(truth, float(distance.sum()), float((distance**2).sum()))


def expected(truth: Counts, e: float) -> Errors:
    """The expected errors of n cells at e = epsilon / sensitivity, without calibration or clipping, in closed form.

    E A1 = 1 - n E|N| / sum t, E A2 = 1 - n Var N / sum t^2.
    """
    law = moments(e)
    return _errors(truth, len(truth) * law.absolute, len(truth) * law.variance)


def _errors(truth: Counts, absolute: float, squared: float) -> Errors:
    sizes = truth.astype(np.float64)
    if not sizes.sum() > 0:
        raise ValueError("accuracy is relative to the true counts, and they sum to nothing")
    n, by_sum, by_squares = len(truth), absolute / float(sizes.sum()), squared / float((sizes**2).sum())
    return Errors(absolute / n, squared / n, 1 - by_sum, 1 - by_squares, 1 - by_sum / 2)


@dataclass(frozen=True)
class Point:
    """The curve at one epsilon: means over replicates, their standard errors, and the closed forms."""

    epsilon: Fraction
    mean: Errors
    standard_error: Errors
    expected: Errors


def curve(
    truth: Counts,
    epsilons: list[Fraction],
    replicates: int,
    release: Callable[[Fraction], Callable[[], Counts]],
    sensitivity: int = 1,
) -> Iterator[Point]:
    """Replicate the mechanism at each epsilon.

    `release(epsilon)` gives a function that returns released counts, anew at each call. At least two replicates.
    """
    if replicates < 2:
        raise ValueError("a standard error needs at least two replicates")
    for epsilon in epsilons:
        again = release(epsilon)
        runs = np.array([tuple(vars(errors(truth, again())).values()) for _ in range(replicates)])
        spread = runs.std(axis=0, ddof=1) / replicates**0.5
        closed = expected(truth, float(epsilon / sensitivity))
        yield Point(epsilon, Errors(*runs.mean(axis=0).tolist()), Errors(*spread.tolist()), closed)
