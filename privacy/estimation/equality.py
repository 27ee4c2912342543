"""Regional ethnicities that are sums of Detailed ones, estimated from both.

The equality follows from the maps of codes to iterations, which are public. If every code of a Regional iteration of a
single-valued attribute has a Detailed one, and these have no other codes, then each person of the Regional iteration is
in exactly one of the Detailed ones: N_r = sum of N_c in every region, whatever the data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.pooling import nearest
from privacy.noise.margins import Z95


def find_equalities(regional: NDArray[np.int32], detailed: NDArray[np.int32]) -> dict[int, tuple[int, ...]]:
    """Return the Regional iterations that are sums of Detailed ones, each with its parts.

    regional, detailed : one entry per code of a single-valued attribute
        The iteration of that level that the code maps to, or -1.
    """
    equalities = {}
    for iteration in np.unique(regional[regional >= 0]):
        parts = np.unique(detailed[regional == iteration])
        if parts[0] >= 0 and (regional[np.isin(detailed, parts)] == iteration).all():
            equalities[int(iteration)] = tuple(int(part) for part in parts)
    return equalities


def combine(
    own: NDArray[np.int64], own_variance: NDArray[np.float64], parts: NDArray[np.int64], variance: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the average of a group's own value and the sum of its parts, weighted by inverse variance and rounded.

    The weights depend on the details only, so the estimate is unbiased given them.
    """
    return nearest((variance * own + own_variance * parts) / (own_variance + variance))


def combined_variance(own: NDArray[np.float64], parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of `combine`, including that of rounding."""
    return own * parts / (own + parts) + 1 / 12


def combined_margin(variance: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the 95% margin of a combined estimate, by the normal law: its standard deviation is at least 6."""
    return np.ceil(Z95 * np.sqrt(variance) - 0.5).astype(np.int64)
