"""Terminal tables and warnings for a curator: findings, the spend of a run, run directories that remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from flows.reports.terminal import show
from privacy.accounting.composition import DELTA, Spend, SpendRow
from privacy.accounting.ledger import Ledger, LedgerError
from privacy.accounting.states import listed
from privacy.noise.laws import UNITS
from tasks.lifecycle.private_folder import check_private
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.findings import Finding

DEFINITIONS = {measure: definition for definition, measure in UNITS.items()}


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return findings without their values: file, rule, column, number of rows, line of the first."""
    table = Table("", title="Findings", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("file", "column", "rows", "first line"):
        table.add_column(name, no_wrap=True, overflow="fold")
    table.add_column("rule", overflow="fold", min_width=30)
    for finding in findings:
        kind = Text("warning", "yellow") if finding.warning else Text("error", "red")
        first = "" if finding.first is None else str(finding.first)
        table.add_row(kind, finding.file, finding.column, str(finding.rows), first, finding.rule)
    return table


def findings_data(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the same findings for `--json`."""
    names = ("file", "rule", "column", "rows", "first", "warning")
    return [{name: getattr(finding, name) for name in names} for finding in findings]


def show_findings(findings: Sequence[Finding]) -> None:
    """Print findings without their values, as a table or a document of JSON."""
    show({"findings": findings_data(findings)}, lambda: findings_table(findings))


def spend_table(spends: Mapping[str, Spend], name: str = "release") -> Table:
    """Return the spend of each release or run, by name: one row for each neighbour relation."""
    table = Table(name, "what changes", "spends", f"epsilon at delta {DELTA:g}")
    table.title, table.title_justify = "Privacy-loss budget", "left"
    for each, spend in spends.items():
        for number, row in enumerate(spend.rows()):
            table.add_row("" if number else each, row.sentence, *row.cells)
    return table


def joint_table(states: Sequence[str], rows: Sequence[SpendRow]) -> Table:
    """Return what runs lose together in these states: one row for each change."""
    table = Table("who changes", "lost", f"epsilon at delta {DELTA:g}", "right of 100", title_justify="left")
    table.title = f"States: {listed(states)}"
    for row in rows:
        table.add_row(row.sentence, *row.cells, row.attacker[0])
    return table


def joint_data(rows: Sequence[SpendRow]) -> list[dict[str, Any]]:
    """Return the same rows for `--json`."""
    return [
        {
            "change": row.relation,
            "sentence": row.sentence,
            "spent": None if row.figure is None else (DEFINITIONS[row.measure], row.figure),
            "epsilon": row.epsilon,
            "attacker": row.attacker[0] or None,
        }
        for row in rows
    ]


def other_data(ledger: Path, run_id: str) -> list[str]:
    """Return the earlier runs in the run's account on the same states and other data; none if nothing was charged.

    Whether data has changed is confidential: only the terminal and `das ledger show` may print it.
    """
    try:
        return Ledger(ledger).runs_on_other_data(run_id)
    except LedgerError:
        return []


def other_data_warning(run_id: str, others: Sequence[str]) -> str:
    """Return the warning that runs under the same account read other files: changed data, or another format of it."""
    return (
        f"warning: the files that run {run_id} read are not those of {', '.join(others)}, charged to the same account "
        "and states"
    )


def missing_directory(run: RunDirectory) -> str:
    """Return the message that a run has no directory here, with the run that was probably meant."""
    there = [path.name for path in run.path.parent.glob("*")]
    near = [name for name in there if name.startswith(run.id)] or get_close_matches(run.id, there, 1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"run {run.id} has no confidential directory in {run.path.parent}{meant}"


def run_directories(state: Path) -> list[RunDirectory]:
    """Return the confidential directories of runs. Raises Refused as `check_private`."""
    runs = state / "runs"
    check_private(state, may_be_link=True)
    check_private(runs)
    return [RunDirectory(path) for path in sorted(runs.iterdir()) if path.is_dir()] if runs.is_dir() else []
