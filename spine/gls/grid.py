"""The cells of a product, arranged for least squares over the tree: types of living quarters, signs, races.

The types are the cells of the axes by which counts are declared (`Product.bounded`). A geounit may have no records of
some types, so a precision is a matrix between types. Every other axis is split into components (`split`), and so is
their product: on each component, the precision is one matrix between its slots and the types, slot by slot, and 0
outside the slots that it has. For redistricting the types are those of hhgq, and 8 components, "mean" or "residual" of
votingage (2), hispanic (2), cenrace (63), have a slot each: component 4 a + 2 b + c is residual on the axes for which
a, b, c are 1.

Arrays over cells are (..., types, signs, races). The last axis is the longest one without a recode in a query (with one
cell if every axis has one); its mean and residual, 2 p and 2 p + 1, are computed as needed. The signs are orthonormal
sums and contrasts on all other axes. Estimates of geounits, and the sums of siblings from which they follow, are arrays
over these; for housing units, with one unknown per geounit, (geounits, 1, 1, 1). No kernel is compiled here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product as each
from math import prod
from typing import NamedTuple

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.split import Split, Tables, joint, padded, split
from spine.top_down.histogram import Product
from spine.top_down.plan import Plan

MOST_ROWS = 32  # rows of a matrix between slots and types
MOST_SIGNS = 4096  # signs: every two are compared


class Signs(NamedTuple):
    """The signs in the form that kernels take.

    Nodes are lists of signs that a transform replaces by their sum, in the first, and contrasts: node i has the entries
    of `nodes` from node[i], and its factors are in `factors`; `back` is the order in which they are undone, axis by
    axis as forward. Copies are lists of the signs in the slots of a component: copy i has the entries of `copies` from
    copy[i], and part[i] is its component, divided by 2. slots: (parts,) of each component. cells: (types, signs, races)
    the product's cell.
    """

    nodes: IntArray
    node: IntArray
    factors: FloatArray
    back: IntArray
    copies: IntArray
    copy: IntArray
    part: IntArray
    slots: IntArray
    cells: IntArray


@dataclass(frozen=True, eq=False)
class Grid:
    """The axes of a product in another order: those of the types (closed), the split axes, and the last, if any."""

    product: Product
    closed: tuple[str, ...]
    splits: dict[str, Split]
    last: str | None

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Return (types, signs, races)."""
        size = {axis.name: len(axis) for axis in self.product.axes}
        types, signs = (prod(size[name] for name in names) for names in (self.closed, self.splits))
        return types, signs, size[self.last] if self.last else 1

    @cached_property
    def by_type(self) -> int:
        """Return the number of cells of one type."""
        return self.shape[1] * self.shape[2]

    @cached_property
    def cells(self) -> IntArray:
        """Return the (types, signs, races) cells of the product."""
        names = [axis.name for axis in self.product.axes]
        order = [*self.closed, *self.splits, *([self.last] if self.last else [])]
        cells = np.arange(self.product.cells).reshape(self.product.shape)
        return np.ascontiguousarray(cells.transpose([names.index(name) for name in order])).reshape(self.shape)

    @cached_property
    def place(self) -> IntArray:
        """Return the (cells,) position of each of the product's cells in (types, signs, races)."""
        return np.argsort(self.cells, axis=None)

    def allowed(self, parts: BoolArray) -> BoolArray:
        """Return a (geounits, types) mask of types that may have records; parts: (geounits, parts) as declared."""
        possible = self.product.possible[self.cells].any(axis=(1, 2))
        return np.ascontiguousarray(parts[:, self.product.types[self.cells[:, 0, 0]]] & possible)

    @cached_property
    def signs(self) -> Signs:
        """Return the signs."""
        at = np.arange(self.shape[1]).reshape([len(own.partitions[0]) for own in self.splits.values()])
        pairs = [number for number, own in enumerate(self.splits.values()) if len(own.partitions[0]) == 2]
        nodes: list[tuple[IntArray, FloatArray]] = []
        back: list[int] = []
        for number, own in reversed([*enumerate(self.splits.values())]):
            lines = np.moveaxis(at, number, -1).reshape(-1, at.shape[number])
            first = len(nodes)
            for node in own.nodes:
                order = np.arange(1.0, len(node))
                factors = 1 / np.sqrt(np.concatenate([[len(node)], order * (order + 1)]))
                if number in pairs:  # all axes of two points are scaled at once, with the last one
                    factors = np.full(2, 1 / np.sqrt(2.0 ** len(pairs)) if number == pairs[0] else 1.0)
                nodes += [(line[node], factors) for line in lines]
            back += reversed(range(first, len(nodes)))
        copies, part = [], []
        for number, of_axes in enumerate(each(*(own.copies for own in self.splits.values()))):
            for chosen in each(*of_axes):
                copies.append(at[np.ix_(*chosen)].ravel())
                part.append(number)
        lists, factors_ = [one for one, _ in nodes], [two for _, two in nodes]
        return Signs(
            _joined(lists),
            _starts(lists),
            np.concatenate([np.zeros(0), *factors_]),
            np.array(back, np.int64),
            _joined(copies),
            _starts(copies),
            np.array(part, np.int64),
            np.array([own.shape[1] for own in joint([own.squared(None) for own in self.splits.values()])], np.int64),
            self.cells,
        )

    @cached_property
    def slots(self) -> int:
        """Return the largest number of slots of a component."""
        return int(self.signs.slots.max())

    @property
    def components(self) -> int:
        """Return the number of components."""
        return 2 * len(self.signs.slots)

    @cached_property
    def ones(self) -> FloatArray:
        """Return the (slots x types,) coordinates of the function 1 on component 0, without the last axis."""
        sizes = joint([[own.sizes[own.base][None, :, None]] for own in self.splits.values()])[0]
        return np.repeat(np.sqrt(sizes.ravel()), self.shape[0])

    @cached_property
    def patterns(self) -> tuple[IntArray, FloatArray, BoolArray]:
        """Return the (signs, signs) patterns, their (patterns, components, slots, slots) entries, and the mask apart.

        A pattern of two cells is 2 p, where p is that of their signs, plus 1 if they agree on the last axis. An entry
        is the share of a component in an entry of P between two cells. Two cells are apart if they agree on no axis.
        """
        pattern, races = np.zeros((1, 1), np.int64), self.shape[2]
        found = [own.patterns for own in self.splits.values()]
        for own, _, apart in found:
            pattern = np.add.outer(pattern * len(apart), own).swapaxes(1, 2).reshape(len(pattern) * len(own), -1)
        last: Tables = [np.full((2, 1, 1), 1 / races), np.array([0 - 1 / races, 1 - 1 / races])[:, None, None]]
        none = np.array([True])
        for apart in (*(own for _, _, own in found), np.array([True, False])):
            none = np.logical_and.outer(none, apart).ravel()
        return pattern, padded(joint([*(tables for _, tables, _ in found), last])), none

    def entries(self, precision: FloatArray) -> FloatArray:
        """Return the (..., patterns, types, types) entries of P between two cells, from its components."""
        patterns, slots = self.patterns[1], range(self.slots)
        types = precision.shape[-1] // self.slots
        matrices = precision.reshape(*precision.shape[:-2], self.slots, types, self.slots, types)
        found = [
            (patterns[:, :, a, b, None, None] * matrices[..., None, :, a, :, b, :]).sum(axis=-3)
            for a, b in each(slots, slots)
        ]
        whole: FloatArray = sum(found[1:], start=found[0])
        return whole

    def squared(self, query: str) -> FloatArray:
        """Return the (components, slots x types, slots x types) precision that one query group of weight 1 adds."""
        asked = self.product.asked(query)
        races = self.shape[2]
        kept = self.last is None or self.last in asked
        last = [np.full((1, 1, 1), 1.0 if kept else races), np.full((1, 1, 1), 1.0 if kept else 0.0)]
        tables = padded(joint([*(own.squared(asked.get(name)) for name, own in self.splits.items()), last]))[0]
        of_type = self.product.partition(query)[0][self.cells[:, 0, 0]]
        return np.kron(tables, np.equal.outer(of_type, of_type).astype(float)[None])


def _joined(lists: list[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *lists])


def _starts(lists: list[IntArray]) -> IntArray:
    return np.cumsum([0, *map(len, lists)])


def grid(plan: Plan) -> Grid:
    """Return the grid of a plan. Raises ValueError, with the reason, if its query groups share no small components."""
    return grid_of(plan.product, plan.asked)


def hindrance(plan: Plan) -> str:
    """Return the reason why a plan allows no least squares over the tree; empty if it does."""
    try:
        _ = plan.closed_form or grid(plan)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache
def grid_of(product: Product, asked: frozenset[str] | None = None) -> Grid:
    """Return the grid of a product; asked: the recodes in query groups, by default all. Raises ValueError as `grid`."""
    bounded = (product.bounded,) if isinstance(product.bounded, str) else product.bounded
    closed = {axis for name in bounded for axis in product.asked(name)}
    recodes = {
        axis.name: [own for own in product.recodes if own.axis == axis.name and (asked is None or own.name in asked)]
        for axis in product.axes
        if axis.name not in closed
    }
    plain = [axis for axis in product.axes if recodes.get(axis.name) == []]
    last = max(reversed(plain), key=len).name if plain else None
    splits = {
        axis.name: split(axis, recodes[axis.name])
        for axis in product.axes
        if axis.name in recodes and axis.name != last
    }
    found = Grid(product, tuple(axis.name for axis in product.axes if axis.name in closed), splits, last)
    parts, signs, _ = found.shape
    if signs > MOST_SIGNS:
        raise ValueError(f"the axes have {signs:,} cells without the longest one and those of declared parts")
    if (rows := found.slots * parts) > MOST_ROWS:
        raise ValueError(f"declared parts and recodes of unequal parts need matrices of {rows} rows, over {MOST_ROWS}")
    return found


def in_cells(x: FloatArray, signs: Signs) -> FloatArray:
    """Return the cells, (..., signs, races), from sums and contrasts."""
    x = np.moveaxis(x, -2, 0).copy()
    for number in reversed(range(len(signs.back))):
        rows = slice(signs.node[number], signs.node[number + 1])
        at, factors = signs.nodes[rows], signs.factors[rows]
        total = factors[0] * x[at[0]]
        for k in range(len(at) - 1, 0, -1):
            contrast = factors[k] * x[at[k]]
            x[at[k]] = total - k * contrast
            total += contrast
        x[at[0]] = total
    return np.moveaxis(x, 0, -2)


def to_cells(z: FloatArray, sizes: Grid) -> FloatArray:
    """Return the (geounits, cells) values of the cells; z: (geounits, types, signs, races)."""
    return in_cells(z, sizes.signs).reshape(len(z), -1)[:, sizes.place]


def total_of(z: FloatArray, sizes: Grid) -> FloatArray:
    """Return the (geounits,) sums over the cells; z: (geounits, types, signs, races)."""
    slots = sizes.signs.copies[: sizes.signs.copy[1]]
    weighted = [
        one * z[:, :, sign, :].sum(axis=(1, 2)) for one, sign in zip(sizes.ones[:: z.shape[1]], slots, strict=True)
    ]
    total: FloatArray = sum(weighted[1:], start=weighted[0])
    return total


def total_variance(variance: FloatArray, sizes: Grid) -> FloatArray:
    """Return the (geounits,) variance of the total."""
    spread: FloatArray = sizes.shape[2] * (variance[:, 0] * np.outer(sizes.ones, sizes.ones)).sum(axis=(1, 2))
    return spread


STATES = -1  # the level of whole states, above a forest of their parts


@dataclass(frozen=True)
class Blue:
    """The estimates of the geounits first, first + 1, ... of a level.

    x: (geounits, types, signs, races), see `grid`. variance: (geounits, components, slots x types, slots x types).
    """

    level: int
    first: int
    x: FloatArray
    variance: FloatArray

    def __len__(self) -> int:
        return len(self.x)

    def only(self, first: int, last: int) -> Blue:
        """Return the estimates of the geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Blue(self.level, first, self.x[rows], self.variance[rows])


@dataclass(frozen=True)
class SiblingSums:
    """Estimates of each child alone (z, V), and of each parent's sum of children: b, and B = 1/(sum of V).

    parent: (children,) the number of its parent in the range. is_only_child: (children,).
    """

    parent: IntArray
    is_only_child: BoolArray
    z: FloatArray
    variance: FloatArray
    b: FloatArray
    below: FloatArray


def times(matrix: FloatArray, x: FloatArray, signs: Signs | None) -> FloatArray:
    """Return matrix times x, geounit by geounit; signs: None for housing units."""
    if signs is None:
        return matrix * x
    n, types, _, races = x.shape
    found = np.empty(x.shape)
    for part, slots in enumerate(signs.slots.tolist()):
        chosen = np.flatnonzero(signs.part == part)
        at = signs.copies[signs.copy[chosen, None] + np.arange(slots)]
        own = x[:, :, at].transpose(0, 2, 3, 1, 4).reshape(n, len(chosen), slots * types, races)
        mean, rest = (
            matrix[:, component, None, : slots * types, : slots * types] for component in (2 * part, 2 * part + 1)
        )
        own = rest @ own + (mean - rest) @ own.mean(axis=-1, keepdims=True)
        found[:, :, at] = own.reshape(n, len(chosen), slots, types, races).transpose(0, 3, 1, 2, 4)
    return found
