"""The stages of the TopDown Algorithm: from records and declared figures to private histograms of every level.

validate -> spine -> histograms ---> reserve budget ---> measure ---------------------> release -> commit
of a declaration: tabulate ------/                  \\_ estimate, level by level ____/
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.execution.cluster import fit
from flows.execution.runner import Runner
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from tasks.errors import Refused
from tasks.top_down.declared.explain import memory
from tasks.top_down.declared.measurements import write_declared_layout
from tasks.top_down.declared.public_tables import read_declared
from tasks.top_down.declared.release import write_release as write_declared
from tasks.top_down.declared.source import check_estimator
from tasks.top_down.declared.tabulate import precheck_budget, tabulate
from tasks.top_down.declared.wide import estimate as estimate_declared
from tasks.top_down.estimate.estimators import estimate
from tasks.top_down.input.histograms import sum_histograms
from tasks.top_down.input.validation import check_public, validate
from tasks.top_down.measure import claim
from tasks.top_down.release.measurements import write_layout, write_measurements
from tasks.top_down.release.stage_release import stage_release, write_release
from tasks.top_down.source import Validated
from tasks.top_down.spines import build_spines


def check(settings: TopDownSettings) -> bool:
    """Refuse a design, paths and an account with which a run could not end."""
    design = settings.design()  # refuses choices that contradict each other
    check_public(settings.directory, settings.tables, settings.charging, design, settings.charged_states())
    return True


def stages(run: Runner[TopDownSettings]) -> Path:
    """Release one jurisdiction's histograms by the TopDown Algorithm (Abowd et al., 2022)."""
    settings, workers, design = run.settings, run.workers, run.settings.design()
    charging = settings.charging if settings.account else None
    validated = run.do("validate", validate, workers=workers, tables=settings.tables, design=design, charging=charging)
    run.do("spine", build_spines, workers=workers)
    run.do("histograms", sum_histograms, workers=workers)
    return _estimate(run, validated, estimate, write_layout, write_release)


def check_declared(settings: DeclaredSettings) -> bool:
    """Refuse what could not end: a declaration with faults or too large, records without its columns, an account."""
    _, declared = read_declared(settings.declaration, settings.directory)
    check_estimator(declared, settings.estimator)
    needed, there = memory(declared, settings.estimator), fit(settings.cluster)[1]
    if needed > there and not settings.cluster.elsewhere:
        raise Refused(
            f"the declaration needs {needed >> 20:,} MiB of memory in a worker, and each has {there >> 20:,}: give "
            "fewer --workers or a larger --memory-limit, or declare fewer cells or smaller families"
        )
    precheck_budget(settings.directory, declared, settings.data, settings.charging)
    return True


def declared_stages(run: Runner[DeclaredSettings]) -> Path:
    """Release the histograms of a declaration by the TopDown Algorithm."""
    settings = run.settings
    public, _ = read_declared(settings.declaration, settings.directory)
    chosen = {"data": settings.data, "public": public, "estimator": settings.estimator}
    tabulated = run.do("tabulate", tabulate, workers=run.workers, **chosen)
    return _estimate(run, tabulated, estimate_declared, write_declared_layout, write_declared)


def _estimate(
    run: Runner[Any],
    counted: Validated,
    estimate: Callable[..., None],
    layout: Callable[..., None],
    writer: Callable[..., None],
) -> Path:
    """Charge the run, measure and estimate what was counted, and release it. layout: writes the noisy measurements.

    They are written while parents are estimated, from the root down: both draw the same noise.
    """
    workers = run.workers
    reserved = run.reserve(claim, given=counted, workers=workers)
    measured = run.submit("measure", write_measurements, reserved, workers=workers, out=run.out, write=layout)
    estimated = run.submit("estimate", estimate, reserved, workers=workers)
    run.wait()
    staged = run.submit("release", stage_release, measured, estimated, workers=workers, out=run.out, write=writer)
    return run.commit(staged)
