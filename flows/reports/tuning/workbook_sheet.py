"""A worksheet on which every formula carries its value, so that a program which does not recalculate shows it, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlsxwriter.utility import xl_rowcol_to_cell

Value = float | int | str


@dataclass(frozen=True)
class Cell:
    """A place in the workbook, as a formula names it, and its value."""

    name: str
    value: Any

    def __str__(self) -> str:
        return self.name


class Sheet:
    """One worksheet."""

    def __init__(self, book: Any, name: str) -> None:
        self.name = name
        self.sheet = book.add_worksheet(name)
        self.sheet.set_landscape()
        self.sheet.fit_to_pages(1, 0)
        self.title = book.add_format({"bold": True, "font_size": 14})
        self.heading = book.add_format({"bold": True, "text_wrap": True, "valign": "bottom", "bottom": 1})

    def put(self, row: int, column: int, content: Value, value: Value | None = None, form: Any = None) -> Cell:
        """Write a constant or, where a value is given, a formula that has it."""
        if value is None:
            self.sheet.write(row, column, content, form)
        else:
            self.sheet.write_formula(row, column, str(content), form, value)
        return Cell(f"'{self.name}'!{_place(row, column)}", content if value is None else value)

    def cells(self, first: tuple[int, int], last: tuple[int, int]) -> str:
        """Return a range of cells, from and to (row, column), as a formula names it."""
        return f"'{self.name}'!{_place(*first)}:{_place(*last)}"

    def headings(self, row: int, names: Sequence[str]) -> None:
        """Write a row of column names."""
        self.sheet.set_row(row, 45)
        self.sheet.write_row(row, 0, names, self.heading)


def _place(row: int, column: int) -> str:
    return str(xl_rowcol_to_cell(row, column, row_abs=True, col_abs=True))
