"""Levels of production as the tests of estimates see them, and exact sums over both answers of a group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from fixed_point_laws import pmf

from privacy.estimation.estimator import Estimator, make_estimator
from privacy.estimation.pooling import AnswerLaws
from privacy.noise.laws import law

BUDGETS = {
    "zcdp": {"nation/state": "2.134", "sub-state": ".159", "L1": ".008"},
    "puredp": {"nation/state": "7.487", "sub-state": "2.338", "L1": ".5338"},
}
DETAILS = (1, 8, 18, 46)


@lru_cache
def answers(definition, level, cells, gamma=".1"):
    budget, gamma = Fraction(BUDGETS[definition][level]), Fraction(gamma)
    return AnswerLaws(law(definition, gamma * budget, 9), law(definition, (1 - gamma) * budget, 9), cells)


@lru_cache
def estimator(definition, level, cells, low=0, high=None, gamma=".1"):
    return make_estimator(answers(definition, level, cells, gamma), low, high)


@dataclass
class Exact:
    """The law of an estimate's error for a true size, given the detail."""

    chance: float
    errors: np.ndarray
    chances: np.ndarray
    covered: float

    @property
    def bias(self):
        return (self.errors * self.chances).sum()

    @property
    def rmse(self):
        return (self.errors**2 * self.chances).sum() ** 0.5


def exact(estimator: Estimator, size: int) -> Exact:
    """By the double sum over (A, B), through what a stage calls; the noise laws are those of fixed_point_laws."""
    (a, p), (b, q) = first_law(estimator.answers), second_law(estimator.answers)
    t = size + a
    inside = np.ones(len(a), bool)
    if estimator.low is not None:
        inside &= t >= estimator.low
    if estimator.high is not None:
        inside &= t < estimator.high
    chance = p[inside].sum()
    total, measured = (x.ravel() for x in np.meshgrid(t[inside], size + b, indexing="ij"))
    weights = np.outer(p[inside], q).ravel() / chance
    correction = estimator.correction(total, measured)
    up = correction - np.floor(correction)
    below = measured + estimator.change(total, measured, np.zeros(len(total)))
    errors = np.concatenate([below, below + 1]) - size
    weights = np.concatenate([weights * (1 - up), weights * up])
    covered = weights[np.abs(errors) <= estimator.margins(errors + size)].sum()
    return Exact(chance, errors, weights, covered)


@lru_cache(maxsize=8)
def first_law(answers: AnswerLaws):
    reach, p = pmf(answers.stage_1)
    return _trimmed(np.arange(-reach, reach + 1), np.array(p))


@lru_cache(maxsize=8)
def second_law(answers: AnswerLaws):
    reach, single = pmf(answers.stage_2)
    total = np.ones(1)
    for _ in range(answers.cells):
        total = np.convolve(total, _trimmed(np.arange(-reach, reach + 1), np.array(single))[1])
    return _trimmed(np.arange(len(total)) - len(total) // 2, total)


def _trimmed(values, chances):
    kept = chances > 1e-9
    return values[kept], chances[kept] / chances[kept].sum()


def sizes(estimator: Estimator, least: float, count: int = 12):
    """Sizes about the lower threshold that reach the detail with probability `least`, up to 10 sd(A) above."""
    a, p = first_law(estimator.answers)
    reach = np.cumsum(p[::-1])[::-1]  # P(A >= a)
    deviation = estimator.answers.deviations[0]
    lowest = estimator.low - a[reach >= least][-1]
    return np.unique(np.linspace(lowest, estimator.low + 10 * deviation, count).astype(int)).tolist()
