"""The state of a run on the Prefect server: its name and tags, how it ended, and the closing of its tasks.

The message of a state is public. It tells an operator the charge, and how to continue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import UUID

from prefect import get_run_logger, runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import MissingContextError
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows.execution.no_server import is_without_server
from flows.execution.policy import under_policy
from flows.execution.run_status import charges_of
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from tasks.errors import Failed as RunFailed
from tasks.errors import Refused
from tasks.releases.manifest import describe_spent, mark_of, read_manifest

if TYPE_CHECKING:
    from prefect import Flow

P = ParamSpec("P")
T = TypeVar("T")
LOST_MESSAGE = "the run's process ended while this stage was running"
SERVER_LAG_SECONDS = 2.0  # how long the server may lag behind in recording task states


def best_effort(call: Callable[P, T]) -> Callable[P, T | None]:
    """Decorator for calls of the server: log errors instead of raising them; do nothing without a server."""

    @wraps(call)
    def attempt(*arguments: P.args, **named: P.kwargs) -> T | None:
        if is_without_server():
            return None
        try:
            return call(*arguments, **named)
        except Exception as error:
            with suppress(MissingContextError):
                get_run_logger().warning("the server did not record it: %s", type(error).__name__)
            return None

    return attempt


def run_name() -> str:
    """Return the name of the flow run: its release, and its scheduled start, UTC."""
    settings: RunSettings = runtime.flow_run.parameters["settings"]
    return f"{settings.title} {runtime.flow_run.scheduled_start_time:%Y-%m-%d %H:%M:%S}"


def without_traceback(record: logging.LogRecord) -> bool:
    """Reduce the log record of a refusal to its sentence: a filter for the loggers that end a run's process."""
    if record.exc_info and isinstance(error := record.exc_info[1], Refused):
        record.msg, record.args, record.exc_info = f"refused: {error}", (), None
    return True


for _logger in ("prefect.engine", "prefect.flow_runs"):
    logging.getLogger(_logger).addFilter(without_traceback)


def refused(error: Refused) -> State[Any]:
    """Return the last state of a run that was refused."""
    return Failed(name="Refused", message=f"refused: {error}", data=error)


def failed(error: RunFailed, parts: Sequence[RunSettings]) -> State[Any]:
    """Return the final state of a run that stopped and can be continued."""
    return Failed(message=f"{error}; {how_to_continue(parts)}", data=error)


def released(places: Sequence[Path], *, one: bool) -> State[Any]:
    """Return the final state of a released run. Its result is the release's path, or a list of paths unless `one`."""
    messages = []
    for place in places:
        message = f"released: {place}"
        with suppress(Refused):  # it may be sealed by an earlier version
            manifest = read_manifest(place)
            message = f"spent {describe_spent(manifest['spent'], mark_of(manifest))}; {message}"
        messages.append(message)
    return Completed(message="; ".join(messages), data=str(places[0]) if one else list(map(str, places)))


def skipped(parts: Sequence[RunSettings]) -> State[Any]:
    """Return the final state of a run that had nothing to release."""
    return Completed(name="Skipped", message=nothing_to_release(parts))


def nothing_to_release(parts: Sequence[RunSettings]) -> str:
    """Return the reason why parts were skipped."""
    names = " and ".join(part.folder.upper() for part in parts)
    return f"{names} has no block, or config.json switches it off: skipped, nothing charged"


def tried(found: Sequence[Mapping[str, str]], message: str) -> State[Any]:
    """Return the final state of a dry run, with what it found."""
    return Completed(name="Tried", message=f"{message}; nothing was charged", data=found)


def not_run(reason: str) -> State[Any]:
    """Return the final state of a stage that did not run."""
    return Cancelled(name="NotRun", message=reason)


def how_to_continue(parts: Sequence[RunSettings]) -> str:
    """Return the charge of a stopped run, by its ledger, and how to continue it."""
    return f"{charges_of(parts)}; Retry continues with the same noise, or `{parts[-1].resume}`"


def close(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Close the tasks of a flow run whose process died or was stopped, and record how to continue; a flow's hook.

    If the process itself cannot call it, Prefect's worker does, seconds later. By then a Retry may have restarted the
    run, so the server changes only flow runs that are still in the state for which the hook was called.
    """
    if is_without_server():
        return
    system = SYSTEMS.get(flow.name)
    ended = {"id": {"any_": [str(flow_run.id)]}, "state": {"type": {"any_": ["CANCELLING", "CANCELLED"]}}}
    if state.is_crashed():
        at = state.timestamp.isoformat()
        ended |= {"state": {"type": {"any_": ["CRASHED"]}}, "end_time": {"after_": at, "before_": at}}
    with get_client(sync_client=True) as client:
        if runtime.flow_run.id == str(flow_run.id):
            time.sleep(SERVER_LAG_SECONDS)
        close_tasks(client, FlowRunFilter.model_validate(ended))
        if system and state.is_crashed():
            given: RunSettings = system.part("settings_class").model_validate(flow_run.parameters["settings"])
            settings = under_policy(given, system.name)
            message = f"{state.message} {how_to_continue(settings.named(f'{flow_run.id}-{settings.folder}').parts)}"
            crashed = {"type": "CRASHED", "name": "Crashed", "message": message}
            body = {"flow_runs": ended, "state": crashed, "force": True}
            client.request("POST", "/flow_runs/bulk_set_state", json=body)  # type: ignore[arg-type] # its list lacks it


def close_tasks(client: SyncPrefectClient, flow_runs: FlowRunFilter) -> None:
    """Close every task of these flow runs that is open on the server; each try of a run has its own tasks."""
    for task in client.read_task_runs(flow_run_filter=flow_runs):
        if task.state is None or not task.state.is_final():
            ran = task.state is not None and task.state.is_running()
            ended = Crashed(message=LOST_MESSAGE) if ran else not_run(LOST_MESSAGE)
            client.set_task_run_state(task.id, ended, force=True)


def _only(flow_run: UUID) -> FlowRunFilter:
    return FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))


@best_effort
def begin(parts: Sequence[RunSettings]) -> None:
    """Tag the flow run with its run, or with each of its parts, under their locks; and as resumed if it resumes others.

    No other process holds the run, so any flow run of it that is running on the server is dead, and is closed.
    """
    tags = {f"run:{part.run_id}" for part in parts}
    with get_client(sync_client=True) as client:
        own = UUID(str(runtime.flow_run.id))
        filters = FlowRunFilter(tags=FlowRunFilterTags(any_=sorted(tags)))
        earlier = [flow_run for flow_run in client.read_flow_runs(flow_run_filter=filters) if flow_run.id != own]
        for flow_run in earlier:
            if flow_run.state is not None and (flow_run.state.is_running() or flow_run.state.is_pending()):
                message = f"its process ended; the run continues as {runtime.flow_run.name}"
                client.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)
                close_tasks(client, _only(flow_run.id))
        again = bool(tags & {*runtime.flow_run.tags})  # Prefect's count of runs does not count suspended ones
        if again:  # tasks are still open if the worker died with the earlier try, or the run was suspended
            close_tasks(client, _only(own))
        resumed = ["resumed"] if earlier or again else []
        client.update_flow_run(own, tags={*runtime.flow_run.tags, *tags, *resumed})


def add_tags(*names: str, without: Collection[str] = ()) -> None:
    """Add tags to the flow run, and remove those of `without`."""
    with get_client(sync_client=True) as client:
        own = UUID(str(runtime.flow_run.id))
        client.update_flow_run(own, tags={*client.read_flow_run(own).tags, *names} - {*without})
