"""Noise of every geounit and query group on a spine (paper, Theorems 1 and 3), and what a replaced record costs."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from spine.allocations import Allocation
from spine.geography import IntArray
from spine.hierarchy import Spine


class Noise(NamedTuple):
    """The noise of one query group in the geounits of one level that have one share.

    parameter: the variance sigma^2 of N_Z(0, sigma^2) under zCDP, the scale b of Laplace_Z(0, b) under pure DP.
    """

    level: str
    share: Fraction
    query: str
    alpha: Fraction
    parameter: Fraction


def parameter(allocation: Allocation, share: Fraction, alpha: Fraction) -> Fraction:
    """Theorem 3: sigma^2 = 1 / (rho gamma alpha) under zCDP, b = 2 / (epsilon gamma alpha) under pure DP."""
    spent = allocation.budget * share * alpha
    return 1 / spent if allocation.mechanism == "zcdp" else 2 / spent


def noise(allocation: Allocation, shares: dict[str, list[Fraction]]) -> list[Noise]:
    """The noise of each level, distinct share and query group; a geounit with share 0 is not measured at all."""
    return [
        Noise(level, share, query, alpha, parameter(allocation, share, alpha))
        for level, distinct in shares.items()
        for share in distinct
        if share
        for query, alpha in allocation.queries[level].items()
    ]


def distinct_shares(spine: Spine) -> dict[str, list[Fraction]]:
    """The shares that occur on each level, ascending."""
    return {
        level: [Fraction(n, spine.denominator) for n in np.unique(shares).tolist()]
        for level, shares in zip(spine.levels, spine.shares, strict=True)
    }


def replacement_cost(spine: Spine, allocation: Allocation) -> Fraction:
    """The most that replacing one record by another in the same state costs, in rho or epsilon, from the noise itself.

    Each query group changes by 1 in at most two coordinates, one on the old record's path to the root, one
    on the new one's. A coordinate costs 1 / (2 sigma^2) or 1 / b (Lemma 3), so two paths cost the mean of twice each,
    and no replacement costs more than one inside the dearest block. (A coordinate that loses one record and gains the
    other, such as a total, does not change: an actual replacement may cost less.)
    """
    paths, path = [Fraction(0)], np.zeros(1, np.int64)  # the distinct costs down to a level; which each geounit has
    for level, name in enumerate(spine.levels):
        distinct, kind = np.unique(spine.shares[level], return_inverse=True)
        rows = [noise(allocation, {name: [Fraction(n, spine.denominator)]}) for n in distinct.tolist()]
        costs = [record_cost(allocation, [row.parameter for row in each]) for each in rows]
        above = path[spine.parents[level]] if level else np.zeros(len(kind), np.int64)
        pairs, path = np.unique(above * len(costs) + kind, return_inverse=True)
        paths = [paths[pair // len(costs)] + costs[pair % len(costs)] for pair in pairs.tolist()]
        paths, again = _distinct(paths)
        path = again[path]
    return max(paths)


def _distinct(values: list[Fraction]) -> tuple[list[Fraction], IntArray]:
    """The distinct values, and the place of each among them; exact, whatever their denominators are."""
    place = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(place), np.array([place[value] for value in values], np.int64)


def record_cost(allocation: Allocation, parameters: list[Fraction]) -> Fraction:
    """What a replacement inside one geounit costs there: two coordinates of each query group change by 1 (Lemma 4)."""
    pair = (2 / (2 * value) if allocation.mechanism == "zcdp" else 2 / value for value in parameters)
    return sum(pair, Fraction(0))
