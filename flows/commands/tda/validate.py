"""`das tda validate`: check the input of a TopDown run without spending anything."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.findings import show_validation
from flows.commands.inputs import validate_alone
from flows.commands.options import WorkOptions
from flows.commands.tda.declared import DeclarationOption, validate_declared
from flows.commands.tda.options import INPUTS
from flows.execution.top_down_settings import TopDownSettings


@with_options
def validate(
    context: typer.Context,
    inputs: Annotated[Chosen, Settings(TopDownSettings, INPUTS)],
    declaration: DeclarationOption = None,
    *,
    options: WorkOptions,
) -> None:
    """Check every row of every file, and records against declared counts.

    Exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das tda validate data/`
    """
    if declaration is not None:
        validate_declared(context, options, inputs["data"], declaration)
        return

    from flows.execution.settings import new_run_id
    from tasks.top_down.input.validation import validate as validate_input
    from tasks.top_down.run import TopDownRun

    settings = TopDownSettings.new(**inputs, out=".")
    run = TopDownRun(options.home / "runs" / new_run_id("tda-validate"))
    arguments = settings.tables, settings.design(), None
    _, findings, reports = validate_alone(options, run, "Validating", validate_input, *arguments)
    show_validation(findings, reports, as_json=options.as_json)
