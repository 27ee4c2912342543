"""The geographic spine of TDA as a Prefect flow: from a block table to the optimized spine and its report.

    geography -> spines by state -> root and report

Public data only, so that parameters, logs and results may be stored in clear.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner

from flows.execution.cluster import open_cluster_if
from flows.execution.policy import SPINE, under_policy
from flows.execution.spine_settings import SpineRun
from tasks.spine.first_pass import StateSummary, summarize_state
from tasks.spine.optimize import over
from tasks.spine.prepare import Prepared
from tasks.spine.write import SpineSummary, StateMap, write_spine


@task(name="geography", cache_policy=NO_CACHE, persist_result=False)
def read(run: SpineRun) -> Prepared:
    """Read and check the blocks, and lay them out by state."""
    return run.prepared()


@task(name="spines by state", cache_policy=NO_CACHE, persist_result=False)
def build(prepared: Prepared, map_states: StateMap) -> list[StateSummary]:
    """Build every state's spines; return the summaries that the root needs."""
    return list(map_states(summarize_state, [(path, prepared.plan) for path in prepared.paths]))


@task(name="root and report", cache_policy=NO_CACHE, persist_result=False)
def join(prepared: Prepared, states: Sequence[StateSummary], map_states: StateMap) -> SpineSummary:
    """Put the states under their root; measure and write every state, and the report."""
    return write_spine(prepared, states, map_states)


one_at_a_time: dict[str, Any] = {"task_runner": ThreadPoolTaskRunner(max_workers=1)}


@flow(name=SPINE, **one_at_a_time, persist_result=False)
def geographic_spine(run: SpineRun) -> dict[str, Any]:
    """Optimize the spine of a block table.

    Returns the summary that spine.json holds. Raises `tasks.lifecycle.errors.Refused` for bad input.
    """
    run = under_policy(run, SPINE)
    run = run.model_copy(update={"out": run.out.replace("{run}", str(runtime.flow_run.id))})
    prepared = read.submit(run).result()
    paths = ((str(prepared.partial), os.R_OK | os.W_OK),)
    with prepared.discarding(), open_cluster_if(run.cluster, paths) as workers:
        map_states = over(workers)
        states = build.submit(prepared, map_states).result()
        summary = join.submit(prepared, states, map_states).result()
    get_run_logger().info("%s blocks, spine in %s", f"{summary.blocks:,}", summary.out)
    return summary.as_json()
