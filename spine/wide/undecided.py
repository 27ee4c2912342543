"""A parent's cells with what is known of its children, and the transportation problems that are left to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.wide.transport import Problems


class Rows(NamedTuple):
    """A parent's cells in one pass, and what is known of its children.

    number: (n,) coordinates, ascending. counts: (n,), None at a root. kept: (n,) the known sum of each. kind: (n,) its
    part. sums: (sums, children) by `kept`. open: (children, parts). scale: (children,).
    """

    number: IntArray
    counts: IntArray | None
    kept: IntArray
    kind: IntArray
    sums: IntArray
    open: BoolArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class Undecided:
    """The entries that answers decide; child and row have one item each.

    rows: which of the cells. problems: without a metric.
    """

    rows: IntArray
    problems: Problems
    child: IntArray
    row: IntArray
    open: BoolArray


def undecided(own: Rows, whole: IntArray) -> Undecided:
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
    of_row = np.repeat(np.arange(len(left)), rows[left])
    first_row = np.append(0, np.cumsum(rows[left]))
    chosen = np.repeat(begin[left] - first_row[:-1], rows[left]) + np.arange(first_row[-1])
    at, child = np.nonzero(sums[left] > 0)
    first_column = np.searchsorted(at, np.arange(len(left) + 1))
    first = np.append(0, np.cumsum(rows[left] * columns[left]))
    wide = columns[left][of_row]
    row = np.repeat(np.arange(len(chosen)), wide)
    begins = np.cumsum(wide) - wide
    of_entry = child[first_column[of_row][row] + np.arange(first[-1]) - begins[row]]
    counts = np.zeros(0) if own.counts is None else own.counts[chosen].astype(float)
    known = sums[left][at, child].astype(float)
    problems = Problems(first_row, first_column, first, child, counts, known, np.zeros(first[-1]))
    return Undecided(chosen, problems, of_entry, row, own.open[of_entry, own.kind[chosen][row]])
