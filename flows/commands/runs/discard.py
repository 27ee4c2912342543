"""`das runs discard`: give a run up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import StateDirectory, regular_ledger
from flows.reports.terminal import Json, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.lifecycle.run_directory import RunDirectory


def discard(
    run_id: Annotated[str | None, typer.Argument(metavar="ID", help="The run.")] = None,
    state: StateDirectory = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="The ledger's file.", show_default="the run's own", callback=regular_ledger),
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="All runs whose input was refused.")] = False,
    as_json: Json = False,
) -> None:
    """Give up a run: destroy its secret and its confidential directory. Its charge stays.

    **Example:** `das runs discard 20261120-221501-a3f9-us`
    """
    from flows.commands.runs.standing import standings
    from flows.execution.settings import run_directory
    from tasks.lifecycle.run_directory import state_home

    home = state or state_home()
    if (run_id is None) != refused:
        raise typer.BadParameter("give a run's ID, or --refused")
    refusals = standings(home, ledger or home / "ledger.sqlite") if refused else []
    runs = [each.run for each in refusals if each.state == "refused"] if run_id is None else [run_id]
    facts = [{"run": run, "charged": _discard(home, run_directory(home, run), ledger)} for run in runs]
    lines = [f"run {each['run']} is discarded{'; its charge stays' if each['charged'] else ''}" for each in facts]
    show(facts if refused else facts[0], lambda: "\n".join(lines) or "no run was refused", as_json=as_json)


def _discard(home: Path, run: RunDirectory, ledger: Path | None) -> bool:
    """Give up one run; returns whether it was charged. Raises Refused and Failed."""
    from flows.execution.settings import load_settings
    from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable
    from tasks.lifecycle.authorization import SECRET, is_truth
    from tasks.lifecycle.commit import end_run, is_released
    from tasks.lifecycle.errors import Failed
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.staging import clear_staging
    from tasks.lifecycle.truth import end_truth

    if not run.path.is_dir():
        raise Refused(f"run {run.id} has no confidential directory in {home / 'runs'}")
    with locked(run):
        settings = load_settings(run)
        if settings and is_released(run, Path(settings.out), settings.folder):
            raise Refused(f"run {run.id} is released already; resuming it ends it")
        book = Ledger(ledger or Path(settings.ledger if settings else home / "ledger.sqlite"))
        try:
            charged = book.row(run.id) is not None
            book.abandon(run.id)
        except LedgerUnusable as error:
            raise Failed(f"{error}; run {run.id} is left as it is") from None
        except LedgerError as error:  # no ledger: nothing was ever charged
            if settings and settings.account and (run / SECRET).exists():
                raise Failed(f"{error}; run {run.id} is left as it is") from None
            charged = False
        if settings:
            clear_staging(run, Path(settings.out), settings.folder)
        if is_truth(run):
            end_truth(run)
        end_run(run)
    return charged
