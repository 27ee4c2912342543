"""The repetitions of `das accuracy`: a run directory each, with a secret of its own, against the truth. Not private.

A repetition's directory has links to the public files and the exact counts of the run that it repeats. Its secret comes
from the reservation, as for any run on synthetic data: data without the mark gets none, and so no repetition.
"""

from __future__ import annotations

from pathlib import Path

from spine.settings import Jurisdiction
from tasks.detailed_dhca.accuracy.bureau import write_single_run
from tasks.detailed_dhca.accuracy.errors import Errors, compare, gather
from tasks.detailed_dhca.run import DetailedRun
from tasks.lifecycle.authorization import mark_repetition
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.workers import Workers
from tasks.population_groups.reserve_budget import reserve_budget


def trial_directory(run: DetailedRun, number: int) -> DetailedRun:
    """Return the run directory of a repetition."""
    return DetailedRun(run.path.resolve() / f"trials/{number}")


def open_trial(
    run: DetailedRun, number: int, jurisdiction: Jurisdiction, ledger: Path, *, coterminous: bool
) -> DetailedRun:
    """Make the run directory of a repetition: the run's public files and exact counts, and a secret of its own.

    Raises Refused where the data is not marked synthetic: there is no account here to charge.
    """
    trial = trial_directory(run, number)
    trial.create()
    mark_repetition(trial)
    for name in ("prepared", "counts"):
        (trial / name).symlink_to(run.path.resolve() / name)
    options: dict[str, object] = {"region": jurisdiction, "coterminous": coterminous, "coterminous_list": None}
    reserve_budget(trial, jurisdiction, Charging(None, ledger), options, entered_as=run.id)
    return trial


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
