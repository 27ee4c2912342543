"""`das sdhc validate`: check the input of an S-DHC run without spending anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.findings import show_validation
from flows.commands.inputs import validate_alone
from flows.commands.options import WorkOptions
from flows.commands.s_dhc.options import INPUTS, jurisdiction_of
from flows.execution.s_dhc_settings import SDhcSettings

if TYPE_CHECKING:
    from tasks.lifecycle.run_directory import RunDirectory
    from tasks.lifecycle.workers import Workers
    from tasks.s_dhc.run import Plan


@with_options
def validate(inputs: Annotated[Chosen, Settings(SDhcSettings, INPUTS)], options: WorkOptions) -> None:
    """Check every row of every file, the files against each other, and every household.

    Exit with 1 if a run would be refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das sdhc validate config.json data/`
    """
    from flows.execution.settings import new_run_id
    from tasks.lifecycle.run_directory import RunDirectory

    settings = SDhcSettings.new(**inputs, out=".", jurisdiction=jurisdiction_of(inputs["config"]))
    run = RunDirectory(options.home / "runs" / new_run_id("sdhc-validate"))
    _, findings, reports = validate_alone(options, run, "Validating", _validate, settings.plan(), settings.data)
    show_validation(findings, reports, as_json=options.as_json)


def _validate(run: RunDirectory, workers: Workers, plan: Plan, data: str) -> None:
    from tasks.lifecycle.files import save_object
    from tasks.s_dhc.encode import encode
    from tasks.s_dhc.run import PLAN
    from tasks.s_dhc.tabulate import tabulate

    save_object(run / PLAN, plan)
    encode(run, workers, data)
    tabulate(run, workers)
