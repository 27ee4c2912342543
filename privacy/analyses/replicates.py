"""Compare two groups of independent runs of one program, whose counts within a run depend on each other.

The unit is the run: runs are exchanged between the groups, never counts. If the runs of both groups have one law, a
test by exchange of labels is valid under any dependence of the counts of a run (Good, "Permutation, Parametric and
Bootstrap Tests of Hypotheses", 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
STUDENT = 2.015  # 95% quantile of Student's t with 5 degrees of freedom: an interval of 90%
PERMUTATIONS = 10_000
AT_ONCE = 500  # permutations
LEVEL = 0.01  # at which a difference is called one, after Holm
STATISTICS = ("means", "variances", "distance")
ROUNDING = 1 / 12  # a variance that no whole number can be told by: a count may be the same in every run


@dataclass(frozen=True)
class Spread:
    """Bias, standard deviation and root mean square error of each count over some runs."""

    bias: Floats
    deviation: Floats
    rmse: Floats

    @classmethod
    def of(cls, errors: Floats) -> Spread:
        """Return those of errors, (runs, counts)."""
        return cls(errors.mean(axis=0), errors.std(axis=0, ddof=1), np.sqrt((errors**2).mean(axis=0)))


def intervals(counts: Floats, spread: Spread) -> tuple[Floats, Floats]:
    """Return the ends of 90% intervals of counts, (runs, counts), as the Census Bureau makes them of its replicates.

    2.015 root mean square errors on either side of the count, less its bias where that is half a standard deviation and
    more, of counts above 5, a positive one only of counts of 25 and more; rounded outwards, and not below 0.
    """
    large = np.abs(spread.bias) >= 0.5 * spread.deviation
    shifted = (counts > 5) & large & ((spread.bias < 0) | (counts >= 25))
    middle, margin = counts - np.where(shifted, spread.bias, 0.0), STUDENT * spread.rmse
    return np.maximum(np.floor(middle - margin), 0), np.maximum(np.ceil(middle + margin), 0)


def coverage(truth: Floats, errors: Floats, others: Spread) -> int:
    """Return how many counts of some runs have the truth in their interval, by the spread of other runs."""
    low, high = intervals(truth + errors, others)
    return int(((low <= truth) & (truth <= high)).sum())


def ratio_of_rms(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Return the ratio of root mean squares of two groups of runs and its jackknife error, over runs.

    ours, theirs: the mean square error of each run, at least two runs each. NaN where theirs is 0.
    """

    def ratio(mine: Floats, other: Floats) -> float:
        return float(np.sqrt(mine.mean() / other.mean())) if other.mean() > 0 else float("nan")

    without_ours = [ratio(np.delete(ours, run), theirs) for run in range(len(ours))]
    without_theirs = [ratio(ours, np.delete(theirs, run)) for run in range(len(theirs))]
    variance = sum((len(ratios) - 1) * np.var(ratios) for ratios in (without_ours, without_theirs))
    return ratio(ours, theirs), float(variance) ** 0.5


@dataclass(frozen=True)
class Sample:
    """The errors of a level in all runs, the first group's first, as far as the tests need them.

    products: (runs, runs) sums over counts of the products of errors, each count centred and in units of its standard
    deviation over all runs. counts: how many have an error that differs between runs. errors: (runs, some counts).
    """

    products: Floats
    counts: int
    errors: Floats

    @classmethod
    def of(cls, errors: Floats, most: int) -> Sample:
        """Return the sample of errors, (runs, counts); of at most `most` counts, evenly spaced, the errors."""
        varying = np.flatnonzero((errors != errors[0]).any(axis=0))
        errors = errors[:, varying]
        scaled = (errors - errors.mean(axis=0)) / np.maximum(errors.std(axis=0), 1e-12)
        chosen = np.linspace(0, max(len(varying) - 1, 0), min(most, len(varying))).astype(int)
        return cls(scaled @ scaled.T, len(varying), errors[:, chosen])

    def joined(self, other: Sample) -> Sample:
        """Return the sample of the counts of both."""
        errors = np.hstack([self.errors, other.errors])
        return Sample(self.products + other.products, self.counts + other.counts, errors)


@cache
def labellings(runs: int, first: int, permutations: int = PERMUTATIONS) -> Bools:
    """Return ways to call `first` of the runs ours, (labellings, runs), the observed one in front.

    All of them where there are at most `permutations`, which makes the test exact; else the observed one and that many
    at random, the same always.
    """
    observed = np.arange(runs) < first
    if comb(runs, first) > permutations:
        drawn = np.tile(observed, (permutations + 1, 1))
        drawn[1:] = np.random.default_rng(2020).permuted(drawn[1:], axis=1)
        return drawn
    chosen = np.array([*combinations(range(runs), first)])
    found = np.zeros((len(chosen), runs), bool)
    np.put_along_axis(found, chosen, True, axis=1)
    return found


def least_chance(runs: int, first: int, permutations: int = PERMUTATIONS) -> float:
    """Return the least chance that `permutation_tests` can find: the share of labellings that repeat the observed one.

    Groups of one size may change places, which no statistic sees.
    """
    labels = labellings(runs, first, permutations)
    same = (labels == labels[0]).all(axis=1)
    if 2 * first == runs:
        same |= (labels != labels[0]).all(axis=1)
    return float(same.mean())


def permutation_tests(sample: Sample, first: int, permutations: int = PERMUTATIONS) -> dict[str, float]:
    """Return by statistic the chance of one as large, were the labels of the runs exchanged.

    first: the number of runs of the first group. means: the mean over counts of the squared standardized difference of
    the groups' means. variances: the mean of |ln| of the ratio of variances. distance: the energy distance of the runs.
    """
    runs = len(sample.products)
    labels = labellings(runs, first, permutations)
    one, other = labels / first, ~labels / (runs - first)
    weight = one - other
    gram = sample.products / max(sample.counts, 1)
    squares = np.diag(gram)
    distances = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * gram, 0))
    found = {
        "means": np.einsum("pi,ij,pj->p", weight, gram, weight, optimize=True),
        "variances": _variance_ratios(sample.errors, one, other),
        "distance": -np.einsum("pi,ij,pj->p", weight, distances, weight, optimize=True),
    }
    return {name: float((values >= values[0] * (1 - 1e-9)).mean()) for name, values in found.items()}


def _variance_ratios(errors: Floats, one: Floats, other: Floats) -> Floats:
    squares = errors**2
    found = np.zeros(len(one))
    for start in range(0, len(one) if errors.shape[1] else 0, AT_ONCE):
        parts = []
        for weights in (one[start : start + AT_ONCE], other[start : start + AT_ONCE]):
            runs = 1 / weights.max()
            parts.append((weights @ squares - (weights @ errors) ** 2) * runs / (runs - 1) + ROUNDING)
        found[start : start + AT_ONCE] = np.abs(np.log(parts[0] / parts[1])).mean(axis=1)
    return found


def holm(chances: Floats) -> Floats:
    """Return chances adjusted for being several (Holm 1979): at most `alpha` that any below alpha is false."""
    order = np.argsort(chances)
    factors = np.arange(len(chances), 0, -1)
    adjusted = np.empty(len(chances))
    adjusted[order] = np.minimum(np.maximum.accumulate(chances[order] * factors), 1)
    return adjusted
