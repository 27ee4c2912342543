"""The statistics of a districting plan: deviations from the ideal, bounds of their largest and of their range, shares.

Bounds rest on DRAWS normal draws, with a fixed seed, of errors with the known covariances. They are a function of
public numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from privacy.noise.margins import Z95
from spine.geography import FloatArray, IntArray
from spine.redistricting import MINORITY
from tasks.top_down.estimate.gls.tree import columns_of
from tasks.top_down.user_areas.estimate_areas import ProductEstimates

DRAWS, SEED = 20_000, 2020
LEVEL = 0.95
RANK = int(binom.ppf(1 - 1e-6, DRAWS, LEVEL))  # the draw of this rank is below the quantile once in a million seeds


@dataclass(frozen=True)
class StatisticBounds:
    """A statistic of a plan, for published totals and for estimates, and bounds of it for the true counts.

    noise_alone: its median over draws with equal districts, which differ by errors only.
    low, high: hold with a probability of at least LEVEL for all districts and statistics at once.
    """

    name: str
    published: float | None
    estimate: float
    noise_alone: float
    low: float
    high: float


@dataclass(frozen=True)
class Deviations:
    """Deviations of districts from the ideal, in persons. published, deviation, error: (districts,).

    joint: (2, districts) bounds that hold for all districts at once, with a probability of at least LEVEL. remark: why
    the plan does not cover its whole state, in a sentence. published_is_estimate: whether the published totals are an
    estimate by das-flows. groups_cut: the number of block groups of the spine that the districts cut.
    """

    ideal: float
    published: FloatArray | None
    deviation: FloatArray
    error: FloatArray
    bounds: tuple[StatisticBounds, ...]
    joint: FloatArray
    remark: str = ""
    published_is_estimate: bool = False
    groups_cut: int = 0

    @property
    def shown(self) -> FloatArray:
        """The published deviations, or without them the estimated ones."""
        return self.deviation if self.published is None else self.published


def deviations(
    estimate: FloatArray, covariance: FloatArray, total: int, published: IntArray | None = None, *, whole: bool = True
) -> Deviations:
    """Return the deviations of the districts of a state. estimate, covariance, published: their total populations'.

    total: the state's. whole: whether the districts cover it; if not, the ideal is the mean of their estimates, and all
    deviations are from their own mean. Published totals always deviate from their own mean, which differs for a run on
    moved blocks or other totals.
    """
    ideal = total / len(estimate) if whole else float(estimate.mean())
    deviation = estimate - ideal
    if not whole:  # the mean's error correlates with the districts'
        centred = covariance - covariance.mean(axis=0)
        covariance = centred - centred.mean(axis=1, keepdims=True)
    error = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    drawn = errors(covariance)
    width = joint_width(drawn, error) * error
    off = None if published is None else published - float(published.mean())
    most = total / len(estimate)  # the mean of the counts is not larger, and no count is below 0
    below, above = np.maximum(deviation - width, -most), np.minimum(deviation + width, total - ideal * whole)

    def bounds(name: str, statistic: Callable[..., Any], low: float, high: float) -> StatisticBounds:
        noise_alone = float(np.median(statistic(drawn, axis=1)))
        own = None if off is None else float(statistic(off))
        return StatisticBounds(name, own, float(statistic(deviation)), noise_alone, float(low), float(high))

    found = (
        bounds("largest deviation", np.max, max(below.max(), 0.0), above.max()),  # all sum to 0
        bounds("smallest deviation", np.min, below.min(), min(above.min(), 0.0)),
        bounds("range", np.ptp, max(below.max() - above.min(), 0.0), above.max() - below.min()),
    )
    return Deviations(ideal, off, deviation, error, found, np.array([below, above]))


def joint_width(drawn: FloatArray, error: FloatArray) -> float:
    """Return how many standard errors contain all districts' errors at once, with a probability of at least LEVEL.

    An upper confidence limit of the quantile, by order statistics; at least the value for a single district.
    """
    largest = np.sort(np.abs(drawn / np.where(error > 0, error, 1.0)).max(axis=1))
    return max(float(largest[RANK]), Z95)


def errors(covariance: FloatArray) -> FloatArray:
    """Return (DRAWS, districts) draws of normal errors. The covariance may be singular: districts sum to the state."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn: FloatArray = np.random.default_rng(SEED).standard_normal((DRAWS, len(covariance))) @ root.T
    return drawn


def shares(found: ProductEstimates) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the (areas,) shares of the minority, Hispanics and races in voting age, and their standard errors.

    By the name of the count; errors by the delta method. NaN for an area whose voting age population is not positive,
    or has a standard error above a quarter of it.
    """
    columns, of = columns_of("persons", minority=True), found.covariances.of
    whole = found.estimate[:, found.names.index("voting age")]

    def own(first: str, other: str) -> FloatArray:
        values = of(columns, first, other)
        return values.diagonal() if values.ndim == 2 else values

    spread = own("voting age", "voting age")
    known = (whole > 0) & (np.sqrt(spread) < whole / 4)
    result = {}
    by_race = [name for name in found.names if name.startswith("voting age by ")]
    for name in sorted(by_race, key=lambda name: (name not in MINORITY, "origin" not in name)):  # otherwise in order
        with np.errstate(divide="ignore", invalid="ignore"):
            share = found.estimate[:, found.names.index(name)] / whole
            variance = (own(name, name) - 2 * share * own(name, "voting age") + share**2 * spread) / whole**2
        error = np.sqrt(np.maximum(variance, 0.0))
        result[name] = (np.where(known, share, np.nan), np.where(known, error, np.nan))
    return result
