"""What every `das` command does with its terminal: the two consoles, `--json`, and errors as one line."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from tasks.lifecycle.errors import Failed, Refused

WIDE = 200  # columns where the output is not a terminal, so that a finding is one line of a file or a pipe
out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def show(data: Any, render: Callable[[], RenderableType], *, as_json: bool) -> None:
    """Print `data` as one JSON document, or what `render` makes of it for a person."""
    if as_json:
        typer.echo(json.dumps(data, indent=2, default=_plain))
    else:
        out.print(render())


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction | Path):
        return str(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn the errors by which a library function rejects its arguments (ValueError unless told) into a refusal."""
    rejections = errors or (ValueError,)
    try:
        yield
    except rejections as error:
        raise Refused(str(error)) from error


_state: Path | None = None


def given_state(state: Path | None) -> Path | None:
    """Remember the command's --state, as an option's callback: what goes wrong from now on is kept there."""
    global _state
    _state = state
    return state


def unforeseen(error: Exception) -> Failed:
    """Keep the traceback of an error that nobody foresaw where only the curator reads: it may hold a person's value."""
    import traceback
    from tempfile import mkstemp

    from flows.execution.settings import state_home

    if isinstance(error, OSError) and error.errno:  # what the system says, and of which path
        return Failed(f"{error.filename or 'the system says'}: {os.strerror(error.errno)}")
    folder = (_state or state_home()) / "errors"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, path = mkstemp(".txt", f"{datetime.now():%Y%m%d-%H%M%S}-", folder)  # its owner's alone
        with open(handle, "w") as copy:
            copy.write("".join(traceback.format_exception(error)))
    except OSError:
        return Failed(f"an unforeseen {type(error).__name__}, of which no copy could be kept in {folder}")
    return Failed(f"an unforeseen {type(error).__name__}; the curator's copy of it is {path}")


@contextmanager
def interruptible(message: str, tidy: Callable[[], None] | None = None) -> Iterator[None]:
    """Leave at once with exit code 3 at Ctrl-C or a plain kill; `message` says how to go on, `tidy` removes files.

    A run may be killed at any moment, while tidying up would talk to workers and servers that the same Ctrl-C ended.
    """

    def leave(_number: int, _frame: object) -> None:
        import psutil

        err.print(f"\n[bold red]stopped:[/] {escape(message)}", soft_wrap=True)
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        if tidy:
            tidy()
        os._exit(3)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, leave) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
