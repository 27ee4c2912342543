"""What a release publishes of measured cells: tables of rows, each a sum of cells, for every key of a domain.

A query measures some cells for each key (a region, a population group, a geounit), with an independent draw of one law
in each. A row of a published table sums some of these cells, so its noise is the sum of that many draws, and its margin
of error follows from the law. Rows that sum the same cells are the same count, wherever they stand: from the counts of
single cells follow all others of the same measured table.
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

MARGIN_ALPHA = Fraction(1, 20)  # of published margins of error: 95%


@dataclass(frozen=True)
class Row:
    """A row that a table has for each of its keys.

    codes: its values in the table's columns of rows. words: what it counts. cells: the places, in the answer of the
    table's query, of the measured cells that it sums.
    """

    codes: tuple[str, ...]
    words: str
    cells: tuple[int, ...]


@dataclass(frozen=True)
class Published:
    """A published table: for each key its rows, all of the cells of one query.

    name, title: of its files and on pages. measured: the query, or the table of queries, that measured its cells. unit:
    what is counted, in the plural. columns: those of the rows' codes; a table whose only row
    is a total has none. by: the characteristic that its rows distinguish, in words, if they distinguish one.
    """

    name: str
    title: str
    measured: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    by: str = ""

    @cached_property
    def draws(self) -> IntArray:
        """Return (rows,) the number of cells, so of draws, that each row sums."""
        return np.array([len(row.cells) for row in self.rows], np.int64)

    @cached_property
    def overlaps(self) -> bool:
        """Return whether two rows sum the same cell, so that the rows may not be added up."""
        return max(Counter(cell for row in self.rows for cell in row.cells).values()) > 1

    @cached_property
    def single(self) -> tuple[int, ...]:
        """Return the row of each cell by itself; empty where some cell has no row of its own."""
        rows = {row.cells[0]: at for at, row in enumerate(self.rows) if len(row.cells) == 1}
        cells = {cell for row in self.rows for cell in row.cells}
        return tuple(rows[cell] for cell in sorted(cells)) if cells == rows.keys() else ()

    def counts(self, answer: IntArray) -> IntArray:
        """Return (..., rows) sums of an answer (..., cells)."""
        return np.stack([answer[..., list(row.cells)].sum(axis=-1) for row in self.rows], axis=-1)

    def margins(self, law: Law, alpha: Exact = MARGIN_ALPHA) -> IntArray:
        """Return (rows,) margins of error of cells with noise of a law (`margin_of_error`)."""
        of_draws = {number: margin_of_error(law, number, alpha) for number in set(self.draws.tolist())}
        return np.array([of_draws[number] for number in self.draws.tolist()], np.int64)
