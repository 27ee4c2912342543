"""`das runs discard`: give a run up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import StateDirectory
from flows.reports.terminal import Json, show
from tasks.lifecycle.errors import Refused


def discard(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    state: StateDirectory = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="The ledger's file.", show_default="the run's own")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give up a run: destroy its secret and its confidential directory. Its charge stays.

    **Example:** `das runs discard 20261120-221501-a3f9-us`
    """
    from flows.execution.settings import run_directory, state_home
    from flows.execution.systems import load_settings
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
        settings = load_settings(run)
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
