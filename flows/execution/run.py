"""Carry out a run in a flow, whatever it computes: its stages as Prefect tasks, and what surrounds them.

    lock -> release that is there already? -> settings kept -> what needs no worker is checked -> cluster
         -> the system's stages, of which the last commits

Every stage is coarse: it maps many Dask calls and waits for them. A stage that is retried repeats the same noise, so
retries are safe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from prefect import allow_failure, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution import states
from flows.execution.approval import await_approval
from flows.execution.artifacts import publish_released, publish_reserved
from flows.execution.cluster import open_cluster
from flows.execution.policy import under_policy
from flows.execution.progress import report
from flows.execution.runner import Runner, S, Stage, Stopped
from flows.execution.settings import RunSettings, keep_settings
from flows.execution.standing import released_place, remember_charge
from flows.reports.terminal import stay_interruptible
from privacy.accounting.composition import Spend
from privacy.accounting.journal import MarkName
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import AUTHORIZATION, is_repetition, is_truth
from tasks.lifecycle.commit import check_out, end_run, finish_released
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import seen_elsewhere, staging
from tasks.lifecycle.workers import Paths, Workers
from tasks.records.findings import REPORT, has_errors, load_findings

Future = PrefectFuture[Any]
CHECK = "parameters and account"


def flow_options(count: int) -> dict[str, Any]:
    """Return the options of every flow: run name, thread pool of `count` stages, hooks.

    What limits a stage is the number of Dask workers behind it.
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
def stage(name: str, run: RunDirectory, function: Callable[..., Any], skip_reason: Callable[[], str | None]) -> Any:
    """Run one stage of a run, unless there is a reason to skip it.

    The text of its errors stays in the confidential directory: pieces are guarded on the workers, and what a stage
    does in this process is guarded here.
    """
    if reason := skip_reason():
        return states.not_run(reason)
    try:
        return guard(name, run, function)
    except Failed:
        if reason := skip_reason():  # its workers were taken away
            return states.not_run(reason)
        raise


@dataclass(frozen=True)
class Planned:
    """What a run would spend, and the mark of its data, for which nothing would be charged."""

    spend: Spend
    mark: MarkName | None


class PrefectRunner(Runner[S]):
    """Runs the stages of a flow as Prefect tasks, at once where none comes after the other.

    planned: given in a dry run, which stops at the gate; it gets what the run would spend.
    """

    def __init__(self, settings: S, workers: Workers, planned: list[Planned] | None = None) -> None:
        super().__init__(settings, workers)
        self.planned = planned
        self.over = Event()  # set once the run has ended, whatever its stages do
        self.begun: list[Future] = []
        self.needed: list[Future] = []

    def submit(self, name: str, function: Callable[..., Any], /, *after: Any, **arguments: Any) -> Future:
        """Start the stage as a task; it ends as NotRun where one that it comes after failed."""
        future = self._start(name, partial(function, **arguments), after)
        self.needed.append(future)
        return future

    def _start(self, name: str, call: Callable[..., Any], after: Sequence[Future] = ()) -> Future:
        def skip_reason() -> str | None:
            failed = not all(future.state.is_completed() for future in after)
            return "the run ended in another stage" if failed or self.over.is_set() else None

        wait_for = [allow_failure(future) for future in after]  # else Prefect leaves the stage pending for good
        submit: Callable[..., Future] = named(name).submit
        future = submit(name, self.directory, call, skip_reason, return_state=False, wait_for=wait_for)
        self.begun.append(future)
        return future

    def attempt(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Stage:
        """Start the stage as a task; its result is waited for only when it is asked for."""
        return _Attempt(self._start(name, partial(function, **arguments)))

    def wait(self) -> None:
        """Wait for all stages; raise the first failure, which has the reason: later stages were only not run."""
        for future in self.needed:
            future.result()

    def gate(
        self, function: Callable[..., Any], given: Input, charge: Callable[[], Spend], states: Sequence[str]
    ) -> Callable[..., Any]:
        """Wait for a person's approval where the settings ask for it; a dry run ends here. Return the gate.

        Its artifact shows what it charged. A place that another run has filled meanwhile is refused: nothing is charged
        that could not be released.
        """
        if self.planned is not None:
            self.wait()
            self.planned.append(Planned(charge(), given.mark))
            raise Stopped
        if self.settings.approval and given.mark is None:
            self.wait()
            if not (self.directory / AUTHORIZATION).exists():  # else it is charged, and was approved
                await_approval(self.settings, given, charge(), states)

        def reserve(directory: RunDirectory, **arguments: Any) -> None:
            if not (directory / AUTHORIZATION).exists():
                self.workers.check()
                check_out(directory, self.out, self.settings.folder)
            function(directory, **arguments)
            remember_charge(self.settings)
            publish_reserved(self.settings)

        return reserve


@dataclass(frozen=True)
class _Attempt:
    """A stage whose failure is not the run's."""

    future: Future

    def result(self) -> Any:
        """Return its result, None where it failed."""
        self.future.wait()
        return self.future.result() if self.future.state.is_completed() else None


def start_workers(settings: RunSettings) -> None:
    """Start workers on this machine while Prefect's server starts, for a flow within OneCluster.

    Errors surface later, in the flow.
    """
    cluster = settings.cluster
    if not cluster.elsewhere:
        with suppress(Refused, Failed), open_cluster(cluster, settings.directory / "dask"):
            pass


def carry_out(settings: RunSettings) -> State[Any]:
    """Begin the run that the settings name, or resume it where it stopped; return the state that it ends in.

    From the state the flow's caller gets the path of the release, the exception where the run stopped or was refused,
    or None where it was skipped because its stages found nothing to release. Started again under the same run id, a
    flow continues its own run: the same noise, one charge, one release. Call it in a flow.

    The system's `check` refuses a new run for what needs no worker, before a cluster is started. Where the run is
    released, whatever failed after that is only logged.
    """
    stay_interruptible()
    try:
        settings = under_policy(settings, settings.SYSTEM).named(f"{runtime.flow_run.id}-{settings.folder}")
    except Refused as error:
        return states.refused(error)
    get_run_logger().info("run %s", settings.run_id)
    try:
        place = _carry_out(settings)
    except Refused as error:
        return states.refused(error)
    except Exception as error:
        place = released_place(settings)
        if place is None and isinstance(error, Failed):
            return states.failed(error, settings)
        if place is None:
            raise
        get_run_logger().warning("the run is released; after that, a %s was raised", type(error).__name__)
    if place is None:
        return states.skipped(f"{settings.folder.upper()} has no block, or config.json switches it off")
    publish_released(settings, place)
    get_run_logger().info("released: %s", place)
    return states.released(place)


def _carry_out(settings: RunSettings) -> Path | None:
    run, out = settings.directory, Path(settings.out)
    with locked(run):
        states.begin(settings)
        if is_truth(run) or is_repetition(run):
            raise Refused(
                f"{run.id} is the directory of a truth or accuracy and is never released: give another run id"
            )
        asked = settings.configuration_digest, settings.differences
        if there := finish_released(run, out, settings.folder, settings.charging, *asked):
            return there
        check_out(run, out, settings.folder)
        keep_settings(run, settings)
        begins = not (run / REPORT).exists()
        try:
            place = run_stages(settings) if run_check(settings) else None
        except Refused:
            if begins and not has_errors(load_findings(run)):
                with suppress(Refused):  # it is charged
                    end_run(run, (out, settings.folder))  # it holds nothing of use
            raise
        if place is None:
            end_run(run)
    return place


def run_check(settings: RunSettings) -> bool:
    """Refuse what can be refused without workers; return whether the run has anything to do."""
    check = settings.system.part("check")
    any_work: bool = named(CHECK)(CHECK, settings.directory, lambda _directory: check(settings), lambda: None)
    return any_work


def run_stages(settings: RunSettings, planned: list[Planned] | None = None) -> Path | None:
    """Run the stages on a cluster; on return or exception, all of them have ended. planned: of a dry run."""
    begun: list[Future] = []
    cluster = settings.cluster
    try:
        with ExitStack() as stack:
            paths = stack.enter_context(_must_see(settings))
            client = stack.enter_context(open_cluster(cluster, settings.directory / "dask"))
            workers = Workers(client, report, paths=paths, patience=cluster.patience)
            workers.check()
            runner = PrefectRunner(settings, workers, planned)
            begun = runner.begun
            try:
                place = runner.run()
            finally:
                runner.over.set()
    except Exception:  # not a signal, which is not to wait for stages
        for future in begun:  # those still at work have lost their workers
            future.wait()
        raise
    return place


@contextmanager
def _must_see(settings: RunSettings) -> Iterator[Paths]:
    """Yield what every worker must see: the run's directory, OUT by a mark that is the run's own, and the data."""
    if not settings.cluster.elsewhere:
        yield ()
        return
    with seen_elsewhere(staging(settings.directory, Path(settings.out), settings.folder)) as mark:
        written = (str(settings.directory.path), str(mark))
        read = (str(path) for path in settings.files_of_data())
        yield (*((path, os.R_OK | os.W_OK) for path in written), *((path, os.R_OK) for path in read))


def named(name: str) -> Any:
    """Return the task of a stage under its name; Prefect takes the one until the stage begins, then the other."""
    return stage.with_options(name=name, task_run_name=name)
