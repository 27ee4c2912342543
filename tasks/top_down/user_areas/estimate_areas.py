"""Estimate areas from cached states: the best linear unbiased estimate of every count, its standard error, covariances.

Each state is estimated separately, so an area of several states is the sum of independent parts. The US level is not
used: it would require reading all states for standard errors less than 1 % smaller (docs/published.md#areas).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spine.geography import FloatArray, IntArray
from spine.gls.columns import Covariances
from spine.gls.entity_sums import entity_estimates
from tasks.top_down.estimate.gls.tree import columns_of
from tasks.top_down.user_areas.state_cache import CachedState

MOST_BETWEEN = 500  # with more areas, covariances between them are not kept


@dataclass(frozen=True)
class ProductEstimates:
    """The counts of the areas in one product.

    names: the counts'. estimate, error: (areas, counts). blocks: (areas,) number with living quarters. whole, cut:
    (areas,) block groups of the spine that an area holds in full and in part. covariances: between any two areas, or
    only each area's own if there are more than MOST_BETWEEN. groups_cut: number of block groups that areas share.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    error: FloatArray
    blocks: IntArray
    whole: IntArray
    cut: IntArray
    covariances: Covariances
    groups_cut: int


def estimate_areas(
    states: Sequence[CachedState], product: str, of_code: Sequence[IntArray], areas: int
) -> ProductEstimates:
    """Return the estimates of areas. of_code: by state, the (blocks,) area of each block, in spine order."""
    columns = columns_of(product, minority=True)
    components = len(columns.parts)
    covariances = Covariances.empty(components, areas, between=areas <= MOST_BETWEEN)
    estimate, variance = np.zeros((2, areas, len(columns)))
    blocks, whole, cut = np.zeros((3, areas), np.int64)
    shared = 0
    for state, area in zip(states, of_code, strict=True):
        tree = state.tree(product)
        for level, (meets,) in enumerate(tree.climb(columns, [area], covariances)):
            if not level:  # block groups
                whole += np.bincount(meets.entity[meets.whole], minlength=areas)
                shared += len(np.unique(meets.geounit[~meets.whole]))
        number, found, error, groups_cut = entity_estimates(columns, tree.whole, meets, covariances)
        estimate[number] += found
        variance[number] += error**2
        cut[number] += groups_cut
        blocks += np.bincount(area, minlength=areas)
    return ProductEstimates(columns.names, estimate, np.sqrt(variance), blocks, whole, cut, covariances, shared)
