"""The geographic spine of TDA as a Prefect flow: from a block table to the optimized spine and its report.

    geography -> spines by state -> root and report

Public data only, so that parameters, logs and results may be stored in clear.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from prefect import flow, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import BaseModel, ConfigDict, Field

from flows.execution.cluster import open_cluster_if
from flows.execution.cluster_settings import ClusterSettings
from flows.execution.policy import SPINE, under_policy
from flows.execution.settings import Location
from spine.settings import Jurisdiction
from tasks.inputs.spine_options import read_allocation, read_columns, read_settings
from tasks.spine.first_pass import StateSummary, summarize_state
from tasks.spine.optimize import over
from tasks.spine.prepare import Prepared, prepare
from tasks.spine.summary import SpineSummary
from tasks.spine.write import StateMap, write_spine


class SpineRun(BaseModel):
    """What one spine is made of: the flow's parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    geography: Location = Field(
        description="P.L. 94-171 files, block assignment files, GRF-C or a CSV; a file, zip or directory."
    )
    out: Location = Field(description="The directory that is made; {run} in it stands for the flow run's id.")
    product: Literal["pl94-persons", "pl94-units", "dhc-persons", "dhc-units"] = "pl94-persons"
    jurisdiction: Jurisdiction = "us"
    variant: Literal["production", "paper"] = "production"
    changes: dict[str, str] = Field(default_factory=dict, description="Single spine settings by name.")
    columns: str | None = Field(default=None, description="A JSON file that names the table's columns.")
    allocation: str | None = Field(default=None, description="A JSON file of shares; the production run's by default.")
    budget: str | None = Field(default=None, description="Another rho (or epsilon), an exact fraction.")
    states: tuple[int, ...] = Field(default=(), description="Only these states, by FIPS code.")
    marginals: tuple[str, ...] = Field(default=(), description="Cells whose standard errors are reported.")
    extra: Location | None = Field(default=None, description="A CSV of prims and living quarters by block.")
    county: str | None = Field(default=None, description="The county to draw, five digits.")
    cluster: ClusterSettings | None = Field(default=None, description="Dask workers, by state; none by default.")


@task(name="geography", cache_policy=NO_CACHE, persist_result=False)
def read(run: SpineRun) -> Prepared:
    """Read and check the blocks, and lay them out by state."""
    settings = read_settings(run.product, run.jurisdiction, run.variant, run.changes)
    return prepare(
        run.geography,
        Path(run.out),
        settings,
        allocation=read_allocation(run.allocation, run.budget, settings),
        columns=read_columns(run.columns),
        states=run.states,
        marginals=run.marginals,
        county=run.county,
        extra=run.extra,
    )


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
