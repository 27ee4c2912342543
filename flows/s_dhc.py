"""The stages of the Supplemental DHC: from persons, units and geo to eleven tables, estimates and averages.

encode -> tabulate -> reserve budget -> measure -> averages -> release -> commit
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.runner import Runner
from flows.execution.s_dhc_settings import SDhcSettings
from tasks.lifecycle.staging import stage_in_one_piece
from tasks.s_dhc.averages import find_averages
from tasks.s_dhc.encode import encode
from tasks.s_dhc.measure import claim, measure
from tasks.s_dhc.release import write_release
from tasks.s_dhc.run import keep_plan
from tasks.s_dhc.tabulate import tabulate


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
