"""`das tda validate`: check the input of a TopDown run without spending anything."""

from __future__ import annotations

from flows.commands.inputs import show_validation
from flows.commands.options import WorkOptions, with_options
from flows.commands.tda.options import DataArgument, InputOptions
from tasks.lifecycle.errors import Refused


@with_options
def validate(data: DataArgument, inputs: InputOptions, options: WorkOptions) -> None:
    """Check every row of every file, and records against declared counts; exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das tda validate data/`
    """
    import shutil

    from flows.execution.settings import new_run_id
    from flows.execution.top_down_settings import TopDownSettings
    from flows.reports.curator import load_findings
    from tasks.inputs.findings import has_errors
    from tasks.top_down.input.validation import validate as validate_input
    from tasks.top_down.run import TopDownRun

    settings = TopDownSettings.new(data=data, out=".", **vars(inputs))
    run = TopDownRun(options.home / "runs" / new_run_id("tda-validate"))
    try:
        with options.working(run, "Validating") as workers:
            validate_input(run, workers, settings.tables, settings.design(), None)
    except Refused:
        if not has_errors(load_findings(run)):  # of the data as a whole, as a mark that does not cover it
            shutil.rmtree(run.path, ignore_errors=True)
            raise
    findings = load_findings(run)
    if not has_errors(findings):
        shutil.rmtree(run.path, ignore_errors=True)
    show_validation(findings, [run.path] if has_errors(findings) else [], as_json=options.as_json)
