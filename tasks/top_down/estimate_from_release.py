"""`das tda estimate`: a release from published measurements alone. It reads no record or secret, and spends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.inputs.public_regions import keep_regions
from tasks.lifecycle.commit import check_out, commit, end_run
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimators import estimate
from tasks.top_down.measure.description import FOLDER
from tasks.top_down.measure.imported import make_spines
from tasks.top_down.measure.published import open_published, validate_measurements
from tasks.top_down.published.nmf.faults import Faults
from tasks.top_down.published.nmf.inventory import Inventory
from tasks.top_down.published.nmf.read_files import Request, read_files
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
    keep_regions(run, str(folder.parent if folder.name == FOLDER else folder))
    check_out(run, out, run.design.jurisdiction)
    make_spines(run, workers)
    validate_measurements(run, workers)
    return release_prepared(run, workers, out)


def release_from_files(
    runs: Sequence[TopDownRun], workers: Workers, inventory: Inventory, notes: Faults, request: Request, out: Path
) -> list[Path]:
    """Estimate from the Census Bureau's noisy measurement files, and release it as OUT/us and OUT/pr.

    runs: one for each jurisdiction that is there.

    Raises
    ------
    Refused
        where the files have a fault: the findings are in the run's findings.json, and nothing is released.
    """
    request = replace(request, keep_answers=request.changes.get("estimator") == "gls")
    for run, jurisdiction in zip(runs, inventory.jurisdictions or ("us",), strict=True):
        read_files(run, workers, inventory.only(jurisdiction), notes, request)
        if request.part_totals and request.keep_answers and run.validated.nation:
            raise Refused(
                "with --part-totals, --estimator gls takes some states alone, not the nation: its margins would need "
                "how the US level ties the errors of a state's parts. Add --only-state"
            )
        if request.geography is not None:
            keep_regions(run, request.geography)
    return [release_prepared(run, workers, out) for run in runs]


def release_prepared(run: TopDownRun, workers: Workers, out: Path) -> Path:
    """Estimate from published measurements that are read, and release it as OUT/us or OUT/pr."""
    place = run.design.jurisdiction
    check_out(run, out, place)
    estimate(run, workers)
    out.mkdir(parents=True, exist_ok=True)
    stage_release(run, workers, out, place, staging(run, out, place))
    return commit(run, out, place, Charging(None, run / "no-ledger"), charged=False)


def end_estimate(run: TopDownRun, out: Path) -> None:
    """Remove what an estimate that did not end has left. Raises Refused as `end_run` does."""
    end_run(run, (out, "us"), (out, "pr"))
