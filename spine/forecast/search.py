"""Find the least budget that meets a target, and the shares that lower the predicted errors most.

Shares are varied by level and kind of query: its total, its sums by Hispanic origin and race, and all others, which
keep their proportions. The sum of the budget stays.

For a page that cannot run the model, a quadratic surface of the errors over the shares: the logarithm of each error's
ratio to that at the start is fitted by least squares as a polynomial in the logarithms of the shares' ratios, with
linear and square terms, and products of shares of one level; at the start it is 0. Points that are not fitted say how
near it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

import numpy as np

from spine.forecast.counts import Weights
from spine.geography import FloatArray, IntArray

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
SPAN = 1.2  # range of the logarithm of each ratio, and of the budget's
FITTED, HELD_OUT = 110, 30  # points
RIDGE = 1e-3
QUANTILE = 0.95


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


@dataclass(frozen=True)
class Surface:
    """Errors over the ratios of weights to those at the start.

    groups: the level and the queries that each ratio is of. rows, start: the errors at the start. coefficients: (rows,
    terms) of the logarithm of each error's ratio. pairs: (pairs, 2) the groups whose products are terms, after each
    logarithm and each square. off: the quantile of held-out errors of the fit, as a ratio.
    """

    groups: Sequence[tuple[str, tuple[str, ...]]]
    rows: Sequence[Row]
    start: FloatArray
    coefficients: FloatArray
    pairs: IntArray
    off: float

    def errors(self, logarithms: FloatArray) -> FloatArray:
        """Return the (points, rows) errors at logarithms of ratios, (points, groups)."""
        found: FloatArray = self.start * np.exp(_terms(logarithms, self.pairs) @ self.coefficients.T)
        return found


def fit(predict: Callable[[Weights], Predict], start: Weights, levels: Sequence[str]) -> Surface:
    """Return the surface of the errors around these weights, of those of `levels`. Its points are always the same."""
    groups = [(level, names) for level in levels for names in kinds(start[level])]
    pairs = np.array([(a, b) for a in range(len(groups)) for b in range(a) if groups[a][0] == groups[b][0]], np.int64)
    draws = np.random.default_rng(0)
    points = draws.uniform(-SPAN, SPAN, (FITTED + HELD_OUT, len(groups)))
    points += draws.uniform(-SPAN, SPAN, (len(points), 1))
    at_start = predict(start)
    rows = [row for row, error in at_start.items() if error > 0]
    found = [predict(_moved(start, groups, point)) for point in points]
    own = np.array([at_start[row] for row in rows])
    values = np.log([[errors[row] for row in rows] for errors in found] / own)
    terms = _terms(points[:FITTED], pairs)
    coefficients = np.linalg.solve(terms.T @ terms + RIDGE * np.eye(terms.shape[1]), terms.T @ values[:FITTED])
    off = np.abs(_terms(points[FITTED:], pairs) @ coefficients - values[FITTED:])
    return Surface(groups, rows, own, coefficients.T, pairs, float(np.expm1(np.quantile(off, QUANTILE))))


def _terms(logarithms: FloatArray, pairs: IntArray) -> FloatArray:
    """Return the (points, terms) of the polynomial."""
    products = logarithms[:, pairs[:, 0]] * logarithms[:, pairs[:, 1]]
    return np.concatenate([logarithms, logarithms**2, products], axis=1)


def _moved(start: Weights, groups: Sequence[tuple[str, tuple[str, ...]]], logarithms: FloatArray) -> Weights:
    found: dict[str, Mapping[str, float]] = {level: dict(queries) for level, queries in start.items()}
    for (level, names), value in zip(groups, np.exp(logarithms), strict=True):
        found[level] = {**found[level], **{name: start[level][name] * value for name in names}}
    return found
