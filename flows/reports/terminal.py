"""The terminal of every `das` command: its two consoles, `--json`, tables, refusals, interruption."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tasks.errors import Refused
from tasks.releases.pages.text_table import TextTable

WIDE = 200  # columns where the output is a file or a pipe, so that a finding is one line


def printable(text: str) -> str:
    """Return a text with `?` for each character that could steer a terminal or reorder a line, except line ends.

    Names, manifests and messages are untrusted; everything that `das` prints for a reader passes through here.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" or unicodedata.category(one) == "Zs" else "?" for one in text
    )


class PlainConsole(Console):
    """A console on which text is never markup, an emoji's name or a control sequence, wherever it comes from."""

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a string for measuring and printing."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does; its own control sequences are separate from the text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)


out = PlainConsole(width=None if sys.stdout.isatty() else WIDE)
err = PlainConsole(width=None if sys.stderr.isatty() else WIDE, stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


_as_json = False


@contextmanager
def printing(*, as_json: bool) -> Iterator[None]:
    """Within this block, `show` and `report` print JSON if a command was given --json."""
    global _as_json
    before, _as_json = _as_json, as_json
    try:
        yield
    finally:
        _as_json = before


def is_json() -> bool:
    """Return whether the command was given --json."""
    return _as_json


def show(data: Any, render: Callable[[], RenderableType]) -> None:
    """Print `data` as one JSON document, or `render()` for a reader."""
    if is_json():
        typer.echo(json.dumps(data, indent=2, default=_plain).replace("\x7f", "\\u007f"))  # json escapes all others
    else:
        out.print(render())


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that an option names, text as UTF-8, and report it. Raises Refused if it cannot be written."""
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None
    err.print(f"wrote {path}")


def labelled(label: str, message: str, style: str = "bold red") -> Text:
    """Return one line with a highlighted label; several lines could look like several messages."""
    return Text.assemble((label, style), " ", " ".join(message.splitlines()))


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction | Path):
        return str(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


class Format(StrEnum):
    """The layout of a printed table."""

    table = "table"
    csv = "csv"


FormatOption = Annotated[
    Format, typer.Option("--format", help="How to print a table; in CSV, an empty line separates tables.")
]


def report(data: Any, tables: Iterable[TextTable], form: Format = Format.table, above: str = "") -> None:
    """Print `data` as JSON, or the tables in a form. CSV omits titles and notes; an empty line separates tables.

    above: a text that only the form `table` has, above the tables.
    """
    if is_json():
        return show(data, str)
    if above and form is Format.table:
        out.print(above, end="\n\n")
    for number, table in enumerate(map(_printable, tables)):
        if form is Format.csv:
            typer.echo("\n" * bool(number), nl=False)
            typer.echo(table.as_csv().encode(), nl=False)  # UTF-8, like the files of a release
        else:
            _terminal(table)


def _printable(table: TextTable) -> TextTable:
    """Return a table whose texts cannot steer a terminal or add a line."""
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
    # A pipe has no width, so a table gets the width that it needs. On a narrow terminal numbers still stay whole.
    console = PlainConsole(width=max(needed, out.width if out.is_terminal else 1000))
    console.print(grid)
    for note in table.notes:
        console.print(note)
    console.print()


@contextmanager
def counting(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, unless `quiet`; yield the function that sets (done, total)."""
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


LOOK_SECONDS = 1
_leave: list[Callable[[int, Any], None]] = []  # handlers of the interruptible commands, the innermost last


@contextmanager
def interruptible(message: str, tidy: Callable[[], None] | None = None) -> Iterator[None]:
    """Exit at once with code 3 at Ctrl-C or SIGTERM, after `message` (how to resume) and `tidy` (removes files).

    A run may be killed at any moment. An orderly end would wait for workers and servers that the same Ctrl-C stopped.
    """

    def leave(_number: int, _frame: object) -> None:
        import psutil

        err.print()
        err.print(labelled("stopped:", message), soft_wrap=True)
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        if tidy:
            tidy()
        remove_leftovers()
        os._exit(3)

    # A signal that arrives just before the main thread waits for a lock is handled only after the wait, or when another
    # signal interrupts it: the alarm, which has no other purpose.
    handlers = {signal.SIGINT: leave, signal.SIGTERM: leave, signal.SIGALRM: lambda _number, _frame: None}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    alarm = signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    _leave.append(leave)
    try:
        yield
    finally:
        _leave.pop()
        signal.setitimer(signal.ITIMER_REAL, *alarm)
        for number, handler in before.items():
            signal.signal(number, handler)


def stay_interruptible() -> None:
    """Reinstall our SIGTERM handler, which Prefect replaces when a flow starts; call it in the flow.

    With Prefect's handler, the process would wait for every running stage, and a run that is being committed would end
    as released but be reported as interrupted.
    """
    if _leave and threading.current_thread() is threading.main_thread():  # only the main thread handles signals
        signal.signal(signal.SIGTERM, _leave[-1])


_removers: list[Callable[[], None]] = []


def removed_when_stopped(remove: Callable[[], None]) -> None:
    """Register a function for `remove_leftovers`; otherwise an exit handler calls it."""
    _removers.append(remove)


def remove_leftovers() -> None:
    """Remove temporary files in a process that is about to exit at once."""
    for remove in _removers:
        with suppress(OSError):
            remove()
