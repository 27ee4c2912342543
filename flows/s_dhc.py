"""The stages of the Supplemental DHC: from persons, units and geo to eleven tables, estimates and averages.

encode -> tabulate -> reserve budget -> measure -> averages -> release -> commit
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.runner import Runner
from flows.execution.s_dhc_settings import SDhcSettings
from tasks.lifecycle.reservation import Claim, precheck
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.staging import stage_in_one_piece
from tasks.records.marks import read_mark
from tasks.s_dhc.averages import find_averages
from tasks.s_dhc.encode import encode, open_sources
from tasks.s_dhc.measure import claim, measure
from tasks.s_dhc.release import write_release
from tasks.s_dhc.run import keep_plan
from tasks.s_dhc.tabulate import tabulate


def check(settings: SDhcSettings) -> bool:
    """Refuse a configuration and an account with which a run could not end."""
    plan = settings.plan()
    spend = plan.configuration.spend()
    plan.check()
    there = open_sources(settings.data)[0] is not None  # the encode stage reports missing files
    if there and not (settings.directory / VALIDATED).exists() and read_mark(settings.data) is None:
        precheck(settings.charging, Claim(settings.directory, plan.configuration.states, spend))
    return True


def stages(run: Runner[SDhcSettings]) -> Path:
    """Release one jurisdiction's tables PH1 to PH8."""
    settings, workers, plan = run.settings, run.workers, run.settings.plan()
    keep_plan(run.directory, plan)
    run.do("encode", encode, workers=workers, data=settings.data)
    tabulated = run.do("tabulate", tabulate, workers=workers)
    run.reserve(claim, given=tabulated).result()
    run.do("measure", measure, workers=workers)
    run.do("averages", find_averages, workers=workers)
    run.do("release", stage_in_one_piece, workers=workers, staged=run.staged, write=write_release)
    return run.commit()
