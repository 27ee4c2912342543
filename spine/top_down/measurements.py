"""The measurements that estimation reads: noisy answers, and their variances, which are public."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sinh
from typing import TypeAlias

import numpy as np

from spine.allocations import Allocation
from spine.geography import FloatArray, IntArray
from spine.noise import parameter


@dataclass(frozen=True)
class NoisyAnswers:
    """The noisy answers of the geounits first, ..., last - 1 of a level.

    answers: for each query group asked on the level its (last - first, coordinates) answers, each the exact count plus
    noise of the variance that the geounit's share gives. Rows of geounits with share 0 are not measured: never read.
    """

    first: int
    last: int
    answers: Mapping[str, IntArray]


# measure(level, first, last): level is an index into the spine's levels. Asked again, it must answer the same.
Measure: TypeAlias = Callable[[int, int, int], NoisyAnswers]


def inverse_variance(allocation: Allocation, share: Fraction, alpha: Fraction) -> float:
    """Return 1 / variance of a coordinate's noise: the weight of its query group in least squares.

    rho gamma alpha under zCDP; under pure DP 2 sinh^2(1 / 2b) for Laplace_Z of scale b, whose variance is
    2 exp(-1/b) / (1 - exp(-1/b))^2. Exact until the last step: the only place where a budget becomes a float.
    """
    if allocation.definition == "zcdp":
        return float(1 / parameter(allocation, share, alpha))
    return 2 * sinh(float(1 / (2 * parameter(allocation, share, alpha)))) ** 2


def weights(allocation: Allocation, level: str, queries: list[str], shares: IntArray, denominator: int) -> FloatArray:
    """Return (queries, geounits) inverse variances for geounits with these shares (numerators over the denominator)."""
    distinct, index = np.unique(shares, return_inverse=True)
    alphas = allocation.queries[level]
    table = [
        [inverse_variance(allocation, Fraction(n, denominator), alphas[query]) if n else 0.0 for n in distinct.tolist()]
        for query in queries
    ]
    return np.array(table, float).reshape(len(queries), len(distinct))[:, index]
