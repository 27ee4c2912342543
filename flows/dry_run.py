"""A run of the Detailed DHC-A that spends nothing: everything before the reservation, and what a run would spend.

parameters and account -> validate -> what it would spend, as an artifact
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact

from flows.execution import states
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.policy import under_policy
from flows.execution.run import flow_options, run_check, run_stages
from privacy.accounting.ledger import format_amount
from privacy.noise.laws import UNITS
from tasks.detailed_dhca.reserve_budget import planned_spend
from tasks.lifecycle.commit import check_out, end_run
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import locked

SPEND = "a run would spend"


@flow(name="dry-run", **flow_options(1))
def dry_run(settings: DetailedDhcaSettings) -> Any:
    """Check the whole input and the account, and show what a run would spend; nothing is reserved or drawn.

    It refuses what a run would refuse; the findings stay with the curator.
    """
    try:
        settings = under_policy(settings, settings.SYSTEM).named(f"dry-{runtime.flow_run.id}-{settings.folder}")
        found = _try(settings)
    except Refused as error:
        return states.refused(error)
    create_table_artifact(
        [found], key=f"dry-run-{settings.folder}", description="What a run would spend; this one spent nothing"
    )
    return states.tried(f"a run of {found['region']} would spend {found[SPEND]}")


def _try(settings: DetailedDhcaSettings) -> dict[str, str]:
    """Do what a run does up to its validation, and remove the run directory."""
    run, jurisdiction = settings.directory, settings.jurisdiction
    found = {"region": jurisdiction.upper(), SPEND: "nothing: it has no block, or config.json switches it off"}
    with locked(run):
        check_out(run, Path(settings.out), settings.folder)
        if run_check(settings):
            run_stages(settings, before="population groups")
        if run.validated_path.exists():
            spend = planned_spend(run.parameters.configuration, jurisdiction)
            unit = UNITS[spend.definition]
            synthetic = run.validated.synthetic
            charged = "nothing, the data is marked as synthetic" if synthetic else f"account {settings.account}"
            found[SPEND] = f"{unit} {format_amount(spend.unbounded)}, charged to {charged}"
        end_run(run)
    return found
