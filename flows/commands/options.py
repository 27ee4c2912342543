"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from flows.reports.terminal import given_state
from tasks.lifecycle.errors import Refused


def folder(path: Path | None) -> Path | None:
    """Refuse a URL where a folder is asked for, as an argument's callback: it would name a folder `s3:` here."""
    if path is not None and re.fullmatch(r"[A-Za-z][\w+.-]*:", next(iter(path.parts), "")):
        raise Refused(f"{path} is a URL; a release goes to a folder, on this machine or on a file system it mounts")
    return path


def _memory_limit(limit: str) -> str:
    """Refuse a limit that could not be kept, before a run is made."""
    if limit != "auto":
        from flows.execution.cluster import check_memory_limit

        check_memory_limit(limit)
    return limit


Params = Annotated[str, typer.Argument(help="Parameters directory (path or URL): config.json, four iteration files.")]
Data = Annotated[str, typer.Argument(help="Data directory (path or URL): person records and GRF-C.txt.")]
Out = Annotated[Path, typer.Argument(help="Where the release goes, as OUT/us and OUT/pr.")]
State = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the confidential run directories.",
        show_default="$XDG_STATE_HOME/das-flows",
        callback=given_state,
    ),
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="The ledger's file.", show_default="STATE/ledger.sqlite")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Worker processes on this machine.", show_default="cores")
]
MemoryLimit = Annotated[str, typer.Option(help="Memory of all processes together, as 6GiB.", callback=_memory_limit)]
Scheduler = Annotated[str | None, typer.Option(help="Use the Dask scheduler at this address instead.")]
TlsCa = Annotated[str | None, typer.Option(help="Certificate authority of the scheduler (PEM).")]
TlsCert = Annotated[str | None, typer.Option(help="Our certificate (PEM).")]
TlsKey = Annotated[str | None, typer.Option(help="Our key (PEM).")]
