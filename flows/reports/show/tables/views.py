"""The views of the tables of a release: their list, one table, and its map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

from flows.reports.show.confidence import caveat
from flows.reports.show.maps.boundaries import Places
from flows.reports.show.maps.view import MapRow, MapView, link, map_of
from flows.reports.show.tables.table import ReleaseTable, Selection, Sum
from flows.reports.show.view import NotThere, Page, Table, View, page_asked, page_of
from tasks.inputs.regions import PUERTO_RICO, Region
from tasks.lifecycle.description import Column
from tasks.pages import number

MOST_ROWS = 1_000_000  # of a file to take away
MOST_PLACES = 20_000  # of a map
CAVEATS = {
    "tables": "Tables may add up the same noisy counts: their errors are then not independent.",
    "table": "In at least 95 of 100 runs the noise in a count is no larger than its margin.",
}


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
    """The tables of a release; as its first page, with facts and statements about it."""

    tables: Sequence[TableItem]
    query: str = ""
    facts: Sequence[tuple[str, str]] = ()
    statements: Sequence[tuple[str, str]] = ()
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
    one.
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
    view: str = "table"

    def table(self) -> Table:
        """Return the rows, with the words of codes."""
        coded = [(at, column.name) for at, column in enumerate(self.columns) if column.name in self.words]
        rows = [[*row, *(self.words[name].get(str(row[at]), "") for at, name in coded)] for row in self.page.rows]
        return [*(column.name for column in self.columns), *(f"{name}_NAME" for _, name in coded)], rows

    def described(self) -> list[tuple[str, ...]]:
        """Return name, heading, unit and meaning of each column, for a workbook."""
        return [(one.name, one.title, one.unit, one.meaning) for one in self.columns]


def table_view(table: ReleaseTable, asked: Mapping[str, str], manifest: Mapping[str, Any], places: Places) -> TableView:
    """Return a page of a table, filtered and sorted as asked; all its rows for a file."""
    resource, by, query = table.resource, chosen(table, asked), asked.get("q", "")
    selection, sort = table.select(by, query), asked.get("sort", "")
    rows = table.number(selection)
    if not page_asked(asked) and rows > MOST_ROWS:
        raise NotThere(f"{rows:,} rows are too many: take the release's own {resource.paths[0]}, or filter them")
    page = page_of(rows, page_asked(asked), lambda shown: table.rows(selection, sort, shown))
    names = [column.name for column in table.columns]
    shown = {name: {str(row[at]) for row in page.rows} for at, name in enumerate(names)}
    words = {column.name: table.words(column) for column in table.keys}
    sums, interval = table.sums(selection), [one.name for one in (table.count, table.margin) if one]
    total, why = sums.get(""), table.overlap(selection)
    return TableView(
        title=resource.title,
        reading=caveat(manifest, CAVEATS["table"] if table.margin else "", clipped=bool(manifest.get("clipped"))),
        name=resource.name,
        columns=[_column_view(table, column, words.get(column.name, {}), by) for column in table.columns],
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
        map=link(f"table-map/{resource.name}", **_as_options(by, query))
        if region_of(table, places) and not selection.several
        else "",
    )


def chosen(table: ReleaseTable, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the codes or words by which an address filters columns; of regions one may be next to another."""
    by = {column.name: asked[f"by_{column.name}"] for column in table.keys if asked.get(f"by_{column.name}")}
    if table.place and (other := asked.get("next_to")) and (name := table.place.name) in by:
        by[name] = f"{by[name]},{other}"
    return by


def region_of(table: ReleaseTable, places: Places) -> Column | None:
    """Return the column with codes of regions that have points or shapes; None where a map can show none."""
    bare = {kind.removeprefix(PUERTO_RICO) for kind in places.types}
    column = table.place
    there = table.count and column and (column.region.startswith("{") or column.region in bare)
    return column if there else None


def map_view(table: ReleaseTable, asked: Mapping[str, str], manifest: Mapping[str, Any], places: Places) -> MapView:
    """Return the sums of a table's counts by region as a map. Raises NotThere where they may not be summed."""
    column, by, query = region_of(table, places), chosen(table, asked), asked.get("q", "")
    selection = table.select(by, query)
    if column is None or table.overlap(selection):
        raise NotThere(table.overlap(selection) or "this table has no regions that a map can show")
    sums = table.sums(selection, column)
    if len(sums) > MOST_PLACES:
        raise NotThere(f"{len(sums):,} regions are too many for a map: filter them")
    words, everything = table.words(column), sum(one.total for one in sums.values())
    address = f"table/{table.resource.name}"
    rows = [
        MapRow(
            type=region.type,
            id=region.id,
            address=link(address, **_as_options({**by, column.name: region.id}, query)),
            name=words.get(region.id, region.id),
            within="",
            count=one.total,  # type: ignore[arg-type]  # or a multiple of a step
            margin=one.margin,
            share=one.total / everything if everything > 0 else None,
        )
        for region, one in _regions(table, column, selection, sums)
    ]
    return map_of(
        rows,
        places,
        asked,
        title=table.resource.title,
        reading=caveat(manifest, CAVEATS["table"] if table.margin else "", clipped=bool(manifest.get("clipped"))),
        of_nation=len({row.id[:2] for row in rows}) > 1,
        missing="no count",
        subject=table.count.unit if table.count else "",
        whole="of all those on the map",
        where=[(table.resource.title, link(address, **_as_options(by, query)))],
        links=partial(link, f"table-map/{table.resource.name}", **_as_options(by, query)),
    )


def _regions(
    table: ReleaseTable, column: Column, selection: Selection, sums: Mapping[str, Sum]
) -> Iterator[tuple[Region, Sum]]:
    """Yield the regions of a column of codes with their sums."""
    kinds = table.kinds(column, selection)
    for code, one in sums.items():
        kind = kinds.get(code, column.region)
        yield (Region(kind, code) if code in kinds else Region.named(kind, code)), one


def _column_view(table: ReleaseTable, column: Column, words: Mapping[str, str], by: Mapping[str, str]) -> ColumnView:
    filtered = column in table.keys
    choices = [(code, words.get(code, "")) for code in table.choices(column)] if filtered else []
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


def _as_options(by: Mapping[str, str], query: str) -> dict[str, str]:
    return {**{f"by_{name}": code for name, code in by.items()}, "q": query}
