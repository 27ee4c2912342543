"""Counts as sums of cells of a histogram: a count is a condition, the coordinates that it takes of each axis.

A histogram's cells are numbered in C order of its axes. numpy, the words of pages and the names in tables follow
from axes and conditions; no code elsewhere knows which number a cell has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from spine.geography import BoolArray, IntArray

Condition = Mapping[str, Collection[int]]  # by axis the coordinates that are counted; an axis without an entry: all


@dataclass(frozen=True)
class Axis:
    """An axis of a histogram.

    name: in queries. words: what it is. labels: what each coordinate is. column, codes: the column of records that the
    axis is read from, and the value there of each coordinate.
    """

    name: str
    words: str
    labels: tuple[str, ...]
    column: str
    codes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True)
class Recode:
    """Groups of an axis's coordinates, which a query may ask in its place.

    part: of each coordinate the number of its group, from 0, none left out. labels: what each group is.
    """

    name: str
    axis: str
    part: tuple[int, ...]
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return max(self.part) + 1


@dataclass(frozen=True)
class Count:
    """A sum of cells.

    name: in files. words: on pages. where: the condition on cells. declared: whether it is known without noise.
    """

    name: str
    words: str
    where: Mapping[str, frozenset[int]] = field(default_factory=dict)
    declared: bool = False

    @property
    def quantity(self) -> str:
        """Return the counts that it is one of, as errors are reported: `race` of `race: Asian`."""
        return self.name.partition(":")[0]


def mask(axes: Sequence[Axis], where: Condition) -> BoolArray:
    """Return (cells,) whether a condition holds."""
    held = [np.isin(np.arange(len(axis)), list(where.get(axis.name, range(len(axis))))) for axis in axes]
    return reduce(np.logical_and.outer, held).ravel()


def matrix(axes: Sequence[Axis], conditions: Sequence[Condition]) -> IntArray:
    """Return (cells, conditions) 1 where a condition holds."""
    return np.array([mask(axes, where) for where in conditions], np.int64).T


def sums(row: IntArray, cell: IntArray, count: IntArray, rows: int, counted: IntArray) -> IntArray:
    """Return the (rows, conditions) sums of the entries (row, cell, count) of a sparse table; counted: see `matrix`."""
    from scipy.sparse import csr_array  # slow to import

    table = csr_array((count.astype(np.int64), (row, cell)), (rows, len(counted)))
    return (table @ csr_array(counted)).toarray()


def cell_table(axes: Sequence[Axis]) -> dict[str, list[Any]]:
    """Return a table of the cells by its columns: `cell`, and of each axis the column and codes of records."""
    at = np.indices([len(axis) for axis in axes]).reshape(len(axes), -1)
    codes = {axis.column: np.array(axis.codes)[own].tolist() for axis, own in zip(axes, at, strict=True)}
    return {"cell": list(range(at.shape[1])), **codes}
