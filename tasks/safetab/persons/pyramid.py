"""A sex-by-age table as a population pyramid.

Demographers' convention: a bar's height is the width of its age group, and its length the persons per year of age.
Areas are persons, and age groups of different widths compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, hypot, sqrt

from tasks.releases.pages import end_of_axis
from tasks.safetab.persons.details import age_label
from tasks.safetab.persons.person import LAST_AGE

DRAWN_TO = 100  # the age at which the last, open group ends in the picture
SIDES = {"male": (206, -1), "female": (274, 1)}  # x of a side's zero, and its direction
LENGTH = 196.0  # length of an axis
TOP, YEAR = 40.0, 4.4  # y of age 100, and the height of a year
BOTTOM = TOP + DRAWN_TO * YEAR
LABELS_APART = 14  # the least distance of two age labels


@dataclass(frozen=True)
class PyramidCell:
    """A row of T2: ages `start` to `end` (both None for a sex's sum), sex 1 or 2; None where it has no estimate."""

    start: int | None
    end: int | None
    sex: int
    count: int
    margin: int
    estimate: int | None = None
    estimate_margin: int | None = None

    @property
    def counts(self) -> list[int | None]:
        """The count, its margin, the estimate and its margin."""
        return [self.count, self.margin, self.estimate, self.estimate_margin]


@dataclass(frozen=True)
class AgeRow:
    """A row of a sex-by-age table."""

    label: str
    male: PyramidCell
    female: PyramidCell

    @property
    def sides(self) -> dict[str, PyramidCell]:
        """The cells by sex."""
        return {"male": self.male, "female": self.female}

    @property
    def first(self) -> int:
        """The first age."""
        return self.male.start or 0

    @property
    def is_open(self) -> bool:
        """Whether the group has no last age."""
        return self.male.end is not None and self.male.end >= LAST_AGE

    @property
    def width(self) -> int:
        """The years of the group; the open one is drawn to age 100."""
        return (DRAWN_TO if self.is_open else (self.male.end or 0) + 1) - self.first


@dataclass(frozen=True)
class Share:
    """A part of a group as a share of all its persons, with its margin; both are fractions."""

    value: float
    margin: float

    @property
    def words(self) -> str:
        """Both in percent, the margin rounded up: `2.93 ± 0.01`."""
        margin = f" ± {ceil(1e4 * self.margin) / 100:.2f}" if self.margin else ""
        return f"{100 * self.value:.2f}{margin}".replace("-", "−")


def share(count: float, margin: float, total: float, total_margin: float) -> Share | None:
    """Return a sum of cells as a share of all cells, its margin to first order (delta method); None if the total is 0.

    The error of x / T is (e_x - p e_T) / T. The cells' noise is independent and T includes the cells of x, so Var(e_x -
    p e_T) = (1 - 2p) Var e_x + p^2 Var e_T; margins stand for the standard deviations.
    """
    if total <= 0:
        return None
    part = count / total
    squared = (1 - 2 * part) * margin**2 + (part * total_margin) ** 2
    return Share(part, sqrt(max(squared, 0)) / total)


@dataclass(frozen=True)
class Bar:
    """A bar of the picture with its whisker, and the diamond of its estimate ("" for none)."""

    side: str
    title: str
    x: float
    width: float
    y: float
    height: float
    is_open: bool
    whisker: str
    estimate: str


@dataclass(frozen=True)
class PyramidDrawing:
    """A pyramid in the units of its picture, which is 480 wide.

    labels: ages with their height. below: the axis of the bars' lengths, as (text, distance from zero). above: the axis
    of shares, or empty.
    """

    height: float
    bars: Sequence[Bar]
    labels: Sequence[tuple[str, float]]
    below: Sequence[tuple[str, float]]
    above: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Pyramid:
    """A group's sex-by-age table, youngest first, with the sums of each sex.

    estimated: whether every count has an estimate.
    """

    ages: Sequence[AgeRow]
    male: PyramidCell
    female: PyramidCell
    estimated: bool

    def rows(self) -> list[AgeRow]:
        """Return the row of all ages, then those of the ages."""
        return [AgeRow("all ages", self.male, self.female), *self.ages]

    @property
    def total(self) -> int:
        """The persons of the table."""
        return self.male.count + self.female.count

    @property
    def total_margin(self) -> float:
        """The margin of `total`."""
        return hypot(self.male.margin, self.female.margin)

    def share(self, cell: PyramidCell) -> Share | None:
        """Return a cell, or a sex's sum, as a share of all persons of the table."""
        return share(cell.count, cell.margin, self.total, self.total_margin)

    def by_persons(self) -> PyramidDrawing:
        """Return the picture by persons per year of age, with an axis of shares above it."""
        reached = ((cell.count + cell.margin) / row.width for row in self.ages for cell in row.sides.values())
        most = end_of_axis(max(0.01, *reached))
        below = [(_figure(most * part), LENGTH * part) for part in (0.0, 0.5, 1.0)]
        above = []
        if self.total > 0:
            percent = 100 * most / self.total
            last = end_of_axis(percent)
            tick = next(last * part for part in (1, 0.5, 0.25) if last * part <= percent)
            above = [(f"{tick:.3g}%", LENGTH * tick / percent)]
        bars = [self._bar(row, side, cell, most) for row in self.ages for side, cell in row.sides.items()]
        return PyramidDrawing(BOTTOM + 40, bars, _labels(self.ages), below, above)

    def _bar(self, row: AgeRow, side: str, cell: PyramidCell, most: float) -> Bar:
        zero, way = SIDES[side]
        top, height = _height(row.first + row.width), row.width * YEAR
        middle, width = top + height / 2, _length(cell.count, row.width, most)
        cap = min(4.0, height / 2 - 0.6)
        whisker = estimate = ""
        low, high = cell.count - cell.margin, cell.count + cell.margin
        if cell.margin and high > 0:
            ends = [zero + way * _length(end, row.width, most) for end in (low, high)]
            whisker = f"M{ends[0]:.1f} {middle:.1f}H{ends[1]:.1f}m0-{cap:.1f}v{2 * cap:.1f}"
            if low > 0:
                whisker += f"M{ends[0]:.1f} {middle - cap:.1f}v{2 * cap:.1f}"
        if cell.estimate is not None and self.estimated:
            half = round(min(5.0, height / 2 + 0.8), 1)
            x = zero + way * _length(cell.estimate, row.width, most)
            tip = f"l{half:g} {half:g}-{half:g} {half:g}-{half:g}-{half:g}z"
            estimate = f"M{x:.1f} {middle - half:.1f}{tip}"
        return Bar(
            side=side,
            title=f"{row.label}, {side}: {cell.count:,}" + (f" ± {cell.margin:,}" if cell.margin else ""),
            x=round(min(zero, zero + way * width), 1),
            width=round(width, 1),
            y=round(top + 0.4, 1),
            height=round(height - 0.8, 1),
            is_open=row.is_open,
            whisker=whisker,
            estimate=estimate,
        )


def pyramid(cells: Iterable[PyramidCell]) -> Pyramid:
    """Return the pyramid of a group's T2 rows."""
    by_age: dict[tuple[int, int], dict[int, PyramidCell]] = {}
    sums: dict[int, PyramidCell] = {}
    for cell in cells:
        if cell.start is None or cell.end is None:
            sums[cell.sex] = cell
        else:
            by_age.setdefault((cell.start, cell.end), {})[cell.sex] = cell
    ages = [AgeRow(age_label(*age), by_sex[1], by_sex[2]) for age, by_sex in sorted(by_age.items())]
    return Pyramid(ages, sums[1], sums[2], all(cell.estimate is not None for cell in sums.values()))


def _height(age: float) -> float:
    return BOTTOM - age * YEAR


def _length(count: float, width: int, most: float) -> float:
    return LENGTH * max(count, 0) / width / most


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _labels(ages: Sequence[AgeRow]) -> list[tuple[str, float]]:
    """Return the first age of every group; if they are too close, every tenth year and the open group."""
    starts = [row.first for row in ages]
    if any((b - a) * YEAR < LABELS_APART for a, b in pairwise(starts)):
        starts = [age for age in range(0, starts[-1], 10) if starts[-1] - age >= LABELS_APART / YEAR] + starts[-1:]
    return [(f"{age}+" if age == ages[-1].first else str(age), round(_height(age), 1)) for age in starts]
