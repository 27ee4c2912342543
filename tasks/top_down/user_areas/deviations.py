"""What a districting plan adds: deviations from the ideal with the law of the largest and of the range, and shares.

The law is a simulation: DRAWS normal draws, with a fixed seed, of errors with the known covariances. It is a function
of public numbers and knows no count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.workload import FloatArray
from tasks.top_down.gls.margin_tables import columns_of
from tasks.top_down.user_areas.question import Estimated

DRAWS, SEED = 20_000, 2020
QUANTILES = (0.025, 0.5, 0.975)
LEVEL = 0.95


@dataclass(frozen=True)
class Law:
    """A statistic of a plan: of the estimates, its simulated quantiles, and bounds of that of the counts.

    quantiles: of the law that the statistic has if the estimates are off by errors of the same law once more.
    low, high: with a probability of at least LEVEL for all districts and statistics at once.
    """

    name: str
    estimate: float
    quantiles: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True)
class Deviations:
    """Deviations of districts from the ideal, all of them persons. deviation, error: (districts,)."""

    ideal: float
    deviation: FloatArray
    error: FloatArray
    laws: tuple[Law, ...]


def deviations(estimate: FloatArray, covariance: FloatArray, total: int) -> Deviations:
    """Return the deviations of the districts of a state; estimate, covariance: of their total populations."""
    ideal = total / len(estimate)
    deviation = estimate - ideal
    error = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    drawn = errors(covariance)
    scale = np.where(error > 0, error, 1.0)
    width = float(np.quantile(np.abs(drawn / scale).max(axis=1), LEVEL)) * error
    seen = deviation - drawn  # the law of the error is symmetric
    largest, smallest = deviation.max(), deviation.min()
    below, above = deviation - width, deviation + width
    laws = (
        _law("largest deviation", largest, seen.max(axis=1), max(below.max(), 0.0), above.max()),  # all sum to 0
        _law("smallest deviation", smallest, seen.min(axis=1), below.min(), min(above.min(), 0.0)),
        _law(
            "range",
            largest - smallest,
            np.ptp(seen, axis=1),
            max(below.max() - above.min(), 0.0),
            above.max() - below.min(),
        ),
    )
    return Deviations(ideal, deviation, error, laws)


def errors(covariance: FloatArray) -> FloatArray:
    """Return (DRAWS, districts) draws of normal errors; the covariance may be singular: districts sum to the state."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn: FloatArray = np.random.default_rng(SEED).standard_normal((DRAWS, len(covariance))) @ root.T
    return drawn


def _law(name: str, estimate: float, drawn: FloatArray, low: float, high: float) -> Law:
    quantiles = tuple(np.quantile(drawn, QUANTILES).tolist())
    return Law(name, float(estimate), quantiles, float(low), float(high))


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
