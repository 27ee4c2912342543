"""Carry out a run of any system in a flow: its stages as Prefect tasks, and the steps around them.

    lock -> is there a release already? -> keep settings -> check what needs no worker -> cluster
         -> the system's stages, the last of which commits

Every stage is coarse: it maps many Dask calls and waits for them. A stage that is retried repeats the same noise, so
retries are safe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from prefect import allow_failure, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import MissingContextError
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution import states
from flows.execution.approval import await_approval, check_agreed, confirm_second_charges
from flows.execution.cluster import open_cluster
from flows.execution.policy import under_policy
from flows.execution.progress import report
from flows.execution.run_status import charge_of, released_place, remember_charge
from flows.execution.runner import Ask, Runner, S, Stage, Stopped
from flows.execution.settings import RESERVATION, RunSettings, keep_settings
from flows.reports.terminal import stay_interruptible
from tasks.errors import Failed, Refused, all_or_none
from tasks.lifecycle.authorization import AUTHORIZATION, is_repetition, is_truth
from tasks.lifecycle.commit import check_out, end_run, finish_released
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.reservation import Claim
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import marker_folder, staging
from tasks.lifecycle.workers import Paths, Workers
from tasks.records.findings import REPORT

Future = PrefectFuture[Any]
Places = dict[str, Path]  # releases by folder, without those of parts that had nothing to release
CHECK = "parameters and account"


def flow_options(count: int) -> dict[str, Any]:
    """Return the options of every flow: run name, thread pool of `count` stages, hooks.

    A stage is limited by the number of its Dask workers, not by these threads.
    """
    return {
        "task_runner": ThreadPoolTaskRunner(max_workers=count),
        "flow_run_name": states.run_name,
        "persist_result": False,
        "on_crashed": [states.close],
        "on_cancellation": [states.close],
    }


async def _worth_retrying(_task: Any, _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether to try again: not after a refusal, which would only be repeated."""
    return not isinstance(await state.aresult(raise_on_failure=False), Refused)


@task(retries=2, retry_delay_seconds=1, retry_condition_fn=_worth_retrying, cache_policy=NO_CACHE, persist_result=False)
def stage(name: str, run: RunDirectory, function: Callable[..., Any], skip_reason: Callable[[], str | None]) -> Any:
    """Run one stage of a run, unless there is a reason to skip it.

    The text of its errors stays in the confidential directory: pieces are guarded on the workers, and the stage's own
    work in this process is guarded here.
    """
    if reason := skip_reason():
        return states.not_run(reason)
    try:
        return guard(name, run, function)
    except Failed:
        if reason := skip_reason():  # the run has ended and its workers are gone
            return states.not_run(reason)
        raise


@dataclass
class Tasks:
    """The tasks of a flow run, of all its parts.

    over: set once the run has ended, whatever its stages do. needed: the tasks in `begun` without which it fails.
    reserved: set once the run may draw noise.
    """

    over: Event = field(default_factory=Event)
    reserved: Event = field(default_factory=Event)
    begun: list[Future] = field(default_factory=list)
    needed: list[Future] = field(default_factory=list)

    def report(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage; once it is done, log the number of its pieces if that is public.

        Before the reservation stages go through records, whose size decides the number of pieces. After it every
        stage's pieces follow from public domains and published counts.
        """
        report(stage, done, total)
        if 0 < done == total and self.reserved.is_set():
            with suppress(MissingContextError):
                get_run_logger().info("%s: pieces done: %s", stage, f"{done:,}")


class PrefectRunner(Runner[S]):
    """Runs the stages of a flow as Prefect tasks, concurrently unless one follows the other.

    planned: the claims of a dry run by release folder, filled at the reservation, where it stops.
    """

    def __init__(self, settings: S, workers: Workers, tasks: Tasks, planned: dict[str, Claim] | None = None) -> None:
        super().__init__(settings, workers)
        self.planned = planned
        self.tasks = tasks

    def submit(self, name: str, function: Callable[..., Any], /, *after: Any, **arguments: Any) -> Future:
        """Start the stage as a task; it ends as NotRun if a stage before it failed."""
        future = self._start(name, partial(function, **arguments), after)
        self.tasks.needed.append(future)
        return future

    def _start(self, name: str, call: Callable[..., Any], after: Sequence[Future] = ()) -> Future:
        def skip_reason() -> str | None:
            failed = not all(future.state.is_completed() for future in after)
            return "the run ended in another stage" if failed or self.tasks.over.is_set() else None

        wait_for = [allow_failure(future) for future in after]  # otherwise Prefect leaves the stage pending forever
        submit: Callable[..., Future] = named(name).submit
        future = submit(name, self.directory, call, skip_reason, return_state=False, wait_for=wait_for)
        self.tasks.begun.append(future)
        return future

    def attempt(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Stage:
        """Start the stage as a task; only reading its result waits for it."""
        return _Attempt(self._start(name, partial(function, **arguments)))

    def wait(self) -> None:
        """Wait for all stages; raise the first failure, which has the reason: later stages were merely not run."""
        for future in self.tasks.needed:
            future.result()

    def reservation(self, asks: Sequence[Ask]) -> Callable[..., None]:
        """Wait for a person's approval or answer where one is asked for; a dry run ends here. Return the reservation.

        Its artifacts show what it charged. An output folder that another run has filled meanwhile is refused, so that
        nothing is charged that could not be released.
        """
        for ask in asks:
            settings = ask.part.settings
            with suppress(Failed):  # no run fails for want of a line
                if read := guard(RESERVATION, ask.part.directory, lambda _, own=settings: own.geography_read()):
                    get_run_logger().info("%s: read %s", settings.folder, read)
        if self.planned is not None:
            self.wait()
            self.planned.update((ask.part.settings.folder, ask.claim()) for ask in asks)
            raise Stopped
        new = [ask for ask in asks if not (ask.part.directory / AUTHORIZATION).exists()]
        unmarked = [ask for ask in new if ask.given.mark is None]
        for ask in unmarked:
            check_agreed(ask.part.settings, ask.claim())
        if unmarked and self.settings.approval:
            self.wait()
            await_approval(unmarked)
        elif unmarked:
            self.wait()
            confirm_second_charges(unmarked)

        reserve = super().reservation(asks)

        def checked(directory: RunDirectory) -> None:
            for ask in new:
                self.workers.check()
                check_out(ask.part.directory, ask.part.out, ask.part.settings.folder)
            reserve(directory)
            self.tasks.reserved.set()
            for ask in asks:
                remember_charge(ask.part.settings)
                before = "" if ask in new else " before this attempt; nothing more is charged"
                get_run_logger().info("%s: %s%s", ask.part.settings.folder, charge_of(ask.part.settings), before)
                states.publish_reserved(ask.part.settings)

        return checked


@dataclass(frozen=True)
class _Attempt:
    """A stage whose failure does not fail the run."""

    future: Future

    def result(self) -> Any:
        """Return its result, or None if it failed."""
        self.future.wait()
        return self.future.result() if self.future.state.is_completed() else None


def carry_out(settings: RunSettings) -> State[Any]:
    """Begin the run in the settings, or resume it where it stopped; return its final state. Call it in a flow.

    From the state the flow's caller gets the path of the release (a list of paths for a run of several parts), the
    exception if the run stopped or was refused, or None if it was skipped because its stages found nothing to release.
    Started again under the same run id, a flow continues its own run: the same noise, one charge, one release of each
    part.

    The system's `check` refuses a new run for everything that needs no worker, before a cluster is started. Failures
    after the release are only logged.
    """
    stay_interruptible()
    try:
        settings = under_policy(settings, settings.SYSTEM).named(f"{runtime.flow_run.id}-{settings.folder}")
    except Refused as error:
        return states.refused(error)
    parts, log = settings.parts, get_run_logger()
    log.info("run %s", ", ".join(part.directory.id for part in parts))
    try:
        places = _carry_out(parts)
    except Refused as error:
        return states.refused(error)
    except Exception as error:
        places = {part.folder: place for part in parts if (place := released_place(part))}
        unfinished = len(places) < len(parts)
        if unfinished and isinstance(error, Failed):
            return states.failed(error, parts)
        if unfinished:
            raise
        log.warning("the run is released; after that, a %s was raised", type(error).__name__)
    for part in parts:
        if place := places.get(part.folder):
            states.publish_released(part, place)
            log.info("released: %s", place)
        elif places:
            log.warning("%s", states.nothing_to_release([part]))
    released = [places[part.folder] for part in parts if part.folder in places]
    return states.released(released, one=len(parts) == 1) if released else states.skipped(parts)


def _carry_out(parts: Sequence[RunSettings]) -> Places:
    """Release every part that is not released yet."""
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(locked(part.directory))
        states.begin(parts)
        places = {part.folder: place for part in parts if (place := finished(part))}
        return places | _release([part for part in parts if part.folder not in places])


def prepare(settings: RunSettings) -> dict[str, Claim]:
    """Do what a run does before its reservation, for the run to go on from; return the claim of each part, by folder.

    Call it in a flow. A part that has nothing to release has no claim.
    """
    planned, parts = dict[str, Claim](), settings.parts
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(locked(part.directory))
        _release([part for part in parts if finished(part) is None], planned)
    return planned


def finished(settings: RunSettings) -> Path | None:
    """Return the release of a part that is released or sealed, else None. Raises Refused, Failed."""
    run = settings.directory
    if is_truth(run) or is_repetition(run):
        raise Refused(f"{run.id} is the directory of a truth or accuracy and is never released: give another run id")
    asked = settings.configuration_digest, settings.differences
    return finish_released(run, Path(settings.out), settings.folder, settings.charging, *asked)


def _release(parts: Sequence[RunSettings], planned: dict[str, Claim] | None = None) -> Places:
    """Release these parts on one cluster; if one is refused before they are charged, release none.

    planned: stop before the reservation, and fill in the claims of the parts by folder.
    """
    for part in parts:
        check_out(part.directory, Path(part.out), part.folder)
        keep_settings(part.directory, part)
    begin = [part for part in parts if not (part.directory / REPORT).exists()]
    try:
        places = run_stages(switched_on(parts), planned)
    except Refused:
        for part in begin:
            part.end_refused()
        raise
    for part in parts:
        if part.folder not in places and part.folder not in (planned or {}):
            end_run(part.directory)
    return places


def switched_on(parts: Sequence[RunSettings]) -> list[RunSettings]:
    """Refuse what can be refused without workers; return the parts that have anything to do."""

    def check(part: RunSettings) -> bool:
        any_work: bool = named(CHECK)(CHECK, part.directory, lambda _directory: part.check(), lambda: None)
        return any_work

    checked = all_or_none({part.folder.upper(): partial(check, part) for part in parts})
    return [part for part, any_work in zip(parts, checked, strict=True) if any_work]


def run_stages(parts: Sequence[RunSettings], planned: dict[str, Claim] | None = None) -> Places:
    """Run the stages of each part on one cluster; on return or exception, all of them have ended. planned: a dry run's.

    The cluster's scratch files are in the last part's directory, which is removed last.
    """
    if not parts:
        return {}
    tasks, cluster = Tasks(), parts[-1].cluster
    try:
        with ExitStack() as stack:
            paths = [path for part in parts for path in stack.enter_context(_paths_of_workers(part))]
            client = stack.enter_context(open_cluster(cluster, parts[-1].directory / "dask"))
            get_run_logger().info("cluster: %s, workers: %d", cluster.place, len(client.nthreads()))
            workers = Workers(client, tasks.report, paths=tuple(dict.fromkeys(paths)), patience=cluster.patience)
            workers.check()
            runners = [PrefectRunner(part, workers, tasks, planned) for part in parts]
            for runner in runners:
                runner.parts = runners
            try:
                places = {runner.settings.folder: place for runner in runners if (place := runner.run())}
            finally:
                tasks.over.set()
    except Exception:  # not a signal, which must not wait for stages
        for future in tasks.begun:  # stages that are still running have lost their workers
            future.wait()
        raise
    return places


@contextmanager
def _paths_of_workers(settings: RunSettings) -> Iterator[Paths]:
    """Yield the paths that every worker must see: the run's directory, OUT by a mark of this run, and the data."""
    if not settings.cluster.elsewhere:
        yield ()
        return
    with marker_folder(staging(settings.directory, Path(settings.out), settings.folder)) as mark:
        written = (str(settings.directory.path), str(mark))
        read = (str(path) for path in settings.files_of_data())
        yield (*((path, os.R_OK | os.W_OK) for path in written), *((path, os.R_OK) for path in read))


def named(name: str) -> Any:
    """Return the task of a stage under its name; Prefect shows the first until the stage begins, then the second."""
    return stage.with_options(name=name, task_run_name=name)
