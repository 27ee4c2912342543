"""A run of any system that spends nothing: all stages before the reservation, and what a run would spend.

parameters and account -> the stages before the reservation -> what it would spend and where, as an artifact
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact
from pydantic import ValidationError, WrapValidator

from flows.execution import states
from flows.execution.policy import DRY_RUN, under_policy
from flows.execution.run import flow_options, run_stages, switched_on
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from privacy.accounting.composition import rounded_up
from tasks.errors import Refused
from tasks.lifecycle.commit import check_out, end_run
from tasks.lifecycle.files import remove
from tasks.lifecycle.reservation import Claim
from tasks.lifecycle.run_directory import locked
from tasks.records.findings import REPORT, has_errors, load_findings

SPEND, PLACE = "a run would spend", "its release"


def _settings_of_any_system(values: Any, read: Callable[[Any], RunSettings]) -> RunSettings:
    """Return settings of any system; faults are reported for the system that shares the most names with them."""
    try:
        return read(values)
    except ValidationError:
        if not isinstance(values, Mapping):
            raise
        kinds: list[type[RunSettings]] = [system.part("settings_class") for system in SYSTEMS.values()]
        return max(kinds, key=lambda kind: len(kind.model_fields.keys() & values.keys())).model_validate(values)


if TYPE_CHECKING:
    AnySettings = RunSettings
else:  # the settings of each system have names that no other system has, which identify it
    AnySettings = Annotated[
        Union[tuple(system.part("settings_class") for system in SYSTEMS.values())],  # noqa: UP007
        WrapValidator(_settings_of_any_system),
    ]


@flow(name=DRY_RUN, **flow_options(4))
def dry_run(settings: AnySettings) -> Any:
    """Check the whole input and the account, and show what a run would spend; nothing is reserved or drawn.

    It refuses what a run would refuse. It also refuses a run id, because it removes its own directory. The findings
    are only for the curator. The result: by part, what a run would spend and where its release would be.
    """
    try:
        if settings.run_id:
            raise Refused(f"run_id is {settings.run_id!r}, but a dry run has an id of its own: leave it out")
        asked = under_policy(settings, settings.SYSTEM, DRY_RUN)
        settings = asked.named(f"dry-{runtime.flow_run.id}-{asked.folder}")
        found = _try(settings.parts, asked.out)
    except Refused as error:
        return states.refused(error)
    states.best_effort(create_table_artifact)(
        found,
        key=f"dry-run-{settings.SYSTEM}-{settings.folder}",
        description="What a run would spend; this one spent nothing",
    )
    return states.tried(found, "; ".join(map(_words, found)))


def _try(parts: Sequence[RunSettings], out: str) -> list[dict[str, str]]:
    """Do what a run does before its reservation; return what each part would spend.

    out: with the placeholders, which a run fills in by its own id and day.
    """
    planned = dict[str, Claim]()
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(locked(part.directory))
            stack.callback(_end, part)
            check_out(part.directory, Path(part.out), part.folder)
        run_stages(switched_on(parts), planned)
    return [_found(part, planned.get(part.folder), out) for part in parts]


def _end(part: RunSettings) -> None:
    """Remove a run's directory; where its input has faults, all but their report, for the curator."""
    if not has_errors(load_findings(part.directory)):
        end_run(part.directory)
        return
    for path in part.directory.path.iterdir():
        if path.is_dir():
            remove(path)
        elif path.name != REPORT:
            path.unlink()


def _found(settings: RunSettings, claim: Claim | None, out: str) -> dict[str, str]:
    """Return what a part would spend, as a row of the artifact."""
    found = {"system": settings.SYSTEM, "release": settings.folder.upper(), SPEND: "nothing: it has nothing to release"}
    if claim is None:
        return found
    found[PLACE] = f"{out}/{settings.folder}"
    marked = f"not charged: the data is marked as {claim.mark.lower()}" if claim.mark else None
    charged = marked or f"charged to account {settings.account}"
    spends = f"{claim.spend.measure} {rounded_up(claim.spend.charged)}, {charged}"
    return found | {SPEND: spends} | {row.sentence: row.words for row in claim.spend.rows()}


def _words(part: Mapping[str, str]) -> str:
    place = f"; {PLACE}: {part[PLACE]}" if PLACE in part else ""
    return f"a run of {part['release']} would spend {part[SPEND]}{place}"
