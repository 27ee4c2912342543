"""The stages of the bottom-up mechanism, over a table larger than memory.

tabulate -> reserve budget -> measure -> calibrate -> release -> commit
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.runner import Runner
from tasks.bottom_up.measure import CHOICES, calibrate_counts, claim, measure
from tasks.bottom_up.release import write_release
from tasks.bottom_up.tabulate import open_source, tabulate
from tasks.geography.names import NAMES
from tasks.geography.public_regions import keep_regions
from tasks.lifecycle.files import save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.staging import stage_in_one_piece


def check(settings: BottomUpSettings) -> bool:
    """Refuse a table that is missing or lacks a declared column, before it is read."""
    if not (settings.directory / VALIDATED).exists():
        open_source(settings.table, settings.design().declared)
    return True


def stages(run: Runner[BottomUpSettings]) -> Path:
    """Release a noisy histogram, calibrated to published totals if there are any, and its marginals."""
    settings, workers, design = run.settings, run.workers, run.settings.design()
    save_object(run.directory / CHOICES, design)
    names = Path(settings.declaration).with_name(NAMES.file)
    if names.exists():
        run.do("regions", keep_regions, geography=str(names))
    tabulated = run.do("tabulate", tabulate, workers=workers, table=settings.table, declared=design.declared)
    run.reserve(claim, given=tabulated).result()
    run.do("measure", measure, workers=workers)
    run.do("calibrate", calibrate_counts, workers=workers)
    run.do("release", stage_in_one_piece, workers=workers, staged=run.staged, write=write_release)
    return run.commit()
