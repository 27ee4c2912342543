"""How a flow carries out a run, whatever it computes: its stages as Prefect tasks, and what surrounds them.

    lock -> release that is there already? -> settings kept -> what needs no worker is checked -> cluster
         -> the flow's own stages -> commit

A flow gives its stages, as a function of a `Run`, and the check before them. Every stage is coarse: it maps many Dask
calls and waits for them. A stage that is retried repeats the same noise, so retries are safe.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Generic, TypeVar

from prefect import Task, allow_failure, get_run_logger, runtime, suspend_flow_run, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.input import RunInput
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution import artifacts, states
from flows.execution.cluster import open_cluster
from flows.execution.progress import report
from flows.execution.settings import RunSettings, keep_settings
from flows.reports.curator import load_findings
from flows.reports.terminal import stay_interruptible
from privacy.accounting.ledger import format_amount
from privacy.noise.laws import Definition
from tasks.inputs.findings import has_errors
from tasks.lifecycle.authorization import AUTHORIZATION, SECRET, is_truth
from tasks.lifecycle.commit import check_out, commit, end_run, finish_released
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers

Future = PrefectFuture[Any]
CHECK = "parameters and account"
APPROVAL_SECONDS = 7 * 86_400  # a run that nobody approved by then fails, charged nothing
S = TypeVar("S", bound=RunSettings)


class Approval(RunInput):
    """What a person answers who is asked whether a run may charge its account."""

    approve: bool


def flow_options(count: int) -> dict[str, Any]:
    """Return what Prefect is told of every flow: its runs' names, so many stages at once, in threads, and its hooks.

    The Dask workers behind the stages are the limit of a stage.
    """
    return {
        "task_runner": ThreadPoolTaskRunner(max_workers=count),
        "flow_run_name": states.run_name,
        "persist_result": False,
        "on_crashed": [states.close],
        "on_cancellation": [states.close],
    }


async def _worth_retrying(_task: Any, _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether to try again: a refusal would only be repeated."""
    return not isinstance(await state.aresult(raise_on_failure=False), Refused)


@task(retries=2, retry_delay_seconds=1, retry_condition_fn=_worth_retrying, cache_policy=NO_CACHE, persist_result=False)
def stage(name: str, run: RunDirectory, function: Callable[..., Any], in_vain: Callable[[], str | None]) -> Any:
    """Run one stage of a run, unless it is in vain; the text of its errors stays in the confidential directory."""
    if reason := in_vain():
        return states.not_run(reason)
    try:
        return guard(name, run, function)
    except Failed:
        if reason := in_vain():  # its workers were taken away
            return states.not_run(reason)
        raise


@dataclass(frozen=True)
class Run(Generic[S]):
    """What the stages of a flow work with."""

    settings: S
    directory: RunDirectory
    workers: Workers
    over: Event  # set once the run has ended, whatever its stages do
    begun: list[tuple[Task[..., Any], Future]]

    @property
    def out(self) -> Path:
        """The folder in which the release gets its own."""
        return Path(self.settings.out)

    @property
    def staged(self) -> Path:
        """Where the release is made."""
        return staging(self.directory, self.out, self.settings.folder)

    def submit(self, name: str, function: Callable[..., Any], /, *after: Future, **arguments: Any) -> Future:
        """Start the stage `function(directory, **arguments)` once those it comes after have ended well."""

        def in_vain() -> str | None:
            failed = not all(future.state.is_completed() for future in after)
            return "the run ended in another stage" if failed or self.over.is_set() else None

        call = partial(function, **arguments)
        wait_for = [allow_failure(future) for future in after]  # else Prefect leaves the stage pending for good
        task = named(name)
        future: Future = task.submit(name, self.directory, call, in_vain, return_state=False, wait_for=wait_for)
        self.begun.append((task, future))
        return future

    def do(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Run a stage and wait for its result."""
        return self.submit(name, function, **arguments).result()

    def await_approval(self, definition: Definition, amount: Fraction) -> None:
        """Suspend the flow run until a person approves its charge, where the settings ask for it.

        Its process ends meanwhile; resumed, it comes here again, and goes on. Raises Refused where it is not approved.
        """
        if not self.settings.approval or (self.directory / AUTHORIZATION).exists():  # charged: it was approved
            return
        unit = "rho" if definition == "zcdp" else "epsilon"
        asked = f"{unit} {format_amount(amount)} will be charged to every state of account {self.settings.account}"
        form = Approval.with_initial_data(description=asked, approve=False)
        if not suspend_flow_run(wait_for_input=form, timeout=APPROVAL_SECONDS, key="approval").approve:
            raise Refused("the charge was not approved")

    def submit_gate(self, function: Callable[..., Any], /, *after: Future, **arguments: Any) -> Future:
        """Start the budget check, which reserves what the run will spend; the server is told of it.

        A place that another run has filled meanwhile is refused here: nothing is charged that could not be released.
        """

        def reserve(directory: RunDirectory) -> None:
            if not (directory / AUTHORIZATION).exists():
                check_out(directory, self.out, self.settings.folder)
            function(directory, **arguments)
            artifacts.tell_reserved(self.settings)

        return self.submit("budget check", reserve, *after)

    def submit_commit(self, *after: Future, charged: bool) -> Future:
        """Start the last stage: the staged release goes to its place, and the run ends."""
        settings = self.settings
        return self.submit(
            "commit", commit, *after, out=self.out, folder=settings.folder, charging=settings.charging, charged=charged
        )


def start_workers(settings: RunSettings) -> None:
    """Start workers on this machine while Prefect's server starts, for a flow within OneCluster.

    What is wrong with them the flow will say.
    """
    cluster = settings.cluster
    if not (cluster.scheduler or cluster.cluster_class):
        with suppress(Refused, Failed), open_cluster(cluster, settings.directory / "dask"):
            pass


def carry_out(
    settings: S, stages: Callable[[Run[S]], Path | None], check: Callable[[S], bool], nothing: str = ""
) -> State[Any]:
    """Begin the run that the settings name, or resume it where it stopped; return the state that it ends in.

    Prefect gives whoever called the flow the path of the release, or raises why there is none: the run stopped or was
    refused. It gives None for a Skipped one, whose stages found nothing to release; `nothing` is the reason.
    Started again under the same run id, a flow takes up its own run: the same noise, one charge, one release. Call it
    in a flow.

    check: refuses a new run for what needs no worker, before a cluster is started; False where nothing is to be done.
    """
    stay_interruptible()
    settings = settings.named(f"{runtime.flow_run.id}-{settings.folder}")
    get_run_logger().info("run %s", settings.run_id)
    try:
        place = _carry_out(settings, stages, check)
    except Refused as error:
        return states.refused(error)
    except Failed as error:
        return states.failed(error, settings)
    if place is None:
        return states.skipped(nothing)
    artifacts.tell_released(settings, place)
    get_run_logger().info("released: %s", place)
    return states.released(place)


def _carry_out(settings: S, stages: Callable[[Run[S]], Path | None], check: Callable[[S], bool]) -> Path | None:
    run, out = settings.directory, Path(settings.out)
    with locked(run):
        artifacts.tell_earlier(settings, states.begin(settings))
        if is_truth(run):
            raise Refused(f"{run.id} is the directory of a das truth and can never be released: give another run id")
        if there := finish_released(run, out, settings.folder, settings.charging, settings.configuration_digest):
            return there
        check_out(run, out, settings.folder)
        keep_settings(run, settings)
        begins = not (run / "findings.json").exists()
        try:
            any_work = named(CHECK)(CHECK, run, lambda _directory: check(settings), lambda: None)
            place = _through(settings, stages) if any_work else None
        except Refused:
            reserved = any((run / name).exists() for name in (SECRET, AUTHORIZATION))
            if begins and not reserved and not has_errors(load_findings(run)):
                end_run(run)  # nothing in it that anybody could want
            raise
        if place is None:
            if (run / AUTHORIZATION).exists():
                raise Refused(
                    f"run {run.id} was reserved, but its inputs no longer have anything to release for its region"
                )
            end_run(run)
    return place


def _through(settings: S, stages: Callable[[Run[S]], Path | None]) -> Path | None:
    """Run the stages on a cluster; however they end, none is at work any more afterwards."""
    begun: list[tuple[Task[..., Any], Future]] = []
    over = Event()
    try:
        with artifacts.progress(settings), open_cluster(settings.cluster, settings.directory / "dask") as client:
            try:
                place = stages(Run(settings, settings.directory, Workers(client, report), over, begun))
            finally:
                over.set()
        states.settle(begun)
        return place
    except Exception:
        for _, future in begun:  # what is still at work has lost its workers
            future.wait()
        states.settle(begun)
        raise


def named(name: str) -> Any:
    """Return the task of a stage under its name; Prefect takes the one until the stage begins, then the other."""
    return stage.with_options(name=name, task_run_name=name)
