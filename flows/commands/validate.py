"""`das validate`: check the input of a run without spending anything."""

from __future__ import annotations

from typing import Annotated

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.findings import show_validation
from flows.commands.inputs import validate_alone
from flows.commands.options import WorkOptions
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.reports.terminal import err

INPUTS = ("params", "data")


@with_options
def validate(inputs: Annotated[Chosen, Settings(DetailedDhcaSettings, INPUTS)], options: WorkOptions) -> None:
    """Check every row of every file of a run's input; exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das validate params/ data/`
    """
    from flows.execution.settings import new_run_id
    from tasks.detailed_dhca.configuration import read_parameters
    from tasks.detailed_dhca.person import PERSON
    from tasks.detailed_dhca.run import DetailedRun
    from tasks.population_groups.validation import check_data_alone
    from tasks.population_groups.validation import validate as validate_input

    params, data = inputs["params"], inputs["data"]
    parameters, findings = read_parameters(params)
    if parameters is None:
        findings += check_data_alone(PERSON, data)
    base, reports = new_run_id("validate"), []
    for jurisdiction in parameters.configuration.jurisdictions if parameters else ():
        run = DetailedRun(options.home / "runs" / f"{base}-{jurisdiction}")
        title = f"Validating {jurisdiction.upper()}"
        validated, found, kept = validate_alone(options, run, title, validate_input, params, data, jurisdiction)
        if validated is None and not kept:
            err.print(f"{jurisdiction.upper()} has no block in GRF-C: a run would skip it", style="yellow")
        findings += found
        reports += kept
    findings = list(dict.fromkeys(findings))  # both jurisdictions read the same parameter files
    show_validation(findings, reports, as_json=options.as_json)
