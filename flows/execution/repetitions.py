"""Repeat the noise stages of a system on marked data, for the commands `accuracy`. Not private."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from shutil import rmtree
from typing import Any, TypeVar

import pandas as pd

from flows.execution.runner import Ask, InProcess
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import RESERVATION, RunSettings
from tasks.errors import Refused
from tasks.lifecycle.authorization import TRUTH, mark_repetition
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.reservation import Charging, authorize
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.marks import UNMARKED
from tasks.releases.errors import compare
from tasks.releases.manifest import read_manifest
from tasks.safetab.noise import load_queries
from tasks.safetab.persons.accuracy.errors import Accuracy
from tasks.safetab.persons.accuracy.errors import compare as compare_level

R = TypeVar("R", bound=RunDirectory)


def count_marked(settings: RunSettings, workers: Workers) -> dict[str, Any]:
    """Run the stages before the reservation; return their results by name.

    Raises Refused if the data is not marked, the ledger contradicts the mark, or the input is not valid.
    """
    return _counted(settings, workers).results


def _counted(settings: RunSettings, workers: Workers) -> InProcess[RunSettings]:
    """Run the stages before the reservation; refuse data that is not marked."""
    (runner := InProcess(settings, workers, before=RESERVATION)).run()
    if not all(map(runner.is_marked, runner.asks)):
        raise Refused(UNMARKED)
    return runner


def trial_directory(run: R, name: int | str) -> R:
    """Return the run directory of a repetition, by number, or of the truth."""
    return type(run)(run.path.resolve() / f"trials/{name}")


def _linked(run: R, name: int | str) -> R:
    """Make the directory of a repetition, with links to the public files and exact counts of the run."""
    trial = trial_directory(run, name)
    trial.create()
    for folder in ("prepared", "counts"):
        (trial / folder).symlink_to(run.path.resolve() / folder)
    return trial


def open_trial(ask: Ask, number: int) -> RunDirectory:
    """Make the run directory of a repetition. Its secret comes from the reservation, as for any run on marked data.

    Raises Refused for data that is not marked: no account can be charged here.
    """
    run = ask.part.directory
    trial = _linked(run, number)
    mark_repetition(trial)
    charging = Charging(None, ask.part.settings.charging.ledger)
    authorize(charging, replace(ask.make(trial), entered_as=run.id))
    return trial


def _repeat(
    counted: InProcess[RunSettings], runs: int, before: str, end: Callable[[InProcess[Any]], pd.DataFrame]
) -> pd.DataFrame:
    """Return what `end` returns of all repetitions.

    Each is a run directory of its own, in which the stages from the reservation to the one `before` are run. It is
    removed when `end` has returned.
    """
    (ask,), done, workers = counted.asks, counted.results | {RESERVATION: None}, counted.workers

    def repetition(number: int) -> pd.DataFrame:
        trial = open_trial(ask, number)
        runner = InProcess(counted.settings, workers, before=before, done=done, directory=trial)
        runner.run()
        found = end(runner)
        end_run(trial)  # the secret goes with it
        return found

    with ThreadPoolExecutor(workers.count) as pool:  # as many at once as there are workers: a repetition takes disk
        return pd.concat(list(pool.map(repetition, range(runs))))


def measure_errors(settings: RunSettings, workers: Workers, runs: int) -> pd.DataFrame | None:
    """Return the errors of repeated releases against that of the truth; None where a run would be skipped.

    Raises Refused as `count_marked` does, and for an infinite budget.
    """
    settings = settings.model_copy(update={"out": str(settings.directory / "repeated")})
    settings.spends()
    counted = _counted(settings, workers)
    if not counted.asks:
        return None
    trial = _linked(settings.directory, TRUTH)  # without a secret
    (trial / TRUTH).touch()
    exact = settings.model_copy(update={"estimates": False} if "estimates" in type(settings).model_fields else {})
    done = counted.results | {RESERVATION: None}
    (truth := InProcess(exact, workers, before="commit", done=done, directory=trial)).run()

    def end(repetition: InProcess[Any]) -> pd.DataFrame:
        description = settings.system.part("description")(read_manifest(repetition.staged))
        found = compare(description, repetition.staged, truth.staged)
        rmtree(repetition.staged)
        return found

    return _repeat(counted, runs, "commit", end)


def measure_accuracy(settings: DetailedDhcaSettings, workers: Workers, runs: int) -> Accuracy | None:
    """Return what repeated runs of the Detailed DHC-A show; None where the jurisdiction has no block.

    Raises Refused as `measure_errors` does.
    """
    settings.spends()
    counted = _counted(settings, workers)
    if not counted.asks:
        return None
    run = settings.directory
    levels = run.parameters.configuration.levels(settings.jurisdiction)

    def end(repetition: InProcess[Any]) -> pd.DataFrame:
        arguments = [(level, settings.estimates) for level in levels]
        found: list[pd.DataFrame] = workers.map("comparison", repetition.directory, compare_level, arguments)
        return pd.concat(found)

    errors = _repeat(counted, runs, "release", end)
    return Accuracy(runs, settings.coterminous, levels, tuple(load_queries(run, level) for level in levels), errors)
