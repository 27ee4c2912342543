"""Repeat the noise stages of a system on synthetic data, for `das accuracy` and `das tda accuracy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from shutil import rmtree
from typing import Any

import pandas as pd

from flows.execution.runner import Ask, InProcess, Stage, Stopped
from flows.execution.safetab_settings import DetailedDhcaSettings, DetailedDhcbSettings, SafeTabSettings
from flows.execution.settings import RESERVATION, RunSettings
from tasks.errors import Refused
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.workers import Workers
from tasks.records.marks import UNMARKED
from tasks.releases.errors import compare
from tasks.releases.manifest import read_manifest
from tasks.safetab.noise import load_queries
from tasks.safetab.parameters import read_parameters
from tasks.safetab.persons.accuracy.errors import Accuracy
from tasks.safetab.persons.accuracy.errors import compare as compare_level
from tasks.safetab.reserve_budget import planned_spend
from tasks.safetab.trials import open_trial, truth_trial


class _BeforeReservation(InProcess[RunSettings]):
    """Runs the stages before the reservation, and there refuses data that is not marked."""

    def reserve_all(self, asks: Sequence[Ask], /, *_after: Stage) -> Stage:
        """Refuse data that is not marked, or stop."""
        if not all(map(self.is_marked, asks)):
            raise Refused(UNMARKED)
        raise Stopped


def count_marked(settings: RunSettings, workers: Workers) -> dict[str, Any]:
    """Run the stages before the reservation; return their results by name.

    Raises Refused if the data is not marked, the ledger contradicts the mark, or the input is not valid.
    """
    (runner := _BeforeReservation(settings, workers)).run()
    return runner.results


def _counted(settings: SafeTabSettings, workers: Workers) -> dict[str, Any] | None:
    """Validate and count the input of a SafeTab once, for all trials; None where the jurisdiction has no block.

    Raises Refused as `count_marked` does, and for an infinite budget.
    """
    parameters, _ = read_parameters(settings.params, settings.run_class().CONFIGURATION)
    if parameters is not None:  # else validation reports why
        planned_spend(parameters.configuration, settings.jurisdiction)
    done = count_marked(settings, workers)
    return None if done["validate"] is None else done | {RESERVATION: None}


def _repeat(
    settings: SafeTabSettings,
    workers: Workers,
    runs: int,
    done: dict[str, Any],
    before: str,
    end: Callable[[InProcess[Any]], pd.DataFrame],
) -> pd.DataFrame:
    """Return what `end` returns of all repetitions, one after the other.

    Each is a run directory of its own, with links to what was counted (tasks/safetab/trials.py), in which the stages
    before one are run. It is removed when `end` has returned.
    """
    ledger, coterminous = settings.charging.ledger, settings.coterminous

    def repetition(number: int) -> pd.DataFrame:
        trial = open_trial(settings.directory, number, settings.jurisdiction, ledger, coterminous=coterminous)
        runner = InProcess(settings, workers, before=before, done=done, directory=trial)
        runner.run()
        found = end(runner)
        end_run(trial)  # the secret goes with it
        return found

    with ThreadPoolExecutor(workers.count) as pool:  # as many at once as there are workers: a repetition takes disk
        return pd.concat(list(pool.map(repetition, range(runs))))


def measure_errors(settings: DetailedDhcbSettings, workers: Workers, runs: int) -> pd.DataFrame | None:
    """Return the errors of repeated releases against that of the truth; None where the jurisdiction has no block.

    Raises Refused as `_counted` does.
    """
    settings = settings.model_copy(update={"out": str(settings.directory / "repeated")})
    if (done := _counted(settings, workers)) is None:
        return None
    exact = settings.model_copy(update={"estimates": False})
    truth = InProcess(exact, workers, before="commit", done=done, directory=truth_trial(settings.directory))
    truth.run()

    def end(repetition: InProcess[Any]) -> pd.DataFrame:
        description = settings.system.part("description")(read_manifest(repetition.staged))
        found = compare(description, repetition.staged, truth.staged)
        rmtree(repetition.staged)
        return found

    return _repeat(settings, workers, runs, done, "commit", end)


def measure_accuracy(settings: DetailedDhcaSettings, workers: Workers, runs: int) -> Accuracy | None:
    """Return what repeated runs of the Detailed DHC-A show; None where the jurisdiction has no block.

    Raises Refused as `_counted` does.
    """
    if (done := _counted(settings, workers)) is None:
        return None
    run = settings.directory
    levels = run.parameters.configuration.levels(settings.jurisdiction)

    def end(repetition: InProcess[Any]) -> pd.DataFrame:
        arguments = [(level, settings.estimates) for level in levels]
        found: list[pd.DataFrame] = workers.map("comparison", repetition.directory, compare_level, arguments)
        return pd.concat(found)

    errors = _repeat(settings, workers, runs, done, "release", end)
    return Accuracy(runs, settings.coterminous, levels, tuple(load_queries(run, level) for level in levels), errors)
