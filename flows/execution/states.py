"""How a run stands, as the Prefect server shows it: its name and tags, how it ended, and no task left behind.

A message of a state is public. It says what an operator must know: what was charged, and how the run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
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
from prefect.futures import PrefectFuture
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows.execution.prefect_server import is_temporary
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.errors import Failed as RunFailed
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import read_manifest

if TYPE_CHECKING:
    from prefect import Flow, Task

    Stage = tuple[Task[..., Any], PrefectFuture[Any]]

P = ParamSpec("P")
T = TypeVar("T")
GONE = "the process of the run ended while this went on"
ENTERED = 2.0  # seconds within which the server enters what a process told it of tasks


def told(tell: Callable[P, T]) -> Callable[P, T | None]:
    """Let no run stop at what is only told, and tell a temporary server nothing: a decorator.

    What goes wrong in it is a line of the run's log, and None is returned.
    """

    @wraps(tell)
    def tell_if_heard(*arguments: P.args, **named: P.kwargs) -> T | None:
        if is_temporary():
            return None
        try:
            return tell(*arguments, **named)
        except Exception as error:
            with suppress(MissingContextError):
                get_run_logger().warning("the server could not be told: %s", type(error).__name__)
            return None

    return tell_if_heard


def run_name() -> str:
    """Return the name of the flow run: what it releases, and when it was to start, UTC."""
    settings = runtime.flow_run.parameters["settings"]
    folder = settings["folder"] if isinstance(settings, dict) else settings.folder
    return f"{folder.upper()} {runtime.flow_run.scheduled_start_time:%Y-%m-%d %H:%M:%S}"


def refused(error: Refused) -> State[Any]:
    """Return the last state of a run that was refused."""
    return Failed(name="Refused", message=f"refused: {error}", data=error)


def failed(error: RunFailed, settings: RunSettings) -> State[Any]:
    """Return the last state of a run that stopped and can go on."""
    return Failed(message=f"{error}; {how_to_go_on(settings)}", data=error)


def released(place: Path) -> State[Any]:
    """Return the last state of a run that was released; its result is the release's path."""
    manifest = read_manifest(place)
    spent = manifest["spent"]
    amount = spent.get("unbounded") or spent["bounded"]  # not every system bounds the first
    synthetic = ", not charged: the data is synthetic" if "SYNTHETIC" in manifest else ""
    message = f"spent {spent['unit']} {amount['decimal']:g}{synthetic}; released: {place}"
    return Completed(message=message, data=str(place))


def skipped(reason: str) -> State[Any]:
    """Return the last state of a run that had nothing to release."""
    return Completed(name="Skipped", message=f"{reason}: skipped, nothing charged")


def tried(said: str) -> State[Any]:
    """Return the last state of a dry run."""
    return Completed(name="Tried", message=f"{said}; nothing was charged")


def not_run(reason: str) -> State[Any]:
    """Return the last state of a stage that did not run."""
    return Cancelled(name="NotRun", message=reason)


def how_to_go_on(settings: RunSettings) -> str:
    """Say what a run that stopped was charged, and how it is taken up."""
    charged = "one charge" if (settings.directory / AUTHORIZATION).exists() else "nothing was charged"
    return f"{charged}; Retry goes on with the same noise, or `{settings.resume}`"


def close(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Close the tasks of a flow run whose process has died or was stopped, and say how it goes on; a flow's hook.

    Prefect's worker calls it where the process could not, in the worker's own process, which is to be quick about it:
    a Retry before the worker is done with the crash would be taken for what crashed.
    """
    system = SYSTEMS.get(flow.name)
    with get_client(sync_client=True) as client:
        if runtime.flow_run.id == str(flow_run.id):
            time.sleep(ENTERED)
        close_tasks(client, flow_run.id)
        if system and state.is_crashed():
            settings = system.settings.model_validate(flow_run.parameters["settings"])
            message = f"{state.message} {how_to_go_on(settings.named(f'{flow_run.id}-{settings.folder}'))}"
            client.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)


def close_tasks(client: SyncPrefectClient, flow_run: UUID) -> None:
    """Close every task of a flow run that the server believes to go on."""
    of_the_run = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))
    for task in client.read_task_runs(flow_run_filter=of_the_run):
        if task.state is None or not task.state.is_final():
            ran = task.state is not None and task.state.is_running()
            client.set_task_run_state(task.id, Crashed(message=GONE) if ran else not_run(GONE), force=True)


@told
def settle(stages: Sequence[Stage]) -> None:
    """Enter how stages ended where the server does not hear of it: it was away.

    It hears of stages by a queue of events, so it is given ENTERED seconds. A state that overtakes the queue is later
    than what that still holds, the stage's name and times, and keeps it out.
    """
    with get_client(sync_client=True) as client:
        flow_run = UUID(str(runtime.flow_run.id))
        until = time.monotonic() + ENTERED
        while (behind := list(_behind(client, flow_run, stages))) and time.monotonic() < until:
            time.sleep(0.1)
        for task, future, known in behind:  # each by itself: the queue may get there at this very moment
            _enter(client, flow_run, task, future, known)


@told
def _enter(
    client: SyncPrefectClient, flow_run: UUID, task: Task[..., Any], stage: PrefectFuture[Any], known: bool
) -> None:
    """Tell the server how a stage ended; known: whether it knows of the stage."""
    own, name, ended = stage.task_run_id, str(task.task_run_name), stage.state
    state: State[Any] = State(type=ended.type, name=ended.name, message=ended.message)
    if known:
        client.set_task_run_name(own, name)
        client.set_task_run_state(own, state, force=True)
    else:
        client.create_task_run(task, flow_run, dynamic_key=str(own), id=own, name=name, state=state)


def _behind(client: SyncPrefectClient, flow_run: UUID, stages: Sequence[Stage]) -> Iterator[tuple[*Stage, bool]]:
    """The stages that have ended and of which the server believes otherwise, and whether it knows them at all."""
    of_the_run = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))
    states = {task.id: task.state for task in client.read_task_runs(flow_run_filter=of_the_run)}
    for task, future in stages:
        known = states.get(future.task_run_id)
        if future.state.is_final() and (known is None or not known.is_final()):
            yield task, future, future.task_run_id in states


def begin(settings: RunSettings) -> list[FlowRun]:
    """Tag the flow run with its run, under the run's lock; return the flow runs that it goes on from, the latest first.

    No other process holds the run, so a flow run of it that the server believes to go on is dead, and is closed.
    """
    earlier = _begin(f"run:{settings.run_id}") or []
    return sorted(earlier, key=lambda flow_run: str(flow_run.created), reverse=True)


@told
def _begin(tag: str) -> list[FlowRun]:
    with get_client(sync_client=True) as client:
        own = UUID(str(runtime.flow_run.id))
        filters = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]))
        earlier = [flow_run for flow_run in client.read_flow_runs(flow_run_filter=filters) if flow_run.id != own]
        for flow_run in earlier:
            if flow_run.state is not None and (flow_run.state.is_running() or flow_run.state.is_pending()):
                message = f"its process ended; the run goes on as {runtime.flow_run.name}"
                client.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)
                close_tasks(client, flow_run.id)
        again = tag in runtime.flow_run.tags  # Prefect's count of runs leaves out one that was suspended
        if again:  # nobody closed them if the worker died with the earlier try, or the run was suspended
            close_tasks(client, own)
        resumed = ["resumed"] if earlier or again else []
        client.update_flow_run(own, tags={*runtime.flow_run.tags, tag, *resumed})
        return earlier


@told
def tag(name: str) -> None:
    """Add a tag to the flow run."""
    with get_client(sync_client=True) as client:
        own = UUID(str(runtime.flow_run.id))
        client.update_flow_run(own, tags={*client.read_flow_run(own).tags, name})
