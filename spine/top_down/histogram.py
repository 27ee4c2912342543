"""The histograms of a product: axes, cells (C order), and sparse counts of geounits, summed up the spine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np

from spine.counts import Axis, Condition, Count, Recode, mask, matrix, sums
from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine, changes

DETAILED, TOTAL = "detailed", "total"  # query groups that every histogram has


@dataclass(frozen=True, eq=False)
class Product:
    """The schema of a histogram: its axes and their groups, which queries ask, and what is counted of its cells.

    counts: those that have a name. tables: the cells of the published tables, by table. bounded: the queries whose
    coordinates together part the cells by what is declared of a geounit (`bounds.Bounds`); by default one part.
    zeros: structural zeros, the conditions that no record meets.
    """

    name: str
    axes: tuple[Axis, ...]
    counts: tuple[Count, ...]
    tables: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    recodes: tuple[Recode, ...] = ()
    bounded: str | tuple[str, ...] = TOTAL
    zeros: tuple[Condition, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the axes."""
        return tuple(map(len, self.axes))

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return prod(self.shape)

    @cached_property
    def coordinates(self) -> dict[str, IntArray]:
        """Return for each axis the (cells,) coordinate of every cell."""
        at = np.indices(self.shape).reshape(len(self.shape), -1)
        return {axis.name: own for axis, own in zip(self.axes, at, strict=True)}

    def asked(self, query: str) -> dict[str, str]:
        """Return the axes that a query does not sum over, and of each itself or the recode that is asked in its place.

        query: `total`, `detailed`, or axes and recodes joined by *, at most one an axis. ValueError for an axis that is
        not there.
        """
        axes = {axis.name: axis.name for axis in self.axes}
        known = axes | {recode.name: recode.axis for recode in self.recodes}
        names = [] if query == TOTAL else [*axes] if query == DETAILED else [each.strip() for each in query.split("*")]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"query group {query} asks {unknown[0]}: the axes are {', '.join(known)}")
        asked = {known[name]: name for name in names}
        if len(asked) < len(names):
            raise ValueError(f"query group {query} asks an axis twice")
        return asked

    def partition(self, query: str) -> tuple[IntArray, int]:
        """Return the (cells,) coordinate of a query that each cell is counted in, and the number of coordinates.

        Coordinates are in C order of the axes as the histogram has them. query: as for `asked`.
        """
        asked, recodes = self.asked(query), {recode.name: recode for recode in self.recodes}
        coordinate, width = np.zeros(self.cells, np.int64), 1
        for axis in self.axes:
            if axis.name not in asked:
                continue
            value, size = self.coordinates[axis.name], len(axis)
            if (recode := recodes.get(asked[axis.name])) is not None:
                value, size = np.array(recode.part)[value], len(recode)
            coordinate, width = coordinate * size + value, width * size
        return coordinate, width

    def width(self, query: str) -> int:
        """Return the number of coordinates of a query, without its cells. query: as for `asked`."""
        size = {axis.name: len(axis) for axis in self.axes} | {recode.name: len(recode) for recode in self.recodes}
        return prod(size[name] for name in self.asked(query).values())

    def refines(self, fine: str, coarse: str) -> bool:
        """Return whether every part of one query lies in one part of another: so it is if it is so on each axis."""
        ours, recodes = self.asked(fine), {recode.name: recode.part for recode in self.recodes}
        for axis, asked in self.asked(coarse).items():
            if ours.get(axis) in (axis, asked):
                continue
            theirs = recodes.get(asked, range(next(len(own) for own in self.axes if own.name == axis)))
            own = recodes[ours[axis]] if axis in ours else (0,) * len(theirs)
            if len({*zip(own, theirs, strict=True)}) > len({*own}):
                return False
        return True

    @cached_property
    def types(self) -> IntArray:
        """Return the (cells,) part of every cell by what is declared: its type of living quarters."""
        if isinstance(self.bounded, str):
            return self.partition(self.bounded)[0]
        together = np.stack([self.partition(name)[0] for name in self.bounded])
        return np.unique(together, axis=1, return_inverse=True)[1].reshape(-1)

    @cached_property
    def possible(self) -> BoolArray:
        """Return (cells,) whether a cell is not a structural zero."""
        possible = np.ones(self.cells, bool)
        for where in self.zeros:
            possible &= ~mask(self.axes, where)
        return possible

    @property
    def estimated(self) -> tuple[Count, ...]:
        """Return the counts that are not declared."""
        return tuple(count for count in self.counts if not count.declared)

    def matrix(self, counts: Iterable[Count]) -> IntArray:
        """Return (cells, counts) 1 where a cell is counted."""
        return matrix(self.axes, [count.where for count in counts])

    def count(self, name: str) -> Count:
        """Return the count of this name."""
        return next(count for count in self.counts if count.name == name)

    def cells_like(self, count: Count) -> list[str]:
        """Return the names of the cells of tables that count the same."""
        return [cell.name for table in self.tables.values() for cell in table if cell.where == count.where]


H = TypeVar("H", bound="Histograms")


@dataclass(frozen=True)
class Histograms:
    """The nonzero cells of the geounits first, first + 1, ... of one level, in spine order.

    level: index into the spine's levels. starts: (geounits + 1,) where each geounit's entries start. cell, count:
    (entries,) ascending cells of each geounit and their positive counts.
    """

    level: int
    first: int
    starts: IntArray
    cell: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def last(self) -> int:
        """Return the geounit after the last one."""
        return self.first + len(self)

    def of(self, geounit: int) -> tuple[IntArray, IntArray]:
        """Return cells and counts of one geounit, by its number on the level."""
        start, end = self.starts[geounit - self.first], self.starts[geounit - self.first + 1]
        return self.cell[start:end], self.count[start:end]

    @property
    def row(self) -> IntArray:
        """Return the (entries,) geounit of every entry, counted from `first`."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def only(self: H, first: int, last: int | None = None) -> H:
        """Return the geounits first, ..., last - 1 (one, without last), by their numbers on the level."""
        start, end = first - self.first, (first + 1 if last is None else last) - self.first
        entries = slice(self.starts[start], self.starts[end])
        starts = self.starts[start : end + 1] - self.starts[start]
        return type(self)(self.level, first, starts, self.cell[entries], self.count[entries])

    def totals(self) -> IntArray:
        """Return the (geounits,) sums of the histograms."""
        return np.bincount(self.row, self.count, minlength=len(self)).astype(np.int64)

    def sums(self, counted: IntArray) -> IntArray:
        """Return the (geounits, counts) sums of cells; counted: as `Product.matrix`."""
        return sums(self.row, self.cell, self.count, len(self), counted)

    def dense(self, cells: int) -> IntArray:
        """Return (geounits, cells) counts."""
        counts = np.zeros((len(self), cells), np.int64)
        counts[self.row, self.cell] = self.count
        return counts


@dataclass(frozen=True)
class TrueHistograms(Histograms):
    """Confidential: exact counts of records. Only measuring may read them; no function of estimation takes them."""


@dataclass(frozen=True)
class Estimates(Histograms):
    """Counts estimated from noisy answers and declared invariants."""


def from_entries(made: type[H], level: int, first: int, row: IntArray, cell: IntArray, count: IntArray, n: int) -> H:
    """Make histograms of n geounits from (row, cell, count) entries in any order; add the entries of one cell."""
    order = np.lexsort((cell, row))
    row, cell, count = row[order], cell[order], count[order]
    begins = np.flatnonzero(changes(row, cell)) if len(row) else np.zeros(0, np.int64)
    count = np.add.reduceat(count, begins) if len(row) else count
    keep = count != 0
    row, cell, count = row[begins][keep], cell[begins][keep], count[keep]
    return made(level, first, np.searchsorted(row, np.arange(n + 1)), cell, count)


def joined(parts: list[H]) -> H:
    """Join ranges of geounits of one level that follow each other."""
    offsets = np.cumsum([0, *(len(part.cell) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    cell, count = np.concatenate([p.cell for p in parts]), np.concatenate([p.count for p in parts])
    return type(parts[0])(parts[0].level, parts[0].first, np.append(np.concatenate(starts), len(cell)), cell, count)


def summed(blocks: H, spine: Spine) -> tuple[H, ...]:
    """Sum the histograms of all blocks, in spine order, to those of every level of the spine, top first."""
    levels = [blocks]
    for level in range(len(spine.levels) - 2, -1, -1):
        below = levels[0]
        row, n = spine.parents[level + 1][below.row], len(spine.starts[level])
        levels.insert(0, from_entries(type(blocks), level, 0, row, below.cell, below.count, n))
    return tuple(levels)
