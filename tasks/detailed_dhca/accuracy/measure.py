"""`das accuracy`: repeated runs on synthetic data, held against the truth. Not private.

The input is validated and counted once. Then every repetition is a run directory of its own, with links to these and
a secret of its own, which the budget check makes as for any run on synthetic data: data without the mark gets no secret
there, and so no repetition. Totals, sex by age, suppression and coterminous are the stages of a run.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from spine.settings import Jurisdiction
from tasks.detailed_dhca.accuracy.bureau import write_single_run
from tasks.detailed_dhca.accuracy.errors import Accuracy, Errors, compare, gather
from tasks.detailed_dhca.budget_check import planned_spend, reserve_budget
from tasks.detailed_dhca.coterminous import equate
from tasks.detailed_dhca.estimate_tables import make_estimators
from tasks.detailed_dhca.estimates import estimate_published
from tasks.detailed_dhca.population_groups import count_population_groups
from tasks.detailed_dhca.queries import load_queries
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.sex_by_age import measure_tables
from tasks.detailed_dhca.suppression import keep_published
from tasks.detailed_dhca.totals import choose_details
from tasks.detailed_dhca.validation import validate
from tasks.inputs.configuration import ITERATION_LEVELS, Level
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import save_object, unless_done
from tasks.lifecycle.reservation import Charging, register_if_synthetic
from tasks.lifecycle.workers import Workers
from tasks.population_groups.coterminous_sets import find_sets
from tasks.population_groups.domain import load_domain


def measure_accuracy(
    run: DetailedRun,
    workers: Workers,
    params: str,
    data: str,
    jurisdiction: Jurisdiction,
    out: Path,
    *,
    runs: int,
    ledger: Path,
    coterminous: bool = True,
    estimates: bool = False,
) -> Accuracy | None:
    """Repeat the noise stages of a run and compare; None where the jurisdiction has no block.

    The errors of every population group go to OUT/single_runs, run by run.

    Raises
    ------
    Refused
        where the data is not marked synthetic or the ledger contradicts the mark, the input is not valid or a budget is
        infinite.
    """
    validated = validate(run, workers, params, data, jurisdiction)
    if validated is None:
        return None
    digests = {"input_digest": validated.input_digest, "records_digest": validated.records_digest}
    if not register_if_synthetic(run.id, ledger, marked=validated.synthetic, **digests):
        raise Refused("the data is not marked synthetic: its errors would reveal its exact counts")
    configuration = run.parameters.configuration
    planned_spend(configuration, jurisdiction)  # refuses infinite budgets before anything is counted
    count_population_groups(run, workers, jurisdiction)
    sets = run.coterminous_path
    unless_done(sets, lambda: save_object(sets, find_sets(run, jurisdiction) if coterminous else {}))
    if estimates:
        make_estimators(run, workers, jurisdiction)
    errors = Errors.none()
    for first in range(0, runs, workers.count):  # as many at once as there are workers: a repetition takes disk
        numbers = range(first, min(first + workers.count, runs))
        errors = errors.add(
            _repeat(run, workers, jurisdiction, numbers, out, ledger, coterminous=coterminous, estimates=estimates)
        )
    levels = configuration.levels(jurisdiction)
    return Accuracy(
        jurisdiction, runs, coterminous, levels, tuple(load_queries(run, level) for level in levels), errors
    )


def trial_directory(run: DetailedRun, number: int) -> DetailedRun:
    """Return the run directory of a repetition."""
    return DetailedRun(run.path.resolve() / f"trials/{number}")


def open_trial(run: DetailedRun, number: int, jurisdiction: Jurisdiction, ledger: Path, *, coterminous: bool) -> None:
    """Make the run directory of a repetition: the run's public files and exact counts, and a secret of its own.

    Raises
    ------
    Refused
        by the budget check, where the data is not marked synthetic: there is no account here to charge.
    """
    trial = trial_directory(run, number)
    trial.create()
    for name in ("prepared", "counts"):
        (trial / name).symlink_to(run.path.resolve() / name)
    options: dict[str, object] = {"region": jurisdiction, "coterminous": coterminous, "coterminous_list": None}
    reserve_budget(trial, jurisdiction, Charging(None, ledger), options, entered_as=run.id)


def _repeat(
    run: DetailedRun,
    workers: Workers,
    jurisdiction: Jurisdiction,
    numbers: Sequence[int],
    out: Path,
    ledger: Path,
    *,
    coterminous: bool,
    estimates: bool,
) -> Errors:
    """Return the errors of some repetitions; their directories, secrets first, are gone afterwards."""
    for number in numbers:
        open_trial(run, number, jurisdiction, ledger, coterminous=coterminous)
    levels = run.parameters.configuration.levels(jurisdiction)
    domains = sorted((load_domain(run, level) for level in levels), key=lambda domain: -domain.groups)
    pieces = [(number, domain.level, *piece) for domain in domains for number in numbers for piece in domain.pieces()]
    workers.map("repetitions", run, measure, [(*piece, estimates) for piece in pieces])
    if estimates:
        workers.map("estimates", run, estimate_trial, pieces)
    kinds = (False, True) if estimates else (False,)
    halves = [(number, jurisdiction, half, kind) for half in ITERATION_LEVELS for number in numbers for kind in kinds]
    workers.map("coterminous", run, equate_trial, halves)
    compared = [(number, domain.level, estimates) for domain in domains for number in numbers]
    workers.map("comparison", run, compare_trial, compared)
    workers.map("errors by group", run, write_trial, [(number, jurisdiction, out) for number in numbers])
    errors = Errors.none()
    for number in numbers:
        trial = trial_directory(run, number)
        errors = errors.add(gather(trial, levels, estimates=estimates))
        shutil.rmtree(trial.path)
    return errors


def measure(run: DetailedRun, number: int, level: Level, first: int, last: int, estimates: bool = False) -> None:
    """Measure the groups in regions first ... last - 1 of a level once more: the stages from counts to tables."""
    trial = trial_directory(run, number)
    choose_details(trial, level, first, last, estimates)
    measure_tables(trial, level, first, last)
    keep_published(trial, level, first, last)


def estimate_trial(run: DetailedRun, number: int, level: Level, first: int, last: int) -> None:
    """Estimate the published groups in regions first ... last - 1 of a level of a repetition."""
    estimate_published(trial_directory(run, number), level, first, last)


def equate_trial(
    run: DetailedRun, number: int, jurisdiction: Jurisdiction, iteration_level: int, estimates: bool = False
) -> None:
    """Algorithm 4 in a repetition, for one iteration level."""
    equate(trial_directory(run, number), jurisdiction, iteration_level, estimates)


def compare_trial(run: DetailedRun, number: int, level: Level, estimates: bool = False) -> None:
    """Hold a repetition's tables of a level against the exact counts."""
    compare(trial_directory(run, number), level, estimates=estimates)


def write_trial(run: DetailedRun, number: int, jurisdiction: Jurisdiction, out: Path) -> None:
    """Write a repetition's errors by group."""
    write_single_run(trial_directory(run, number), jurisdiction, out / f"single_runs/trial_{number}")
