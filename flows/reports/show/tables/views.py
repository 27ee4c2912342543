"""The views of the tables of a release: their list, one table, and its map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol

from flows.reports.show.confidence import caveat
from flows.reports.show.geography import Region
from flows.reports.show.maps.boundaries import Places
from flows.reports.show.search import Index
from flows.reports.show.tables.table import ReleaseTable, Sum
from flows.reports.show.view import Links, NotThere, Page, Table, View, link, page_asked, page_of
from tasks.lifecycle.description import Column
from tasks.pages import number

MOST_ROWS = 1_000_000  # of a file to take away
CAVEATS = {
    "tables": "Tables may add up the same noisy counts: their errors are then not independent.",
    "table": "In at least 95 of 100 runs the noise in a count is no larger than its margin. This holds over all runs: "
    "where small counts are suppressed, those that were published are too high on average.",
}


class Pages(Protocol):
    """What the view of a table or a map asks of the pages of its release."""

    manifest: Mapping[str, Any]
    places: Places

    @property
    def index(self) -> Index:
        """What a search finds."""

    def name(self, region: Region) -> str:
        """Return the name of a region."""

    def links_of(self, table: ReleaseTable, codes: Mapping[str, Any]) -> dict[str, str]:
        """Return the addresses of the pages of a row's codes, by column."""

    def why_missing(self, table: ReleaseTable, codes: Mapping[str, str]) -> str:
        """Return why a region that is listed has no row in a table with these codes."""


@dataclass(frozen=True)
class TableItem:
    """A table in the list: its name, title, columns in words, rows, and the margins of its counts."""

    name: str
    title: str
    columns: str
    rows: int
    least_margin: float | None
    most_margin: float | None


@dataclass(frozen=True, kw_only=True)
class TableList(View):
    """The tables of a release; as its first page, with facts and statements about it, and links to begin with."""

    tables: Sequence[TableItem]
    query: str = ""
    facts: Links = ()
    statements: Links = ()
    begin: Links = ()
    view: str = "tables"

    def table(self) -> Table:
        """Return the tables."""
        columns = ["TABLE", "TITLE", "COLUMNS", "ROWS", "LEAST_MOE", "MOST_MOE"]
        return columns, [list(astuple(one)) for one in self.tables]


@dataclass(frozen=True)
class ColumnView:
    """A column: its name in the file, heading, unit, meaning and role; choices: its codes, if it has few.

    chosen: the code or words that it is filtered by; filtered: whether it can be; next_to: a second code, of a region.
    """

    name: str
    title: str
    unit: str
    meaning: str
    role: str
    numeric: bool
    filtered: bool
    choices: Sequence[tuple[str, str]]
    chosen: str
    next_to: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableView(View):
    """Rows of a table, filtered and sorted.

    words: of the codes in these rows, by column. interval: the positions of count and margin, if it has both. summed:
    the sum of all rows that the filters leave, as a sentence; sum: the same as numbers. map: its address, if there is
    one. links: the addresses of codes, by column, for each row.
    """

    name: str
    columns: Sequence[ColumnView]
    words: Mapping[str, Mapping[str, str]]
    page: Page[Sequence[Any]]
    sort: str
    query: str
    interval: Sequence[int]
    sum: Sum | None
    summed: str
    map: str
    links: Sequence[Mapping[str, str]] = ()
    view: str = "table"

    def table(self) -> Table:
        """Return the rows, with the words of codes."""
        coded = [(at, column.name) for at, column in enumerate(self.columns) if column.name in self.words]
        rows = [[*row, *(self.words[name].get(str(row[at]), "") for at, name in coded)] for row in self.page.rows]
        return [*(column.name for column in self.columns), *(f"{name}_NAME" for _, name in coded)], rows

    def described(self) -> list[tuple[str, ...]]:
        """Return name, heading, unit and meaning of each column, for a workbook."""
        return [(one.name, one.title, one.unit, one.meaning) for one in self.columns]


@dataclass(frozen=True, kw_only=True)
class AcrossView(View):
    """The rows of a region, or of a code, in all tables: of the tables with the fewest keys the rows, of others links.

    around: headings with links to what contains it, and to what it contains.
    """

    kind: str
    code: str
    tables: Sequence[TableView]
    others: Links
    around: Sequence[tuple[str, Links]] = ()
    view: str = "across"

    def table(self) -> Table:
        """Return the rows of all tables, over the columns of all."""
        parts = [(one.title, *one.table()) for one in self.tables]
        columns = list(dict.fromkeys(name for _, names, _ in parts for name in names))
        rows = [
            [title, *map(dict(zip(names, row, strict=True)).get, columns)] for title, names, of in parts for row in of
        ]
        return ["TABLE", *columns], rows


def table_view(pages: Pages, table: ReleaseTable, asked: Mapping[str, str], *, plain: bool = False) -> TableView:
    """Return a page of a table, filtered and sorted as asked; all its rows for a file. plain: without choices, sums."""
    resource, by, query = table.resource, chosen(table, asked), asked.get("q", "")
    selection, sort = table.select(by, query), asked.get("sort", "")
    rows = table.number(selection)
    if not page_asked(asked) and rows > MOST_ROWS:
        raise NotThere(f"{rows:,} rows are too many: take the release's own {resource.paths[0]}, or filter them")
    page = page_of(rows, page_asked(asked), lambda shown: table.rows(selection, sort, shown))
    names = [column.name for column in table.columns]
    linked = page.rows if page_asked(asked) else ()
    shown = {name: {str(row[at]) for row in page.rows} for at, name in enumerate(names)}
    words = {column.name: table.words(column) for column in table.keys}
    total, why = (None, "") if plain else (table.sum(selection), table.overlap(selection))
    interval = [one.name for one in (table.count, table.margin) if one]
    return TableView(
        title=resource.title,
        reading=reading_of(pages, table),
        name=resource.name,
        columns=[_column_view(table, column, words.get(column.name, {}), by, plain=plain) for column in table.columns],
        words={
            name: {code: said[code] for code in sorted(shown[name] & said.keys())}
            for name, said in words.items()
            if said
        },
        page=page,
        sort=sort,
        query=query,
        interval=[names.index(name) for name in interval] if len(interval) == 2 else [],
        sum=None if why else total,
        summed=_in_words(total, why) if total else "",
        map=""
        if selection.several or not is_mapped(table, pages.places)
        else link(f"table-map/{resource.name}", **as_options(by, query)),
        links=[pages.links_of(table, dict(zip(names, row, strict=True))) for row in linked],
    )


def reading_of(pages: Pages, table: ReleaseTable) -> str:
    """Return how to read the counts of a table."""
    clipped = bool(pages.manifest.get("clipped"))
    return caveat(pages.manifest, CAVEATS["table"] if table.margin else "", clipped=clipped)


def chosen(table: ReleaseTable, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the codes or words by which an address filters columns; of regions one may be next to another."""
    by = {column.name: asked[f"by_{column.name}"] for column in table.keys if asked.get(f"by_{column.name}")}
    if table.place and (other := asked.get("next_to")) and (name := table.place.name) in by:
        by[name] = f"{by[name]},{other}"
    return by


def as_options(by: Mapping[str, str], query: str = "") -> dict[str, str]:
    """Return the options of an address by which it filters columns."""
    return {**{f"by_{name}": code for name, code in by.items()}, "q": query}


def is_mapped(table: ReleaseTable, places: Places) -> bool:
    """Return whether a map can show a table: it has counts by regions that have points or shapes."""
    return bool(table.count and table.types & places.types)


def _column_view(
    table: ReleaseTable, column: Column, words: Mapping[str, str], by: Mapping[str, str], *, plain: bool
) -> ColumnView:
    filtered = column in table.keys
    choices = [(code, words.get(code, "")) for code in table.choices(column)] if filtered and not plain else []
    numeric = not filtered and column.type in ("integer", "number")
    about = column.name, column.title, column.unit, column.meaning, column.role
    code, _, other = by.get(column.name, "").partition(",") if choices else (by.get(column.name, ""), "", "")
    next_to = other if column == table.place and len(choices) > 1 else None
    return ColumnView(*about, numeric, filtered, choices, code, next_to)


def _in_words(total: Sum, why: str) -> str:
    if why:
        return f"Not summed: {why}."
    said = f"Sum of {number(total.rows)} rows: {number(total.total)}"
    if total.margin is not None:
        return f"{said} ± {number(total.margin)}, by the law of the sum. What was not published is not in it."
    return f"{said}; {total.why}." if total.why else f"{said}."
