"""A table of text, for pages (macro in `text_table.html`), the terminal, Markdown and CSV.

The CSV has figures and text, but no formulas that a spreadsheet would run.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMULA = "=+-@\t\r"  # starts of a spreadsheet formula
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FIGURE = re.compile(r"(?:[-+0-9.,%() ]|to)+")  # also an interval: it cannot call a function


@dataclass(frozen=True)
class TextTable:
    """Rows of text under their column names, with notes below. The first `words` columns are words, others figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: int = 1

    @classmethod
    def filled(
        cls, title: str, columns: Mapping[str, str], rows: Iterable[Mapping[Any, Any]], *, words: int = 1
    ) -> TextTable:
        """Return a table from format strings by heading, filled with the values of each row."""
        return cls(
            title, [*columns], [[text.format_map(row) for text in columns.values()] for row in rows], words=words
        )

    def without_empty(self, names: Collection[str]) -> TextTable:
        """Return the table without those of the named columns that are empty."""
        columns = enumerate(self.columns)
        kept = [at for at, name in columns if name not in names or any(row[at] for row in self.rows)]
        rows = [[row[at] for at in kept] for row in self.rows]
        return TextTable(self.title, [self.columns[at] for at in kept], rows, self.notes, self.words)

    def as_csv(self) -> str:
        """Return the text of a CSV file without title and notes; figures have no commas between thousands."""
        rows = ([*row[: self.words], *(_THOUSANDS.sub("", cell) for cell in row[self.words :])] for row in self.rows)
        return as_csv(self.columns, rows)


def as_csv(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as CSV text; None is empty. Text that would be a formula gets an apostrophe.

    Names in a table may come from anyone. Numbers, and texts that are figures, stay as they are.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([inert(cell) for cell in row] for row in (columns, *rows))
    return text.getvalue()


def inert(cell: Any) -> Any:
    """Return a cell as a spreadsheet may have it: a text that would be a formula gets an apostrophe."""
    formula = isinstance(cell, str) and cell[:1] in FORMULA and cell and not _FIGURE.fullmatch(cell)
    return f"'{cell}" if formula else cell
