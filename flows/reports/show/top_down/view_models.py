"""The views of a TopDown release and the rows in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flows.reports.show.top_down.records import EstimatedCount, GeounitTotals, NoisyAnswer
from flows.reports.show.top_down.release import TOTALS
from flows.reports.show.top_down.tables import CountTable
from flows.reports.show.view import Page, Table, View
from spine.redistricting import PERSON_TABLES, TABLE_TITLES
from tasks.pages.words import count_title

CELLS = {  # of P1 to P5: the table's title, and the cell in words
    cell.name: (f"{table}. {TABLE_TITLES[table]}", cell.words)
    for table, cells in PERSON_TABLES.items()
    for cell in cells
}


@dataclass(frozen=True)
class GeounitItem:
    """A geounit: `key` is its part of an address."""

    key: str
    name: str
    kind: str
    level: str
    code: str


@dataclass(frozen=True)
class SpineLevelRow:
    """A level of the spine: its geounits, and the least and largest deviation of the noise in one answer of `query`."""

    product: str
    level: str
    geounits: int
    query: str
    least: float | None
    most: float | None


def table_of_totals(rows: Sequence[GeounitTotals[GeounitItem]]) -> Table:
    """Return geounits with their sums."""
    sums = [name.upper().replace(" ", "_") for names in TOTALS.values() for name in names]
    return ["KIND", "LEVEL", "STATE", "CODE", "NAME", *sums, "MARGIN_OF_PERSONS"], [
        [*one.geounit.key.split("/"), one.geounit.name, *one.sums.values(), one.margin] for one in rows
    ]


@dataclass(frozen=True, kw_only=True)
class Redistricting(View):
    """The release as a whole."""

    margin: str
    answers: bool
    states: Sequence[GeounitTotals[GeounitItem]]
    columns: Sequence[str]
    levels: Sequence[SpineLevelRow]
    entities: Sequence[str]
    facts: Sequence[tuple[str, str]]
    statements: Sequence[tuple[str, str]]
    maps: Sequence[tuple[str, str]] = ()
    view: str = "redistricting"

    def table(self) -> Table:
        """Return the states."""
        return table_of_totals(self.states)


@dataclass(frozen=True, kw_only=True)
class GeounitView(View):
    """A geounit: its tables, the geounits that contain it and those that it contains.

    inside: headings with lists (words, number, address); maps: words and addresses.
    """

    margin: str
    geounit: GeounitItem
    totals: GeounitTotals[GeounitItem]
    above: Sequence[GeounitItem]
    same: Sequence[GeounitItem]
    inside: Sequence[tuple[str, Sequence[tuple[str, int, str]]]]
    tables: Sequence[CountTable]
    choices: Sequence[tuple[str, str]]
    chosen: str
    answers: Sequence[NoisyAnswer]
    margins: Sequence[EstimatedCount]
    outside: str
    maps: Sequence[tuple[str, str]] = ()
    view: str = "geounit"

    def margin_tables(self) -> dict[str, list[tuple[str, EstimatedCount]]]:
        """Return the margins with their counts in words, by table; first, without a title, those of no P1 to P5."""
        found: dict[str, list[tuple[str, EstimatedCount]]] = {"": []}
        for one in self.margins:
            title, words = CELLS.get(one.count) or ("", count_title(one.count))
            found.setdefault(title, []).append((words, one))
        return found

    def table(self) -> Table:
        """Return the cells of its tables, then its margins."""
        key = self.geounit.key
        rows: list[list[Any]] = [
            [key, table.name, label, column, value, None, None, None]
            for table in self.tables
            for label, values in table.rows
            for column, value in zip(table.columns, values, strict=True)
        ]
        rows += [
            [key, "margins", one.count, one.product, one.released, one.margin, one.estimate, one.error]
            for one in self.margins
        ]
        return ["GEOUNIT", "TABLE", "ROW", "COLUMN", "COUNT", "MARGIN", "ESTIMATE", "STANDARD_ERROR"], rows


@dataclass(frozen=True, kw_only=True)
class Listing(View):
    """The geounits of a level in a state, or in a geounit of it. codes: whether they are areas that may lack names."""

    margin: str
    page: Page[GeounitTotals[GeounitItem]]
    sort: str
    within: GeounitItem | None
    columns: Sequence[str]
    margins: bool
    codes: bool = False
    map: str = ""
    view: str = "listing"

    def table(self) -> Table:
        """Return the geounits."""
        return table_of_totals(self.page.rows)
