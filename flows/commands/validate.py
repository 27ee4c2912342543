"""`das validate`: check the input of a run without spending anything."""

from __future__ import annotations

from flows.commands.inputs import show_validation
from flows.commands.options import Data, Params, WorkOptions, with_options
from flows.reports.terminal import err
from tasks.lifecycle.errors import Refused


@with_options
def validate(params: Params, data: Data, options: WorkOptions) -> None:
    """Check every row of every file of a run's input; exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das validate params/ data/`
    """
    import shutil

    from flows.execution.settings import new_run_id
    from flows.reports.curator import load_findings
    from tasks.detailed_dhca.parameters import read_parameters
    from tasks.detailed_dhca.run import DetailedRun
    from tasks.detailed_dhca.validation import check_data_alone
    from tasks.detailed_dhca.validation import validate as validate_input
    from tasks.inputs.findings import has_errors

    parameters, findings = read_parameters(params)
    if parameters is None:
        findings += check_data_alone(data)
    base, reports = new_run_id("validate"), []
    for jurisdiction in parameters.configuration.jurisdictions if parameters else ():
        run = DetailedRun(options.home / "runs" / f"{base}-{jurisdiction}")
        try:
            with options.working(run, f"Validating {jurisdiction.upper()}") as workers:
                if validate_input(run, workers, params, data, jurisdiction) is None:
                    err.print(f"{jurisdiction.upper()} has no block in GRF-C: a run would skip it", style="yellow")
        except Refused:
            if not has_errors(load_findings(run)):  # of the data as a whole, as a mark that does not cover it
                shutil.rmtree(run.path)
                raise
            reports.append(run.path)
        findings += load_findings(run)
        if run.path not in reports:
            shutil.rmtree(run.path)
    findings = list(dict.fromkeys(findings))  # both jurisdictions read the same parameter files
    show_validation(findings, reports, as_json=options.as_json)
