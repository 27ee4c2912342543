"""Generalized least squares for a table measured several times, with different noise and partly in coarser cells.

Each measurement is of sums of the table's cells, with independent noise of a known variance. The linear unbiased
estimate of least variance adds up their information (Aitken 1936): with A the sums and W the inverse variances,
x = (sum of A W A')^-1 (sum of A W z). Two tables of the same records then get one total, weighted by inverse variance,
and each adjusts its cells by its covariances: the least-squares estimate under equal totals.
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
ROUNDING_OF_TOTAL, ROUNDING_OF_CELLS = 1 / 12, 1 / 4  # largest variances of rounding a total, and a run of cells
LEAST_PART = 1e-6  # the least variance used, relative to the widest noise or to one count
WIDER = {"zcdp": 1.0, "puredp": 1.0808}  # a margin relative to that of normal noise: at most that of one Laplace draw


def least_variance(variances: Iterable[float]) -> float:
    """Return the least variance to use for measurements that are weighted with each other.

    Noise of a very large budget has a variance of 0 in floats, or leaves the other measurements no digits. Estimates
    are unbiased under any weights, and are at least as precise as their covariances say if variances are overstated.
    """
    return LEAST_PART * max(1.0, *variances)


@dataclass(frozen=True)
class TableInformation:
    """The information of measurements about tables' cells, and its vectors: groups x cells x cells, groups x cells."""

    weight: Numbers
    vector: Numbers

    @classmethod
    def none(cls, groups: int, cells: int) -> TableInformation:
        """Return the information of no measurement: zeros."""
        return cls(np.zeros((groups, cells, cells)), np.zeros((groups, cells)))

    def add(self, rows: NDArray[np.int64], sums: NDArray[np.int64], counts: Numbers, variance: Numbers) -> None:
        """Add a measurement of the tables `rows`.

        sums: cells x sums, 1 for each cell that a sum contains, else 0. counts, variance: rows x sums.
        """
        self.weight[rows] += np.einsum("ks,ns,ls->nkl", sums, 1 / variance, sums)
        self.vector[rows] += (counts / variance) @ sums.T

    def solve(self) -> tuple[Numbers, Numbers]:
        """Return the cells and their covariances. Every table must have been measured in all of its cells."""
        covariance = np.asarray(np.linalg.inv(self.weight), np.float64)
        return np.einsum("nkl,nl->nk", covariance, self.vector), covariance


def pool(first: tuple[Numbers, Numbers], second: tuple[Numbers, Numbers]) -> list[tuple[Numbers, Numbers]]:
    """Give two tables of the same records one total in whole numbers; each is its cells and their covariances."""
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
    """Round cells to whole numbers that add up to each row's sum, which must be whole.

    Unbiased over `uniform`, one number a row: each run of cells is rounded up or down as a whole (systematic sampling).
    """
    ends = np.cumsum(cells, axis=1)
    ends[:, -1] = np.rint(ends[:, -1])
    steps = np.floor(ends + uniform[:, None]).astype(np.int64)
    return np.diff(steps, prepend=0)


def margins(covariance: Numbers, sums: NDArray[np.int64], definition: Definition) -> NDArray[np.int64]:
    """Return 95% margins of sums of consecutive cells, by the normal law and with rounding; at least 95%."""
    variance = np.einsum("ks,nkl,ls->ns", sums, covariance, sums) * WIDER[definition] ** 2
    variance += np.where(sums.all(axis=0), ROUNDING_OF_TOTAL, ROUNDING_OF_CELLS)
    return combined_margin(variance)
