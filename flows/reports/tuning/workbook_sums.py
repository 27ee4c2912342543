"""Margins of sums of sex-by-age cells in the workbook: Fourier inversion as in privacy/noise/margins.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.reports.tuning.workbook_noise import CANDIDATES, NARROWEST, WIDEST, Inputs, NoiseCells
from flows.reports.tuning.workbook_sheet import (
    EXP,
    IF,
    MAX,
    MIN,
    PI,
    ROUND,
    ROUND_UP,
    SIN,
    SQRT,
    SUM_PRODUCT,
    Formula,
    Sheet,
)

TERMS = np.arange(1.0, 129)
STEPS = range(1, 5)
POISSON = [
    Formula(f"({n})", float(n)) for n in range(-3, 4)
]  # seven terms are right to 1e-10 from sigma^2 = NARROWEST on
_NAMES = ["level", "cells", "sigma^2 or scale", "variance of a cell", "rate", "Poisson's sum at 0", "period", "step 0"]
_NAMES += [*(f"step {step}" for step in STEPS), "from", *(f"P(|S|<=from+{i})" for i in CANDIDATES), "margin"]
_FIRST = len(_NAMES)  # the row of the first Fourier weight


class SumsSheet:
    """The sheet "Sums": a column for each level and number of cells.

    P(|S| <= m) = (2m + 1)/N + sum over j of w_j sin((2m + 1) pi j/N), with weights w_j = 2 phi(j/N)^c / (N sin(pi j/N))
    and phi(t) = E cos(2 pi t X). Four steps of Newton's method with the normal density lead to five candidates.
    """

    def __init__(self, book: Any, inputs: Inputs) -> None:
        self.inputs = inputs
        self.sheet = Sheet(book, "Sums")
        self.sheet.sheet.write_column(0, 0, _NAMES, self.sheet.heading)
        self.sheet.sheet.write_column(_FIRST, 0, TERMS.tolist())
        self.terms = self._column(0, TERMS)
        self.columns = 0

    def _column(self, column: int, values: Any) -> Formula:
        return self.sheet.cells((_FIRST, column), (_FIRST + len(TERMS) - 1, column), values)

    def margin(self, label: str, noise: NoiseCells, cells: int) -> Formula:
        """Write the column of a sum of cells; returns its margin of error."""
        self.columns += 1
        column, zcdp = self.columns, self.inputs.zcdp

        def put(row: int, content: Formula | float | str) -> Formula:
            return self.sheet.put(row, column, content)

        put(0, label)
        put(1, cells)
        at = put(2, noise.parameter)
        cell_noise = put(3, noise.variance)
        rate = put(4, -2 * PI**2 * at)
        at_0 = put(5, _poisson(rate, 0))
        variance = cells * cell_noise
        deviation = SQRT(variance)
        period = put(6, 2 * (ROUND_UP(12 * deviation) + 10) + 1)
        weights = []  # w_1, w_2, ...; 0 from t = 1/2 on, where they repeat
        for row, term in enumerate(TERMS.tolist(), _FIRST):
            t = self.sheet.cells((row, 0), (row, 0), term) / period
            wave = SIN(PI * t)
            phi = IF(zcdp, _poisson(rate, t) / at_0, 1 / (1 + 2 * cell_noise * wave**2))
            weights.append(put(row, IF(t < 0.5, 2 * phi**cells / (period * wave), 0)).value)
        weight = self._column(column, np.array(weights))

        def within(m: Formula) -> Formula:
            return (2 * m + 1) / period + SUM_PRODUCT(weight, SIN(PI * (2 * m + 1) * self.terms / period))

        place = put(7, 1.96 * deviation - 0.5)
        for step in STEPS:
            density = 2 * EXP(-(place**2) / (2 * variance)) / SQRT(2 * PI * variance)
            move = MAX(-deviation, MIN(deviation, (0.95 - within(place)) / density))
            place = put(7 + step, MAX(0, place + move))
        row = 8 + len(STEPS)
        start = put(row, MAX(0, ROUND(place) - 2))
        inside = np.array([put(row + 1 + i, within(start + i)).value for i in CANDIDATES])
        quantile = start + SUM_PRODUCT(
            (self.sheet.cells((row + 1, column), (row + len(CANDIDATES), column), inside) < 0.95) * 1
        )
        gaussian = IF(at < NARROWEST, "too narrow", IF(at > WIDEST, "too wide", quantile))
        return put(row + 1 + len(CANDIDATES), IF(zcdp, gaussian, quantile))


def _poisson(rate: Formula, t: Formula | float) -> Formula:
    """Return the sum over n of exp(rate (t + n)^2)."""
    first, *others = (EXP(rate * (t + n) ** 2) for n in POISSON)
    return sum(others, first)
