"""Read and validate inputs, make settings and show findings, for every command that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.reports.terminal import out, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from flows.commands.options import ExactOptions, RunOptions, WorkOptions
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
    from tasks.detailed_dhca.parameters import Parameters
    from tasks.inputs.findings import Finding
    from tasks.lifecycle.run_directory import RunDirectory


def checked_parameters(params: str, data: str, *, as_json: bool) -> Parameters:
    """Return the parameters.

    Raises Refused where they have errors. These are shown, with any findings that the data has without them.
    """
    from tasks.detailed_dhca.parameters import read_parameters
    from tasks.detailed_dhca.person import PERSON
    from tasks.inputs.findings import gather
    from tasks.population_groups.validation import check_data_alone

    parameters, findings = read_parameters(params)
    if parameters is None:
        show_findings(gather(findings + check_data_alone(PERSON, data)), as_json=as_json)
        raise Refused("the parameters do not pass validation")
    return parameters


def jurisdiction_settings(
    options: ExactOptions | RunOptions, base: str, jurisdictions: Iterable[str], out: Path, **chosen: Any
) -> list[DetailedDhcaSettings]:
    """Return the settings of a run over each jurisdiction, with the id BASE-JURISDICTION; the rest they share."""
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings

    return [
        options.new_settings(DetailedDhcaSettings, f"{base}-{name}", out, jurisdiction=name, **chosen)
        for name in jurisdictions
    ]


def show_findings_of(run: RunDirectory, *, as_json: bool) -> None:
    """Show the findings for which a run was refused, if its data has errors."""
    from flows.reports.curator import load_findings
    from tasks.inputs.findings import has_errors

    if has_errors(findings := load_findings(run)):
        show_findings(findings, as_json=as_json)


def validate_alone(
    options: WorkOptions, run: RunDirectory, title: str, validate: Callable[..., Any], *arguments: Any
) -> tuple[Any, list[Finding], list[Path]]:
    """Call `validate` on an input that no run follows; return its result, the findings, and where their values are.

    The run directory is removed where there is no error. Raises Refused where the data as a whole is refused, as for a
    mark that does not cover it.
    """
    from flows.reports.curator import load_findings
    from tasks.inputs.findings import has_errors
    from tasks.lifecycle.commit import end_run

    result = refused = None
    try:
        with options.working(run, title) as workers:
            result = validate(run, workers, *arguments)
    except Refused as error:
        refused = error
    if has_errors(findings := load_findings(run)):
        return None, findings, [run.path]
    end_run(run)
    if refused:
        raise refused
    return result, findings, []


def show_validation(findings: Sequence[Finding], reports: Sequence[Path], *, as_json: bool) -> None:
    """Show what a validation found, and where the values are. Raises Refused where the input does not pass."""
    from flows.reports.curator import findings_data, findings_table
    from tasks.inputs.findings import has_errors

    show(
        {"valid": not has_errors(findings), "findings": findings_data(findings), "reports": reports},
        lambda: findings_table(findings) if findings else "No findings.",
        as_json=as_json,
    )
    if not as_json and reports:
        out.print("The values are in the curator's report:", *(f"  {path}/findings.json" for path in reports), sep="\n")
    if has_errors(findings):
        raise Refused("the input does not pass validation")


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print findings without their values, as a table or a document of JSON."""
    from flows.reports.curator import findings_data, findings_table

    show({"findings": findings_data(findings)}, lambda: findings_table(findings), as_json=as_json)
