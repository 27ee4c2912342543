"""A run of the Detailed DHC-A that spends nothing: everything up to the budget check, and what a run would take.

parameters and account -> validate -> what it would spend, as an artifact
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact

from flows.detailed_dhca import check
from flows.execution import artifacts, states
from flows.execution.cluster import open_cluster
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.expected_work import expected_work
from flows.execution.progress import coarsely, expect, report
from flows.execution.run import CHECK, flow_options, named
from privacy.accounting.ledger import format_amount
from tasks.detailed_dhca.budget_check import planned_spend
from tasks.detailed_dhca.run import Validated
from tasks.detailed_dhca.validation import validate
from tasks.lifecycle.commit import check_out, end_run
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import locked
from tasks.lifecycle.workers import Workers

SPEND, ESTIMATES = "a run would spend", "core-seconds expected"


@flow(name="dry-run", **flow_options(1))
def dry_run(settings: DetailedDhcaSettings) -> Any:
    """Check the whole input and the account, and tell what a run would spend and take; nothing is reserved or drawn.

    What is refused is refused as a run would be, and its findings stay with the curator.
    """
    settings = settings.named(f"dry-{runtime.flow_run.id}-{settings.folder}")
    try:
        told = _try(settings)
    except Refused as error:
        return states.refused(error)
    create_table_artifact(
        [told], key=f"dry-run-{settings.folder}", description="What a run would spend and take; this one spent nothing"
    )
    return states.tried(f"a run of {told['region']} would spend {told[SPEND]}")


def _try(settings: DetailedDhcaSettings) -> dict[str, str]:
    """Do what a run does before its budget check, and remove what that left."""
    run, jurisdiction = settings.directory, settings.jurisdiction
    with locked(run):
        check_out(run, Path(settings.out), settings.folder)
        named(CHECK)(CHECK, run, lambda _directory: check(settings), lambda: None)
        with artifacts.progress(settings), open_cluster(settings.cluster, run / "dask") as client:
            expect(partial(expected_work, run, jurisdiction, settings.spine, settings.estimates))
            inputs = {"params": settings.params, "data": settings.data, "jurisdiction": jurisdiction}
            validating: Any = partial(validate, workers=Workers(client, report), **inputs)  # type: ignore[arg-type]
            validated: Validated | None = named("validate")("validate", run, validating, lambda: None)
        told = {"region": jurisdiction.upper(), SPEND: "nothing: it has no block, or config.json switches it off"}
        if validated is not None:
            spend = planned_spend(run.parameters.configuration, jurisdiction)
            unit = "rho" if spend.definition == "zcdp" else "epsilon"
            charged = (
                "nothing, the data is marked as synthetic" if validated.synthetic else f"account {settings.account}"
            )
            expected = coarsely(expected_work(run, jurisdiction, settings.spine, settings.estimates) or {})
            told[SPEND] = f"{unit} {format_amount(spend.unbounded)}, charged to {charged}"
            told[ESTIMATES] = f"{sum(seconds for seconds, _ in expected.values()):.1f}"
        end_run(run)
    return told
