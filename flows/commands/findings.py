"""Show findings, for every command that reads inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flows.reports.terminal import out, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.inputs.findings import Finding
    from tasks.lifecycle.run_directory import RunDirectory


def show_findings_of(run: RunDirectory, *, as_json: bool) -> None:
    """Show the findings for which a run was refused, if its data has errors."""
    from tasks.inputs.findings import has_errors, load_findings

    if has_errors(findings := load_findings(run)):
        show_findings(findings, as_json=as_json)


def show_validation(findings: Sequence[Finding], reports: Sequence[Path], *, as_json: bool) -> None:
    """Show what a validation found, and where the values are. Raises Refused where the input does not pass."""
    from flows.reports.curator import findings_data, findings_table
    from tasks.inputs.findings import REPORT, has_errors

    show(
        {"valid": not has_errors(findings), "findings": findings_data(findings), "reports": reports},
        lambda: findings_table(findings) if findings else "No findings.",
        as_json=as_json,
    )
    if not as_json and reports:
        out.print("The values are in the curator's report:", *(f"  {path}/{REPORT}" for path in reports), sep="\n")
    if has_errors(findings):
        raise Refused("the input does not pass validation")


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings without their values, as a table or a document of JSON."""
    from flows.reports.curator import findings_data, findings_table

    show({"findings": findings_data(findings)}, lambda: findings_table(findings), as_json=as_json)
