"""Tabulated sums of cells (columns), each with an estimate and its variance; and covariances between areas.

A column is a sum over some types of living quarters and a product of sets on the other axes, tau (x) g.
On each component (`grid`) a variance is one matrix between types, so the column's variance is the sum over the
components of |g's part in it|^2 tau' V tau, and no matrix between cells is ever made.

`entity_sums` supplies covariances for every two areas that meet in a geounit: given its count x, those of the areas i
and j within it have errors of covariance
    sum over its children of w_i V w_j'  -  (sum of w_i V) B (sum of w_j V)'
in addition to their covariance given the children's own counts. So the terms of all geounits add up; whole states add
w_i Var(x) w_j'. Here w = 1'W for a component, which is enough for columns that sum over all types of living quarters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privacy.tables.histogram import Count, mask
from spine.geography import FloatArray, IntArray
from spine.gls.grid import Grid, Signs, grid_of, in_cells
from spine.split import joint, padded
from spine.top_down.histogram import Product


@dataclass(frozen=True)
class Columns:
    """Sums of cells.

    types: (K, types) the tau of each. parts: (components, K, signs x races) the part of each g in every component, in
    the sums and contrasts of `grid`. signs: None for housing units.
    """

    names: tuple[str, ...]
    types: FloatArray
    parts: FloatArray
    signs: Signs | None = None

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, x: FloatArray) -> FloatArray:
        """Return the (n, K) columns of x, (n, types, signs, races)."""
        found = np.empty((len(x), len(self)))
        flat = x.reshape(len(x), x.shape[1], self.parts.shape[2])
        for tau, columns, cells in self._by_types:
            found[:, columns] = np.einsum("ntc,t->nc", flat, tau) @ cells
        return found

    @cached_property
    def _by_types(self) -> list[tuple[FloatArray, IntArray, FloatArray]]:
        """Each distinct tau with its columns and their (signs x races, columns) parts: most columns have all types."""
        cells = self.parts.sum(axis=0)
        kinds, kind = np.unique(self.types, axis=0, return_inverse=True)
        columns = [np.flatnonzero(kind.ravel() == number) for number in range(len(kinds))]
        return [(tau, own, cells[own].T) for tau, own in zip(kinds, columns, strict=True)]

    def variances(self, variance: FloatArray) -> FloatArray:
        """Return the (n, K) variances of the columns; variance: by cell, (n, components, types, types)."""
        found: FloatArray = variance.reshape(len(variance), len(self._squares)) @ self._squares
        return np.maximum(found, 0.0)

    @cached_property
    def _squares(self) -> FloatArray:
        """The (components x types x types, K) weights of the variances by cell."""
        norms = (self.parts**2).sum(axis=2)
        weights: FloatArray = np.einsum("rk,kt,ku->rtuk", norms, self.types, self.types).reshape(-1, len(self))
        return weights


def columns(product: Product, counts: Sequence[Count]) -> Columns:
    """Return counts of a product as columns."""
    names = tuple(count.name for count in counts)
    if product.cells == 2:  # the one unknown is the number of occupied units: the total is declared
        return Columns(names, np.ones((len(names), 1)), np.ones((1, len(names), 1)))
    sizes = grid_of(product)
    _, signs, races = sizes.shape
    basis = in_cells(np.eye(signs), sizes.signs)
    types = np.array([mask(product.axes[:1], count.where) for count in counts], float)
    parts = np.zeros((sizes.components, len(names), signs, races))
    for k, count in enumerate(counts):
        shape = basis.T @ mask(product.axes[1:], count.where).astype(float).reshape(signs, races)
        mean = shape.mean(axis=1, keepdims=True)
        for sign in range(signs):
            parts[2 * sign, k, sign] = mean[sign]
            parts[2 * sign + 1, k, sign] = shape[sign] - mean[sign]
    return Columns(names, types, parts.reshape(sizes.components, len(names), -1), sizes.signs)


def query_errors(sizes: Grid, query: str, variance: FloatArray) -> FloatArray:
    """Return the (geounits, coordinates) standard errors of the sums that a query group asks for.

    variance: by cell, (geounits, components, slots x types, slots x types). Sums that split every axis in the same way
    have the same error.
    """
    product, asked = sizes.product, sizes.product.asked(query)
    cell = np.unique(product.partition(query)[0], return_index=True)[1]  # one cell of each sum
    races, rows = sizes.shape[2], np.zeros(len(cell), np.int64)
    if sizes.last is None or sizes.last in asked:
        last = [np.full((1, 1, 1), 1 / races), np.full((1, 1, 1), 1 - 1 / races)]
    else:
        last = [np.full((1, 1, 1), float(races)), np.zeros((1, 1, 1))]
    tables = []
    for name, own in sizes.splits.items():
        found = own.sums(asked.get(name))
        flat = np.concatenate([table.reshape(len(table), -1) for table in found], axis=1)
        _, example, kind = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        tables.append([table[example] for table in found])
        part = own.partitions[own.number(asked.get(name))]
        rows = rows * len(example) + kind.ravel()[part[product.coordinates[name][cell]]]
    of_type = product.partition(query)[0][sizes.cells[:, 0, 0]]
    alike, type_ = np.unique(np.equal.outer(of_type, of_type), axis=0, return_inverse=True)
    weight = np.einsum("kcab,gt,gu->gkcatbu", padded(joint([*tables, last])), alike, alike)
    spread = variance.reshape(len(variance), -1) @ weight.reshape(len(alike) * weight.shape[1], -1).T
    at = type_.ravel()[sizes.place[cell] // sizes.by_type] * weight.shape[1] + rows
    errors: FloatArray = np.sqrt(np.maximum(spread, 0.0))[:, at]
    return errors


@dataclass(frozen=True)
class Covariances:
    """Covariances of areas on each component, to which `entity_sums` adds geounit by geounit.

    values: (components, areas, areas); or (components, areas) for the variance of each area alone.
    """

    values: FloatArray

    @classmethod
    def empty(cls, components: int, areas: int, *, between: bool) -> Covariances:
        """Return zeros; between: whether to keep covariances between different areas."""
        return cls(np.zeros((components, areas, areas) if between else (components, areas)))

    def add(self, left: FloatArray, right: FloatArray, area: IntArray, geounit: IntArray) -> None:
        """Add left right' of the areas that meet in a geounit: (pairs, components, types), (pairs,) and (pairs,)."""
        if self.values.ndim == 2:
            for component, products in enumerate((left * right).sum(axis=2).T):
                self.values[component] += np.bincount(area, products, self.values.shape[1])
            return
        from scipy.sparse import csr_array

        pairs, components, types = left.shape
        if not pairs:
            return
        rows = np.repeat(area, types)
        columns = (geounit[:, None] * types + np.arange(types)).ravel()
        shape = (self.values.shape[1], int(columns.max()) + 1)
        for component in range(components):
            one, other = (
                csr_array((part[:, component].ravel(), (rows, columns)), shape=shape) for part in (left, right)
            )
            self.values[component] += (one @ other.T).toarray()

    def of(self, columns: Columns, first: str, other: str) -> FloatArray:
        """Return the (areas, areas) or (areas,) covariances of two columns that sum over all types."""
        one, two = (columns.names.index(name) for name in (first, other))
        if not (columns.types[[one, two]] == 1).all():
            raise ValueError(f"{first} and {other}: covariances are of columns that sum over all types")
        shared = (columns.parts[:, one] * columns.parts[:, two]).sum(axis=1)
        return np.tensordot(shared, self.values, axes=1)
