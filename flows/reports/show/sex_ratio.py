"""The sex ratio of a group's table, with an interval for its noise.

Fieller's theorem: the interval contains all r for which the count of males and r times that of females differ by at
most their joint margin, as independent, nearly normal sums of cells. It is shown for all counts, even if it has no
upper end: intervals only for large counts would miss the small ratios.

A margin of whole numbers holds for whole numbers. r times a count is not whole, so half a person is added to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from flows.reports.show.view import Confidence
from tasks.safetab.persons.pyramid import Pyramid

TOO_NOISY = "not known: the noise is as large as the counts"


@dataclass(frozen=True)
class SexRatio:
    """Males per 100 females, with the ends of the interval, None if not finite, and the same in words."""

    value: float | None
    low: float | None
    high: float | None
    words: str


def widened(margin: float) -> float:
    """Return the margin of a sum that need not be a whole number; 0 is the margin of exact counts."""
    return margin + 0.5 if margin else 0.0


def sex_ratio(table: Pyramid, at: Confidence) -> SexRatio:
    """Return males per 100 females, with the interval at a confidence."""
    male, female = table.male.count, table.female.count
    of_male, of_female = widened(table.male.margin), widened(table.female.margin)
    # The ends solve (M - rF)^2 = m_M^2 + r^2 m_F^2, which is first r^2 - 2 half r + last = 0.
    first, half, last = female**2 - of_female**2, male * female, male**2 - of_male**2
    root = sqrt(max(half**2 - first * last, 0))
    if first > 0 and female > 0 and male >= 0:
        low, high = (max((half + side * root) / first, 0) for side in (-1, 1))
        words = f"{100 * male / female:.1f}"
        if hypot(of_male, of_female):
            words += f", {at.percent}% interval {100 * low:.1f} to {100 * high:.1f}"
        return SexRatio(100 * male / female, 100 * low, 100 * high, words)
    if last > 0 and male > 0 and first < 0 and female >= 0:
        low = 100 * (half - root) / first
        return SexRatio(None, low, None, f"not known, {at.percent}% interval {low:.1f} or more")
    return SexRatio(None, None, None, TOO_NOISY)
