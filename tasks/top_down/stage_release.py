"""The stage "release": histograms, microdata and invariants, margins of error, report and manifest."""

from __future__ import annotations

from pathlib import Path

from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import clear_staging, drafts
from tasks.lifecycle.workers import Workers
from tasks.top_down.gls.released_margins import describe_margins, stage_margins
from tasks.top_down.measure.description import FOLDER
from tasks.top_down.release.histograms import stage_histograms
from tasks.top_down.release.manifest import describe_release
from tasks.top_down.run import TopDownRun


def stage_release(run: TopDownRun, workers: Workers, out: Path, folder: str, staged: Path) -> None:
    """Write the whole release into its staging folder, beside the measurements; the manifest last."""
    clear_staging(run, out, folder, but=FOLDER)
    if is_truth(run):  # exact counts: open to their owner only, as the release will be
        for path in (staged, drafts(staged)):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
    stage_histograms(run, workers, staged)
    margins = {}
    if run.design.estimator == "gls" and not is_truth(run):
        stage_margins(run, workers, staged)
        margins = {product: describe_margins(run, product) for product in run.design.products}
    describe_release(run, staged, margins)
