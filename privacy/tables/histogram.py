"""The histogram of a table: its axes, groups of their coordinates, and the cells that no record can be in.

A histogram's cells are numbered in C order of its axes. A count is a condition: the coordinates of each axis that it
counts. Arrays, the words of pages and the names in tables follow from axes and conditions; no code elsewhere depends on
the number of a cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Condition = Mapping[str, Collection[int]]  # by axis, the coordinates that are counted; all for an axis without an entry

DETAILED, TOTAL = "detailed", "total"  # query groups that every histogram has


@dataclass(frozen=True)
class Axis:
    """An axis of a histogram.

    name: its name in queries. words: what it is. labels: the words of each coordinate. column, codes: the column of
    records that the axis is read from, and the code of each coordinate in it.
    """

    name: str
    words: str
    labels: tuple[str, ...]
    column: str
    codes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.codes:
            raise ValueError(f"the axis {self.name} has no codes: declare them; they are never taken from the data")
        if len(set(self.codes)) < len(self.codes):
            raise ValueError(f"the axis {self.name} has a code twice")

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def coordinates(self) -> dict[str, int]:
        """Return the coordinate of each code."""
        return {code: coordinate for coordinate, code in enumerate(self.codes)}


@dataclass(frozen=True)
class Recode:
    """Groups of an axis's coordinates, which a query may ask for in place of the axis.

    part: the group of each coordinate, numbered from 0; every coordinate is in one. labels: the words of each group.
    words: what the groups are.
    """

    name: str
    axis: str
    part: tuple[int, ...]
    labels: tuple[str, ...] = ()
    words: str = ""

    def __len__(self) -> int:
        return max(self.part) + 1


@dataclass(frozen=True)
class Count:
    """A sum of cells.

    name: its name in files. words: its words on pages. where: the condition on cells. declared: whether it is known
    without noise.
    """

    name: str
    words: str
    where: Mapping[str, frozenset[int]] = field(default_factory=dict)
    declared: bool = False

    @property
    def quantity(self) -> str:
        """Return the quantity that it belongs to in reports of errors: `race` of `race: Asian`."""
        return self.name.partition(":")[0]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of cells by some axes and recodes, numbered in row-major order of their codes.

    names: the axes and recodes. codes: their codes, in the same order. parts: for each, its axis and the index of its
        code for every coordinate of that axis.
    """

    names: tuple[str, ...]
    codes: tuple[tuple[str, ...], ...]
    parts: tuple[tuple[str, IntArray], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of codes of each name."""
        return tuple(map(len, self.codes))

    def of(self, at: Mapping[str, IntArray]) -> IntArray:
        """Return the groups of cells, given their coordinates by axis; 0 without names."""
        group = np.zeros((), np.int64)
        for size, (axis, part) in zip(self.shape, self.parts, strict=True):
            group = group * size + part[at[axis]]
        return group

    def number(self, codes: Sequence[str]) -> int:
        """Return the number of the group with these codes. Raises ValueError for an unknown code."""
        number = 0
        for name, known, code in zip(self.names, self.codes, codes, strict=True):
            if code not in known:
                raise ValueError(f"{name} has no value {code!r}")
            number = number * len(known) + known.index(code)
        return number

    def places(self, groups: IntArray) -> dict[str, IntArray]:
        """Return by name the place of these groups among its codes: the inverse of `number`."""
        return dict(zip(self.names, np.unravel_index(groups, self.shape), strict=True)) if self.names else {}

    def label(self, number: int) -> dict[str, str]:
        """Return the codes of a group, by name."""
        places = self.places(np.array(number)).values()
        return {name: codes[place] for name, codes, place in zip(self.names, self.codes, places, strict=True)}


@dataclass(frozen=True, eq=False)
class Histogram:
    """The full cross of some axes, with the recodes that queries may ask for and the structural zeros.

    Every cell of the cross exists, empty or not, so the list of cells reveals nothing about records. zeros: conditions
    that no record can meet; their cells hold no record and get no noise.
    """

    axes: tuple[Axis, ...]
    recodes: tuple[Recode, ...] = ()
    zeros: tuple[Mapping[str, frozenset[int]], ...] = ()

    def __post_init__(self) -> None:
        if not self.axes or len(set(self.names)) < len(self.axes):
            names = ", ".join(self.names) or "none"
            raise ValueError(f"a histogram needs at least one axis, and each once, not {names}")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the axes."""
        return tuple(map(len, self.axes))

    @property
    def cells(self) -> int:
        """Return the number of cells, structural zeros included."""
        return prod(self.shape)

    def axis(self, name: str) -> Axis:
        """Return an axis by its name. Raises ValueError for an unknown name."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise ValueError(f"there is no axis {name!r}: choose from {', '.join(self.names)}")

    def cell(self, coordinates: Sequence[IntArray]) -> IntArray:
        """Return the cells of records from their coordinates on each axis."""
        return np.asarray(np.ravel_multi_index(tuple(coordinates), self.shape), np.int64)

    def coordinates_of(self, cells: IntArray) -> dict[str, IntArray]:
        """Return the coordinate of these cells on each axis, by axis name: the inverse of `cell`."""
        at = np.unravel_index(cells, self.shape)
        return {name: np.asarray(own, np.int64) for name, own in zip(self.names, at, strict=True)}

    @cached_property
    def coordinates(self) -> dict[str, IntArray]:
        """Return the (cells,) coordinate of every cell on each axis."""
        return self.coordinates_of(np.arange(self.cells))

    def are_possible(self, cells: IntArray) -> BoolArray:
        """Return a mask of these cells that is False at structural zeros."""
        possible = np.ones(len(cells), np.bool_)
        at = self.coordinates_of(cells) if self.zeros else {}
        for where in self.zeros:
            met = [_chosen(self.axis(name), chosen)[at[name]] for name, chosen in where.items()]
            possible &= ~reduce(np.logical_and, met, np.ones(len(cells), np.bool_))
        return possible

    @cached_property
    def possible(self) -> BoolArray:
        """Return a (cells,) mask that is False at structural zeros."""
        possible = np.ones(self.shape, np.bool_)
        for where in self.zeros:
            met = np.ones([1] * len(self.axes), np.bool_)
            for name, chosen in where.items():
                met = met & self._along(name, _chosen(self.axis(name), chosen))
            possible &= ~met
        return possible.reshape(-1)

    def _along(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of an axis as an array of `shape`, with one coordinate on every other axis, for broadcasting.

        So what depends on few axes is computed for their coordinates, not for each cell.
        """
        return values.reshape([-1 if each == name else 1 for each in self.names])

    @cached_property
    def named(self) -> dict[str, Axis | Recode]:
        """Return the axes and the recodes by their names."""
        return {axis.name: axis for axis in self.axes} | {recode.name: recode for recode in self.recodes}

    def groups(self, names: Iterable[str]) -> Groups:
        """Return the groups of cells by these axes and recodes, in this order. Raises ValueError for any other name."""
        names, codes, parts = tuple(names), [], []
        for name in names:
            if name not in self.named:
                raise ValueError(f"there is no axis, level or recode {name!r}: choose from {', '.join(self.named)}")
            each = self.named[name]
            if isinstance(each, Recode):
                codes.append(each.labels or tuple(map(str, range(len(each)))))
                parts.append((each.axis, np.array(each.part, np.int64)))
            else:
                codes.append(each.codes)
                parts.append((name, np.arange(len(each))))
        return Groups(names, tuple(codes), tuple(parts))

    def marginal(self, counts: IntArray, names: Sequence[str]) -> IntArray:
        """Sum (cells,) counts by axes and recodes, in the order of `groups`; without names: the total.

        Sums get no noise of their own, so marginals agree with each other and cost no further budget.
        """
        groups = self.groups(names)
        axes = {axis for axis, _ in groups.parts}
        summed = tuple(at for at, name in enumerate(self.names) if name not in axes)
        marginal = np.asarray(counts.reshape(self.shape).sum(axis=summed, dtype=np.int64))
        kept = [name for name in self.names if name in axes]
        if kept == [*names]:
            return marginal.reshape(-1)
        sums = np.zeros(prod(groups.shape), np.int64)
        at = np.indices(marginal.shape, np.int64, sparse=True)
        np.add.at(sums, groups.of(dict(zip(kept, at, strict=True))), marginal)
        return sums

    def asked(self, query: str) -> dict[str, str]:
        """Return the axes that a query keeps, each with the name that it is asked by: its own or a recode's.

        query: `total`, `detailed`, or axes and recodes joined by *, each axis at most once. Raises ValueError for an
        unknown axis.
        """
        axes = {name: name for name in self.names}
        known = axes | {recode.name: recode.axis for recode in self.recodes}
        names = [] if query == TOTAL else [*axes] if query == DETAILED else [each.strip() for each in query.split("*")]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"query group {query} asks {unknown[0]}: the axes are {', '.join(known)}")
        asked = {known[name]: name for name in names}
        if len(asked) < len(names):
            raise ValueError(f"query group {query} asks an axis twice")
        return asked

    def partition(self, query: str) -> tuple[IntArray, int]:
        """Return the (cells,) coordinate of a query that counts each cell, and the number of coordinates.

        Coordinates are in C order of the histogram's axes. query: as for `asked`.
        """
        groups = self._groups_of(query)
        group = groups.of({axis.name: self._along(axis.name, np.arange(len(axis))) for axis in self.axes})
        return np.broadcast_to(group, self.shape).flatten(), prod(groups.shape)

    def width(self, query: str) -> int:
        """Return the number of coordinates of a query, without its cells. query: as for `asked`."""
        return prod(self._groups_of(query).shape)

    def _groups_of(self, query: str) -> Groups:
        asked = self.asked(query)
        return self.groups(asked[name] for name in self.names if name in asked)

    def refines(self, fine: str, coarse: str) -> bool:
        """Return whether every part of one query lies in one part of another, which holds if it holds on each axis."""
        ours, recodes = self.asked(fine), {recode.name: recode.part for recode in self.recodes}
        for axis, asked in self.asked(coarse).items():
            if ours.get(axis) in (axis, asked):
                continue
            theirs = recodes.get(asked, range(len(self.axis(axis))))
            own = recodes[ours[axis]] if axis in ours else (0,) * len(theirs)
            if len({*zip(own, theirs, strict=True)}) > len({*own}):
                return False
        return True

    def matrix(self, counts: Iterable[Count]) -> IntArray:
        """Return a (cells, counts) matrix with 1 for each cell that a count sums."""
        return matrix(self.axes, [count.where for count in counts])


def _chosen(axis: Axis, coordinates: Collection[int]) -> BoolArray:
    """Return a mask (coordinates of the axis,) of these coordinates."""
    return np.isin(np.arange(len(axis)), list(coordinates))


def mask(axes: Sequence[Axis], where: Condition) -> BoolArray:
    """Return a (cells,) mask of the cells that meet a condition."""
    masks = [_chosen(axis, where.get(axis.name, range(len(axis)))) for axis in axes]
    return reduce(np.logical_and.outer, masks).ravel()


def matrix(axes: Sequence[Axis], conditions: Sequence[Condition]) -> IntArray:
    """Return a (cells, conditions) matrix with 1 for each cell that meets a condition."""
    return np.array([mask(axes, where) for where in conditions], np.int64).T


def sums(row: IntArray, cell: IntArray, count: IntArray, rows: int, counted: IntArray) -> IntArray:
    """Return the (rows, conditions) sums of a sparse table of entries (row, cell, count); counted: from `matrix`."""
    from scipy.sparse import csr_array  # slow to import

    table = csr_array((count.astype(np.int64), (row, cell)), (rows, len(counted)))
    return (table @ csr_array(counted)).toarray()


def cell_table(axes: Sequence[Axis]) -> dict[str, list[Any]]:
    """Return a table of the cells by column: `cell`, then for each axis the column and codes of records."""
    at = np.indices([len(axis) for axis in axes]).reshape(len(axes), -1)
    codes = {axis.column: np.array(axis.codes)[own].tolist() for axis, own in zip(axes, at, strict=True)}
    return {"cell": list(range(at.shape[1])), **codes}
