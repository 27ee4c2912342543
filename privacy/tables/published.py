"""The published form of measured cells: tables whose rows sum cells, for every key of a domain.

A query measures cells for each key (a region, a population group, a geounit), each with an independent draw of one law.
A row of a published table sums some of these cells, so its noise is the sum of as many draws, and its margin of error
follows from the law. Rows that sum the same cells are the same count, in whatever table: the counts of single cells
determine all others of the same measured table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from privacy.noise.exact import Exact
from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error
from privacy.tables.histogram import IntArray

MARGIN_ALPHA = Fraction(1, 20)  # published margins of error are at 95%


@dataclass(frozen=True)
class PublishedRow:
    """A row that a table has for each of its keys.

    codes: its values in the table's columns of rows. words: what it counts. cells: the positions of the measured cells
    that it sums, in the answer of the table's query.
    """

    codes: tuple[str, ...]
    words: str
    cells: tuple[int, ...]


@dataclass(frozen=True)
class Published:
    """A published table: its rows for each key, all of which sum cells of one query.

    name, title: in file names and on pages. measured: the name of the measured table whose cells it sums; tables of the
    same cells share it. unit: what is counted, in the plural. columns: those of the rows' codes; empty for a table
    whose only row is a total. by: the characteristic that its rows distinguish, in words, or empty.
    """

    name: str
    title: str
    measured: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    by: str = ""

    @cached_property
    def draws(self) -> IntArray:
        """Return the (rows,) numbers of cells, hence of draws, that each row sums."""
        return np.array([len(row.cells) for row in self.rows], np.int64)

    @cached_property
    def overlaps(self) -> bool:
        """Return whether two rows sum the same cell, so that the rows may not be added up."""
        return max(Counter(cell for row in self.rows for cell in row.cells).values()) > 1

    @cached_property
    def single(self) -> tuple[int, ...]:
        """Return the rows that each publish one cell, in the cells' order; empty if a cell has no row of its own."""
        rows = {row.cells[0]: at for at, row in enumerate(self.rows) if len(row.cells) == 1}
        cells = {cell for row in self.rows for cell in row.cells}
        return tuple(rows[cell] for cell in sorted(cells)) if cells == rows.keys() else ()

    def counts(self, answer: IntArray) -> IntArray:
        """Return (..., rows) counts: the rows' sums of an answer (..., cells)."""
        return np.stack([answer[..., list(row.cells)].sum(axis=-1) for row in self.rows], axis=-1)

    def margins(self, law: Law, alpha: Exact = MARGIN_ALPHA) -> IntArray:
        """Return (rows,) margins of error of cells with noise of a law (`margin_of_error`)."""
        return margins_of(law, self.draws, alpha)


def margins_of(law: Law, draws: IntArray, alpha: Exact = MARGIN_ALPHA) -> IntArray:
    """Return the margins of error of sums of this many draws of a law; 0 without a draw."""
    distinct, place = np.unique(draws, return_inverse=True)
    margins = [margin_of_error(law, number, alpha) if number else 0 for number in distinct.tolist()]
    return np.array(margins, np.int64)[place]
