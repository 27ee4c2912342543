"""Read and validate inputs and make settings, for every command that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.commands.findings import show_findings
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from flows.commands.options import ExactOptions, RunOptions, WorkOptions
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
    from tasks.detailed_dhca.configuration import Parameters
    from tasks.inputs.findings import Finding
    from tasks.lifecycle.run_directory import RunDirectory


def checked_parameters(params: str, data: str, *, as_json: bool) -> Parameters:
    """Return the parameters.

    Raises Refused where they have errors. These are shown, with any findings that the data has without them.
    """
    from tasks.detailed_dhca.configuration import read_parameters
    from tasks.detailed_dhca.person import PERSON
    from tasks.inputs.findings import gather
    from tasks.population_groups.validation import check_data_alone

    parameters, findings = read_parameters(params)
    if parameters is None:
        show_findings(gather(findings + check_data_alone(PERSON, data)), as_json=as_json)
        raise Refused("the parameters do not pass validation")
    return parameters


def jurisdiction_settings(
    options: ExactOptions | RunOptions, base: str, jurisdictions: Iterable[str], chosen: Mapping[str, Any]
) -> list[DetailedDhcaSettings]:
    """Return the settings of a run over each jurisdiction, with the id BASE-JURISDICTION; the rest they share."""
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings

    return [
        options.new_settings(DetailedDhcaSettings, f"{base}-{name}", {**chosen, "jurisdiction": name})
        for name in jurisdictions
    ]


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
