"""Infer the shares of the budget from the published variances: sigma^2 = 1 / (rho gamma alpha).

If a data set has the budgets of the production runs of 2020, a geounit's share gamma is that of its level plus those of
bypassed levels (Algorithm 3): an exact fraction. Otherwise a level's most frequent variances define its design, and
gamma is a ratio to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from scipy.optimize import brentq

from privacy.noise.laws import DiscreteGaussian
from spine.allocations import Allocation
from spine.noise import parameter
from spine.production import allocation
from spine.settings import Jurisdiction
from tasks.top_down.published.nmf.inventory import Faults
from tasks.top_down.published.nmf.source import SameVariances, Variances
from tasks.top_down.release.nmf_layout import LEVELS, QUERIES
from tasks.top_down.run_plan import SCHEMAS, US

CLOSE, ONE_RATIO = 1e-5, 1e-4
GRID = 1 << 30  # denominator of shares that are ratios
WIDE = 1.3  # from this variance on, it equals sigma^2 in single precision


@dataclass(frozen=True)
class Shares:
    """The allocation of a product and, by level, the share of each distinct row of variances."""

    allocation: Allocation
    known: bool
    of: Mapping[str, Mapping[Variances, Fraction]]


def find_shares(
    product: str, jurisdiction: Jurisdiction, nation: bool, kinds: list[SameVariances], faults: Faults
) -> Shares | None:
    """Return the shares, or None without variances or with variances of no share. nation: whether it is measured."""
    if not kinds:
        faults.add(product, "no geounit was measured")
        return None
    levels = (US, *LEVELS) if nation else LEVELS
    design = allocation(SCHEMAS[product].name, jurisdiction)
    expected = {level: _expected(design, level) for level in levels}
    shares = [_match(kind.variances, expected[kind.level], product) for kind in kinds]
    known = _fits(kinds, shares)
    frequent = {level: _weights(_most_frequent(kinds, level), product) for level in levels}
    queries = {level: {*(design.queries[level] if known else frequent[level])} for level in levels}
    if not known:
        faults.note(product, "their budgets match no known design: shares are ratios of variances")
    if not _complete(kinds, queries, product, faults):
        return None
    if not known:
        design = _design_of(frequent, product)
        shares = [
            _ratio(_weights(kind.variances, product), frequent[kind.level], design.levels[kind.level]) for kind in kinds
        ]
    found: dict[str, dict[Variances, Fraction]] = {level: {} for level in levels}
    for kind, share in zip(kinds, shares, strict=True):
        if share is None:
            faults.add(kind.place, "variances that do not fit a single share", [kind.geocode])
        else:
            found[kind.level][kind.variances] = share
    return None if None in shares else Shares(design, known, found)


def _expected(design: Allocation, level: str) -> dict[Fraction, dict[str, float]]:
    """Return the variances of a level by each possible share: its own, and its own plus those of levels below."""
    shares = list(design.levels.values())[list(design.levels).index(level) :]
    alphas = design.queries[level]
    return {
        share: {query: DiscreteGaussian(parameter(design, share, alpha)).variance() for query, alpha in alphas.items()}
        for share in accumulate(shares)
    }


def _match(variances: Variances, expected: Mapping[Fraction, Mapping[str, float]], product: str) -> Fraction | None:
    for share, by_query in expected.items():
        if all(
            abs(variance / by_query[query] - 1) < CLOSE if query in by_query else not variance
            for query, variance in zip(QUERIES[product], variances, strict=True)
        ):
            return share
    return None


def _fits(kinds: list[SameVariances], shares: list[Fraction | None]) -> bool:
    """Return whether, on most levels, at least half of the geounits have variances of the known design.

    Then the few levels on which they do not are at fault.
    """
    fitting: Counter[str] = Counter()
    for kind, share in zip(kinds, shares, strict=True):
        fitting[kind.level] += kind.geounits * (1 if share is not None else -1)
    return 2 * sum(count >= 0 for count in fitting.values()) > len(fitting)


def _most_frequent(kinds: list[SameVariances], level: str) -> Variances:
    found: Counter[Variances] = Counter()
    for kind in kinds:
        if kind.level == level:
            found[kind.variances] += kind.geounits
    return max(found, key=lambda variances: (found[variances], variances), default=())


def _complete(kinds: list[SameVariances], queries: Mapping[str, set[str]], product: str, faults: Faults) -> bool:
    """Report geounits that lack a query of their level, or have a query of another level."""
    complete = True
    for kind in kinds:
        asked = {*_weights(kind.variances, product)}
        for rule, wrong in (
            ("a measured geounit lacks the query", queries[kind.level] - asked),
            ("a geounit has a query that its level does not ask:", asked - queries[kind.level]),
        ):
            for query in sorted(wrong):
                complete = False
                faults.add(kind.place, f"{rule} {query}", [kind.geocode])
    return complete


def _design_of(weights: Mapping[str, Mapping[str, float]], product: str) -> Allocation:
    """Return the budgets of levels and queries that follow from their most frequent variances."""
    of_level = {level: sum(of.values()) for level, of in weights.items()}
    alphas = {
        level: _fractions(of or dict.fromkeys(QUERIES[product], 1.0), GRID * GRID) for level, of in weights.items()
    }
    budget = Fraction(sum(of_level.values()))
    return Allocation("zcdp", budget, _fractions(of_level, GRID), alphas, "ratios of the published variances")


def _fractions(weights: Mapping[str, float], grid: int) -> dict[str, Fraction]:
    """Return each weight's part of their sum, as fractions over the grid that sum to 1."""
    total = sum(weights.values())
    parts = {name: max(1, round(weight / total * grid)) for name, weight in weights.items()}
    parts[max(parts, key=lambda name: parts[name])] += grid - sum(parts.values())
    return {name: Fraction(part, grid) for name, part in parts.items()}


def _ratio(own: Mapping[str, float], usual: Mapping[str, float], share: Fraction) -> Fraction | None:
    """Return the share as the ratio to a level's most frequent weights; None if it differs between queries."""
    ratios = np.array([own[query] / weight for query, weight in usual.items()])
    if np.ptp(ratios) > ONE_RATIO * ratios.min():
        return None
    return Fraction(max(1, round(float(ratios.mean()) * share * GRID)), GRID)


def _weights(variances: Iterable[float], product: str) -> dict[str, float]:
    """Return 1 / sigma^2 by query."""
    return {query: 1 / _sigma_squared(v) for query, v in zip(QUERIES[product], variances, strict=False) if v}


def _sigma_squared(variance: float) -> float:
    """Return the parameter of the discrete Gaussian with this variance."""
    if variance >= WIDE:
        return variance
    squares = np.arange(-40, 41) ** 2

    def excess(sigma_squared: float) -> float:
        weight = np.exp(-squares / (2 * sigma_squared))
        return float((squares * weight).sum() / weight.sum()) - variance

    found: float = brentq(excess, 0.01, 2 * WIDE, xtol=1e-12)
    return found
