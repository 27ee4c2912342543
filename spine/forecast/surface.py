"""A quadratic surface of predicted errors over the shares, for a page that cannot run the model.

The logarithm of each error's ratio to that at the start is fitted by least squares as a polynomial in the logarithms of
the shares' ratios: linear and square terms, and products of shares of one level; at the start it is 0. Points that are
not fitted say how near it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spine.forecast.precision import Weights
from spine.forecast.search import Predict, Row, kinds
from spine.geography import FloatArray, IntArray

SPAN = 1.2  # range of the logarithm of each ratio, and of the budget's
FITTED, HELD_OUT = 110, 30  # points
RIDGE = 1e-3
QUANTILE = 0.95


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
