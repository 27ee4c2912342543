"""Repeat the noise stages of a system on synthetic data, for `das accuracy` and `das tda accuracy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pandas as pd

from flows.execution.runner import Ask, InProcess, Stage, Stopped
from flows.execution.safetab_settings import DetailedDhcaSettings, DetailedDhcbSettings, SafeTabSettings
from flows.execution.settings import GATE, RunSettings
from tasks.errors import Refused
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.workers import Workers
from tasks.safetab.noise import load_queries
from tasks.safetab.parameters import read_parameters
from tasks.safetab.persons.accuracy.errors import Accuracy, compare
from tasks.safetab.reserve_budget import planned_spend
from tasks.safetab.trials import open_trial, trial_directory

R = TypeVar("R")


class _BeforeReservation(InProcess[RunSettings]):
    """Runs the stages before the reservation, of marked data alone."""

    def reserve_all(self, asks: Sequence[Ask], /, *_after: Stage) -> Stage:
        """Refuse data that is not marked, or stop."""
        if not all(map(self.is_marked, asks)):
            raise Refused("the data is not marked synthetic or public: its errors would reveal its exact counts")
        raise Stopped


def count_marked(settings: RunSettings, workers: Workers) -> dict[str, Any]:
    """Run the stages before the reservation; return their results by name.

    Raises Refused where the data is not marked, the ledger contradicts the mark, or the input is not valid.
    """
    (runner := _BeforeReservation(settings, workers)).run()
    return runner.results


def repeat(settings: SafeTabSettings, workers: Workers, runs: int, end: Callable[[int], R]) -> Iterator[R]:
    """Yield what `end` returns of each repetition, given its number; nothing where the jurisdiction has no block.

    The input is validated and counted once. Then every repetition is a run directory of its own, with links to these
    (tasks/safetab/trials.py), which `end` removes.

    Raises Refused as `count_marked` does, and where a budget is infinite.
    """
    run, (parameters, _) = settings.directory, read_parameters(settings.params, settings.run_class().CONFIGURATION)
    if parameters is not None:  # else validation reports why
        planned_spend(parameters.configuration, settings.jurisdiction)
    done = count_marked(settings, workers)
    if done["validate"] is None:
        return

    def repetition(number: int) -> R:
        ledger = settings.charging.ledger
        trial = open_trial(run, number, settings.jurisdiction, ledger, coterminous=settings.coterminous)
        InProcess(settings, workers, before="release", done=done | {GATE: None}, directory=trial).run()
        return end(number)

    with ThreadPoolExecutor(workers.count) as pool:  # as many at once as there are workers: a repetition takes disk
        yield from pool.map(repetition, range(runs))


def measure_errors(
    settings: DetailedDhcaSettings | DetailedDhcbSettings,
    workers: Workers,
    runs: int,
    compare: Callable[..., pd.DataFrame],
) -> pd.DataFrame | None:
    """Compare repeated runs with the truth; None where the jurisdiction has no block.

    compare: returns the errors of a level of a repetition (run, level, whether of estimates too).

    Raises Refused as `repeat` does.
    """
    run = settings.directory

    def end(number: int) -> pd.DataFrame:
        trial = trial_directory(run, number)
        levels = run.parameters.configuration.levels(settings.jurisdiction)
        found = workers.map("comparison", trial, compare, [(level, settings.estimates) for level in levels])
        end_run(trial)  # the secret goes with it
        errors: pd.DataFrame = pd.concat(found)
        return errors

    parts = list(repeat(settings, workers, runs, end))
    return pd.concat(parts) if parts else None


def measure_accuracy(settings: DetailedDhcaSettings, workers: Workers, runs: int) -> Accuracy | None:
    """Return what repeated runs of the Detailed DHC-A show, as `measure_errors` does."""
    errors = measure_errors(settings, workers, runs, compare)
    if errors is None:
        return None
    run = settings.directory
    levels = run.parameters.configuration.levels(settings.jurisdiction)
    return Accuracy(runs, settings.coterminous, levels, tuple(load_queries(run, level) for level in levels), errors)
