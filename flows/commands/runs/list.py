"""`das runs list`: the runs that are there, and those that were charged."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import RenderableType

from flows.commands.options import LedgerFile, StateDirectory
from flows.reports.terminal import Json, show


def list_runs(
    state: StateDirectory = None,
    ledger: LedgerFile = None,
    charged: Annotated[bool, typer.Option("--all", help="Also runs that are over and were charged.")] = False,
    as_json: Json = False,
) -> None:
    """List the runs, validations and truths that left a confidential directory: since when, their state and charge.

    **Example:** `das runs list --all`
    """
    from flows.commands.runs.standing import standings
    from tasks.lifecycle.run_directory import state_home

    home = state or state_home()
    runs = standings(home, ledger or home / "ledger.sqlite")
    facts = [each.as_json() for each in runs if charged or each.directory]
    show(facts, lambda: _table(facts), as_json=as_json)


def _table(facts: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table

    if not facts:
        return "no run has left a confidential directory"
    columns = ("run", "kind", "began", "state", "stage", "charge")
    table = Table(*columns, "resumes into", title="Runs (das runs show ID)", title_justify="left")
    for row in facts:
        table.add_row(*(row[name] or "" for name in columns), row["out"] or "")
    return table
