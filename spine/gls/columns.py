"""Sums of cells that are tabulated (columns): of each an estimate and its variance.

A column is a sum over some types of living quarters and a product of sets on the other axes, tau (x) g.
On each component (`grid`) a variance is one matrix between types, so the column's variance is the sum over the
components of |g's part in it|^2 tau' V tau, and no matrix between cells is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spine.geography import IntArray
from spine.gls.grid import grid, signed
from spine.top_down.histogram import OCCUPIED, PERSONS
from spine.workload import FloatArray


@dataclass(frozen=True)
class Columns:
    """Sums of cells.

    cells: (cells, K) 1 where a cell is counted. types: (K, types) the tau of each; parts: (components, K, signs x
    races) the part of each g in every component, in the sums and differences of `grid`.
    """

    names: tuple[str, ...]
    cells: IntArray
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


def person_columns(chosen: Sequence[tuple[str, Sequence[int], Sequence[int], Sequence[int], Sequence[int]]]) -> Columns:
    """Return columns of persons from the name, types, voting ages, ethnicities and races of each."""
    sizes, axes = grid(PERSONS), PERSONS.coordinates
    _, signs, races = sizes.shape
    names, types, cells = [], [], []
    parts = np.zeros((sizes.components, len(chosen), signs, races))
    for k, (name, of_type, *others) in enumerate(chosen):
        tau, g = np.zeros(sizes.types), np.zeros(sizes.axes)
        tau[list(of_type)] = 1.0
        g[np.ix_(*(list(values) for values in others))] = 1.0
        names.append(name)
        types.append(tau)
        counted = [np.isin(axes[axis], values) for axis, values in zip(axes, (of_type, *others), strict=True)]
        cells.append(np.logical_and.reduce(counted))
        shape = signed(g.reshape(signs, races))
        mean = shape.mean(axis=1, keepdims=True)
        for sign in range(signs):
            parts[2 * sign, k, sign] = mean[sign]
            parts[2 * sign + 1, k, sign] = shape[sign] - mean[sign]
    flat = parts.reshape(sizes.components, len(names), -1)
    return Columns(tuple(names), np.array(cells, np.int64).T, np.array(types), flat)


def occupied_column(name: str) -> Columns:
    """Return the one column of housing units: those that are occupied."""
    cells = np.zeros((2, 1), np.int64)
    cells[OCCUPIED] = 1
    return Columns((name,), cells, np.ones((1, 1)), np.ones((1, 1, 1)))
