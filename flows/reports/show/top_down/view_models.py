"""What a view of a TopDown release holds: typed rows, for the page, the terminal, the CSV and the JSON alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flows.reports.show.top_down.release import Answer, Margin
from flows.reports.show.top_down.tables import CountTable


@dataclass(frozen=True)
class GeounitItem:
    """A geounit: `key` is its part of an address."""

    key: str
    name: str
    kind: str
    level: str
    code: str


@dataclass(frozen=True)
class TotalsRow:
    """A geounit in a list; counts that the release lacks are None."""

    geounit: GeounitItem
    persons: int | None
    adults: int | None
    hispanic: int | None
    units: int | None
    occupied: int | None
    margin: float | None


@dataclass(frozen=True)
class SpineLevelRow:
    """A level of the spine: its geounits, and the deviation of the noise in their totals, from the largest share."""

    product: str
    level: str
    geounits: int
    query: str
    least: float | None
    most: float | None


@dataclass(frozen=True)
class Redistricting:
    """The release as a whole."""

    title: str
    reading: str
    margin: str
    states: Sequence[TotalsRow]
    levels: Sequence[SpineLevelRow]
    entities: Sequence[str]
    facts: Sequence[tuple[str, str]]
    statements: Sequence[tuple[str, str]]
    view: str = "redistricting"


@dataclass(frozen=True)
class GeounitView:
    """A geounit: its tables, what it lies in and what lies in it.

    inside: headings with lists (words, number, address).
    """

    title: str
    reading: str
    margin: str
    geounit: GeounitItem
    totals: TotalsRow
    above: Sequence[GeounitItem]
    same: Sequence[GeounitItem]
    inside: Sequence[tuple[str, Sequence[tuple[str, int, str]]]]
    tables: Sequence[CountTable]
    choices: Sequence[tuple[str, str]]
    chosen: str
    answers: Sequence[Answer]
    margins: Sequence[Margin]
    view: str = "geounit"


@dataclass(frozen=True)
class Listing:
    """The geounits of a level in a state, or in a geounit of it."""

    title: str
    reading: str
    margin: str
    rows: Sequence[TotalsRow]
    sort: str
    within: GeounitItem | None
    units: bool
    persons: bool
    margins: bool
    number: int
    pages: int
    total: int
    view: str = "listing"


@dataclass(frozen=True)
class FoundGeounits:
    """What a search found."""

    title: str
    reading: str
    query: str
    geounits: Sequence[GeounitItem]
    total: int
    named: bool
    view: str = "geounits"


TopDownView = Redistricting | GeounitView | Listing | FoundGeounits
