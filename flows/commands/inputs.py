"""Validate an input that no run follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from flows.commands.options import WorkOptions
    from tasks.inputs.findings import Finding
    from tasks.lifecycle.run_directory import RunDirectory


def validate_alone(
    options: WorkOptions, run: RunDirectory, title: str, validate: Callable[..., Any], *arguments: Any
) -> tuple[Any, list[Finding], list[Path]]:
    """Call `validate` on an input that no run follows; return its result, the findings, and where their values are.

    The run directory is removed where there is no error. Raises Refused where the data as a whole is refused, as for a
    mark that does not cover it.
    """
    from tasks.inputs.findings import has_errors, load_findings
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
