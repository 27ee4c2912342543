"""Estimators, equalities and ancestors: the parts of a run's estimates that follow from public files alone.

The estimators are made once a run and saved, so that every worker, retry and host reads the same floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.estimator import Estimator, critical_value, make_estimator
from privacy.estimation.pooling import AnswerLaws
from spine.settings import Jurisdiction
from tasks.lifecycle.files import load_object, save_object, stamp
from tasks.lifecycle.workers import Workers
from tasks.safetab.configuration import NEVER
from tasks.safetab.levels import Level
from tasks.safetab.noise import load_queries
from tasks.safetab.persons.details import AGE4, AGE9, AGE23, TOTAL, WIDTHS
from tasks.safetab.persons.run import PERSONS, DetailedRun

ESTIMATORS = "prepared/estimators/{:02d}"
STATE_DIGITS, COUNTY_DIGITS = 2, 5  # a region id begins with its state's, a tract's with its county's
ANCESTORS = {
    prefix + name: tuple((prefix + ancestor, digits) for ancestor, digits in ancestors)
    for prefix in ("", "PR-")
    for name, ancestors in {
        "COUNTY": (("STATE", STATE_DIGITS),),
        "TRACT": (("STATE", STATE_DIGITS), ("COUNTY", COUNTY_DIGITS)),
        "PLACE": (("STATE", STATE_DIGITS),),
    }.items()
}


@dataclass(frozen=True)
class EstimatorInput:
    """The input of an estimator: the laws of both answers, and the thresholds of the stage-1 total."""

    answers: AnswerLaws
    low: int | None
    high: int | None


def details_of(run: DetailedRun, level: Level) -> dict[int, EstimatorInput]:
    """Return the details that step 1 can choose at a level."""
    queries = load_queries(run, level)
    thresholds = run.parameters.configuration.thresholds[PERSONS][level]
    ends = (None, *(None if threshold >= NEVER else threshold for threshold in thresholds), None)
    details = {}
    for detail in (TOTAL, AGE4, AGE9, AGE23):
        low, high = ends[detail], ends[detail + 1]
        never = detail > TOTAL and low is None
        if not never and (low is None or high is None or low < high):
            answers = AnswerLaws(queries.law("stage_1"), queries.law("stage_2"), int(WIDTHS[detail]))
            details[detail] = EstimatorInput(answers, low, high)
    return details


def make_estimators(run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction) -> None:
    """Make the estimator of every detail of every level, each distinct one once."""
    numbers = range(len(_distinct(run, jurisdiction)))
    workers.map("estimate tables", run, save_estimator, [(jurisdiction, number) for number in numbers])


def save_estimator(run: DetailedRun, jurisdiction: Jurisdiction, number: int) -> None:
    """Make one of the estimators."""
    if not (path := run / ESTIMATORS.format(number)).exists():
        made_for = _distinct(run, jurisdiction)[number]
        save_object(path, make_estimator(made_for.answers, made_for.low, made_for.high))


def load_estimators(run: DetailedRun, level: Level) -> dict[int, Estimator]:
    """Return the estimators of a level, by detail."""
    numbers = {made_for: number for number, made_for in enumerate(_distinct(run, level.jurisdiction))}
    return {
        detail: load_object(run / ESTIMATORS.format(numbers[made_for]), Estimator)
        for detail, made_for in details_of(run, level).items()
    }


def _distinct(run: DetailedRun, jurisdiction: Jurisdiction) -> list[EstimatorInput]:
    """Return the distinct inputs of estimators; an estimator's number is its place."""
    levels = run.parameters.configuration.levels(jurisdiction)
    return list(dict.fromkeys(made_for for level in levels for made_for in details_of(run, level).values()))


def variances(run: DetailedRun, level: Level) -> NDArray[np.float64]:
    """Return the variance of an estimated total far from thresholds, by detail; nan for a detail that no group has."""
    by_width = np.full(len(WIDTHS), np.nan)
    by_width[-1] = load_queries(run, level).law("total_only").variance()
    for detail, estimator in load_estimators(run, level).items():
        by_width[detail] = estimator.variance
    return by_width


def ancestors(run: DetailedRun, level: Level) -> dict[Level, int]:
    """Return the levels whose regions hold this level's, with the number of digits of their region ids."""
    levels = run.parameters.configuration.levels(level.jurisdiction)
    above = {Level(name, level.iteration_level): digits for name, digits in ANCESTORS.get(level.region_type, ())}
    return {ancestor: digits for ancestor, digits in above.items() if ancestor in levels}


def critical_values(run: DetailedRun, level: Level, ancestor: Level) -> dict[int, int]:
    """Return the largest plausible excess of a total over its ancestor's, by the ancestor's detail."""
    return _critical_values(run, level, ancestor, stamp(run.parameters_path))


@lru_cache(maxsize=64)
def _critical_values(run: DetailedRun, level: Level, ancestor: Level, _stamp: tuple[int, int]) -> dict[int, int]:
    group = load_estimators(run, level)[TOTAL]
    return {detail: critical_value(group, above) for detail, above in load_estimators(run, ancestor).items()}
