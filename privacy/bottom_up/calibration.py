"""Calibration of noisy counts to published totals (population invariants), with the slides' three cases.

Source: Clark, Dajani (2019), Data: "We calibrated our noise-injected counts to published state totals that were
consistent with our state counts. We did not calibrate for unpublished state counts. We did not report geographies that
were inconsistent with published state counts."

Whether a published total agrees with the data is judged on the noisy counts alone (`agree`). So all of this is
post-processing of noisy counts and public totals, and reveals nothing more. An exact test would answer an exact
question about the data for every total that someone makes up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error

FALSE_ALARM = Fraction(1, 100)  # the probability that any total that agrees with the data is judged inconsistent

Counts = NDArray[np.int64]
Case = Literal["calibrated", "unpublished", "inconsistent"]
Method = Literal["additive", "nonnegative"]


def additive(noisy: Counts, total: int) -> Counts:
    """Return c_i = n_i + (T - R)/n, R the sum of the noisy counts: each cell's error variance falls to v (1 - 1/n)."""
    share, rest = divmod(total - int(noisy.sum()), len(noisy))
    return noisy + share + (np.arange(len(noisy)) < rest)


def nonnegative(noisy: Counts, total: int) -> Counts:
    """Return the counts >= 0 with sum T that are nearest to the noisy ones by least squares.

    They are max(n_i - h, 0), h = (sum of the j largest - T)/j, for the largest j that makes all of these positive.
    """
    falling = np.sort(noisy)[::-1].astype(object)
    excess = np.cumsum(falling) - total
    kept = np.arange(1, len(noisy) + 1)
    j = max(int(np.flatnonzero(falling * kept > excess).max(initial=0)) + 1, 1)
    above = noisy.astype(object) * j - excess[j - 1]
    above = np.where(above > 0, above, 0)
    counts: Counts = (above // j).astype(np.int64)  # the rest goes to the largest remainders, ties to the earlier cell
    counts[np.argsort(-(above % j), kind="stable")[: total - int(counts.sum())]] += 1
    return counts


METHODS: dict[Method, Callable[[Counts, int], Counts]] = {"additive": additive, "nonnegative": nonnegative}


def agree(
    noisy: Counts, group: Counts, published: Mapping[int, int], law: Law, tolerance: Fraction = Fraction(0)
) -> dict[int, bool]:
    """Return which published totals agree with the data, judged by the noisy counts.

    A total agrees if its distance from its group's noisy sum is at most the margin that the sum's own noise exceeds
    with probability FALSE_ALARM / (published totals), by its exact law. So if all totals were those of the data, any
    would disagree with probability at most FALSE_ALARM. The further off a wrong total is, the more surely it is found.

    noisy, group: the noisy count and the group of each cell; a negative group means no group. published: {group:
    total}. law: the noise of a cell. tolerance: a further allowed distance from the data, in the unit of the counts.
    """
    numbers, place, sizes = np.unique(group, return_inverse=True, return_counts=True)
    totals = np.zeros(len(numbers), np.int64)
    np.add.at(totals, place, noisy)
    sums = dict(zip(numbers.tolist(), zip(totals.tolist(), sizes.tolist(), strict=True), strict=True))
    alpha = FALSE_ALARM / max(len(published), 1)
    agreed: dict[int, bool] = {}
    for number, total in published.items():
        noisy_sum, size = sums.get(number, (0, 0))
        agreed[number] = abs(noisy_sum - total) <= tolerance + (margin_of_error(law, size, alpha) if size else 0)
    return agreed


@dataclass(frozen=True)
class Calibrated:
    """Counts after calibration, and what was done with each group."""

    counts: Counts
    reported: NDArray[np.bool_]
    """False for the cells of groups that are dropped."""
    cases: dict[int, Case]


def calibrate(
    noisy: Counts,
    group: Counts,
    published: Mapping[int, int],
    consistent: Mapping[int, bool],
    method: Method = "additive",
) -> Calibrated:
    """Calibrate each group of cells whose total is published and agrees with the data.

    noisy, group: the noisy count and the group of each cell; cells with a negative group (structural zeros) do not
    change. published: {group: total}; unpublished groups do not change. consistent: whether the total of each published
    group agrees with the data (`agree`). Inconsistent groups are not reported.
    """
    counts, reported = noisy.copy(), np.ones(len(noisy), dtype=np.bool_)
    order = np.argsort(group, kind="stable")
    numbers, starts = np.unique(group[order], return_index=True)
    cases: dict[int, Case] = {}
    for number, cells in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        if number < 0:
            continue
        if number not in published:
            cases[number] = "unpublished"
        elif consistent[number]:
            counts[cells], cases[number] = METHODS[method](noisy[cells], published[number]), "calibrated"
        else:
            cases[number] = "inconsistent"
            reported[cells] = False
    return Calibrated(counts, reported, cases)
