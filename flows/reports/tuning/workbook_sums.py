"""Margins of sums of sex-by-age cells in the workbook: Fourier inversion as privacy/noise/margins.py, live."""

from __future__ import annotations

from math import ceil, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.reports.tuning.workbook_noise import CANDIDATES, NARROWEST, WIDEST, Inputs, Noise
from flows.reports.tuning.workbook_sheet import Cell, Sheet

TERMS = np.arange(1, 129)
STEPS = range(1, 5)
POISSON = np.arange(-3, 4)  # seven terms are right to 1e-10 from sigma^2 = NARROWEST on
_NAMES = ["level", "cells", "sigma^2 or scale", "variance of a cell", "Poisson's sum at 0", "period", "step 0"]
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
        self.terms = self._column(0)
        self.columns = 0

    def _column(self, column: int) -> str:
        return self.sheet.cells((_FIRST, column), (_FIRST + len(TERMS) - 1, column))

    def margin(self, label: str, noise: Noise, cells: int) -> Cell:
        """Write the column of a sum of cells; returns its margin of error."""
        self.columns += 1
        column = self.columns

        def put(row: int, content: str | int, value: float | str | None = None) -> Cell:
            return self.sheet.put(row, column, content, value)

        put(0, label)
        put(1, cells)
        at = put(2, f"={noise.parameter}", noise.parameter.value)
        cell_noise = put(3, f"={noise.variance}", noise.variance.value)
        at_0 = put(4, f"={_poisson(at, '0')}", float(np.exp(-2 * pi**2 * at.value * POISSON**2).sum()))
        all_of, variance = f"({cells}*{cell_noise})", cells * cell_noise.value
        period = put(5, f"=2*(ROUNDUP(12*SQRT({all_of}),0)+10)+1", 2 * (ceil(12 * sqrt(variance)) + 10) + 1)
        weights = self._weights(column, at, cell_noise, at_0, cells, period)

        def within(m: str, value: float) -> tuple[str, float]:
            wave = f"SUMPRODUCT({self._column(column)},SIN(PI()*(2*{m}+1)*{self.terms}/{period}))"
            width = (2 * value + 1) / period.value
            return f"((2*{m}+1)/{period}+{wave})", width + float(weights @ np.sin(pi * width * TERMS))

        place = put(6, f"=1.96*SQRT({all_of})-0.5", 1.96 * sqrt(variance) - 0.5)
        for step in STEPS:
            inside, value = within(str(place), place.value)
            density = f"(2*EXP(-({place}^2)/(2*{all_of}))/SQRT(2*PI()*{all_of}))"
            known = 2 * float(np.exp(-(place.value**2) / (2 * variance))) / sqrt(2 * pi * variance)
            most = f"SQRT({all_of})"  # of a step
            formula = f"=MAX(0,{place}+MAX(-{most},MIN({most},(0.95-{inside})/{density})))"
            move = max(-sqrt(variance), min(sqrt(variance), (0.95 - value) / known))
            place = put(6 + step, formula, max(0.0, place.value + move))
        row = 7 + len(STEPS)
        start = put(row, f"=MAX(0,ROUND({place},0)-2)", max(0, int(place.value + 0.5) - 2))
        reached = 0
        for i in CANDIDATES:
            inside, value = within(f"({start}+{i})", start.value + i)
            put(row + 1 + i, f"={inside}", value)
            reached += value < 0.95
        quantile = (
            f"{start}+SUMPRODUCT(--({self.sheet.cells((row + 1, column), (row + len(CANDIDATES), column))}<0.95))"
        )
        gaussian = f'IF({at}<{NARROWEST},"too narrow",IF({at}>{WIDEST},"too wide",{quantile}))'
        return put(row + 1 + len(CANDIDATES), f"=IF({self.inputs.zcdp},{gaussian},{quantile})", start.value + reached)

    def _weights(
        self, column: int, at: Cell, cell_noise: Cell, at_0: Cell, cells: int, period: Cell
    ) -> NDArray[np.float64]:
        """Write w_1, w_2, ...; 0 from t = 1/2 on, where they repeat."""
        t = TERMS / period.value
        if self.inputs.definition.value == "zcdp":
            phi = np.exp(-2 * pi**2 * at.value * np.add.outer(t, POISSON) ** 2).sum(axis=1) / at_0.value
        else:
            phi = 1 / (1 + 2 * cell_noise.value * np.sin(pi * t) ** 2)
        weights = np.where(t < 0.5, 2 * phi**cells / (period.value * np.sin(pi * t)), 0.0)
        for j, weight in zip(TERMS.tolist(), weights.tolist(), strict=True):
            x = f"({self.sheet.cells((_FIRST + j - 1, 0), (_FIRST + j - 1, 0)).split(':')[0]}/{period})"
            power = f"IF({self.inputs.zcdp},{_poisson(at, x)}/{at_0},1/(1+2*{cell_noise}*SIN(PI()*{x})^2))^{cells}"
            formula = f"=IF({x}<0.5,2*{power}/({period}*SIN(PI()*{x})),0)"
            self.sheet.put(_FIRST + j - 1, column, formula, weight)
        return weights


def _poisson(at: Cell, t: str) -> str:
    return "(" + "+".join(f"EXP(-2*PI()^2*{at}*({t}+{n})^2)" for n in POISSON.tolist()) + ")"
