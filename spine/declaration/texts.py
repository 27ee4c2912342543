"""Columns of texts as numbers: few bytes a row, however long the texts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spine.geography import IntArray, Integers

Text = npt.NDArray[np.str_]
Rows = slice | IntArray


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts.

    distinct: (values,) the texts that occur, ascending. number: (rows,) which of them each row has, in a narrow type.
    """

    distinct: Text
    number: Integers

    @classmethod
    def of(cls, texts: Sequence[str] | Texts) -> Texts:
        """Return a column as numbers."""
        if isinstance(texts, Texts):
            return texts
        return cls.numbered(*np.unique(np.array(texts, np.str_), return_inverse=True))

    @classmethod
    def of_numbers(cls, numbers: IntArray) -> Texts:
        """Return whole numbers as texts."""
        distinct, number = np.unique(numbers, return_inverse=True)
        return cls.numbered(distinct.astype(np.str_), number)

    @classmethod
    def numbered(cls, texts: Text, number: Integers) -> Texts:
        """Return a column from distinct texts in any order, all of which occur, and the number of each row's."""
        order = np.argsort(texts, kind="stable")
        rank = np.empty(len(order), np.min_scalar_type(len(order)))
        rank[order] = np.arange(len(order))
        return cls(texts[order], rank[number])

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, row: int) -> str:
        return str(self.distinct[self.number[row]])

    def at(self, rows: Rows) -> Texts:
        """Return the column of some rows; `distinct` may then have others' texts as well."""
        return replace(self, number=self.number[rows])

    def texts(self) -> Text:
        """Return the text of each row."""
        found: Text = self.distinct[self.number]
        return found

    def find(self, texts: Sequence[str]) -> IntArray:
        """Return the number of each text, -1 for one that does not occur."""
        if not len(self.distinct):
            return np.full(len(texts), -1)
        place = np.minimum(np.searchsorted(self.distinct, np.array(texts, np.str_)), len(self.distinct) - 1)
        there = zip(place.tolist(), self.distinct[place].tolist(), texts, strict=True)
        return np.array([at if own == text else -1 for at, own, text in there], np.int64)

    def same(self, other: Texts) -> bool:
        """Return whether both have the same texts in the same order."""
        return np.array_equal(self.distinct, other.distinct) and np.array_equal(self.number, other.number)


@dataclass(frozen=True, eq=False)
class RowIndex:
    """Finds rows by the texts of several columns.

    widths: by column, its distinct texts. pairs: for each column but the first, ascending, the pairs that occur of what
    the columns before it have and its own text. row: of each distinct combination the first row, or what is kept of it.
    """

    widths: tuple[int, ...]
    pairs: tuple[IntArray, ...]
    row: Integers

    @classmethod
    def of(cls, columns: Sequence[Texts]) -> tuple[RowIndex, IntArray]:
        """Return the index of a table, and the (rows,) number of each row's combination."""
        number, pairs = columns[0].number.astype(np.int64), []
        for own in columns[1:]:
            found, number = np.unique(number * len(own.distinct) + own.number, return_inverse=True)
            pairs.append(found)
        combinations, first = np.unique(number, return_index=True)
        assert len(combinations) == (len(pairs[-1]) if pairs else len(columns[0].distinct))
        return cls(tuple(len(own.distinct) for own in columns), tuple(pairs), first), number

    def of_rows(self, kept: Integers) -> RowIndex:
        """Return the index of what is kept of each row."""
        return replace(self, row=kept[self.row])

    def find(self, numbers: Sequence[IntArray]) -> IntArray:
        """Return what is kept of the row of each combination; -1 for one that does not occur.

        numbers: by column (n,) numbers among its distinct texts, -1 for others.
        """
        found, *others = numbers
        for width, pairs, own in zip(self.widths[1:], self.pairs, others, strict=True):
            asked = np.where((found < 0) | (own < 0), -1, found.astype(np.int64) * width + own)
            asked, place = np.unique(asked, return_inverse=True)  # only those that occur are looked up
            at = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
            found = np.where(pairs[at] == asked, at, -1)[place]
        return np.where(found < 0, -1, self.row.astype(np.int64)[found])
