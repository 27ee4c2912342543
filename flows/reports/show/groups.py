"""A population group of a Detailed DHC-A, and two side by side: differences with their margins, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import hypot
from typing import Any, Literal

from flows.reports.show.age_measures import Measure, age_measures
from flows.reports.show.margins import caveat, confidence, is_clipped, margin_of_cells
from flows.reports.show.view import Table, View
from tasks.detailed_dhca.details import AGE_RANGES, DETAILS, SEXES, SHAPES, TABLE_NAMES
from tasks.detailed_dhca.person import LAST_AGE
from tasks.detailed_dhca.pyramid import Cell, Pyramid, Share, pyramid
from tasks.lifecycle.description import Noise
from tasks.lifecycle.manifest import read_law
from tasks.pages import decimal, number

SAME = (
    "These are one and the same count: the two regions are made of the same blocks and share one noisy answer. Their "
    "difference is exactly 0, which is no information about the noise."
)
INDEPENDENT = (
    "The two groups have independent noise, even where one region contains the other, so the margin is that of the "
    "exact law of their difference: in at least 95 of 100 runs two groups of equal size differ by no more."
)


@dataclass(frozen=True)
class Group:
    """A population group with its published count, or the reason why it has none.

    key: its part of an address, `COUNTY/44007/2001`. within: what contains its region. count, margin and noise are None
    where nothing was published, noise also in a release of exact counts; `why` is the reason. noise: what the release
    says of the noise in its total, which sums `cells`. estimate, estimate_margin: None where it has no estimate.
    """

    key: str
    iteration: str
    region: str
    within: str
    status: Literal["published", "suppressed", "not tabulated"]
    why: str = ""
    count: int | None = None
    margin: int | None = None
    shape: str = ""
    noise: Noise | None = None
    estimate: int | None = None
    estimate_margin: int | None = None

    @property
    def title(self) -> str:
        """Its name."""
        return f"{self.iteration}, {self.region}"

    @property
    def parts(self) -> list[str]:
        """The type and the id of its region, and the code of its iteration."""
        return self.key.split("/")

    @property
    def interval(self) -> tuple[int, int]:
        """Its count less and plus the margin."""
        return (self.count or 0) - (self.margin or 0), (self.count or 0) + (self.margin or 0)

    @property
    def relative(self) -> float | None:
        """The margin as a share of the count; None for a count of 0 or less."""
        return (self.margin or 0) / self.count if self.count and self.count > 0 else None

    @property
    def law(self) -> str:
        """The noise in its total in words; "" without any."""
        if self.noise is None:
            return ""
        law, cells = read_law(self.noise), int(self.noise["cells"])
        deviation = (law.variance() * cells) ** 0.5
        answer = "one noisy answer" if cells == 1 else f"the sum of {cells} noisy cells"
        relative = f", {deviation / self.count:.1%} of the count" if self.count and self.count > 0 else ""
        return f"{answer}, {law.name}; standard error {decimal(deviation)}{relative}"


@dataclass(frozen=True)
class DifferenceRow:
    """A count of two groups, their difference and its margin; the same of its shares of all persons, as fractions."""

    label: str
    sex: str
    a: int
    b: int
    difference: int
    margin: int
    share_a: float | None = None
    share_b: float | None = None
    share_difference: float | None = None
    share_margin: float | None = None

    @property
    def counts_differ(self) -> bool:
        """Whether the counts differ by more than the margin."""
        return abs(self.difference) > self.margin

    @property
    def shares_differ(self) -> bool:
        """Whether the shares differ by more than their margin; not where there are none."""
        return self.share_difference is not None and abs(self.share_difference) > (self.share_margin or 0)


@dataclass(frozen=True, kw_only=True)
class Comparison(View):
    """Two groups side by side. same: whether they have one count; measures: of ages and sexes, for A and B."""

    a: Group
    b: Group
    same: bool
    total: DifferenceRow | None
    rows: Sequence[DifferenceRow]
    pyramids: Sequence[Pyramid]
    measures: Sequence[tuple[Measure, Measure]]
    view: str = "compare"

    @property
    def beyond(self) -> int:
        """How many differences of shares by sex and age, both sexes' sums left out, are beyond their margins."""
        return sum(row.shares_differ for row in self.rows if row.label != "all ages")

    @property
    def answer(self) -> tuple[str, str]:
        """Which of the two groups has more, as a question with its answer, and what noise alone would do."""
        a, b = self.a, self.b
        names = (a.title, b.title)
        if a.parts[2] == b.parts[2]:
            names = (a.region, b.region)
        elif a.parts[:2] == b.parts[:2]:
            names = (a.iteration, b.iteration)
        assert self.total is not None
        apart, margin = abs(self.total.difference), self.total.margin
        more = names[self.total.difference < 0]
        chance = 100 * confidence().alpha
        if not self.total.counts_differ:
            said = f"Not known: {more} has {number(apart)} more in the counts, within the margin of {number(margin)}."
        else:
            interval = f"{number(apart - margin)} to {number(apart + margin)}"
            word = "Yes" if self.total.difference > 0 else "No"
            said = f"{word}. {more} has {interval} more ({number(apart)} ± {number(margin)})."
        return (
            f"Are there more in {names[0]} than in {names[1]}? {said}",
            f"If both had the same number, noise would make a difference of more than {number(margin)} in at most "
            f"{float(chance):g} of 100 runs.",
        )

    @property
    def verdict(self) -> str:
        """Whether the age and sex structures of the two groups differ, as a sentence."""
        ages = [row for row in self.rows if row.label != "all ages" and row.share_difference is not None]
        if self.same or not ages:
            return "One and the same count: nothing differs." if self.same else "Shares are not known."
        chance = -(-len(ages) // 20)
        if not self.beyond:
            return (
                f"All {len(ages)} shares by sex and age are equal within their margins: noise alone may explain them."
            )
        words = f"{self.beyond} of {len(ages)} shares by sex and age differ by more than their margins"
        return f"{words}; noise alone would give about {chance}."

    def table(self) -> Table:
        """Return the differences."""
        rows = [*([self.total] if self.total else []), *self.rows]
        shares = ["SHARE_A", "SHARE_B", "SHARE_DIFFERENCE", "SHARE_MOE"]
        return ["AGE", "SEX", "A", "B", "DIFFERENCE", "MOE", *shares], [list(astuple(row)) for row in rows]


def compared(
    a: Group,
    b: Group,
    tables: Sequence[Sequence[Cell]],
    manifest: Mapping[str, Any],
    *,
    same: bool,
) -> Comparison:
    """Return two groups with their tables by sex and age side by side, in the ages that both tables have.

    same: whether they have one and the same noise.
    """
    groups = a, b
    total, pyramids, rows, measures = None, [], [], []
    if a.count is not None and b.count is not None:
        margin = _margin(groups, [int(one.noise["cells"]) if one.noise else 0 for one in groups], same=same)
        total = DifferenceRow("all ages", "both", a.count, b.count, a.count - b.count, margin)
        if all(tables):
            shapes = [next(name for name, words in TABLE_NAMES.items() if words == one.shape) for one in groups]
            ages = AGE_RANGES[DETAILS.index(min(shapes, key=SHAPES.index))]
            pyramids = [pyramid(_in_ages(one, cells, ages)) for one, cells in zip(groups, tables, strict=True)]
            rows = _differences(groups, tables, pyramids, ages, same=same)
            each = [
                age_measures(pyramid(cells), one.margin or 0, clipped=is_clipped(manifest))
                for one, cells in zip(groups, tables, strict=True)
            ]
            measures = list(zip(*each, strict=True))
    return Comparison(
        title=f"{a.title}, and {b.title}",
        reading=caveat(manifest, SAME if same else INDEPENDENT),
        a=a,
        b=b,
        same=same,
        total=total,
        rows=rows,
        pyramids=pyramids,
        measures=measures,
    )


def _margin(groups: Sequence[Group], cells: Sequence[int], *, same: bool) -> int:
    """Return the margin of the difference of two groups' sums of so many cells."""
    if same:
        return 0
    return margin_of_cells(
        (read_law(one.noise), number) for one, number in zip(groups, cells, strict=True) if one.noise
    )


def _differences(
    groups: Sequence[Group],
    tables: Sequence[Sequence[Cell]],
    pyramids: Sequence[Pyramid],
    ages: Sequence[tuple[int, int]],
    *,
    same: bool,
) -> list[DifferenceRow]:
    """Return the differences by sex, and by sex and age."""
    rows = []
    for (start, end), *both in zip([(0, LAST_AGE), *ages], *(one.rows() for one in pyramids), strict=True):
        for sex, words in SEXES.items():
            (one, cells), (other, more) = (_between(of, sex, start, end) for of in tables)
            shares = [table.share(row.sides[words]) for table, row in zip(pyramids, both, strict=True)]
            margin = _margin(groups, [cells, more], same=same)
            of_shares = _share_difference(*shares, same=same)
            rows.append(DifferenceRow(both[0].label, words, one, other, one - other, margin, *of_shares))
    return rows


def _in_ages(group: Group, cells: Sequence[Cell], ages: Sequence[tuple[int, int]]) -> list[Cell]:
    """Return a table in coarser ages: each sum of cells with the margin of the sum."""
    found = [replace(cell, estimate=None, estimate_margin=None) for cell in cells if cell.start is None]
    for start, end in ages:
        for sex in SEXES:
            count, number = _between(cells, sex, start, end)
            found.append(Cell(start, end, sex, count, _margin([group], [number], same=False)))
    return found


def _share_difference(a: Share | None, b: Share | None, *, same: bool) -> tuple[float | None, ...]:
    """Return two shares, their difference and its margin; Nones where a group has no positive total."""
    if a is None or b is None:
        return (None, None, None, None)
    return a.value, b.value, a.value - b.value, 0.0 if same else hypot(a.margin, b.margin)


def _between(cells: Sequence[Cell], sex: int, start: int, end: int) -> tuple[int, int]:
    """Return the sum of a sex's cells in an age range, and their number; for all ages the published sum."""
    inside = [cell for cell in cells if cell.sex == sex and cell.start is not None and start <= cell.start <= end]
    if (start, end) == (0, LAST_AGE):
        total = next(cell for cell in cells if cell.sex == sex and cell.start is None)
        return total.count, len(inside)
    return sum(cell.count for cell in inside), len(inside)
