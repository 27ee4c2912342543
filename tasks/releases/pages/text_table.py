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
ARROW = " → "
_CHANGE = re.compile(r" \([-+]\d+%\)$")
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
        cls,
        title: str,
        columns: Mapping[str, str],
        rows: Iterable[Mapping[Any, Any]],
        *,
        notes: Sequence[str] = (),
        words: int = 1,
    ) -> TextTable:
        """Return a table from format strings by heading, filled with the values of each row."""
        cells = [[text.format_map(row) for text in columns.values()] for row in rows]
        return cls(title, [*columns], cells, notes, words)

    def without_empty(self, names: Collection[str]) -> TextTable:
        """Return the table without those of the named columns that are empty."""
        columns = enumerate(self.columns)
        kept = [at for at, name in columns if name not in names or any(row[at] for row in self.rows)]
        rows = [[row[at] for at in kept] for row in self.rows]
        return TextTable(self.title, [self.columns[at] for at in kept], rows, self.notes, self.words)

    def as_csv(self) -> str:
        """Return the text of a CSV file without title and notes.

        Figures have no commas between thousands. A column with `first → second` becomes two.
        """
        figures = range(self.words, len(self.columns))
        pairs = {at for at in figures if any(ARROW in row[at] for row in self.rows)}
        columns: list[str] = []
        rows: list[list[str]] = [[] for _ in self.rows]
        for at, name in enumerate(self.columns):
            columns += [f"{name}, first", f"{name}, second"] if at in pairs else [name]
            for row, cells in zip(self.rows, rows, strict=True):
                texts = _both(row[at]) if at in pairs else row[at : at + 1]
                cells += [_THOUSANDS.sub("", text) for text in texts] if at in figures else texts
        return as_csv(columns, rows)


def _both(cell: str) -> tuple[str, str]:
    """Return both figures of `first → second (+5%)`; twice the one of a cell where they are the same."""
    first, arrow, second = cell.partition(ARROW)
    return first, _CHANGE.sub("", second) if arrow else first


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
