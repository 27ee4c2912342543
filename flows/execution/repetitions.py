"""Repeat the noise stages of a system on synthetic data, for `das accuracy` and `das tda accuracy`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from shutil import rmtree
from typing import Any, TypeVar

import pandas as pd

from flows.execution.runner import InProcess, is_marked
from flows.execution.safetab_settings import DetailedDhcaSettings, DetailedDhcbSettings, SafeTabSettings
from flows.execution.settings import GATE, RunSettings
from tasks.errors import Refused
from tasks.lifecycle.authorization import TRUTH, mark_repetition
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.workers import Workers
from tasks.releases.errors import compare
from tasks.releases.manifest import read_manifest
from tasks.safetab.noise import load_queries
from tasks.safetab.parameters import read_parameters
from tasks.safetab.persons.accuracy.errors import Accuracy
from tasks.safetab.persons.accuracy.errors import compare as compare_level
from tasks.safetab.reserve_budget import planned_spend
from tasks.safetab.run import SafeTabRun

R = TypeVar("R", bound=SafeTabRun)


def count_marked(settings: RunSettings, workers: Workers) -> dict[str, Any]:
    """Run the stages before the reservation; return their results by name.

    Raises Refused where the data is not marked, the ledger contradicts the mark, or the input is not valid.
    """
    runner = InProcess(settings, workers, before=GATE)
    runner.run()
    given = (each for each in reversed(runner.results.values()) if hasattr(each, "input_digest"))
    validated, run = next(given, None), settings.directory
    if validated is not None and not is_marked(run.id, settings.charging.ledger, validated):
        raise Refused("the data is not marked synthetic or public: its errors would reveal its exact counts")
    return runner.results


def _counted(settings: SafeTabSettings, workers: Workers) -> dict[str, Any] | None:
    """Validate and count the input of a SafeTab once, for all trials; None where the jurisdiction has no block.

    Raises Refused as `count_marked` does, and where a budget is infinite.
    """
    parameters, _ = read_parameters(settings.params, settings.run_class().CONFIGURATION)
    if parameters is not None:  # else validation reports why
        planned_spend(parameters.configuration, settings.jurisdiction)
    done = count_marked(settings, workers)
    return None if done["validate"] is None else done


def trial_directory(run: R, name: int | str) -> R:
    """Return the run directory of a repetition, by its number, or of the truth."""
    return type(run)(run.path.resolve() / f"trials/{name}")


def _run_trial(
    settings: SafeTabSettings, workers: Workers, done: dict[str, Any], before: str, name: int | str
) -> InProcess[Any]:
    """Run the stages of a repetition, by its number, or of the truth in a directory that links to what was counted.

    A repetition gets its secret by a reservation, as any run on marked data: data without the mark gets none.
    """
    run, trial = settings.directory, trial_directory(settings.directory, name)
    trial.create()
    for folder in ("prepared", "counts"):
        (trial / folder).symlink_to(run.path.resolve() / folder)
    if name == TRUTH:
        (trial / TRUTH).touch()
        done = done | {GATE: None}
    else:
        mark_repetition(trial, run.id)
    runner = InProcess(settings, workers, before=before, done=done, directory=trial)
    runner.run()
    return runner


def _repeat(
    workers: Workers, runs: int, trial: Callable[[int], InProcess[Any]], end: Callable[[InProcess[Any]], pd.DataFrame]
) -> pd.DataFrame:
    """Return what `end` returns of all repetitions, one after the other; each is removed when it has returned."""

    def repetition(number: int) -> pd.DataFrame:
        found = end(runner := trial(number))
        end_run(runner.directory)  # the secret goes with it
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
    truth = _run_trial(settings.model_copy(update={"estimates": False}), workers, done, "commit", TRUTH).staged

    def end(runner: InProcess[Any]) -> pd.DataFrame:
        description = settings.system.part("description")(read_manifest(runner.staged))
        found = compare(description, runner.staged, truth)
        rmtree(runner.staged)
        return found

    return _repeat(workers, runs, partial(_run_trial, settings, workers, done, "commit"), end)


def measure_accuracy(settings: DetailedDhcaSettings, workers: Workers, runs: int) -> Accuracy | None:
    """Return what repeated runs of the Detailed DHC-A show; None where the jurisdiction has no block.

    Raises Refused as `_counted` does.
    """
    if (done := _counted(settings, workers)) is None:
        return None
    run = settings.directory
    levels = run.parameters.configuration.levels(settings.jurisdiction)

    def end(runner: InProcess[Any]) -> pd.DataFrame:
        arguments = [(level, settings.estimates) for level in levels]
        found: list[pd.DataFrame] = workers.map("comparison", runner.directory, compare_level, arguments)
        return pd.concat(found)

    errors = _repeat(workers, runs, partial(_run_trial, settings, workers, done, "release"), end)
    return Accuracy(runs, settings.coterminous, levels, tuple(load_queries(run, level) for level in levels), errors)
