"""The end of a repetition of `das accuracy`: its errors against the truth, and its directory removed. Not private."""

from __future__ import annotations

from pathlib import Path

from spine.settings import Jurisdiction
from tasks.detailed_dhca.accuracy.bureau import write_single_run
from tasks.detailed_dhca.accuracy.errors import Errors, compare, gather
from tasks.detailed_dhca.run import DetailedRun
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.workers import Workers
from tasks.population_groups.trials import trial_directory


def end_trial(
    run: DetailedRun, workers: Workers, number: int, jurisdiction: Jurisdiction, out: Path, *, estimates: bool
) -> Errors:
    """Compare a repetition's final tables with the exact counts, and remove its directory, the secret with it.

    Its errors by group go to OUT/single_runs.
    """
    trial = trial_directory(run, number)
    levels = trial.parameters.configuration.levels(jurisdiction)
    workers.map("comparison", trial, compare, [(level, estimates) for level in levels])
    workers.map("errors by group", trial, write_single_run, [(jurisdiction, out / f"single_runs/trial_{number}")])
    errors = gather(trial, levels, estimates=estimates)
    end_run(trial)
    return errors
