"""Sums of cells that are tabulated (columns): of each an estimate and its variance.

A column is a sum over some types of living quarters and a product of sets on the other axes, tau (x) g.
On each component (`grid`) a variance is one matrix between types, so the column's variance is the sum over the
components of |g's part in it|^2 tau' V tau, and no matrix between cells is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spine.counts import Count, mask
from spine.geography import FloatArray
from spine.gls.grid import grid, signed
from spine.top_down.histogram import Product


@dataclass(frozen=True)
class Columns:
    """Sums of cells.

    types: (K, types) the tau of each; parts: (components, K, signs x races) the part of each g in every component, in
    the sums and differences of `grid`.
    """

    names: tuple[str, ...]
    types: FloatArray
    parts: FloatArray

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, x: FloatArray) -> FloatArray:
        """Return the (n, K) columns of x, (n, types, signs, races)."""
        found = np.empty((len(x), len(self)))
        flat, cells = x.reshape(len(x), x.shape[1], self.parts.shape[2]), self.parts.sum(axis=0)
        kinds, kind = np.unique(self.types, axis=0, return_inverse=True)
        for number, tau in enumerate(kinds):  # most columns count all types
            here = np.flatnonzero(kind.ravel() == number)
            found[:, here] = np.einsum("ntc,t->nc", flat, tau) @ cells[here].T
        return found

    def variances(self, variance: FloatArray) -> FloatArray:
        """Return the (n, K) variances of the columns; variance: of the cells, (n, components, types, types)."""
        norms = (self.parts**2).sum(axis=2)
        weight = np.einsum("rk,kt,ku->rtuk", norms, self.types, self.types).reshape(-1, len(self))
        found: FloatArray = variance.reshape(len(variance), len(weight)) @ weight
        return np.maximum(found, 0.0)


def columns(product: Product, counts: Sequence[Count]) -> Columns:
    """Return these counts of a product as columns."""
    names = tuple(count.name for count in counts)
    if product.cells == 2:  # the one unknown is the number of occupied units: the total is declared
        return Columns(names, np.ones((len(names), 1)), np.ones((1, len(names), 1)))
    sizes = grid(product)
    _, signs, races = sizes.shape
    types = np.array([mask(product.axes[:1], count.where) for count in counts], float)
    parts = np.zeros((sizes.components, len(names), signs, races))
    for k, count in enumerate(counts):
        shape = signed(mask(product.axes[1:], count.where).astype(float).reshape(signs, races))
        mean = shape.mean(axis=1, keepdims=True)
        for sign in range(signs):
            parts[2 * sign, k, sign] = mean[sign]
            parts[2 * sign + 1, k, sign] = shape[sign] - mean[sign]
    return Columns(names, types, parts.reshape(sizes.components, len(names), -1))
