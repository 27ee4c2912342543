"""The stages of the TopDown Algorithm by a declaration: from records and public tables to histograms of every level.

tabulate -> reserve budget -> estimate -> release -> commit
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.cluster import fit
from flows.execution.runner import Runner
from flows.execution.top_down_settings import DeclaredSettings
from tasks.errors import Refused
from tasks.top_down.declared.explain import memory
from tasks.top_down.declared.public_tables import read_declared
from tasks.top_down.declared.release import stage_release
from tasks.top_down.declared.source import check_estimator
from tasks.top_down.declared.tabulate import precheck_budget, tabulate
from tasks.top_down.declared.wide import estimate
from tasks.top_down.measure import claim


def check(settings: DeclaredSettings) -> bool:
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


def stages(run: Runner[DeclaredSettings]) -> Path:
    """Release the histograms of a declaration by the TopDown Algorithm (Abowd et al., 2022)."""
    settings, workers = run.settings, run.workers
    public, _ = read_declared(settings.declaration, settings.directory)
    chosen = {"data": settings.data, "public": public, "estimator": settings.estimator}
    tabulated = run.do("tabulate", tabulate, workers=workers, **chosen)
    reserved = run.reserve(claim, given=tabulated, workers=workers)
    estimated = run.submit("estimate", estimate, reserved, workers=workers)
    staged = run.submit("release", stage_release, estimated, workers=workers, out=run.out)
    return run.commit(staged)
