"""Median age and sex ratio of a group's table, each with the interval that its noise leaves.

Both intervals invert a test of a sum of noisy cells, so they need no approximation of the measure itself, and are wide
on the side where few persons are. Median age: an age m is in the interval if the persons older than m and those younger
differ by no more than the margin of the sum of all cells. That difference has the noise of every cell, with weight
1 or -1, and between them in the group in which m lies: never more than the sum of all (every law is symmetric and falls
from 0), whose margin is exact. Sex ratio: Fieller's theorem, that is all r for which the counts of males and r times
that of females differ by no more than their margins together, as independent, nearly normal sums of cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean

from flows.reports.show.confidence import confidence
from tasks.detailed_dhca.pyramid import AgeRow, Pyramid

TOO_NOISY = "not known: the noise is as large as the counts"


@dataclass(frozen=True)
class Measure:
    """A measure of a table: its value and interval, and both in words.

    value, low, high: None where they are not finite or, for an age, in the open last group.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    words: str


def age_measures(table: Pyramid, margin: int) -> list[Measure]:
    """Return the median age and the sex ratio of a table; `margin` is that of the sum of its cells."""
    return [median_age(table.ages, margin), sex_ratio(table)]


def median_age(ages: Sequence[AgeRow], margin: float) -> Measure:
    """Return the median age: persons of an age group are taken to be spread evenly over its years."""
    value = fmean(_ages_between(ages, 0))
    low, high = _ages_between(ages, margin)
    open_from = ages[-1].first
    if margin >= sum(row.male.count + row.female.count for row in ages):
        return Measure("median age", None, None, None, TOO_NOISY)
    words = _age(value, open_from)
    if margin:
        words += f", {confidence().percent}% interval {_age(low, open_from)} to {_age(high, open_from)}"
    known = [age if age < open_from else None for age in (value, low, high)]
    return Measure("median age", known[0], known[1], known[2], words)


def _ages_between(ages: Sequence[AgeRow], margin: float) -> tuple[float, float]:
    """Return the least and the greatest age at which older less younger persons are within the margin of 0."""
    within = list(_ages_within(ages, margin))
    return min(within), max(within)


def _ages_within(ages: Sequence[AgeRow], margin: float) -> Iterator[float]:
    """Yield the ages at the ends of groups, or where the balance crosses a limit, at which it is within the margin.

    The balance, older less younger persons, is linear within a group, so no other age can be the least or greatest.
    """
    total = sum(row.male.count + row.female.count for row in ages)
    below = 0
    for row in ages:
        inside = row.male.count + row.female.count
        start = total - 2 * below
        parts = {0.0, 1.0} | {(start - limit) / (2 * inside) for limit in (-margin, margin) if inside}
        for part in sorted(parts):
            balance = start - 2 * inside * part
            if 0 <= part <= 1 and abs(balance) <= margin + 1e-9 * abs(total):
                yield row.first + part * row.width
        below += inside


def sex_ratio(table: Pyramid) -> Measure:
    """Return males per 100 females."""
    male, female = table.male, table.female
    name = "males per 100 females"
    if female.count <= female.margin or male.count < 0:
        return Measure(name, None, None, None, TOO_NOISY)
    ratio = male.count / female.count
    # low and high solve (M - rF)^2 = m_M^2 + r^2 m_F^2
    first = female.count**2 - female.margin**2
    half = male.count * female.count
    root = sqrt(max(half**2 - first * (male.count**2 - male.margin**2), 0))
    low, high = max((half - root) / first, 0), (half + root) / first
    words = f"{100 * ratio:.1f}"
    if hypot(male.margin, female.margin):
        words += f", {confidence().percent}% interval {100 * low:.1f} to {100 * high:.1f}"
    return Measure(name, 100 * ratio, 100 * low, 100 * high, words)


def _age(age: float, open_from: int) -> str:
    return f"{age:.1f}" if age < open_from else f"{open_from} and over"
