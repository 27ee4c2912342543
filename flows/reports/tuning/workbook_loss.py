"""The privacy loss in the workbook: from rho to epsilon by the optimal conversion, by live formulas."""

from __future__ import annotations

from typing import Any

from flows.reports.tuning.workbook_noise import Inputs
from flows.reports.tuning.workbook_sheet import AND, IF, LN, MAX, SQRT, Formula, Sheet

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

    def epsilon(self, label: str, spent: Formula) -> Formula:
        """Write the row of a sum of budgets; returns its epsilon at delta, for pure DP the sum itself."""
        self.rows += 1
        row, put, log_delta = self.rows, self.sheet.put, LN(self.inputs.delta)
        put(row, 0, label)
        rho = put(row, 1, spent)
        positive = MAX(rho, 1e-12)
        x = put(row, 2, SQRT(-log_delta / positive))
        for step in STEPS:
            gap = positive * x**2 + LN(1 + x) + log_delta
            x = put(row, 2 + step, MAX(1e-9, x - gap / (2 * positive * x + 1 / (1 + x))))
        of_rho = MAX(0, (1 + x) * rho + LN(x / (1 + x)) - (LN(1 + x) + log_delta) / x)
        return put(row, 3 + len(STEPS), IF(AND(self.inputs.zcdp, rho > 0), of_rho, rho))
