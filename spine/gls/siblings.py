"""Estimates of geounits, and the sums of siblings that they follow from; arrays alone, without kernels.

Of housing units, one unknown a geounit, all arrays are (geounits, 1, 1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.grid import to_cells, total_of, total_variance

STATES = -1  # the level of whole states, above a forest of their parts


@dataclass(frozen=True)
class Blue:
    """The estimates of the geounits first, first + 1, ... of a level.

    x: (geounits, types, signs, races), see `grid`. variance: (geounits, components, types, types).
    """

    level: int
    first: int
    x: FloatArray
    variance: FloatArray

    def __len__(self) -> int:
        return len(self.x)

    def only(self, first: int, last: int) -> Blue:
        """Return those of the geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Blue(self.level, first, self.x[rows], self.variance[rows])

    def cells(self) -> FloatArray:
        """Return the (geounits, cells) estimates of the cells."""
        return to_cells(self.x)

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return the (geounits,) totals and their standard errors: 0 where the total is declared."""
        variance = total_variance(self.variance, self.x.shape[2] * self.x.shape[3])
        return total_of(self.x), np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True)
class SiblingSums:
    """Estimates of each child alone (z, V), and of each parent's sum of children: b, and B = 1/(sum of V).

    parent: (children,) its parent, counted from the first. is_only_child: (children,).
    """

    parent: IntArray
    is_only_child: BoolArray
    z: FloatArray
    variance: FloatArray
    b: FloatArray
    below: FloatArray


def times(matrix: FloatArray, x: FloatArray) -> FloatArray:
    """Return matrix times x, geounit by geounit: (n, components, types, types) and (n, types, signs, races)."""
    if x.shape[1:] == (1, 1, 1):
        return matrix * x
    by_sign = x.swapaxes(1, 2)  # the components of a sign are its mean over races, and the rest
    mean, rest = matrix[:, 0::2], matrix[:, 1::2]
    found: FloatArray = rest @ by_sign + (mean - rest) @ by_sign.mean(axis=-1, keepdims=True)
    return found.swapaxes(1, 2)
