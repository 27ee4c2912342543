"""The geographic spine of TDA as a Prefect flow: from a block table to the optimized spine and its report.

    geography -> spines by state -> root and report

Public data only, so that parameters, logs and results may be stored in clear.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution.cluster import open_cluster_if
from flows.execution.policy import SPINE, under_policy
from flows.execution.spine_settings import SpineRun
from tasks.lifecycle.new_folder import new_folder
from tasks.spine.optimize import summarize_states
from tasks.spine.prepare import Prepared
from tasks.spine.write import SpineSummary, write_spine


def _do(name: str, stage: Callable[..., Any], *arguments: Any) -> Any:
    """Run a stage as a task and return its result."""
    return task(name=name, cache_policy=NO_CACHE, persist_result=False)(stage).submit(*arguments).result()


one_at_a_time: Any = ThreadPoolTaskRunner(max_workers=1)


@flow(name=SPINE, task_runner=one_at_a_time, persist_result=False)
def geographic_spine(run: SpineRun) -> dict[str, Any]:
    """Optimize the spine of a block table.

    Returns the summary in spine.json. Raises `tasks.errors.Refused` for bad input.
    """
    run = under_policy(run, SPINE)
    out = run.out.replace("{product}", SPINE).replace("{run}", str(runtime.flow_run.id))
    run = run.model_copy(update={"out": out.replace("{date}", f"{datetime.now():%Y-%m-%d}")})
    with new_folder(Path(run.out)) as folder:
        prepared: Prepared = _do("geography", run.prepared, folder)
        with open_cluster_if(run.cluster, ((str(folder), os.R_OK | os.W_OK),)) as workers:
            states = _do("spines by state", summarize_states, prepared, workers)
            summary: SpineSummary = _do("root and report", write_spine, prepared, states, workers)
    get_run_logger().info("%s blocks, spine in %s", f"{summary.blocks:,}", run.out)
    return summary.as_json() | {"out": run.out}
