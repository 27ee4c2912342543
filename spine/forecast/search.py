"""Find the least budget that meets a target, and the shares that lower the predicted errors most.

Shares are varied by level and kind of query: its total, its sums by Hispanic origin and race, and all others, which
keep their proportions. The sum of the budget stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

import numpy as np

from spine.forecast.precision import Weights
from spine.geography import FloatArray

Row = tuple[str, str]  # a level or family of areas, and a quantity
Predict = Mapping[Row, float]
SHARPNESS = 0.03  # the soft maximum's: smaller is nearer to the largest ratio
ON_AVERAGE = 0.3  # weight of the mean of all ratios
STEP = 0.02  # of finite differences, in the logarithm of a share
ITERATIONS = 12
PASSED = 100.0  # what passing a limit costs
FACTORS = (1e-3, 1e3)  # of the budget, between which a target is searched
BISECTIONS = 20
FRONT = 9  # points between two aims


@dataclass(frozen=True)
class Aims:
    """The goal of a search for shares.

    rows: the weight of each row's error. limits: for some rows, the largest allowed ratio of the error to that at the
        start.
    """

    rows: Mapping[Row, float]
    limits: Mapping[Row, float] = field(default_factory=dict)

    def value(self, errors: Predict, start: Predict) -> float:
        """Return what is made small: a soft maximum of the errors' ratios to the start's, and some of their mean."""
        names = [row for row in self.rows if start[row] > 0]
        ratios = np.log([errors[row] / start[row] for row in names])
        weights = np.array([self.rows[row] for row in names])
        weights = weights / weights.sum()
        top = ratios.max()
        soft = top + SHARPNESS * log(float(weights @ np.exp((ratios - top) / SHARPNESS)))
        over = [max(0.0, log(errors[row] / start[row]) - log(limit)) for row, limit in self.limits.items()]
        return float(soft + ON_AVERAGE * (weights @ ratios) + PASSED * sum(passed**2 for passed in over))


def best_shares(predict: Callable[[Weights], Predict], start: Weights, aims: Aims, kept: Sequence[str] = ()) -> Weights:
    """Return weights of the same sum that make the aims' value smallest; levels in `kept` keep what they have.

    predict: the errors by row, for any weights, also of another sum.
    """
    from scipy.optimize import minimize  # slow to import

    at_start = predict(start)
    free = {level: queries for level, queries in start.items() if level not in kept}
    groups = [(level, names) for level, queries in free.items() for names in kinds(queries)]
    first = np.array([sum(free[level][name] for name in names) for level, names in groups])

    def weights(values: FloatArray) -> Weights:
        found = {level: dict(queries) for level, queries in start.items()}
        for (level, names), value, before in zip(groups, values, first, strict=True):
            found[level].update({name: start[level][name] * value / before for name in names})
        return found

    def value(values: FloatArray) -> float:
        return aims.value(predict(weights(values)), at_start)

    def slope(logits: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its gradient: differences in each weight by itself, then the sum is held."""
        values = _shared_out(logits, first.sum())
        here = value(values)
        each = np.array([value(values * _one(at, len(values), exp(STEP))) for at in range(len(values))])
        by_log = (each - here) / STEP
        return here, by_log - by_log.sum() * values / values.sum()

    found = minimize(
        slope, np.log(first), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "maxfun": 3 * ITERATIONS}
    )
    return weights(_shared_out(found.x, first.sum()))


def kinds(queries: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    """Yield the groups of queries whose shares are varied together."""
    alone = [name for name in ("total", "hispanic*cenrace") if name in queries]
    yield from ((name,) for name in alone)
    if others := tuple(name for name in queries if name not in alone):
        yield others


def _shared_out(logits: FloatArray, whole: float) -> FloatArray:
    parts = np.exp(logits - logits.max())
    shared: FloatArray = whole * parts / parts.sum()
    return shared


def _one(at: int, number: int, factor: float) -> FloatArray:
    factors = np.ones(number)
    factors[at] = factor
    return factors


def front(
    predict: Callable[[Weights], Predict], start: Weights, first: Row, second: Row, kept: Sequence[str] = ()
) -> Iterator[Weights]:
    """Yield the best shares for FRONT weights of two aims, from the first alone to the second alone."""
    weights = start
    for part in np.linspace(0.0, 1.0, FRONT):
        aims = Aims({first: float(1 - part), second: float(part)})
        weights = best_shares(predict, weights, aims, kept)
        yield weights


def least_factor(holds: Callable[[float], bool]) -> float | None:
    """Return the least factor of the budget at which a target holds, or None."""
    low, high = FACTORS
    if not holds(high):
        return None
    if holds(low):
        return low
    for _ in range(BISECTIONS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def scaled(weights: Weights, factor: float) -> Weights:
    """Return weights times a factor."""
    return {level: {query: factor * own for query, own in queries.items()} for level, queries in weights.items()}
