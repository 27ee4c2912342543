"""Classes of values, for colours that a legend can name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10

import numpy as np

MOST = 5  # classes, as many as there are colours
RELATIVE_MARGINS = (0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Classes:
    """Classes between breaks: class k, from 1, has the values from break k - 1 up to, but without, break k."""

    breaks: tuple[float, ...]

    def of(self, value: float) -> int:
        """Return the class of a value, from 1; the middle classes are left out where there are few."""
        number = bisect_right(self.breaks, value)
        return 1 + round(number * (MOST - 1) / max(len(self.breaks), 1))

    def words(self) -> list[tuple[int, str]]:
        """Return each class and its range in percent."""
        texts = [f"{100 * one:.12g}%" for one in self.breaks]
        ends = [f"below {texts[0]}"] if texts else ["all values"]
        ends += [f"{low} to {high}" for low, high in pairwise(texts)]
        ends += [f"{texts[-1]} and more"] if texts else []
        values = [*(one - 1e-12 for one in self.breaks), self.breaks[-1] if self.breaks else 0.0]
        return [(self.of(value), text) for value, text in zip(values, ends, strict=True)]


def quantile_classes(values: Sequence[float]) -> Classes:
    """Return classes of about as many values each, between breaks of two digits."""
    if len(values) < 2:
        return Classes(())
    breaks = np.quantile(np.array(values), np.arange(1, MOST) / MOST).tolist()
    rounded = sorted({_two_digits(one) for one in breaks if one > 0})
    return Classes(tuple(one for one in rounded if min(values) < one <= max(values)))


def _two_digits(value: float) -> float:
    return round(value, 1 - floor(log10(value)))
