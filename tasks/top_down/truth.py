"""`das tda truth`: the release that a run would give with its noise switched off. Not private."""

from __future__ import annotations

from pathlib import Path

from tasks.lifecycle.commit import check_out, commit
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Charging, register_if_synthetic
from tasks.lifecycle.staging import staging
from tasks.lifecycle.truth import mark_truth
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimators import estimate
from tasks.top_down.input.geography import build_spines
from tasks.top_down.input.histograms import sum_histograms
from tasks.top_down.input.validation import validate
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import Design
from tasks.top_down.stage_release import stage_release
from tasks.top_down.tables import Tables


def release_truth(
    run: TopDownRun,
    workers: Workers,
    tables: Tables,
    design: Design,
    out: Path,
    folder: str,
    *,
    ledger: Path,
    curator: bool = False,
) -> Path:
    """Release exact counts, marked NOT PRIVATE, open to their owner only, as is OUT where it is made here.

    Raises
    ------
    Refused
        where the data is not marked synthetic and nobody says to be its curator; where the ledger contradicts the mark
        or its absence.
    """
    check_out(run, out, folder)
    mark_truth(run, out, folder)
    validated = validate(run, workers, tables, design, None)
    digests = {"input_digest": validated.input_digest, "records_digest": validated.records_digest}
    if not (register_if_synthetic(run.id, ledger, marked=validated.synthetic, **digests) or curator):
        raise Refused(
            "the data is not marked synthetic: only its curator may see its exact counts (--i-am-the-curator)"
        )
    build_spines(run, workers)
    sum_histograms(run, workers)
    estimate(run, workers)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.mkdir(mode=0o700, exist_ok=True)
    stage_release(run, workers, out, folder, staging(run, out, folder))
    return commit(run, out, folder, Charging(None, ledger), charged=False)
