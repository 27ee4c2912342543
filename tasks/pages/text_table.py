"""A table of text, for pages (macro in `text_table.html`), the terminal, Markdown and CSV."""

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
        """Return a table from format strings by heading, filled in with the values of each row."""
        return cls(
            title, [*columns], [[text.format_map(row) for text in columns.values()] for row in rows], words=words
        )

    def without_empty(self, names: Collection[str]) -> TextTable:
        """Return the table without those of the named columns that are empty."""
        columns = enumerate(self.columns)
        kept = [at for at, name in columns if name not in names or any(row[at] for row in self.rows)]
        rows = [[row[at] for at in kept] for row in self.rows]
        return TextTable(self.title, [self.columns[at] for at in kept], rows, self.notes, self.words)
