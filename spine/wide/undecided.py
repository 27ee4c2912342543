"""A parent's cells with what is known of its children, and the transportation problems that are left to decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.wide.plan import Numbers
from spine.wide.transport import Problems

AT_ONCE = 1 << 22  # entries whose places are made at once: of a nation's states there are a hundred million


class Rows(NamedTuple):
    """A parent's cells in one pass, and what is known of its children.

    number: (n,) coordinates, ascending. counts: (n,), None at a root. kept: (n,) the known sum of each. kind: (n,) its
    part. sums: (sums, children) by `kept`. open: (children, parts). scale: (children,).
    """

    number: IntArray
    counts: IntArray | None
    kept: IntArray
    kind: IntArray
    sums: Numbers
    open: BoolArray
    scale: FloatArray


class Entries(NamedTuple):
    """Open entries of the problems, (n,) each: their numbers, rows and children."""

    entry: IntArray
    row: IntArray
    child: IntArray


@dataclass(frozen=True, eq=False)
class Undecided:
    """The entries that answers decide.

    rows: which of the cells. problems: a is 1 where a child may have records of a row, until there is a metric.
    """

    rows: IntArray
    problems: Problems

    def __len__(self) -> int:
        return len(self.problems.a)

    def children_at_once(self, children: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of children (first, last + 1) that have about AT_ONCE entries each: one, if that has more."""
        each = max(1, AT_ONCE * children // len(self))
        for first in range(0, children, each):
            yield first, min(first + each, children)

    def open_entries(self, children: int) -> Iterator[Entries]:
        """Yield the open entries, those of some children at once, each in the order of their numbers."""
        for ends in self.children_at_once(children):
            yield Entries(*open_entries(self.problems, *ends))


def undecided(own: Rows, whole: Numbers) -> Undecided:
    """Return the undecided entries, and write the others into `whole`, (n, children).

    A known sum with one cell of the parent, or with one child, leaves nothing to decide.
    """
    kept, begin, rows = np.unique(own.kept, return_index=True, return_counts=True)  # rows are sorted by it
    sums = own.sums[kept]
    columns = (sums > 0).sum(axis=1)
    alone = rows == 1
    whole[begin[alone]] = sums[alone]
    single = ~alone & (columns == 1) & (own.counts is not None)
    if own.counts is not None:
        group = np.repeat(np.arange(len(kept)), rows)
        of_one = np.flatnonzero(single[group])
        whole[of_one, sums.argmax(axis=1)[group[of_one]]] = own.counts[of_one]
    left = np.flatnonzero(~alone & ~single & (columns > 0))
    first_row = np.append(0, np.cumsum(rows[left]))
    chosen = np.repeat(begin[left] - first_row[:-1], rows[left]) + np.arange(first_row[-1])
    at, child = map(np.ascontiguousarray, np.nonzero(sums[left] > 0))  # one type for kernels, whatever makes it
    first_column = np.searchsorted(at, np.arange(len(left) + 1))
    first = np.append(0, np.cumsum(rows[left] * columns[left]))
    counts = np.zeros(0) if own.counts is None else own.counts[chosen].astype(float)
    known = sums[left][at, child].astype(float)
    problems = Problems(first_row, first_column, first, child, counts, known, np.ones(first[-1]))
    close(problems, own.open, own.kind[chosen])
    return Undecided(chosen, problems)


@compiled
def close(problems: Problems, open_: BoolArray, kind: IntArray) -> None:
    """Write 0 into a where a child may have no record of a row's part."""
    at = 0
    for g in range(len(problems.first) - 1):
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            for c in child:
                if not open_[c, kind[i]]:
                    problems.a[at] = 0.0
                at += 1


@compiled
def open_entries(problems: Problems, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the open entries of the children first ... last - 1, as `Entries`."""
    found, places = 0, np.empty((3, 0), np.int64)
    for fill in (False, True):  # they are counted first
        if fill:
            places = np.empty((3, found), np.int64)
        found, at = 0, 0
        for g in range(len(problems.first) - 1):
            child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
            for i in range(problems.first_row[g], problems.first_row[g + 1]):
                for c in child:
                    if problems.a[at] > 0.0 and first <= c < last:
                        if fill:
                            places[0, found], places[1, found], places[2, found] = at, i, c
                        found += 1
                    at += 1
    return places[0], places[1], places[2]


@compiled
def put(problems: Problems, rows: IntArray, numbers: Numbers, whole: Numbers) -> None:
    """Write numbers of the entries into `whole`, (n, children). rows: of `Undecided`."""
    at = 0
    for g in range(len(problems.first) - 1):
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            for c in child:
                whole[rows[i], c] = numbers[at]
                at += 1
