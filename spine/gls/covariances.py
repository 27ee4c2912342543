"""Covariances between areas: the recursion of `entity_sums`, for every two areas that meet in a geounit.

Given the count x of a geounit, those of the areas i and j within it have errors of covariance
    sum over its children of w_i V w_j'  -  (sum of w_i V) B (sum of w_j V)'
on top of what they have given the children's own counts, so the terms of all geounits add up; that of whole states
is w_i Var(x) w_j'. Here w = 1'W, of a component: columns that sum over all types of living quarters need no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from spine.geography import FloatArray, IntArray

if TYPE_CHECKING:
    from spine.gls.columns import Columns


@dataclass(frozen=True)
class Covariances:
    """Covariances of areas on each component, to which `entity_sums` adds geounit by geounit.

    values: (components, areas, areas); or (components, areas), of each area with itself alone.
    """

    values: FloatArray

    @classmethod
    def empty(cls, components: int, areas: int, *, between: bool) -> Covariances:
        """Return 0 everywhere; between: whether covariances between different areas are kept."""
        return cls(np.zeros((components, areas, areas) if between else (components, areas)))

    def add(self, left: FloatArray, right: FloatArray, area: IntArray, geounit: IntArray) -> None:
        """Add left right' of the areas that meet in a geounit: (pairs, components, types), (pairs,) and (pairs,)."""
        if self.values.ndim == 2:
            for component, products in enumerate((left * right).sum(axis=2).T):
                self.values[component] += np.bincount(area, products, self.values.shape[1])
            return
        pairs, components, types = left.shape
        if not pairs:
            return
        rows = np.repeat(area, types)
        columns = (geounit[:, None] * types + np.arange(types)).ravel()
        shape = (self.values.shape[1], int(columns.max()) + 1)
        for component in range(components):
            one, other = (
                sp.csr_array((part[:, component].ravel(), (rows, columns)), shape=shape) for part in (left, right)
            )
            self.values[component] += (one @ other.T).toarray()

    def of(self, columns: Columns, first: str, other: str) -> FloatArray:
        """Return the (areas, areas) or (areas,) covariances of two columns that sum over all types."""
        one, two = (columns.names.index(name) for name in (first, other))
        if not (columns.types[[one, two]] == 1).all():
            raise ValueError(f"{first} and {other}: covariances are of columns that sum over all types")
        shared = (columns.parts[:, one] * columns.parts[:, two]).sum(axis=1)
        found: FloatArray = np.tensordot(shared, self.values, axes=1)
        return found
