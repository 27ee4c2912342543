"""`das runs list`: the confidential directories of runs that have not ended."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from flows.commands.options import StateDirectory
from flows.reports.terminal import Json, show


def list_runs(state: StateDirectory = None, as_json: Json = False) -> None:
    """List the confidential directories that runs, validations and truths left.

    **Example:** `das runs list`
    """
    from flows.execution.settings import state_home
    from flows.execution.systems import load_settings
    from flows.reports.curator import run_directories

    told = []
    for run in run_directories(state or state_home()):
        settings = load_settings(run)
        kind, place = (settings.SYSTEM, settings.out) if settings else (None, None)
        told.append({"run": run.id, "kind": kind, "path": run.path, "out": place})
    show(told, lambda: _table(told), as_json=as_json)


def _table(told: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table

    if not told:
        return "no run has left a confidential directory"
    table = Table(
        "run", "kind", "resumes into", "directory", title="Confidential run directories", title_justify="left"
    )
    for row in told:
        table.add_row(row["run"], row["kind"] or "", row["out"] or "", str(row["path"]))
    return table
