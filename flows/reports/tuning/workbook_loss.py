"""The privacy loss in the workbook: from rho to epsilon by the optimal conversion, by live formulas."""

from __future__ import annotations

from math import log, log1p, sqrt
from typing import Any

from flows.reports.tuning.workbook_noise import Inputs
from flows.reports.tuning.workbook_sheet import Cell, Sheet

STEPS = range(1, 7)


class LossSheet:
    """The sheet "Loss": one row per sum of budgets, with Newton's method for the best order alpha = 1 + x.

    At the best order rho x^2 + ln(1 + x) + ln(delta) = 0 (privacy/accounting/conversions.py); any order gives a
    true epsilon.
    """

    def __init__(self, book: Any, inputs: Inputs) -> None:
        self.inputs = inputs
        self.sheet = Sheet(book, "Loss")
        self.sheet.headings(0, ["release", "rho or epsilon", *(f"x, step {step}" for step in (0, *STEPS)), "epsilon"])
        self.rows = 0

    def epsilon(self, label: str, spent: Cell) -> Cell:
        """Write the row of a sum of budgets; returns its epsilon at delta, for pure DP the sum itself."""
        self.rows += 1
        row, put, delta = self.rows, self.sheet.put, self.inputs.delta
        put(row, 0, label)
        rho = put(row, 1, f"={spent}", spent.value)
        positive = max(rho.value, 1e-12)
        least, logarithm = f"MAX({rho},1E-12)", log(delta.value)
        x = put(row, 2, f"=SQRT(-LN({delta})/{least})", sqrt(-logarithm / positive))
        for step in STEPS:
            gap = positive * x.value**2 + log1p(x.value) + logarithm
            slope = 2 * positive * x.value + 1 / (1 + x.value)
            formula = f"=MAX(1E-9,{x}-({least}*{x}^2+LN(1+{x})+LN({delta}))/(2*{least}*{x}+1/(1+{x})))"
            x = put(row, 2 + step, formula, max(1e-9, x.value - gap / slope))
        of_rho = f"MAX(0,(1+{x})*{rho}+LN({x}/(1+{x}))-(LN(1+{x})+LN({delta}))/{x})"
        value = (1 + x.value) * rho.value + log(x.value / (1 + x.value)) - (log1p(x.value) + logarithm) / x.value
        if self.inputs.definition.value != "zcdp" or rho.value == 0:
            value = rho.value
        formula = f"=IF(AND({self.inputs.zcdp},{rho}>0),{of_rho},{rho})"
        return put(row, 3 + len(STEPS), formula, max(0.0, value))
