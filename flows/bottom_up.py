"""The bottom-up mechanism as a Prefect flow on Dask, over a table larger than memory.

    tabulate -> budget check -> measure -> calibrate -> release -> commit

Account, reservation, secret, commit and cluster are those of every run (flows.detailed_dhca).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.task_runners import ThreadPoolTaskRunner

from flows.detailed_dhca import stage
from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.cluster import open_cluster
from flows.execution.progress import report
from flows.execution.settings import keep_settings
from tasks.bottom_up.measure import PLAN, Plan, calibrate_counts, check_budget, measure
from tasks.bottom_up.release import stage_release
from tasks.bottom_up.tabulate import tabulate
from tasks.lifecycle.commit import check_out, commit, finish_released
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import RunDirectory, locked
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers

RUNNER: Any = ThreadPoolTaskRunner(max_workers=1)  # @flow's type is invariant in the future of a task


@flow(name="bottom-up", task_runner=RUNNER, persist_result=False)
def bottom_up(settings: BottomUpSettings) -> str:
    """Release a noisy histogram and its margins; returns the release's path.

    Retried or started again under the same run id, the flow takes up its own run: the same noise, one charge, one
    release.
    """
    run_id = settings.run_id or f"{runtime.flow_run.id}-bottom-up"
    run, out = RunDirectory(settings.runs / run_id), Path(settings.out)
    logger = get_run_logger()
    logger.info("run %s", run.id)
    with locked(run):
        place = finish_released(run, out, settings.folder, settings.charging, lambda: settings.plan().digest())
        if place is None:
            check_out(run, out, settings.folder)
            keep_settings(run, settings.model_copy(update={"run_id": run_id}))
            save_object(run / PLAN, settings.plan())
            with open_cluster(settings.cluster, run / "dask") as client:
                place = _stages(settings, run, out, Workers(client, report))
    logger.info("released: %s", place)
    return str(place)


def _stages(settings: BottomUpSettings, run: RunDirectory, out: Path, workers: Workers) -> Path:
    """The stages of a run, one after another: each needs all of the one before."""
    plan: Plan = load_object(run / PLAN)
    tabulated = _stage("tabulate", run, partial(tabulate, workers=workers, table=settings.table, domain=plan.domain))
    _stage("budget check", run, partial(check_budget, charging=settings.charging))
    _stage("measure", run, partial(measure, workers=workers))
    _stage("calibrate", run, partial(calibrate_counts, workers=workers))
    _stage("release", run, partial(stage_release, workers=workers, staged=staging(run, out, settings.folder)))
    done = partial(commit, out=out, region=settings.folder, charging=settings.charging, charged=not tabulated.synthetic)
    place: Path = _stage("commit", run, done)
    return place


def _stage(name: str, run: RunDirectory, function: Callable[..., Any]) -> Any:
    return stage.with_options(name=name, task_run_name=name).submit(name, run, function).result()
