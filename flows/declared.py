"""The stages of the TopDown Algorithm by a declaration: from records and public tables to histograms of every level.

tabulate -> reserve budget -> estimate -> release -> commit
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.declared_settings import DeclaredSettings
from flows.execution.runner import Runner
from privacy.accounting.states import EVERYWHERE
from tasks.top_down.declared.measure import estimate, precheck_budget, reserve_budget
from tasks.top_down.declared.public_tables import read_declared
from tasks.top_down.declared.release import stage_release
from tasks.top_down.declared.spend import planned_spend
from tasks.top_down.declared.tabulate import tabulate


def check(settings: DeclaredSettings) -> bool:
    """Refuse a declaration with faults, records without its columns and an account with which a run could not end."""
    _, declared = read_declared(settings.declaration)
    precheck_budget(settings.directory, declared, settings.data, settings.charging)
    return True


def stages(run: Runner[DeclaredSettings]) -> Path:
    """Release the histograms of a declaration by the TopDown Algorithm (Abowd et al., 2022)."""
    settings, workers = run.settings, run.workers
    public, declared = read_declared(settings.declaration)
    spend = planned_spend(declared.declaration)
    tabulated = run.do("tabulate", tabulate, workers=workers, data=settings.data, public=public)
    gate = run.reserve(reserve_budget, given=tabulated, charge=lambda: spend, states=EVERYWHERE)
    estimated = run.submit("estimate", estimate, gate, workers=workers)
    staged = run.submit("release", stage_release, estimated, workers=workers, staged=run.staged)
    return run.commit(staged)
