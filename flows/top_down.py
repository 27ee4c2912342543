"""The stages of the TopDown Algorithm: from records and declared figures to private histograms of every level.

validate -> histograms -> reserve budget ---> measure ---------------------> release -> commit
                                          \\_ estimate, level by level ____/
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.cluster import fit
from flows.execution.runner import Runner
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from tasks.errors import Refused
from tasks.lifecycle.run_directory import VALIDATED
from tasks.top_down.declared.explain import memory
from tasks.top_down.declared.measurements import write_declared_layout
from tasks.top_down.declared.public_tables import read_declared
from tasks.top_down.declared.release import write_release as write_declared
from tasks.top_down.declared.source import check_estimator, open_data
from tasks.top_down.declared.wide import estimate as estimate_declared
from tasks.top_down.estimate.estimators import estimate
from tasks.top_down.input.histograms import sum_histograms
from tasks.top_down.input.validation import check_input, validate
from tasks.top_down.measure import claim
from tasks.top_down.release.measurements import write_layout, write_measurements
from tasks.top_down.release.stage_release import stage_release, write_release

# What estimates, and what writes the noisy measurements and the release
OF_BLOCKS = estimate, write_layout, write_release
OF_DECLARATION = estimate_declared, write_declared_layout, write_declared


def check(settings: TopDownSettings) -> bool:
    """Refuse a design whose choices contradict each other, and missing files."""
    settings.design()
    check_input(settings.directory, settings.tables)
    return True


def check_declared(settings: DeclaredSettings) -> bool:
    """Refuse what could not end: a declaration with faults or too large, missing records or columns."""
    _, declared = read_declared(settings.declaration, settings.directory)
    check_estimator(declared, settings.estimator)
    needed, there = memory(declared, settings.estimator), fit(settings.cluster)[1]
    if needed > there and not settings.cluster.elsewhere:
        raise Refused(
            f"the declaration needs {needed >> 20:,} MiB of memory in a worker, and each has {there >> 20:,}: give "
            "fewer --workers or a larger --memory-limit, or declare fewer cells or smaller families"
        )
    check_input(settings.directory, settings.tables)
    validated = (settings.directory / VALIDATED).exists()  # goes on from its own copy of the records
    if not validated and (findings := open_data(settings.data, declared.declaration)[1]):
        raise Refused(f"{findings[0].file}: {findings[0].rule}")
    return True


def stages(run: Runner[TopDownSettings] | Runner[DeclaredSettings]) -> Path:
    """Release the histograms of one jurisdiction, or of a declaration, by the TopDown Algorithm (Abowd et al., 2022).

    The measurements are written while parents are estimated, from the root down: both draw the same noise.
    """
    settings, workers, out = run.settings, run.workers, run.out
    charging = settings.charging if settings.account else None
    given = {"workers": workers, "tables": settings.tables, "charging": charging}
    validated = run.do("validate", validate, **given, design=settings.design())  # from then on it lies in files
    run.do("histograms", sum_histograms, workers=workers)
    estimator, layout, writer = OF_BLOCKS if isinstance(settings, TopDownSettings) else OF_DECLARATION
    reserved = run.reserve(claim, given=validated, workers=workers)
    measured = run.submit("measure", write_measurements, reserved, workers=workers, out=out, write=layout)
    estimated = run.submit("estimate", estimator, reserved, workers=workers)
    run.wait()
    staged = run.submit("release", stage_release, measured, estimated, workers=workers, out=out, write=writer)
    return run.commit(staged)
