"""The cells of a product as least squares over the tree splits them: types of living quarters, signs, races.

Every query group treats all types alike on the other axes, or asks types alone. So the precision of a histogram is one
matrix between types on each component: "mean" or "residual" on each of the other axes, 8 for votingage (2), hispanic
(2), cenrace (63). Component 4 a + 2 b + c is residual on votingage, hispanic, cenrace where a, b, c are 1. Arrays over
cells are (..., types, signs, races): orthonormal sums and differences on the axes of two points, then the last axis.

Estimates of geounits, and the sums of siblings that they follow from, are arrays over these; of housing units, one
unknown a geounit, (geounits, 1, 1, 1). No kernel is compiled here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product as each
from math import prod

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.histogram import Product
from spine.workload import groups, kept_axes


@dataclass(frozen=True)
class Grid:
    """The sizes of a product's axes: of types, and of the others; all of these have two points except the last."""

    types: int
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (types, signs, races)."""
        return self.types, prod(self.axes[:-1]), self.axes[-1]

    @property
    def by_type(self) -> int:
        """Return the number of cells of one type."""
        return prod(self.axes)

    @property
    def components(self) -> int:
        """Return the number of components."""
        return int(2 ** len(self.axes))

    @cached_property
    def patterns(self) -> FloatArray:
        """Return the (patterns, components) share of a component in an entry of P between two cells.

        The cells' coordinates on the axes agree as the pattern's bits say (its bits are the components').
        """
        return np.array(
            [
                [
                    prod((e - 1 / n) if r else 1 / n for e, r, n in zip(agree, rest, self.axes, strict=True))
                    for rest in each((0, 1), repeat=len(self.axes))
                ]
                for agree in each((0, 1), repeat=len(self.axes))
            ]
        )

    def entries(self, precision: FloatArray) -> FloatArray:
        """Return the (..., patterns, types, types) entries of P between two cells, from its components."""
        matrices: FloatArray = (self.patterns[:, :, None, None] * precision[..., None, :, :, :]).sum(axis=-3)
        return matrices


@lru_cache
def grid(product: Product) -> Grid:
    """Return the grid of a product with types of living quarters; ValueError where its axes do not split so."""
    first, *others = product.axes
    sizes = tuple(map(len, others))
    if first.name != groups(product)[0] or set(sizes[:-1]) != {2}:
        raise ValueError(f"{product.name}: least squares over the tree takes types, axes of two points, and one more")
    return Grid(len(first), sizes)


def precision_of_queries(product: Product, queries: list[str]) -> FloatArray:
    """Return the (queries, components, types, types) precision that one query group of weight 1 adds."""
    sizes, recode = grid(product), product.recodes[0]
    types, *axes = product.axes
    alike, same = np.equal.outer(recode.part, recode.part).astype(float), np.eye(sizes.types)
    precision = np.zeros((len(queries), sizes.components, sizes.types, sizes.types))
    for at, query in enumerate(queries):
        kept, grouping = kept_axes(product, query)
        between = same if types.name in kept else alike if grouping else np.ones(same.shape)
        for component, residual in enumerate(each((False, True), repeat=len(axes))):
            factor = 1.0
            for axis, rest in zip(axes, residual, strict=True):
                factor *= 1.0 if axis.name in kept else 0.0 if rest else len(axis)
            precision[at, component] = factor * between
    return precision


def signed(x: FloatArray) -> FloatArray:
    """Return (..., signs, races) in orthonormal sums and differences on the axes of two points; its own inverse."""
    signs, races = x.shape[-2:]
    pairs = signs.bit_length() - 1
    grid_ = x.reshape(-1, *(2,) * pairs, races)
    for axis in range(1, 1 + pairs):
        first, other = np.take(grid_, 0, axis), np.take(grid_, 1, axis)
        grid_ = np.stack([first + other, first - other], axis)
    found: FloatArray = grid_.reshape(x.shape) / np.sqrt(signs)
    return found


def to_cells(z: FloatArray) -> FloatArray:
    """Return the (geounits, cells) values of the cells; z: (geounits, types, signs, races)."""
    cells: FloatArray = signed(z).reshape(len(z), -1)
    return cells


def total_of(z: FloatArray) -> FloatArray:
    """Return the (geounits,) sums over the cells; z: (geounits, types, signs, races)."""
    total: FloatArray = np.sqrt(z.shape[2]) * z[:, :, 0, :].sum(axis=(1, 2))
    return total


def total_variance(variance: FloatArray, by_type: int) -> FloatArray:
    """Return the (geounits,) variance of the total; by_type: the number of cells of one type."""
    spread: FloatArray = by_type * variance[:, 0].sum(axis=(1, 2))
    return spread


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
