"""Print tables of text: on the terminal, as CSV, or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from flows.reports.terminal import PlainConsole, out, printable, show
from tasks.pages.text_table import TextTable, as_csv


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print a table.")]


def report(data: Any, tables: Iterable[TextTable], form: Format, *, as_json: bool) -> None:
    """Print `data` as JSON, or the tables in a form. CSV leaves titles and notes out."""
    if as_json:
        show(data, str, as_json=True)
        return
    for table in map(_printable, tables):
        if form is Format.csv:
            typer.echo(as_csv(table.columns, table.rows), nl=False)
        else:
            _terminal(table)


def _printable(table: TextTable) -> TextTable:
    """Return a table none of whose texts steers a terminal or adds a line."""
    title, columns, notes, *rows = (
        [printable(" ".join(str(text).split("\n"))) for text in texts]
        for texts in ([table.title], table.columns, table.notes, *table.rows)
    )
    return TextTable(title[0], columns, rows, notes, table.words)


def _terminal(table: TextTable) -> None:
    grid = Table(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    needed = 0
    for number, column in enumerate(table.columns):
        words = [*column.split(), *(row[number] for row in table.rows)]  # headings fold between words, cells do not
        widest = max(map(len, words), default=0)
        grid.add_column(column, justify="left" if number < table.words else "right", overflow="fold", width=widest)
        needed += widest + 2
    for row in table.rows:
        grid.add_row(*row)
    # A pipe has no width: there a table takes what it needs. On a narrow terminal numbers still stay whole.
    console = PlainConsole(width=max(needed, out.width if out.is_terminal else 1000))
    console.print(grid)
    for note in table.notes:
        console.print(note)
    console.print()
