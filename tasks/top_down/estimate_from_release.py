"""`das tda estimate`: a release from published measurements alone. It reads no record or secret, and spends nothing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.lifecycle.commit import check_out, commit
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.staging import clear_staging, staging
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimators import estimate
from tasks.top_down.input.geography import build_spines
from tasks.top_down.measure.published import open_published, validate_measurements
from tasks.top_down.run import TopDownRun
from tasks.top_down.stage_release import stage_release


def release_estimate(run: TopDownRun, workers: Workers, folder: Path, out: Path, changes: Mapping[str, Any]) -> Path:
    """Estimate from the measurements in a folder, and release it as OUT/us or OUT/pr.

    changes: fields of the measured run's design that are to be others: estimator, rounding, microdata.

    Raises
    ------
    Refused
        where the folder holds no such measurements, or not all of them; where OUT holds something.
    """
    open_published(run, folder, changes)
    place = run.design.jurisdiction
    check_out(run, out, place)
    build_spines(run, workers)
    validate_measurements(run, workers)
    estimate(run, workers)
    out.mkdir(parents=True, exist_ok=True)
    stage_release(run, workers, out, place, staging(run, out, place))
    return commit(run, out, place, Charging(None, run / "no-ledger"), charged=False)


def end_estimate(run: TopDownRun, out: Path) -> None:
    """Remove what an estimate that did not end has left."""
    for jurisdiction in ("us", "pr"):
        clear_staging(run, out, jurisdiction)
    shutil.rmtree(run.path, ignore_errors=True)
