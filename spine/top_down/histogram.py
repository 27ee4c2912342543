"""Histograms of a product: sparse counts of geounits, summed up the spine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from privacy.tables.histogram import TOTAL, Count, Histogram, sums
from spine.geography import IntArray
from spine.hierarchy import Spine, changes


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(Histogram):
    """The histogram of a product, with the named counts of its cells and the queries that bound them.

    counts: with names. tables: by published table, the counts of its cells. bounded: the queries whose coordinates
    together partition the cells by declared part (`bounds.Bounds`); by default one part.
    """

    name: str
    counts: tuple[Count, ...]
    tables: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    bounded: str | tuple[str, ...] = TOTAL

    @cached_property
    def types(self) -> IntArray:
        """The (cells,) declared part of every cell: its type of living quarters."""
        if isinstance(self.bounded, str):
            return self.partition(self.bounded)[0]
        together = np.stack([self.partition(name)[0] for name in self.bounded])
        return np.unique(together, axis=1, return_inverse=True)[1].reshape(-1)

    @property
    def estimated(self) -> tuple[Count, ...]:
        """The counts that are not declared."""
        return tuple(count for count in self.counts if not count.declared)

    def count(self, name: str) -> Count:
        """Return the count with this name."""
        return next(count for count in self.counts if count.name == name)

    def cells_like(self, count: Count) -> list[str]:
        """Return the names of the table cells that count the same."""
        return [cell.name for table in self.tables.values() for cell in table if cell.where == count.where]


H = TypeVar("H", bound="Histograms")


@dataclass(frozen=True)
class Histograms:
    """The nonzero cells of the geounits first, first + 1, ... of one level, in spine order.

    level: index into the spine's levels. starts: (geounits + 1,) start of each geounit's entries. cell, count:
    (entries,) the ascending cells of each geounit and their positive counts.
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
        """The number after the last geounit."""
        return self.first + len(self)

    def of(self, geounit: int) -> tuple[IntArray, IntArray]:
        """Return the cells and counts of one geounit, given its number on the level."""
        start, end = self.starts[geounit - self.first], self.starts[geounit - self.first + 1]
        return self.cell[start:end], self.count[start:end]

    @property
    def row(self) -> IntArray:
        """The (entries,) geounit of every entry, counted from `first`."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def only(self: H, first: int, last: int | None = None) -> H:
        """Return the geounits first, ..., last - 1 (one, without last), given their numbers on the level."""
        start, end = first - self.first, (first + 1 if last is None else last) - self.first
        entries = slice(self.starts[start], self.starts[end])
        starts = self.starts[start : end + 1] - self.starts[start]
        return type(self)(self.level, first, starts, self.cell[entries], self.count[entries])

    def totals(self) -> IntArray:
        """Return the (geounits,) sums of the histograms."""
        return np.bincount(self.row, self.count, minlength=len(self)).astype(np.int64)

    def sums(self, counted: IntArray) -> IntArray:
        """Return the (geounits, counts) sums of cells. counted: as `Product.matrix`."""
        return sums(self.row, self.cell, self.count, len(self), counted)

    def dense(self, cells: int) -> IntArray:
        """Return the (geounits, cells) counts."""
        counts = np.zeros((len(self), cells), np.int64)
        counts[self.row, self.cell] = self.count
        return counts


@dataclass(frozen=True)
class TrueHistograms(Histograms):
    """Confidential: exact counts of records. Only measuring may read them; estimation accepts `Estimates` instead."""


@dataclass(frozen=True)
class Estimates(Histograms):
    """Counts estimated from noisy answers and declared invariants."""


def from_entries(made: type[H], level: int, first: int, row: IntArray, cell: IntArray, count: IntArray, n: int) -> H:
    """Make histograms of n geounits from (row, cell, count) entries in any order; entries of one cell are summed."""
    order = np.lexsort((cell, row))
    row, cell, count = row[order], cell[order], count[order]
    begins = np.flatnonzero(changes(row, cell)) if len(row) else np.zeros(0, np.int64)
    count = np.add.reduceat(count, begins) if len(row) else count
    keep = count != 0
    row, cell, count = row[begins][keep], cell[begins][keep], count[keep]
    return made(level, first, np.searchsorted(row, np.arange(n + 1)), cell, count)


def joined(parts: list[H]) -> H:
    """Join consecutive ranges of geounits of one level."""
    offsets = np.cumsum([0, *(len(part.cell) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    cell, count = np.concatenate([p.cell for p in parts]), np.concatenate([p.count for p in parts])
    return type(parts[0])(parts[0].level, parts[0].first, np.append(np.concatenate(starts), len(cell)), cell, count)


def summed_above(children: H, spine: Spine) -> H:
    """Sum the histograms of neighbouring geounits, all the children of some parents, to the level above."""
    level, own = children.level - 1, spine.starts[children.level][children.first : children.last]
    parents = np.searchsorted(spine.starts[level], own, side="right") - 1
    first = int(parents[0])
    if first == parents[-1]:  # it may have millions of cells: they are not sorted
        sums = np.bincount(children.cell, children.count).astype(np.int64)
        cell = np.flatnonzero(sums)
        return type(children)(level, first, np.array([0, len(cell)]), cell, sums[cell])
    row, n = (parents - first)[children.row], int(parents[-1]) - first + 1
    return from_entries(type(children), level, first, row, children.cell, children.count, n)


def summed(blocks: H, spine: Spine) -> tuple[H, ...]:
    """Sum the histograms of all blocks, in spine order, to every level of the spine, top first."""
    levels = [blocks]
    while levels[0].level:
        levels.insert(0, summed_above(levels[0], spine))
    return tuple(levels)
