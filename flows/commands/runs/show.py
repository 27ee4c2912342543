"""`das runs show`: what became of a run, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from flows.commands.options import LedgerFile, StateDirectory
from flows.reports.terminal import Json, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.inputs.findings import Finding


def show_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    state: StateDirectory = None,
    ledger: LedgerFile = None,
    values: Annotated[
        bool, typer.Option("--values", help="Also the values that broke a rule: persons', for the curator's eyes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a run was charged, how far it came, how it goes on, and what its validation found.

    **Example:** `das runs show 20261122-011802-d41d-pr`
    """
    from flows.commands.runs.standing import standing
    from flows.execution.settings import run_directory
    from flows.reports.curator import findings_data
    from tasks.lifecycle.run_directory import state_home

    home = state or state_home()
    run = standing(run_directory(home, run_id), ledger or home / "ledger.sqlite")
    if run.directory is None and run.row is None:
        raise Refused(f"run {run_id} has no confidential directory in {home / 'runs'} and no row in the ledger")
    facts = run.as_json() | {"findings": findings_data(run.findings)}
    if values:
        for each, finding in zip(facts["findings"], run.findings, strict=True):
            each["values"] = list(finding.values)
    show(facts, lambda: _table(facts, run.findings, values), as_json=as_json)


def _table(facts: dict[str, Any], findings: Sequence[Finding], values: bool) -> RenderableType:
    from rich.table import Table

    from flows.reports.curator import findings_table

    table = Table(show_header=False, title=f"Run {facts['run']}", title_justify="left")
    for name in ("kind", "began", "state", "stage", "charge", "out", "path", "go_on"):
        if facts[name]:
            table.add_row(name.replace("_", " "), str(facts[name]))
    parts: list[RenderableType] = [table]
    if findings:
        parts.append(findings_table(findings))
    if values:
        parts += [f"{each.file} {each.column}: {', '.join(each.values)}" for each in findings if each.values]
    return Group(*parts)
