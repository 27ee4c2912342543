"""What a districting plan adds: deviations from the ideal with the law of the largest and of the range, and shares.

The law is a simulation: DRAWS normal draws, with a fixed seed, of errors with the known covariances. It is a function
of public numbers and knows no count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spine.geography import IntArray
from spine.workload import FloatArray
from tasks.top_down.gls.margin_tables import columns_of
from tasks.top_down.user_areas.question import Estimated

DRAWS, SEED = 20_000, 2020
QUANTILES = (0.025, 0.5, 0.975)
LEVEL = 0.95


@dataclass(frozen=True)
class Law:
    """A statistic of a plan: of the published totals, of the estimates with simulated quantiles, bounds of the counts'.

    quantiles: of the law that the statistic has if the estimates are off by errors of the same law once more.
    low, high: with a probability of at least LEVEL for all districts and statistics at once.
    """

    name: str
    published: float | None
    estimate: float
    quantiles: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True)
class Deviations:
    """Deviations of districts from the ideal, all of them persons. published, deviation, error: (districts,)."""

    ideal: float
    published: FloatArray | None
    deviation: FloatArray
    error: FloatArray
    laws: tuple[Law, ...]


def deviations(
    estimate: FloatArray, covariance: FloatArray, total: int, published: IntArray | None = None
) -> Deviations:
    """Return the deviations of the districts of a state; estimate, covariance, published: of their total populations.

    Published totals deviate from their own mean: those of a run on moved blocks, or on other totals, have another.
    """
    ideal = total / len(estimate)
    deviation = estimate - ideal
    error = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    drawn = errors(covariance)
    scale = np.where(error > 0, error, 1.0)
    width = float(np.quantile(np.abs(drawn / scale).max(axis=1), LEVEL)) * error
    seen = deviation - drawn  # the law of the error is symmetric
    off = None if published is None else published - float(published.mean())
    below, above = deviation - width, deviation + width
    laws = (
        _law("largest deviation", np.max, off, deviation, seen, max(below.max(), 0.0), above.max()),  # all sum to 0
        _law("smallest deviation", np.min, off, deviation, seen, below.min(), min(above.min(), 0.0)),
        _law("range", np.ptp, off, deviation, seen, max(below.max() - above.min(), 0.0), above.max() - below.min()),
    )
    return Deviations(ideal, off, deviation, error, laws)


def errors(covariance: FloatArray) -> FloatArray:
    """Return (DRAWS, districts) draws of normal errors; the covariance may be singular: districts sum to the state."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn: FloatArray = np.random.default_rng(SEED).standard_normal((DRAWS, len(covariance))) @ root.T
    return drawn


def _law(
    name: str,
    of: Callable[..., Any],
    published: FloatArray | None,
    deviation: FloatArray,
    seen: FloatArray,
    low: float,
    high: float,
) -> Law:
    quantiles = tuple(np.quantile(of(seen, axis=1), QUANTILES).tolist())
    own = None if published is None else float(of(published))
    return Law(name, own, float(of(deviation)), quantiles, float(low), float(high))


def shares(found: Estimated) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the (areas,) share of each race in the voting age population, and its standard error by the delta method.

    Of an area whose population of voting age is not positive, or not known within a quarter of itself, NaN: no ratio.
    """
    columns, of = columns_of("persons"), found.covariances.of
    whole = found.estimate[:, found.names.index("voting age")]

    def own(first: str, other: str) -> FloatArray:
        values = of(columns, first, other)
        return values.diagonal() if values.ndim == 2 else values

    spread = own("voting age", "voting age")
    known = (whole > 0) & (np.sqrt(spread) < whole / 4)
    result = {}
    for name in found.names:
        if not name.startswith("voting age by race: "):
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            share = found.estimate[:, found.names.index(name)] / whole
            variance = (own(name, name) - 2 * share * own(name, "voting age") + share**2 * spread) / whole**2
        error = np.sqrt(np.maximum(variance, 0.0))
        result[name.partition(": ")[2]] = (np.where(known, share, np.nan), np.where(known, error, np.nan))
    return result
