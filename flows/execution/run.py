"""A run as a flow carries it out, whatever it computes: its stages as Prefect tasks, and all that is around them.

    lock -> release that is there already? -> settings kept -> cluster -> the flow's own stages -> commit

A flow gives its stages, as a function of a `Run`. Every stage is coarse: it maps many Dask calls and waits for them. A
stage that is retried repeats the same noise, so retries are safe.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from prefect import get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution.cluster import open_cluster
from flows.execution.progress import report
from flows.execution.settings import RunSettings, keep_settings
from tasks.lifecycle.authorization import AUTHORIZATION, is_truth
from tasks.lifecycle.commit import check_out, commit, end_run, finish_released
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers

Future = PrefectFuture[Any]
S = TypeVar("S", bound=RunSettings)


def stages_at_once(count: int) -> Any:
    """Return the runner of a flow's tasks, in threads; the Dask workers behind them are the limit of a stage."""
    return ThreadPoolTaskRunner(max_workers=count)  # any: prefect's own types do not fit each other


async def _worth_retrying(_task: Any, _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether to try again: a refusal stays one however often it is asked."""
    return not isinstance(await state.aresult(raise_on_failure=False), Refused)


@task(retries=2, retry_delay_seconds=1, retry_condition_fn=_worth_retrying, cache_policy=NO_CACHE, persist_result=False)
def stage(name: str, run: RunDirectory, function: Callable[..., Any]) -> Any:
    """Run one stage of a run; what goes wrong in it stays in the confidential directory."""
    return guard(name, run, function)


@dataclass(frozen=True)
class Run(Generic[S]):
    """What the stages of a flow work with."""

    settings: S
    directory: RunDirectory
    workers: Workers

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
        named = stage.with_options(name=name.partition(" (")[0], task_run_name=name)
        call = partial(function, **arguments)
        future: Future = named.submit(name, self.directory, call, return_state=False, wait_for=after)
        return future

    def do(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Run a stage and wait for what it gives."""
        return self.submit(name, function, **arguments).result()

    def submit_commit(self, *after: Future, charged: bool) -> Future:
        """Start the last stage: the staged release goes to its place, and the run ends."""
        settings = self.settings
        return self.submit(
            "commit", commit, *after, out=self.out, region=settings.folder, charging=settings.charging, charged=charged
        )


def start_workers(settings: RunSettings) -> None:
    """Start workers on this machine while Prefect's server starts, for a flow within OneCluster.

    What is wrong with them the flow will say.
    """
    cluster = settings.cluster
    if not (cluster.scheduler or cluster.cluster_class):
        with suppress(Refused, Failed), open_cluster(cluster, settings.directory / "dask"):
            pass


def carry_out(settings: S, stages: Callable[[Run[S]], Path | None]) -> str | None:
    """Begin the run that the settings name, or take it up where it stopped; returns the path of its release.

    None where the stages find nothing to release: the run is skipped and charged nothing. Started again under the same
    run id, a flow takes up its own run: the same noise, one charge, one release. Call it in a flow.

    Raises
    ------
    Refused, Failed
        as the stages do, and the commit.
    """
    settings = settings.named(f"{runtime.flow_run.id}-{settings.folder}")
    run, out = settings.directory, Path(settings.out)
    logger = get_run_logger()
    logger.info("run %s", run.id)
    with locked(run):
        if is_truth(run):
            raise Refused(f"{run.id} is the directory of a das truth and can never be released: give another run id")
        if there := finish_released(run, out, settings.folder, settings.charging, settings.configuration_digest):
            logger.info("released already: %s", there)
            return str(there)
        check_out(run, out, settings.folder)
        keep_settings(run, settings)
        with open_cluster(settings.cluster, run / "dask") as client:
            place = stages(Run(settings, run, Workers(client, report)))
        if place is None:
            if (run / AUTHORIZATION).exists():
                raise Refused(
                    f"run {run.id} was reserved, but its inputs no longer have anything to release for its region"
                )
            end_run(run)
            return None
    logger.info("released: %s", place)
    return str(place)
