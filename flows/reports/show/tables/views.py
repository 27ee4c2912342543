"""The views of the tables of a release: their list, one table, and its map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain, takewhile
from typing import Any

from flows.reports.show.geography import plain_name, title
from flows.reports.show.maps.boundaries import Places
from flows.reports.show.margins import caveat
from flows.reports.show.search import Code, Index
from flows.reports.show.tables.picture import Picture
from flows.reports.show.tables.table import ReleaseTable, Selection, Sum
from flows.reports.show.view import RELEASED, Confidence, Links, NotThere, Page, Table, View, link, page_asked, page_of
from tasks.geography.names import Names
from tasks.geography.regions import Region
from tasks.releases.description import Column
from tasks.releases.pages import number
from tasks.releases.pages.words import capitalized

MOST_ROWS = 1_000_000  # rows of a file to download
MOST_COPIED = 100_000  # rows of a table in a copy; longer tables are only in the release
FEW = 8  # regions without a row, on a page
LISTED = 3  # sentences on what is declared, on a page
LONGEST = 300  # letters of a sentence in a manifest
CONTAINERS = {2: "STATE", 5: "COUNTY", 11: "TRACT"}  # by the digits of their codes
CAVEATS = {
    "tables": "Two tables may count the same persons or households with their own noise, so their figures can differ; "
    "or they are sums of the same noisy counts, so their errors depend on each other.",
    "table": "In at least 95 of 100 runs the noise in a count is no larger than its margin.",
    "estimates": "A margin is of the unbiased estimate: by the normal law that is so near to the count in the records "
    "in 95 of 100 runs, and in fewer where one noisy answer outweighs the others.",
}


@dataclass(frozen=True)
class TableItem:
    """A table in the list: its name, title, columns in words, rows, and the margins of its counts.

    level, subject: the level of a declaration that it is by, and its title without it.
    """

    name: str
    title: str
    columns: str
    rows: int
    least_margin: float | None
    most_margin: float | None
    level: str = ""
    subject: str = ""

    @property
    def is_copied(self) -> bool:
        """Whether a copy of the pages has the table."""
        return self.rows <= MOST_COPIED


@dataclass(frozen=True, kw_only=True)
class TableList(View):
    """The tables of a release; as its first page, with a picture, facts, statements, and links to start with.

    common: the columns, in words, that every table of counts has. example: a query with results.
    """

    tables: Sequence[TableItem]
    common: str = ""
    query: str = ""
    example: str = ""
    facts: Links = ()
    statements: Links = ()
    begin: Links = ()
    picture: Picture | None = None
    view: str = "tables"

    @property
    def by_subject(self) -> Mapping[str, Sequence[TableItem]]:
        """The tables of each subject, one a level; empty unless counts without margins are by the levels of units."""
        found: dict[str, list[TableItem]] = {}
        for one in self.tables:
            found.setdefault(one.subject or one.title, []).append(one)
        listed = any(one.level for one in self.tables) and all(one.least_margin is None for one in self.tables)
        return found if listed else {}

    def table(self) -> Table:
        """Return the tables."""
        columns = ["TABLE", "TITLE", "COLUMNS", "ROWS", "LEAST_MOE", "MOST_MOE"]
        return columns, [list(astuple(one)[: len(columns)]) for one in self.tables]


@dataclass(frozen=True)
class ColumnView:
    """A column: its name in the file, heading, unit, meaning and role; choices: its codes, if they are few.

    chosen: the code or words that it is filtered by; filtered: whether it can be; next_to: a second code of a region.
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


@dataclass(frozen=True)
class MissingRow:
    """A region without a row: its codes by column, name and status, and the reason."""

    codes: Mapping[str, str]
    name: str
    status: str
    why: str


@dataclass(frozen=True, kw_only=True)
class TableView(View):
    """Rows of a table, filtered and sorted.

    of: the title of the table. missing: listed regions without a row for the single chosen code; None without such a
    code, or if the release does not give the reason. ages: for totals, the ages of each row's group in its table by sex
    and age, if there is one; about_ages: a sentence on which groups have some. words: the words of the codes in these
    rows, by column. interval: the positions of count and margin, if it has both. summed: the sum of all filtered rows,
    as a sentence; sum: the same as numbers. map: its address, if any. links: the addresses of codes, by column, for
    each row.
    """

    name: str
    of: str
    columns: Sequence[ColumnView]
    words: Mapping[str, Mapping[str, str]]
    page: Page[Sequence[Any]]
    sort: str
    query: str
    interval: Sequence[int]
    sum: Sum | None
    summed: str
    map: str
    missing: Sequence[MissingRow] | None = None
    ages: Sequence[str] = ()
    about_ages: str = ""
    links: Sequence[Mapping[str, str]] = ()
    view: str = "table"

    def table(self) -> Table:
        """Return the rows with the words of codes next to them, then the missing ones, each with its status."""
        names = [column.name for column in self.columns]
        status = self.missing is not None
        more = ["AGES"] * bool(self.ages) + ["STATUS", "WHY"] * status
        ages = [[one] for one in self.ages] or [[] for _ in self.page.rows]
        listed = [(row, own + ["published", ""] * status) for row, own in zip(self.page.rows, ages, strict=True)]
        for one in self.missing or ():
            listed.append(([one.codes.get(name) for name in names], [""] * bool(self.ages) + [one.status, one.why]))

        def named(name: str, value: Any) -> list[Any]:
            return [value, self.words[name].get(str(value), "")] if name in self.words else [value]

        rows = [[*chain(*map(named, names, row)), *own] for row, own in listed]
        return [*chain(*([name, f"{name}_NAME"] if name in self.words else [name] for name in names)), *more], rows

    @property
    def is_whole(self) -> bool:
        """Whether it has all filtered rows."""
        return self.page.pages == 1

    @property
    def without(self) -> str:
        """A sentence on the regions without a row, by status, with a few names, or ""."""
        found: dict[tuple[str, str], list[str]] = {}
        for one in self.missing or ():
            found.setdefault((one.status, one.why), []).append(one.name)
        sentences = [
            f"{number(len(names))} {status}{': ' + ', '.join(names) if len(names) <= FEW else ''} "
            f"({why.removeprefix(f'{capitalized(status)}: ').removesuffix('.')})."
            for (status, why), names in found.items()
        ]
        return "And " * bool(sentences and self.page.total) + " ".join(sentences)

    def described(self) -> list[tuple[str, ...]]:
        """Return name, heading, unit and meaning of each column, for a workbook."""
        return [(one.name, one.title, one.unit, one.meaning) for one in self.columns]


@dataclass(frozen=True, kw_only=True)
class AcrossView(View):
    """A region or a code in all tables: the rows of the tables with the fewest keys, and links to the others.

    around: headings with links to the regions that contain it, and to those within it. nothing: the text without
    tables.
    """

    kind: str
    code: str
    tables: Sequence[TableView]
    others: Links
    nothing: str = ""
    around: Sequence[tuple[str, Links]] = ()
    view: str = "across"

    @property
    def near(self) -> Sequence[tuple[str, Links]]:
        """The headings with few links, which are shown above the rows."""
        return [one for one in self.around if len(one[1]) <= FEW]

    @property
    def far(self) -> Sequence[tuple[str, Links]]:
        """The headings with many links."""
        return [one for one in self.around if len(one[1]) > FEW]

    @property
    def is_whole(self) -> bool:
        """Whether each table has all its rows."""
        return all(one.is_whole for one in self.tables)

    def table(self) -> Table:
        """Return the rows of all tables, over the columns of all."""
        parts = [(one.title, *one.table()) for one in self.tables]
        columns = list(dict.fromkeys(name for _, names, _ in parts for name in names))
        rows = [
            [title, *map(dict(zip(names, row, strict=True)).get, columns)] for title, names, of in parts for row in of
        ]
        return ["TABLE", *columns], rows


def without_noise(manifest: Mapping[str, Any]) -> str:
    """Return a sentence on which facts of a declaration's release are public or without noise.

    It is "" for releases of other systems. Exact counts have a caveat of their own.
    """
    declared = manifest.get("declared_unchanged")
    if not isinstance(declared, list) or not declared:
        return ""
    *figures, places = (str(each)[:LONGEST] for each in declared)
    if not figures:
        return f"Public: {places}. Every count has noise."
    more = [f"{len(figures) - LISTED} more, which report.html lists"] if len(figures) > LISTED else []
    counts = "; ".join([*figures[:LISTED], *more])
    return f"Without noise, because declared: {counts}. Public: {places}. Every other count has noise."


def chosen(table: ReleaseTable, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the codes or words by which an address filters columns; a region may be next to another one.

    Raises NotThere for words that match no code, or several codes, of a column of codes.
    """
    by = {}
    for column in table.keys:
        if wanted := asked.get(f"by_{column.name}", ""):
            by[column.name] = _code_of(table, column, wanted)
    if table.place and (other := asked.get("next_to")) and (name := table.place.name) in by:
        by[name] = f"{by[name]},{other}"
    return by


def _code_of(table: ReleaseTable, column: Column, wanted: str) -> str:
    """Return the code that words of a column name, or the codes as they are given."""
    words = table.words(column)
    named = words.codes.get(wanted.strip().casefold(), ())
    if len(named) == 1 and wanted not in words:
        return named[0]
    if named or not words or column.region or wanted.endswith("*"):  # only some regions have words
        return wanted
    parts = (each for part in (wanted, *wanted.split(",")) for each in (part, part.strip().casefold()))
    if any(part in words or part in words.codes for part in parts):
        return wanted
    codes = {Code(column.name, code): name for code, name in words.items()}
    return Index({}, codes).code(wanted, column.title.lower()).code


def as_options(by: Mapping[str, str], query: str = "") -> dict[str, str]:
    """Return the options of an address by which it filters columns."""
    return {**{f"by_{name}": code for name, code in by.items()}, "q": query}


def is_mapped(table: ReleaseTable, places: Places) -> bool:
    """Return whether a map can show a table: it has counts by regions that have points or shapes."""
    return bool(table.count and table.types & places.types)


def _column_view(
    table: ReleaseTable, column: Column, meaning: str, words: Mapping[str, str], by: Mapping[str, str], *, plain: bool
) -> ColumnView:
    filtered = column in table.keys
    choices = [(code, words.get(code, "")) for code in table.choices(column)] if filtered and not plain else []
    numeric = not filtered and column.type in ("integer", "number")
    about = column.name, column.title, column.unit, meaning, column.role
    code, _, other = by.get(column.name, "").partition(",") if choices else (by.get(column.name, ""), "", "")
    next_to = other if column == table.place and len(choices) > 1 else None
    if plain:  # a unit's name is chosen as its code is
        code = next((by.get(one.name, "") for one in table.of_units if one.names == column.name), code)
    return ColumnView(*about, numeric, filtered, choices, code, next_to)


def _in_words(total: Sum, why: str) -> str:
    if why:
        return f"Not summed: {why}."
    words = f"Sum of {number(total.rows)} rows: {number(total.total)}"
    if total.margin is not None:
        return f"{words} ± {number(total.margin)}, by the law of the sum. What was not published is not in it."
    return f"{words}; {total.why}." if total.why else f"{words}."


class TableViews:
    """The views of a release's tables; `ReleasePages` has all others.

    manifest: the content of its manifest.json. names: region names. places: the regions' points, for maps. confidence:
    the default confidence of margins.
    selected: how its groups were selected, and the effect on their counts; "" if nothing was left out.
    lists_missing: whether a table of one code lists the regions without a row, with the reason.
    """

    manifest: Mapping[str, Any]
    names: Names
    places: Places = Places()
    confidence = RELEASED
    selected = ""
    lists_missing = False

    @property
    def index(self) -> Index:
        """The index for searches."""
        raise NotImplementedError

    def name(self, region: Region) -> str:
        """Return the name of a region."""
        return self.names.get(region) or plain_name(region)

    def confidence_in(self, asked: Mapping[str, str]) -> Confidence:
        """Return the confidence of the view at an address. Raises NotThere as `Confidence.named`."""
        return Confidence.named(asked["confidence"]) if "confidence" in asked else self.confidence

    def links_of(self, table: ReleaseTable, codes: Mapping[str, Any]) -> dict[str, str]:
        """Return the addresses of the pages of a row's codes, by column."""
        links = {}
        for column in table.keys:
            code = str(codes.get(column.name))
            if column == table.place and table.count:
                kind = column.region
                region = Region(codes.get(kind[1:-1], ""), code) if kind.startswith("{") else Region.named(kind, code)
                links[column.name] = f"region/{region.key}"
            elif Code(column.name, code) in self.index.codes:
                links[column.name] = f"code/{column.name}/{code}"
        for last, column in enumerate(own := table.of_units, 1):
            unit = Code.nested(column.level, (str(codes.get(one.name)) for one in own[:last]))
            if unit in self.index.codes:
                links[column.name] = f"code/{unit.column}/{unit.code}"
        return links

    def why_missing(self, table: ReleaseTable, codes: Mapping[str, str], at: Confidence) -> tuple[str, str]:
        """Return the status of a group without a row in a table, and the reason; no status if another may have one."""
        return "", "Not in this table."

    def table_view(self, table: ReleaseTable, asked: Mapping[str, str], *, plain: bool = False) -> TableView:
        """Return a page of a table, filtered and sorted as asked; all its rows for a file.

        plain: without choices and sums.
        """
        resource, by, query = table.resource, chosen(table, asked), asked.get("q", "")
        selection, sort, at = table.select(by, query), asked.get("sort", ""), self.confidence_in(asked)
        rows = table.number(selection)
        if not page_asked(asked) and rows > MOST_ROWS:
            raise NotThere(f"{rows:,} rows are too many: take the release's own {resource.paths[0]}, or filter them")
        page = page_of(rows, page_asked(asked), lambda shown: table.rows(selection, sort, shown, at) if rows else [])
        missing = self._missing(table, selection, by, at)
        names = [column.name for column in table.columns]
        linked = page.rows if page_asked(asked) else ()
        shown = {name: {str(row[at]) for row in page.rows} for at, name in enumerate(names)}
        for one in missing or ():
            for name, code in one.codes.items():
                shown[name].add(code)
        words = {column.name: table.words(column) for column in table.keys}
        total, why = (None, "") if plain else (table.sum(selection, at), table.overlap(selection))
        interval = [one.name for one in (table.count, table.margin) if one]
        return TableView(
            title=resource.title if plain else self.title_of(table, by, query),
            of=resource.title,
            reading=self.reading_of(table, at),
            name=resource.name,
            columns=[
                _column_view(table, column, table.meaning(column, at), words.get(column.name, {}), by, plain=plain)
                for column in table.columns
            ],
            words={
                name: {code: meanings[code] for code in sorted(shown[name] & meanings.keys())}
                for name, meanings in words.items()
                if meanings
            },
            page=page,
            sort=sort,
            query=query,
            interval=[names.index(name) for name in interval] if len(interval) == 2 else [],
            sum=None if why else total,
            summed=_in_words(total, why) if total else "",
            map=""
            if table.overlap(selection) or not is_mapped(table, self.places)
            else link(f"table-map/{resource.name}", **as_options(by, query)),
            missing=missing,
            links=[self.links_of(table, dict(zip(names, row, strict=True))) for row in linked],
        )

    def _missing(
        self, table: ReleaseTable, selection: Selection, by: Mapping[str, str], at: Confidence
    ) -> list[MissingRow] | None:
        """Return the listed regions without a row for the single chosen code of each overlapping column."""
        several = {column.name for column in table.columns if column.overlap}
        if not self.lists_missing or not table.count or not several or not several <= selection.only:
            return None
        found = []
        for region in table.without_row(selection, by):
            codes = {name: by[name] for name in sorted(several)} | table.at(region)
            status, why = self.why_missing(table, codes, at)
            if not status:
                return None
            found.append(MissingRow(codes, self.name(region), status, why))
        return found

    def title_of(self, table: ReleaseTable, by: Mapping[str, str], query: str) -> str:
        """Return the title of the filtered rows of a table, with their codes in words."""
        place = table.place.name if table.place else ""
        where = by.get(place, "")
        kinds = " and ".join(sorted(title(kind, several=True) for kind in table.types))
        if where.endswith("*"):
            kind = CONTAINERS.get(len(where) - 1)
            kinds += f" of {self.name(Region.named(kind, where[:-1])) if kind else where}"
        chosen = {name: codes.split(",") for name, codes in by.items() if name != place or not where.endswith("*")}
        own = [*takewhile(lambda one: one.name in by, table.of_units)]
        unit = self.index.codes.get(Code.nested(own[-1].level, (by[one.name] for one in own))) if own else None
        chosen = {name: codes for name, codes in chosen.items() if not (unit and name in {one.name for one in own})}
        filters = [unit] if unit else []
        filters += [" and ".join(table.words_of_code(name, code) for code in codes) for name, codes in chosen.items()]
        filters += [f"“{query}”"] * bool(query)
        if not by and not query:
            return table.resource.title
        return ": ".join(filter(None, [", ".join(filters), "" if place in chosen else kinds]))

    def reading_of(self, table: ReleaseTable, at: Confidence) -> str:
        """Return how to read the counts of a table."""
        known = CAVEATS["estimates" if table.resource.with_role("standard error") else "table"]
        declared = without_noise(self.manifest) if table.count else ""  # a list of places has no counts
        text = f"{known} {self.selected}".strip() if table.margin else declared
        return caveat(self.manifest, text, at)
