"""A run of any system that spends nothing: everything before the reservation, and what a run would spend.

parameters and account -> the stages before the reservation -> what it would spend, as an artifact
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact
from pydantic import ValidationError, WrapValidator

from flows.execution import states
from flows.execution.policy import DRY_RUN, under_policy
from flows.execution.run import Planned, flow_options, run_check, run_stages
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from privacy.accounting.composition import rounded_up
from tasks.errors import Refused
from tasks.lifecycle.commit import check_out, end_run
from tasks.lifecycle.run_directory import locked

SPEND = "a run would spend"


def _of_a_system(values: Any, read: Callable[[Any], RunSettings]) -> RunSettings:
    """Return settings of any system; faults are those of the system that has most of the names given."""
    try:
        return read(values)
    except ValidationError:
        if not isinstance(values, Mapping):
            raise
        kinds: list[type[RunSettings]] = [system.part("settings_class") for system in SYSTEMS.values()]
        return max(kinds, key=lambda kind: len(kind.model_fields.keys() & values.keys())).model_validate(values)


if TYPE_CHECKING:
    AnySettings = RunSettings
else:  # the settings of a system have names that no other's have, by which they are told apart
    AnySettings = Annotated[
        Union[tuple(system.part("settings_class") for system in SYSTEMS.values())],  # noqa: UP007
        WrapValidator(_of_a_system),
    ]


@flow(name=DRY_RUN, **flow_options(4))
def dry_run(settings: AnySettings) -> Any:
    """Check the whole input and the account, and show what a run would spend; nothing is reserved or drawn.

    It refuses what a run would refuse, and a run id, because it removes its own directory; the findings stay with the
    curator.
    """
    try:
        if settings.run_id:
            raise Refused(f"run_id is {settings.run_id!r}, but a dry run has an id of its own: leave it out")
        settings = under_policy(settings, settings.SYSTEM, DRY_RUN)
        found = _try(settings.named(f"dry-{runtime.flow_run.id}-{settings.folder}"))
    except Refused as error:
        return states.refused(error)
    create_table_artifact(
        [found],
        key=f"dry-run-{settings.SYSTEM}-{settings.folder}",
        description="What a run would spend; this one spent nothing",
    )
    return states.tried(f"a run of {found['release']} would spend {found[SPEND]}")


def _try(settings: RunSettings) -> dict[str, str]:
    """Do what a run does before its reservation, and remove the run directory."""
    run, planned = settings.directory, list[Planned]()
    found = {"system": settings.SYSTEM, "release": settings.folder.upper(), SPEND: "nothing: it has nothing to release"}
    with locked(run):
        check_out(run, Path(settings.out), settings.folder)
        if run_check(settings):
            run_stages(settings, planned)
        for plan in planned:
            charged = (
                f"nothing, the data is marked as {plan.mark.lower()}" if plan.mark else f"account {settings.account}"
            )
            found[SPEND] = f"{plan.spend.measure} {rounded_up(plan.spend.charged)}, charged to {charged}"
            found |= {row.sentence: row.words for row in plan.spend.rows()}
        end_run(run)
    return found
