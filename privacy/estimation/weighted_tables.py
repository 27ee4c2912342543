"""A table measured several times, with other noise and in coarser cells too: generalized least squares.

Each measurement is of sums of the table's cells, with independent noise of a known variance. The estimate of least
variance among the unbiased linear ones adds up what they say (Aitken 1936): with A the sums and W the inverse
variances, x = (sum of A W A')^-1 (sum of A W z). Two tables of the same records then get one total, weighted by inverse
variance, and each takes its change as its covariances say: that is the least-squares estimate under equal totals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.equality import combined_margin
from privacy.estimation.pooling import nearest
from privacy.noise.laws import Definition

Numbers = NDArray[np.float64]
ROUNDING_OF_TOTAL, ROUNDING_OF_CELLS = 1 / 12, 1 / 4  # variances at most, of a total and of a run of cells
LEAST_PART = 1e-6  # of the widest noise, or of one count, that any variance is taken for at least
WIDER = {"zcdp": 1.0, "puredp": 1.0808}  # a margin, against that of normal noise: at most that of one Laplace draw


def least_variance(variances: Iterable[float]) -> float:
    """Return what a variance is taken for at least, of those that are weighted with each other.

    Noise of a very large budget has a variance of 0 in floats, or leaves no digits to the others. Estimates stay
    unbiased under any weights, and are no less sure than their covariances say where variances are taken too large.
    """
    return LEAST_PART * max(1.0, *variances)


@dataclass(frozen=True)
class Information:
    """What measurements say about the cells of tables of one width: groups x cells x cells, and groups x cells."""

    weight: Numbers
    said: Numbers

    @classmethod
    def none(cls, groups: int, cells: int) -> Information:
        """Return that of no measurement."""
        return cls(np.zeros((groups, cells, cells)), np.zeros((groups, cells)))

    def add(self, rows: NDArray[np.int64], sums: NDArray[np.int64], counts: Numbers, variance: Numbers) -> None:
        """Add a measurement of the tables `rows`.

        sums: cells x sums, 0 or 1; which cells each sum has. counts, variance: rows x sums.
        """
        self.weight[rows] += np.einsum("ks,ns,ls->nkl", sums, 1 / variance, sums)
        self.said[rows] += (counts / variance) @ sums.T

    def solve(self) -> tuple[Numbers, Numbers]:
        """Return the cells and their covariances. Every table must have been measured in all of its cells."""
        covariance = np.asarray(np.linalg.inv(self.weight), np.float64)
        return np.einsum("nkl,nl->nk", covariance, self.said), covariance


def pool(first: tuple[Numbers, Numbers], second: tuple[Numbers, Numbers]) -> list[tuple[Numbers, Numbers]]:
    """Give two tables of the same records, each its cells and their covariances, one total in whole numbers."""
    own = [(cells.sum(axis=1), covariance.sum(axis=(1, 2))) for cells, covariance in (first, second)]
    (one, v), (other, w) = own
    total, variance = nearest((w * one + v * other) / (v + w)), v * w / (v + w)
    pooled = []
    for (cells, covariance), (mine, of_mine) in zip((first, second), own, strict=True):
        along = covariance.sum(axis=2) / of_mine[:, None]
        moved = cells + along * (total - mine)[:, None]
        less = np.einsum("nk,nl->nkl", along, along) * (of_mine - variance)[:, None, None]
        pooled.append((moved, covariance - less))
    return pooled


def whole(cells: Numbers, uniform: Numbers) -> NDArray[np.int64]:
    """Return whole numbers that add up to each row's sum, which is whole: unbiased over a uniform number a row.

    Every run of cells is rounded up or down as a whole (systematic sampling).
    """
    ends = np.cumsum(cells, axis=1)
    ends[:, -1] = np.rint(ends[:, -1])
    steps = np.floor(ends + uniform[:, None]).astype(np.int64)
    return np.diff(steps, prepend=0)


def margins(covariance: Numbers, sums: NDArray[np.int64], definition: Definition) -> NDArray[np.int64]:
    """Return the 95% margins of sums of consecutive cells: by the normal law, rounding included, at least."""
    variance = np.einsum("ks,nkl,ls->ns", sums, covariance, sums) * WIDER[definition] ** 2
    variance += np.where(sums.all(axis=0), ROUNDING_OF_TOTAL, ROUNDING_OF_CELLS)
    return combined_margin(variance)
