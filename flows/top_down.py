"""The TopDown Algorithm as a Prefect flow: from records and declared invariants to a private database by block.

validate -> spine -> histograms -> budget check -> measure ---------------------> release -> commit
                                                \\_ estimate: states, tracts, blocks _/
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from flows.execution.expected_work import expected_top_down
from flows.execution.progress import expect
from flows.execution.run import Run, carry_out, flow_options
from flows.execution.top_down_settings import TopDownSettings
from tasks.top_down.estimators import estimate
from tasks.top_down.input.geography import build_spines
from tasks.top_down.input.histograms import sum_histograms
from tasks.top_down.input.validation import check_public, validate
from tasks.top_down.release.measurements import write_measurements
from tasks.top_down.reserve_budget import reserve_budget
from tasks.top_down.run import Validated
from tasks.top_down.stage_release import stage_release


@flow(name=TopDownSettings.SYSTEM, **flow_options(2))
def top_down(settings: TopDownSettings) -> Any:
    """Run the TopDown Algorithm over one jurisdiction; returns the path of its release.

    Retried or started again under the same run id, the flow takes up its own run: the same noise, one charge, one
    release.
    """
    return carry_out(settings, stages, check)


def check(settings: TopDownSettings) -> bool:
    """Refuse a design, paths and an account with which a run could not end."""
    check_public(settings.directory, settings.tables, settings.design(), settings.charging)
    return True


def stages(run: Run[TopDownSettings]) -> Path:
    """The DAG of a run. Noisy measurements are written while estimation goes on: both draw the same noise."""
    settings, workers = run.settings, run.workers
    to = {"out": run.out, "folder": settings.folder, "staged": run.staged}
    expect(partial(expected_top_down, settings.directory))

    validated: Validated = run.do(
        "validate",
        validate,
        workers=workers,
        tables=settings.tables,
        design=settings.design(),
        charging=settings.charging,
    )
    run.do("spine", build_spines, workers=workers)
    run.do("histograms", sum_histograms, workers=workers)
    if not validated.synthetic:
        design = settings.directory.design
        run.await_approval(design.definition, design.total(validated.nation))
    run.submit_gate(reserve_budget, workers=workers, charging=settings.charging).result()
    measured = run.submit("measure", write_measurements, workers=workers, **to)
    estimated = run.submit("estimate", estimate, workers=workers)
    for future in (measured, estimated):
        future.result()
    run.do("release", stage_release, workers=workers, **to)
    place: Path = run.submit_commit(charged=not validated.synthetic).result()
    return place
