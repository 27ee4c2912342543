"""The noise laws of the workbook: margins of error and suppression thresholds of single counts, by live formulas.

Exact as those of `das tune`: the discrete Gaussian's probabilities are sums over the counts 1 to 4096, and a margin is
found among five candidates about the normal approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtri

from flows.reports.tuning.workbook_sheet import Cell, Sheet
from privacy.noise.laws import Definition

COUNTS = np.arange(1, 4097)
WIDEST = 230_000  # sigma^2: 4096 is 8.5 sigma
NARROWEST = 0.1  # sigma^2 or scale: below it all counts are exact but one in twenty
CANDIDATES = range(5)
COLUMNS = {"parameter": 3, "normalizer": 4, "threshold": 19}
_NAMES = ["query", "budget", "stability", "sigma^2 or scale", "normalizer", "variance", "from"]
_NAMES += [*(f"P(|X|>from+{i})" for i in CANDIDATES), "margin", "from", *(f"P(X>from+{i})" for i in CANDIDATES), "T"]


@dataclass(frozen=True)
class Inputs:
    """The cells that a person changes."""

    definition: Cell
    gamma: Cell
    race_codes: Cell
    target: Cell
    kind: Cell
    chance: Cell
    delta: Cell

    @property
    def zcdp(self) -> str:
        """The condition that the noise is Gaussian."""
        return f'{self.definition}="zcdp"'


class FloatLaw:
    """What the formulas compute, for their values."""

    def __init__(self, definition: Definition, budget: float, stability: int) -> None:
        self.gaussian = definition == "zcdp"
        self.parameter = stability / (2 * budget) if self.gaussian else stability / budget
        if self.gaussian:
            self.weights = np.exp(-(COUNTS**2) / (2 * self.parameter))
            self.normalizer = float(1 + 2 * self.weights.sum())
            self.variance = float(2 * (COUNTS**2 * self.weights).sum() / self.normalizer)
        else:
            x = exp(-1 / self.parameter)
            self.normalizer = (1 + x) / (1 - x)
            self.variance = 2 * x / (1 - x) ** 2

    def beyond(self, k: int) -> float:
        """Return P(X > k), k >= 0."""
        if self.gaussian:
            return float(self.weights[k < COUNTS].sum()) / self.normalizer
        return exp(-(k + 1) / self.parameter) / (1 + exp(-1 / self.parameter))

    def moment_beyond(self, k: int) -> float:
        """Return E[X; X > k], k >= 0."""
        if self.gaussian:
            return float((COUNTS * self.weights)[k < COUNTS].sum()) / self.normalizer
        x = exp(-1 / self.parameter)
        return self.beyond(k) * (k + 1 + x / (1 - x))

    def start(self, tail: float) -> int:
        """Return about two counts less than the k at which P(X > k) falls to `tail`."""
        if self.gaussian:
            return max(0, int(ndtri(1 - tail) * sqrt(self.parameter)) - 2)
        return max(0, ceil(-self.parameter * log(tail * (1 + exp(-1 / self.parameter)))) - 3)

    def first(self, tail: float) -> int:
        """Return the smallest k >= 0 with P(X > k) <= tail."""
        start = self.start(tail)
        return start + sum(self.beyond(start + i) > tail for i in CANDIDATES)


@dataclass(frozen=True)
class Noise:
    """The cells that describe the noise of one query."""

    parameter: Cell
    normalizer: Cell
    variance: Cell
    margin: Cell
    threshold: Cell
    law: FloatLaw


class NoiseSheet:
    """The sheet "Noise": one row per query, its law, and the candidates for margin and threshold."""

    def __init__(self, book: Any, inputs: Inputs) -> None:
        self.inputs = inputs
        self.definition: Definition = inputs.definition.value
        numbers = Sheet(book, "Counts")
        numbers.headings(0, ["k"])
        numbers.sheet.write_column(1, 0, COUNTS.tolist())
        self.counts = numbers.cells((1, 0), (len(COUNTS), 0))
        self.sheet = Sheet(book, "Noise")
        self.sheet.headings(0, _NAMES)
        self.rows = 0

    def query(self, label: str, budget: Cell, share: str, share_value: float, stability: Cell) -> Noise:
        """Write the row of a query that has a share of a level's budget."""
        self.rows += 1
        row, put, zcdp = self.rows, self.sheet.put, self.inputs.zcdp
        own = FloatLaw(self.definition, budget.value * share_value, stability.value)
        if own.parameter < NARROWEST or (own.gaussian and own.parameter > WIDEST):
            raise ValueError(
                f"{label}: the workbook covers sigma^2 from {NARROWEST} to {WIDEST}, and scales from {NARROWEST}"
            )
        put(row, 0, label)
        part = put(row, 1, f"={budget}*{share}", budget.value * share_value)
        groups = put(row, 2, f"={stability}", stability.value)
        at = put(row, 3, f"=IF({zcdp},{groups}/(2*{part}),{groups}/{part})", own.parameter)
        weights, x = f"EXP(-({self.counts}^2)/(2*{at}))", f"EXP(-1/{at})"
        whole = put(row, 4, f"=IF({zcdp},1+2*SUMPRODUCT({weights}),(1+{x})/(1-{x}))", own.normalizer)
        second = f"2*SUMPRODUCT({self.counts}^2*{weights})/{whole}"
        variance = put(row, 5, f"=IF({zcdp},{second},2*{x}/(1-{x})^2)", own.variance)
        margin = self._first(row, 6, own, at, whole, 0.025, "0.025", 2)
        chance = 1 - self.inputs.chance.value
        threshold = self._first(row, 13, own, at, whole, chance, f"(1-{self.inputs.chance})", 1)
        return Noise(at, whole, variance, margin, threshold, own)

    def _first(
        self, row: int, column: int, own: FloatLaw, at: Cell, whole: Cell, tail: float, text: str, sides: int
    ) -> Cell:
        """Return the smallest count that the noise exceeds, on one side, with a probability of at most `tail`."""
        put, zcdp, x = self.sheet.put, self.inputs.zcdp, f"EXP(-1/{at})"
        normal = f"INT(NORMSINV(1-{text})*SQRT({at}))-2"
        closed = f"ROUNDUP(-{at}*LN({text}*(1+{x})),0)-3"
        start = put(row, column, f"=MAX(0,IF({zcdp},{normal},{closed}))", own.start(tail))
        for i in CANDIDATES:
            k = f"({start}+{i})"
            gaussian = f"SUMPRODUCT(({self.counts}>{k})*EXP(-({self.counts}^2)/(2*{at})))/{whole}"
            geometric = f"EXP(-({k}+1)/{at})/(1+{x})"
            value = sides * own.beyond(start.value + i)
            put(row, column + 1 + i, f"={sides}*IF({zcdp},{gaussian},{geometric})", value)
        candidates = self.sheet.cells((row, column + 1), (row, column + len(CANDIDATES)))
        quantile = f"{start}+SUMPRODUCT(--({candidates}>{sides}*{text}))"
        limit = f'IF(AND({zcdp},{at}>{WIDEST}),"too wide",{quantile})'
        return put(row, column + 1 + len(CANDIDATES), f"={limit}", own.first(tail))
