"""A table of text: a page shows it by the macro of `text_table.html`, `das` in the terminal, as Markdown or as CSV."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
        """Return the table whose columns are format strings by heading, each filled in by the values of every row."""
        return cls(
            title, [*columns], [[text.format_map(row) for text in columns.values()] for row in rows], words=words
        )

    def without_empty(self, names: Collection[str]) -> TextTable:
        """Return the table without those of the named columns that hold nothing."""
        columns = enumerate(self.columns)
        kept = [at for at, name in columns if name not in names or any(row[at] for row in self.rows)]
        rows = [[row[at] for at in kept] for row in self.rows]
        return TextTable(self.title, [self.columns[at] for at in kept], rows, self.notes, self.words)
