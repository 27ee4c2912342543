"""Ask before data is marked: runs on marked data charge nothing, and anyone may write out its exact counts."""

from __future__ import annotations

import sys

import typer

from flows.reports.terminal import err


def confirm_mark(data: str, kind: str, command: str, never: str, *, yes: bool) -> None:
    """Ask for confirmation of a mark, unless `yes`; kind: synthetic or published. never: what must not be marked.

    Raises Refused if the answer is no, or without a terminal.
    """
    from tasks.lifecycle.errors import Refused

    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{command} asks before it exempts data from charges; without a terminal, add --yes")
    err.print(
        f"{data}: runs on it charge nothing to any account, and das truth writes out its exact counts. Never mark "
        f"{never}.",
        soft_wrap=True,
    )
    if not typer.confirm(f"Are all these records {kind}?", default=False, err=True):
        raise Refused(f"{data.partition(' will')[0]} is not marked")
