"""What a release publishes of measured cells: tables of rows, each a sum of cells, for every key of a domain.

A query measures some cells for each key (a region, a population group, a geounit), with an independent draw of one law
in each. A row of a published table sums some of these cells, so its noise is the sum of that many draws, and its margin
of error follows from the law. Rows that sum the same cells are the same count, wherever they stand: what one table
repeats of another, and what adds up to what, follows from the cells alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privacy.noise.exact import Exact
from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error
from privacy.tables.histogram import IntArray

MARGIN_ALPHA = Fraction(1, 20)  # of published margins of error: 95%


@dataclass(frozen=True)
class Row:
    """A row that a table has for each of its keys.

    code: its value in the table's column of rows, "" in a table of one row without such a column. words: what it
    counts. cells: the places, in the answer of the table's query, of the measured cells that it sums.
    """

    code: str
    words: str
    cells: tuple[int, ...]


@dataclass(frozen=True)
class Published:
    """A published table: for each key its rows, all of the cells of one query.

    name, title: of its files and on pages. measured: the name of the measured table whose cells it sums; tables of the
    same cells share it. unit: what is counted, in the plural. column: the column of the rows' codes, "" for one row.
    """

    name: str
    title: str
    measured: str
    unit: str
    column: str
    rows: tuple[Row, ...]

    @property
    def codes(self) -> dict[str, str]:
        """Return the words of each row by its code, in the table's order."""
        return {row.code: row.words for row in self.rows}

    @cached_property
    def draws(self) -> IntArray:
        """Return (rows,) the number of cells, so of draws, that each row sums."""
        return np.array([len(row.cells) for row in self.rows], np.int64)

    def counts(self, answer: IntArray) -> IntArray:
        """Return (..., rows) sums of an answer (..., cells)."""
        return np.stack([answer[..., list(row.cells)].sum(axis=-1) for row in self.rows], axis=-1)

    def margins(self, law: Law, alpha: Exact = MARGIN_ALPHA) -> IntArray:
        """Return (rows,) margins of error of cells with noise of a law (`margin_of_error`)."""
        of_draws = {number: margin_of_error(law, number, alpha) for number in set(self.draws.tolist())}
        return np.array([of_draws[number] for number in self.draws.tolist()], np.int64)

    def variances(self, variance: float) -> NDArray[np.float64]:
        """Return (rows,) variances, given that of one draw."""
        return variance * self.draws.astype(np.float64)


class Sum(NamedTuple):
    """A relation of published counts: a row of a table is the sum of rows, each of a table, for the same key."""

    table: str
    code: str
    parts: tuple[tuple[str, str], ...]


def sums(tables: Sequence[Published]) -> Iterator[Sum]:
    """Yield each row of these tables that is a sum of other rows, or repeats one, of the same measured cells.

    The parts are the finest rows that part its cells. A row whose cells no such rows part is not in a relation.
    """
    for measured in dict.fromkeys(table.measured for table in tables):
        first: dict[frozenset[int], tuple[str, str]] = {}
        rows = [(table.name, row) for table in tables if table.measured == measured for row in table.rows]
        for name, row in rows:
            first.setdefault(frozenset(row.cells), (name, row.code))
        finest = [cells for cells in first if not any(other < cells for other in first)]
        for name, row in rows:
            cells = frozenset(row.cells)
            inside = [part for part in finest if part <= cells]
            parts = tuple(first[part] for part in inside)
            is_parted = sum(map(len, inside)) == len(cells) == len(frozenset().union(*inside))
            if is_parted and parts != ((name, row.code),):
                yield Sum(name, row.code, parts)
