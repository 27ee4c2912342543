"""`das runs`: the confidential directories of runs that have not ended."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from flows.commands.options import LedgerOptions
from flows.execution.run_status import run_status, run_statuses
from flows.execution.settings import load_settings, run_directory
from flows.reports.curator import findings_data, findings_table, missing_directory
from flows.reports.terminal import show
from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import is_truth, may_draw
from tasks.lifecycle.commit import destroy_run, end_truth, is_of_other, is_released
from tasks.lifecycle.process import code_names
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import own_folders, staging
from tasks.records.findings import Finding


def list_runs(
    charged: Annotated[bool, typer.Option("--all", help="Also runs that are over and were charged.")] = False,
    *,
    options: LedgerOptions,
) -> None:
    """List the runs, validations and truths with a confidential directory: when they began, their state and charge.

    **Example:** `das runs list --all`
    """
    runs = run_statuses(options.home, options.ledger_file)
    facts = [each.as_json() for each in runs if charged or each.directory]
    show(facts, lambda: _list_table(facts))


def _list_table(facts: list[dict[str, Any]]) -> RenderableType:
    if not facts:
        return "no run has left a confidential directory"
    columns = ("run", "kind", "began", "state", "stage", "charge")
    table = Table(*columns, "resumes into", title="Runs (das runs show ID)", title_justify="left")
    for row in facts:
        table.add_row(*(row[name] or "" for name in columns), row["out"] or "")
    return table


def show_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    values: Annotated[
        bool,
        typer.Option(
            "--values",
            help="Also ten lines and the values that broke each rule: persons', for the curator's eyes.",
        ),
    ] = False,
    *,
    options: LedgerOptions,
) -> None:
    """Show what a run was charged, its last stage, how to continue it, and the findings of its validation.

    **Example:** `das runs show 20261122-011802-d41d-pr`
    """
    directory = run_directory(options.home, run_id)
    run = run_status(directory, options.ledger_file)
    if run.directory is None and run.row is None:
        if run.marked:
            raise Refused(f"run {run_id} was on data marked synthetic or public, and is over: das ledger show lists it")
        raise Refused(f"{missing_directory(directory)} and no row in the ledger {options.ledger_file}")
    facts = run.as_json() | {"findings": findings_data(run.findings)}
    if values:
        for each, finding in zip(facts["findings"], run.findings, strict=True):
            each |= {"lines": list(finding.lines), "values": list(finding.values)}
    show(facts, lambda: _table(facts, run.findings, values))


def _table(facts: dict[str, Any], findings: Sequence[Finding], values: bool) -> RenderableType:
    table = Table(show_header=False, title=f"Run {facts['run']}", title_justify="left")
    for name in ("kind", "began", "state", "stage", "charge", "out", "path", "next_step"):
        if facts[name]:
            table.add_row(name.replace("_", " "), str(facts[name]))
    parts: list[RenderableType] = [table]
    if findings:
        parts.append(findings_table(findings))
    if values:
        parts += [_broken(each) for each in findings if each.lines or each.values]
    return Group(*parts)


def _broken(finding: Finding) -> str:
    """Return the first lines that broke a rule, and their values, for the curator only."""
    lines = f" line {', '.join(map(str, finding.lines))}" if finding.lines else ""
    others = finding.rows - len(finding.lines)
    more = f" and {others:,} more" if lines and others > 0 else ""
    values = f": {', '.join(map(repr, finding.values))}" if finding.values else ""
    return f"{finding.file} {finding.column}{lines}{more}{values}"


def discard(
    run_id: Annotated[str | None, typer.Argument(metavar="ID", help="The run.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="All runs whose input, or charge, was refused.")] = False,
    *,
    options: LedgerOptions,
) -> None:
    """Give up a run: destroy its secret and its confidential directory. Its charge stays.

    Without --ledger it is given up in the ledger with which it was started.

    **Example:** `das runs discard 20261120-221501-a3f9-us`
    """
    home = options.home
    if (run_id is None) != refused:
        raise typer.BadParameter("give a run's ID, or --refused")
    refusals = run_statuses(home, options.ledger_file) if refused else []
    runs = [each.run for each in refusals if each.state == "refused"] if run_id is None else [run_id]
    facts = [{"run": run, "charged": _discard(home, run_directory(home, run), options.ledger)} for run in runs]
    lines = [f"run {each['run']} is discarded{'; its charge stays' if each['charged'] else ''}" for each in facts]
    show(facts if refused else facts[0], lambda: "\n".join(lines) or "no run was refused")


def _discard(home: Path, run: RunDirectory, ledger: Path | None) -> bool:
    """Give up one run; return whether it was charged. Raises Refused and Failed."""
    if not run.path.is_dir():
        raise Refused(missing_directory(run))
    with locked(run):
        settings = load_settings(run)
        if settings and is_released(run, Path(settings.out), settings.folder):
            raise Refused(f"run {run.id} is released already; resuming it ends it")
        book = Ledger(ledger or Path(settings.ledger if settings else home / "ledger.sqlite"), code_names())
        other = charged = False
        try:
            other = is_of_other(run, book)
            charged = not other and book.row(run.id) is not None
            if charged:
                book.abandon(run.id)
        except LedgerUnusable as error:
            raise Failed(f"{error}; run {run.id} is left as it is") from None
        except LedgerError as error:  # without a ledger, nothing was ever charged
            if may_draw(run) and (settings is None or settings.account):
                raise Failed(f"{error}; run {run.id} is left as it is") from None
        if settings and not other:
            for folder in own_folders(staging(run, Path(settings.out), settings.folder)):
                shutil.rmtree(folder, ignore_errors=True)
        if is_truth(run):
            end_truth(run)
        destroy_run(run)
    return charged
