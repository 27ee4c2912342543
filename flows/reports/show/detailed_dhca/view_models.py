"""What a view holds: typed rows, which the page, the terminal, the CSV and the JSON all show as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["published", "suppressed", "not tabulated", "not known"]


@dataclass(frozen=True)
class RegionItem:
    """A region: `key` is its part of an address, `within` the names of what it lies in."""

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
    """A population group and what the release says of it.

    count, margin, low, high and relative (margin / count) are None where nothing was published; `why` then says why.
    estimate, estimate_margin: None where the release has none of the group.
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


@dataclass(frozen=True)
class EstimateItem:
    """The estimate of a published group beside its count; all None where the ancestor test left the group out."""

    estimate: int | None
    margin: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class BySex:
    """Counts of both sexes with their margins, and estimates with theirs where the release has them."""

    male: int
    male_margin: int
    male_estimate: int | None
    male_estimate_margin: int | None
    female: int
    female_margin: int
    female_estimate: int | None
    female_estimate_margin: int | None


@dataclass(frozen=True)
class AgeRow(BySex):
    """An age group of a sex-by-age table."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Pyramid(BySex):
    """A group's sex-by-age table, youngest first, with the sums of each sex; `top` is where its axis ends.

    estimated: whether every count has an estimate beside it.
    """

    ages: Sequence[AgeRow]
    top: int
    estimated: bool


@dataclass(frozen=True)
class SumOfChildren:
    """How far the published children's sum lies from their parent, beside what noise explains.

    margin: of the difference of the parent and all children that the release tells of, published or suppressed.
    missing: children without a count; each that was suppressed had a noisy total of at most `at_most`, so that together
    they can lift the parent above the sum by `missing_at_most`.
    """

    sum: int
    difference: int
    margin: int
    published: int
    missing: int
    at_most: int | None
    missing_at_most: int
    all_listed: bool
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
    all_listed: bool
    sums: SumOfChildren | None


@dataclass(frozen=True)
class Paged:
    """One page of a long table."""

    rows: Sequence[GroupItem]
    number: int
    pages: int
    total: int


@dataclass(frozen=True)
class LevelRow:
    """A population group level: its size, how many groups got which table, and its noise."""

    slug: str
    name: str
    kinds: str
    type: str
    regions: int
    iterations: int
    groups: int
    published: int
    by_shape: dict[str, int]
    total_only: int
    margins: dict[str, int]
    thresholds: Sequence[int]
    suppressed_up_to: int | None
    deviation: float | None


@dataclass(frozen=True)
class Overview:
    """A release as a whole."""

    title: str
    reading: str
    levels: Sequence[LevelRow]
    largest: Sequence[RegionItem]
    spent: dict[str, object] | None
    statements: dict[str, str]
    states: int
    coterminous_sets: int
    view: str = "overview"


@dataclass(frozen=True)
class RegionView:
    """A region: everything that was published for it."""

    title: str
    reading: str
    region: RegionItem
    above: Sequence[RegionItem]
    coterminous: Sequence[RegionItem]
    inside: Sequence[tuple[str, int, Sequence[RegionItem]]]
    page: Paged
    asked: dict[str, str]
    counts: Sequence[tuple[str, int, int]]
    view: str = "region"


@dataclass(frozen=True)
class IterationView:
    """An iteration: where it was published."""

    title: str
    reading: str
    iteration: IterationItem
    within: RegionItem | None
    chosen: str
    kinds: str
    by_type: Sequence[tuple[str, str, int, int | None, str]]
    page: Paged
    asked: dict[str, str]
    view: str = "iteration"


@dataclass(frozen=True)
class GroupView:
    """One population group."""

    title: str
    reading: str
    group: GroupItem
    estimate: EstimateItem | None
    law: str
    pyramid: Pyramid | None
    coterminous: Sequence[RegionItem]
    parents: Sequence[GroupItem]
    siblings: Inside | None
    children: Sequence[Inside]
    view: str = "group"


@dataclass(frozen=True)
class DifferenceRow:
    """A count of two groups, their difference and its margin."""

    label: str
    sex: str
    a: int
    b: int
    difference: int
    margin: int


@dataclass(frozen=True)
class Comparison:
    """Two groups side by side."""

    title: str
    reading: str
    a: GroupItem
    b: GroupItem | None
    same: bool
    total: DifferenceRow | None
    rows: Sequence[DifferenceRow]
    pyramids: Sequence[Pyramid]
    asked: dict[str, str]
    regions: Sequence[RegionItem] = ()
    iterations: Sequence[IterationItem] = ()
    view: str = "compare"


@dataclass(frozen=True)
class Found:
    """What a search found; groups, as (key, name), where neither a region nor an iteration answers."""

    title: str
    reading: str
    query: str
    regions: Sequence[RegionItem]
    regions_total: int
    iterations: Sequence[IterationItem]
    iterations_total: int
    groups: Sequence[tuple[str, str]]
    named: bool
    view: str = "find"


View = Overview | RegionView | IterationView | GroupView | Comparison | Found
