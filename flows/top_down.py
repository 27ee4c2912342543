"""The stages of the TopDown Algorithm: from records and declared invariants to a private database by block.

validate -> spine -> histograms -> reserve budget -> measure ---------------------> release -> commit
                                                  \\_ estimate: states, tracts, blocks _/
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.runner import Runner
from flows.execution.top_down_settings import TopDownSettings
from tasks.top_down.estimate.estimators import estimate
from tasks.top_down.input.histograms import sum_histograms
from tasks.top_down.input.validation import check_public, validate
from tasks.top_down.measure import claim
from tasks.top_down.release.measurements import write_measurements
from tasks.top_down.release.stage_release import stage_release
from tasks.top_down.spines import build_spines


def check(settings: TopDownSettings) -> bool:
    """Refuse a design, paths and an account with which a run could not end."""
    design = settings.design()  # refuses choices that contradict each other
    check_public(settings.directory, settings.tables, settings.charging, design, settings.charged_states())
    return True


def stages(run: Runner[TopDownSettings]) -> Path:
    """Release one jurisdiction's histograms by the TopDown Algorithm (Abowd et al., 2022).

    The noisy measurements are written while parents are estimated, from the root down: both draw the same noise.
    """
    settings, workers, design = run.settings, run.workers, run.settings.design()
    charging = settings.charging if settings.account else None
    validated = run.do("validate", validate, workers=workers, tables=settings.tables, design=design, charging=charging)
    run.do("spine", build_spines, workers=workers)
    run.do("histograms", sum_histograms, workers=workers)
    reserved = run.reserve(claim, given=validated, workers=workers)
    measured = run.submit("measure", write_measurements, reserved, workers=workers, out=run.out)
    estimated = run.submit("estimate", estimate, reserved, workers=workers)
    run.wait()
    staged = run.submit("release", stage_release, measured, estimated, workers=workers, out=run.out)
    return run.commit(staged)
