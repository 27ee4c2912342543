"""Noise of every geounit and query group on a spine (paper, Theorems 1 and 3), and the cost of replacing a record."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from spine.allocations import Allocation
from spine.hierarchy import Spine


class Noise(NamedTuple):
    """The noise of one query group in the geounits of one level that have one share.

    parameter: the variance sigma^2 of N_Z(0, sigma^2) under zCDP, or the scale b of Laplace_Z(0, b) under pure DP.
    """

    level: str
    share: Fraction
    query: str
    alpha: Fraction
    parameter: Fraction


def parameter(allocation: Allocation, share: Fraction, alpha: Fraction) -> Fraction:
    """Return the parameter of Theorem 3: sigma^2 = 1 / (rho gamma alpha); pure DP: b = 2 / (epsilon gamma alpha)."""
    spent = allocation.budget * share * alpha
    return 1 / spent if allocation.definition == "zcdp" else 2 / spent


def noise(allocation: Allocation, shares: Mapping[str, list[Fraction]]) -> list[Noise]:
    """Return the noise of each level, distinct share and query group; a geounit with share 0 is not measured."""
    return [
        Noise(level, share, query, alpha, parameter(allocation, share, alpha))
        for level, distinct in shares.items()
        for share in distinct
        if share
        for query, alpha in allocation.queries[level].items()
    ]


def distinct_shares(spine: Spine) -> dict[str, list[Fraction]]:
    """Return the shares that occur on each level, ascending."""
    return {
        level: [Fraction(n, spine.denominator) for n in np.unique(shares).tolist()]
        for level, shares in zip(spine.levels, spine.shares, strict=True)
    }


def replacement_cost(spine: Spine, allocation: Allocation) -> Fraction:
    """Return the largest cost of replacing one record by another in the same state, in rho or epsilon.

    It is summed from the noise parameters themselves. Each query group changes by 1 in at most two coordinates, one on
    the old record's path to the root and one on the new one's. A coordinate costs 1 / (2 sigma^2) or 1 / b (Lemma 3).
    So two paths cost the mean of twice each, and no replacement costs more than one inside the most expensive block. (A
    coordinate that loses one record and gains the other, such as a total, does not change: an actual replacement may
    cost less.)
    """
    costs = [Fraction(0)]  # costs of the paths so far, one for each combination of shares on a path
    path = np.zeros(spine.blocks, np.int64)  # each block's combination
    for level, name in enumerate(spine.levels):
        distinct, kind = np.unique(spine.shares[level], return_inverse=True)
        each = []
        for n in distinct.tolist():
            rows = noise(allocation, {name: [Fraction(n, spine.denominator)]})
            each.append(record_cost(allocation, [row.parameter for row in rows]))
        combined, path = np.unique(path * len(each) + kind[spine.geounit_of_block(level)], return_inverse=True)
        costs = [costs[before] + each[here] for before, here in (divmod(n, len(each)) for n in combined.tolist())]
    return max(costs)


def record_cost(allocation: Allocation, parameters: list[Fraction]) -> Fraction:
    """Return the cost of a replacement inside one geounit: two changes by 1 in each query group (Lemma 4)."""
    pair = (2 / (2 * value) if allocation.definition == "zcdp" else 2 / value for value in parameters)
    return sum(pair, Fraction(0))
