"""The views of a Detailed DHC-A release and the rows in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

from flows.reports.show.detailed_dhca.age_measures import Measure
from flows.reports.show.view import Page, Table, View
from privacy.accounting.composition import SpendRow
from tasks.detailed_dhca.details import SEXES, SHAPES
from tasks.detailed_dhca.pyramid import Pyramid

Status = Literal["published", "suppressed", "not tabulated"]
GROUP_KEYS = ["REGION_TYPE", "REGION_ID", "REGION_NAME", "ITERATION_CODE", "ITERATION_NAME"]
GROUP_COUNTS = ["STATUS", "COUNT", "MOE", "LOW", "HIGH", "TABLE", "WHY", "ESTIMATE", "ESTIMATE_MOE"]


@dataclass(frozen=True)
class RegionItem:
    """A region: `key` is its part of an address, `within` the names of the regions that contain it."""

    key: str
    name: str
    kind: str
    id: str
    within: str


@dataclass(frozen=True)
class IterationItem:
    """A characteristic iteration: its code, name and level (Regional, Detailed)."""

    code: str
    name: str
    level: str


@dataclass(frozen=True)
class GroupItem:
    """A population group with its published count, or the reason why it has none.

    count, margin, low, high and relative (margin / count) are None where nothing was published; `why` is the reason.
    estimate, estimate_margin: None where the release has no estimate of the group.
    """

    key: str
    region: RegionItem
    iteration: IterationItem
    status: Status
    why: str = ""
    count: int | None = None
    margin: int | None = None
    low: int | None = None
    high: int | None = None
    relative: float | None = None
    shape: str = ""
    estimate: int | None = None
    estimate_margin: int | None = None

    def row(self) -> list[Any]:
        """Return the group's row of a table: GROUP_KEYS, GROUP_COUNTS."""
        names = [*self.key.split("/")[:2], self.region.name, self.iteration.code, self.iteration.name]
        counts = [self.status, self.count, self.margin, self.low, self.high, self.shape, self.why]
        return [*names, *counts, self.estimate, self.estimate_margin]


@dataclass(frozen=True)
class SumOfChildren:
    """The difference between a parent and the sum of its published children, with its margin from the noise alone.

    margin: of the difference of the parent and all children that the release lists, published or suppressed.
    missing: children without a count. A suppressed child had a noisy total of at most `at_most`, so together they can
    raise the parent above the sum by `missing_at_most`.
    """

    sum: int
    difference: int
    margin: int
    published: int
    missing: int
    at_most: int | None
    missing_at_most: int
    verdict: str


@dataclass(frozen=True)
class Inside:
    """The same iteration in the regions of one type within a region: the largest few, and how many there are."""

    type: str
    kinds: str
    address: str
    rows: Sequence[GroupItem]
    published: int
    regions: int
    sums: SumOfChildren | None


@dataclass(frozen=True)
class LevelRow:
    """A population group level: its size, how many groups got which table, and their margins."""

    slug: str
    name: str
    regions: int
    iterations: int
    groups: int
    published: int
    by_shape: dict[str, int]
    margins: dict[str, int]
    suppressed_up_to: int | None


@dataclass(frozen=True, kw_only=True)
class Overview(View):
    """A release as a whole."""

    levels: Sequence[LevelRow]
    largest: Sequence[RegionItem]
    spent: list[SpendRow]
    statements: dict[str, str]
    states: int
    coterminous_sets: int
    view: str = "overview"

    def table(self) -> Table:
        """Return the levels."""
        columns = ["LEVEL", "REGIONS", "ITERATIONS", "GROUPS", "PUBLISHED", "SUPPRESSED_UP_TO"]
        columns += [name.upper() for name in SHAPES] + [f"MOE_{name.upper()}" for name in SHAPES]
        return columns, [
            [row.slug, row.regions, row.iterations, row.groups, row.published, row.suppressed_up_to]
            + [counts[name] for counts in (row.by_shape, row.margins) for name in SHAPES]
            for row in self.levels
        ]


@dataclass(frozen=True, kw_only=True)
class GroupsView(View):
    """A view with a long table of groups."""

    page: Page[GroupItem]

    def table(self) -> Table:
        """Return the groups."""
        return [*GROUP_KEYS, *GROUP_COUNTS], [row.row() for row in self.page.rows]


@dataclass(frozen=True, kw_only=True)
class RegionView(GroupsView):
    """A region with its published groups."""

    region: RegionItem
    above: Sequence[RegionItem]
    coterminous: Sequence[RegionItem]
    inside: Sequence[tuple[str, int, Sequence[RegionItem]]]
    asked: dict[str, str]
    counts: Sequence[tuple[str, int, int]]
    view: str = "region"


@dataclass(frozen=True, kw_only=True)
class IterationView(GroupsView):
    """An iteration with the regions that it is published for; tables: words and addresses of all their rows."""

    iteration: IterationItem
    within: RegionItem | None
    chosen: str
    kinds: str
    by_type: Sequence[tuple[str, str, int, int | None, str]]
    regional: IterationItem | None
    detailed: Sequence[IterationItem]
    tables: Sequence[tuple[str, str]]
    mapped: bool = False
    view: str = "iteration"


@dataclass(frozen=True, kw_only=True)
class Iterations(View):
    """All iterations by kind: a heading, the Regional ones with the Detailed ones in each, the others."""

    kinds: Sequence[tuple[str, Sequence[tuple[IterationItem, Sequence[IterationItem]]], Sequence[IterationItem]]]
    view: str = "iterations"

    def table(self) -> Table:
        """Return every iteration; the Regional one that it is in."""
        rows = []
        for kind, regional, others in self.kinds:
            for one, detailed in regional:
                rows += [[kind, one.code, one.name, one.level, "", ""]]
                rows += [[kind, part.code, part.name, part.level, one.code, one.name] for part in detailed]
            rows += [[kind, one.code, one.name, one.level, "", ""] for one in others]
        return ["KIND", "ITERATION_CODE", "ITERATION_NAME", "LEVEL", "REGIONAL_CODE", "REGIONAL_NAME"], rows


@dataclass(frozen=True, kw_only=True)
class GroupView(View):
    """One population group. why_no_more: why its table has no more ages."""

    group: GroupItem
    law: str
    why_no_more: str
    pyramid: Pyramid | None
    measures: Sequence[Measure]
    coterminous: Sequence[RegionItem]
    parents: Sequence[GroupItem]
    siblings: Inside | None
    children: Sequence[Inside]
    mapped: Sequence[str] = ()
    view: str = "group"

    def around(self) -> list[tuple[str, Sequence[GroupItem]]]:
        """Return the groups around this one by their relation to it."""
        around = [("within", self.parents), *((inside.kinds, inside.rows) for inside in self.children)]
        return [*around, *([("sibling", self.siblings.rows)] if self.siblings else [])]

    def table(self) -> Table:
        """Return the group's total and cells, then the groups around it."""
        columns = ["OF", *GROUP_KEYS, "AGE", "SEX", "STATUS", "COUNT", "MOE", "ESTIMATE", "ESTIMATE_MOE"]
        own = ["group", *self.group.row()[:5]]
        rows = [
            [of, *one.row()[:5], "all ages", "both", one.status, one.count, one.margin, *one.row()[-2:]]
            for of, groups in [("group", [self.group]), *self.around()]
            for one in groups
        ]
        cells = [
            [*own, row.label, SEXES[cell.sex], self.group.status, *cell.counts]
            for row in (self.pyramid.rows() if self.pyramid else ())
            for cell in (row.male, row.female)
        ]
        return columns, [rows[0], *cells, *rows[1:]]


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
    """Two groups side by side; without the second, the regions and iterations to choose it from.

    measures: of ages and sexes, for A and B.
    """

    a: GroupItem
    asked: dict[str, str]
    b: GroupItem | None = None
    same: bool = False
    total: DifferenceRow | None = None
    rows: Sequence[DifferenceRow] = ()
    pyramids: Sequence[Pyramid] = ()
    measures: Sequence[tuple[Measure, Measure]] = ()
    regions: Sequence[RegionItem] = ()
    iterations: Sequence[IterationItem] = ()
    view: str = "compare"

    @property
    def beyond(self) -> int:
        """How many differences of shares by sex and age, both sexes' sums left out, are beyond their margins."""
        return sum(row.shares_differ for row in self.rows if row.label != "all ages")

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
