"""`das runs`: the confidential directories of runs that have not ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from flows.commands.options import State
from flows.reports.terminal import Json, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from flows.execution.bottom_up_settings import BottomUpSettings
    from flows.execution.settings import RunSettings
    from tasks.lifecycle.run_directory import RunDirectory

app = typer.Typer(no_args_is_help=True, help="List and discard the confidential directories of runs.")


@app.command(name="list")
def list_runs(state: State = None, as_json: Json = False) -> None:
    """List the confidential directories that runs, validations and truths left.

    **Example:** `das runs list`
    """
    from flows.execution.settings import state_home
    from flows.reports.curator import run_directories

    told = []
    for run in run_directories(state or state_home()):
        kind, settings = _kind(run)
        told.append({"run": run.id, "kind": kind, "path": run.path, "out": settings.out if settings else None})
    show(told, lambda: _table(told), as_json=as_json)


def _kind(run: RunDirectory) -> tuple[str | None, RunSettings | BottomUpSettings | None]:
    """The flow that resumes a run, and its settings; neither for a validation or a truth."""
    from flows.execution.bottom_up_settings import BottomUpSettings
    from flows.execution.settings import RunSettings

    if settings := RunSettings.load(run):
        return "detailed-dhca", settings
    if bottom_up := BottomUpSettings.load(run):
        return "bottom-up", bottom_up
    return None, None


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


@app.command()
def discard(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    state: State = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="The ledger's file.", show_default="the run's own")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give a run up: destroy its secret and its confidential directory. What it was charged stays charged.

    **Example:** `das runs discard 20261120-221501-a3f9-us`
    """
    from flows.execution.settings import run_directory, state_home
    from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable
    from tasks.lifecycle.authorization import SECRET, is_truth
    from tasks.lifecycle.commit import end_run, is_released
    from tasks.lifecycle.errors import Failed
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.staging import clear_staging
    from tasks.lifecycle.truth import end_truth

    home = state or state_home()
    run = run_directory(home, run_id)
    if not run.path.is_dir():
        raise Refused(f"run {run_id} has no confidential directory in {home / 'runs'}")
    with locked(run):
        _, settings = _kind(run)
        if settings and is_released(run, Path(settings.out), settings.folder):
            raise Refused(f"run {run_id} is released already; resuming it ends it")
        book = Ledger(ledger or Path(settings.ledger if settings else home / "ledger.sqlite"))
        try:
            charged = book.row(run_id) is not None
            book.abandon(run_id)
        except LedgerUnusable as error:
            raise Failed(f"{error}; run {run_id} is left as it is") from None
        except LedgerError as error:  # no ledger: nothing was ever charged
            if settings and settings.account and (run / SECRET).exists():
                raise Failed(f"{error}; run {run_id} is left as it is") from None
            charged = False
        if settings:
            clear_staging(run, Path(settings.out), settings.folder)
        if is_truth(run):
            end_truth(run)
        end_run(run)
    kept = "; its charge stays" if charged else ""
    show({"run": run_id, "charged": charged}, lambda: f"run {run_id} is discarded{kept}", as_json=as_json)
