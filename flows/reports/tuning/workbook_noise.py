"""The noise laws of the workbook: margins of error and suppression thresholds of single counts, by live formulas.

Exact as those of `das tune`: the discrete Gaussian's probabilities are sums over the counts 1 to 4096, and a margin is
found among five candidates about the normal approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.reports.tuning.workbook_sheet import (
    AND,
    EXP,
    IF,
    INT,
    LN,
    MAX,
    NORMAL_QUANTILE,
    ROUND_UP,
    SQRT,
    SUM_PRODUCT,
    Formula,
    Sheet,
)

COUNTS = np.arange(1.0, 4097)
WIDEST = 230_000  # sigma^2: 4096 is 8.5 sigma
NARROWEST = 0.1  # sigma^2 or scale: below it at most one count in twenty has any noise
CANDIDATES = range(5)
COLUMNS = {"parameter": 3, "normalizer": 4, "threshold": 19}
_NAMES = ["query", "budget", "stability", "sigma^2 or scale", "normalizer", "variance", "from"]
_NAMES += [*(f"P(|X|>from+{i})" for i in CANDIDATES), "margin", "from", *(f"P(X>from+{i})" for i in CANDIDATES), "T"]


@dataclass(frozen=True)
class Inputs:
    """The input cells."""

    definition: Formula
    gamma: Formula
    race_codes: Formula
    target: Formula
    kind: Formula
    chance: Formula
    delta: Formula

    @property
    def zcdp(self) -> Formula:
        """The condition for Gaussian noise."""
        return self.definition.equals("zcdp")


@dataclass(frozen=True)
class Law:
    """A law of noise by its cells: sigma^2 or scale, and the sum of its weights; `counts` is the sheet Counts."""

    zcdp: Formula
    counts: Formula
    parameter: Formula
    normalizer: Formula

    def beyond(self, k: Formula) -> Formula:
        """Return P(X > k), k >= 0."""
        gaussian = SUM_PRODUCT((self.counts > k) * gaussian_weights(self.counts, self.parameter)) / self.normalizer
        return IF(self.zcdp, gaussian, EXP(-(k + 1) / self.parameter) / (1 + EXP(-1 / self.parameter)))

    def moment_beyond(self, k: Formula, beyond: Formula) -> Formula:
        """Return E[X; X > k], k >= 0; `beyond` is P(X > k)."""
        weights, x = gaussian_weights(self.counts, self.parameter), EXP(-1 / self.parameter)
        gaussian = SUM_PRODUCT((self.counts > k) * self.counts * weights) / self.normalizer
        return IF(self.zcdp, gaussian, beyond * (k + 1 + x / (1 - x)))

    def start(self, tail: Formula) -> Formula:
        """Return about two less than the smallest k with P(X > k) <= `tail`."""
        at = self.parameter
        normal = INT(NORMAL_QUANTILE(1 - tail) * SQRT(at)) - 2
        return MAX(0, IF(self.zcdp, normal, ROUND_UP(-at * LN(tail * (1 + EXP(-1 / at)))) - 3))


def gaussian_weights(k: Formula, sigma_squared: Formula) -> Formula:
    """Return the discrete Gaussian's weights."""
    return EXP(-(k**2) / (2 * sigma_squared))


@dataclass(frozen=True)
class NoiseCells:
    """The cells that describe the noise of one query."""

    parameter: Formula
    normalizer: Formula
    variance: Formula
    margin: Formula
    threshold: Formula


class NoiseSheet:
    """The sheet "Noise": one row per query, its law, and the candidates for margin and threshold."""

    def __init__(self, book: Any, inputs: Inputs) -> None:
        self.inputs = inputs
        numbers = Sheet(book, "Counts")
        numbers.headings(0, ["k"])
        numbers.sheet.write_column(1, 0, COUNTS.tolist())
        self.counts = numbers.cells((1, 0), (len(COUNTS), 0), COUNTS)
        self.sheet = Sheet(book, "Noise")
        self.sheet.headings(0, _NAMES)
        self.rows = 0

    def query(self, label: str, budget: Formula, share: Formula | float, stability: Formula) -> NoiseCells:
        """Write the row of a query with a share of a level's budget."""
        self.rows += 1
        row, put, zcdp, counts = self.rows, self.sheet.put, self.inputs.zcdp, self.counts
        put(row, 0, label)
        part = put(row, 1, budget * share)
        groups = put(row, 2, stability)
        at = put(row, 3, IF(zcdp, groups / (2 * part), groups / part))
        if at.value < NARROWEST or (zcdp.value and at.value > WIDEST):
            raise ValueError(
                f"{label}: the workbook covers sigma^2 from {NARROWEST} to {WIDEST}, and scales from {NARROWEST}"
            )
        weights, x = gaussian_weights(counts, at), EXP(-1 / at)
        whole = put(row, 4, IF(zcdp, 1 + 2 * SUM_PRODUCT(weights), (1 + x) / (1 - x)))
        variance = put(row, 5, IF(zcdp, 2 * SUM_PRODUCT(counts**2 * weights) / whole, 2 * x / (1 - x) ** 2))
        law = Law(zcdp, counts, at, whole)
        margin = self._first(row, 6, law, Formula("0.025", 0.025), 2)
        threshold = self._first(row, 13, law, 1 - self.inputs.chance, 1)
        return NoiseCells(at, whole, variance, margin, threshold)

    def _first(self, row: int, column: int, law: Law, tail: Formula, sides: int) -> Formula:
        """Return the smallest count that the noise exceeds, on one side, with probability at most `tail`."""
        put = self.sheet.put
        start = put(row, column, law.start(tail))
        found = [put(row, column + 1 + i, sides * law.beyond(start + i)).value for i in CANDIDATES]
        candidates = self.sheet.cells((row, column + 1), (row, column + len(CANDIDATES)), np.array(found))
        quantile = start + SUM_PRODUCT((candidates > sides * tail) * 1)
        limited = IF(AND(law.zcdp, law.parameter > WIDEST), "too wide", quantile)
        return put(row, column + 1 + len(CANDIDATES), limited)
