"""A run on the Prefect server: its name and tags, how it ended, its artifacts, and the closing of its tasks.

The message of a state is public. It tells an operator the charge, and how to continue. An artifact holds only public
facts: the manifest's content, and the account's remaining budget. Artifacts are best effort: a run neither waits for
them nor fails because of them.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from prefect import Flow, get_run_logger, runtime
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import MissingContextError
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows.execution.no_server import is_without_server
from flows.execution.policy import under_policy
from flows.execution.run_status import charges_of
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS, kind_of_release
from privacy.accounting.composition import DELTA, read_spend, rounded_down, rounded_up
from privacy.accounting.ledger import Ledger, LedgerError
from privacy.accounting.states import listed
from privacy.noise.laws import UNITS
from tasks.errors import Failed as RunFailed
from tasks.errors import Refused
from tasks.releases.manifest import describe_spent, mark_of, read_manifest, release_digest, shown_marks

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


# -- artifacts ---------------------------------------------------------------------------------------------------------


@best_effort
def publish_reserved(settings: RunSettings) -> None:
    """Publish the charge and the account's remaining budget; tag the run as charged, or by the mark of its data."""
    rows, run = _account_lines(settings), str(settings.run_id)
    tag, charged = "charged", "once, however it ends and however often it is resumed"
    if not rows:
        tag = Ledger(Path(settings.ledger)).books().marked[run][1].lower()
        charged = f"nothing: its data is {tag}"
    create_table_artifact(
        rows or [{"charged": "nothing"}], key=_key(settings, "budget"), description=f"Run {run} is charged {charged}"
    )
    add_tags(tag)


@best_effort
def publish_released(settings: RunSettings, place: Path) -> None:
    """Publish a page about the release and its spend."""
    text = page(read_manifest(place), place, release_digest(place), _account_lines(settings))
    key, description = _key(settings, "release"), f"Released by run {settings.run_id}"
    create_markdown_artifact(text, key=key, description=description)


def page(manifest: Mapping[str, Any], place: Path, digest: str, account: list[dict[str, str]]) -> str:
    """Return the page of a release, in Markdown; everything except the account is in the manifest."""
    lines = [f"# {manifest['release']}", "", *(f"**{mark}**" for mark in shown_marks(manifest)), ""]
    lines += [f"| what changes | spent | epsilon at delta {DELTA:g} |", "|---|---:|---:|"]
    lines += [_row((row.sentence, *row.cells)) for row in read_spend(manifest["spent"]).rows()]
    for row in account:
        lines += ["", *(f"* {name}: {value}" for name, value in row.items())]
    kind = kind_of_release(manifest["release"])
    if kind and kind.published:
        table = kind.part("published")(manifest)
        lines += ["", _row(table.columns), f"|---{'|---:' * (len(table.columns) - 1)}|", *map(_row, table.rows)]
    report_page = place / "report.html"
    report = [f"* report: [`{report_page}`]({report_page.as_uri()})"] if report_page.exists() else []
    return "\n".join([*lines, "", f"* release: `{place}`", *report, f"* digest of manifest.json: `{digest}`"])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _account_lines(settings: RunSettings) -> list[dict[str, str]]:
    """Return one row about the run's charge and its account's remaining budget; none if nothing was charged."""
    try:
        books = Ledger(Path(settings.ledger)).books()
    except LedgerError:  # the page of a release shows the rest
        return []
    row = books.runs.get(str(settings.run_id))
    if row is None:
        return []
    account = books.accounts[row.account]
    unit, (_, remaining) = UNITS[account.definition], books.remaining(account.name, row.states)
    return [
        {
            "account": account.name,
            "charged to each state": account.amount(row.amount),
            "least left in a state": f"{unit} {rounded_down(remaining)} of {rounded_up(account.total)}",
            "states": listed(row.states),
        }
    ]


def _key(settings: RunSettings, what: str) -> str:
    return re.sub("[^a-z0-9]+", "-", f"{settings.SYSTEM}-{settings.folder}-{what}".lower())
