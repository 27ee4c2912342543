"""Median age and sex ratio of a group's table, each with the interval that its noise leaves.

Both intervals invert a test of a sum of noisy cells, so they need no approximation of the measure itself, and are wide
on the side where few persons are. Median age: an age m is in the interval if the persons older than m and those younger
differ by no more than the margin of the sum of all cells. That difference has the noise of every cell, with weight
1 or -1, and between them in the group in which m lies: never more than the sum of all (every law is symmetric and falls
from 0), whose margin is exact. Sex ratio: Fieller's theorem, that is all r for which the counts of males and r times
that of females differ by no more than their margins together, as independent, nearly normal sums of cells. It is shown
whatever the counts are, also where it has no upper end: an interval that only large counts got would miss the small.

A margin of whole numbers holds for whole numbers. These sums are none, so half a person is added to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean

from flows.reports.show.margins import confidence
from tasks.detailed_dhca.pyramid import AgeRow, Pyramid

TOO_NOISY = "not known: the noise is as large as the counts"
NO_INTERVAL = "no interval: negative counts were set to 0, which moves it"


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


def age_measures(table: Pyramid, margin: int, *, clipped: bool = False) -> list[Measure]:
    """Return the median age and the sex ratio of a table.

    margin: of the sum of its cells. clipped: whether the release has 0 for negative counts.
    """
    return [median_age(table.ages, margin, clipped=clipped), sex_ratio(table)]


def median_age(ages: Sequence[AgeRow], margin: int, *, clipped: bool = False) -> Measure:
    """Return the median age: persons of an age group are taken to be spread evenly over its years.

    There is no interval where a cell of the table may have been negative: the sum of what is left is too large.
    """
    sides = [side.count for row in ages for side in (row.male, row.female)]
    value = fmean(_ages_between(ages, 0))
    open_from = ages[-1].first
    if margin >= sum(sides):
        return Measure("median age", None, None, None, TOO_NOISY)
    words, known = _age(value, open_from), value if value < open_from else None
    if clipped and margin and 0 in sides:
        return Measure("median age", known, None, None, f"{words}, {NO_INTERVAL}")
    ends = _ages_between(ages, widened(margin))
    if margin:
        low, high = (_age(age, open_from) for age in ends)
        words += f", {confidence().percent}% interval {low} to {high}"
    least, greatest = (age if age < open_from else None for age in ends)
    return Measure("median age", known, least, greatest, words)


def widened(margin: float) -> float:
    """Return the margin of a sum that need not be a whole number; 0 is the margin of exact counts."""
    return margin + 0.5 if margin else 0.0


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
    male, female = table.male.count, table.female.count
    of_male, of_female = widened(table.male.margin), widened(table.female.margin)
    # The ends solve (M - rF)^2 = m_M^2 + r^2 m_F^2, which is first r^2 - 2 half r + last = 0.
    first, half, last = female**2 - of_female**2, male * female, male**2 - of_male**2
    root = sqrt(max(half**2 - first * last, 0))
    name = "males per 100 females"
    if first > 0 and female > 0 and male >= 0:
        low, high = (max((half + side * root) / first, 0) for side in (-1, 1))
        words = f"{100 * male / female:.1f}"
        if hypot(of_male, of_female):
            words += f", {confidence().percent}% interval {100 * low:.1f} to {100 * high:.1f}"
        return Measure(name, 100 * male / female, 100 * low, 100 * high, words)
    if last > 0 and male > 0 and first < 0 and female >= 0:
        low = 100 * (half - root) / first
        return Measure(name, None, low, None, f"not known, {confidence().percent}% interval {low:.1f} or more")
    return Measure(name, None, None, None, TOO_NOISY)


def _age(age: float, open_from: int) -> str:
    return f"{age:.1f}" if age < open_from else f"{open_from} and over"
