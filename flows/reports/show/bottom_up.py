"""The pages of a bottom-up release: its histogram and its marginals, each a table to filter, sort and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from flows.reports.show.caveats import caveat
from flows.reports.show.confidence import confidence
from flows.reports.show.database import Database, quoted
from flows.reports.show.paging import Page, limit, page_asked, page_of
from flows.reports.show.release_pages import NotThere, ReleasePages, Table, View, spend_facts
from flows.reports.show.scope import Scope
from tasks.inputs.names import names_of_release
from tasks.lifecycle.errors import Refused

MOST_ROWS = 1_000_000  # of a copy
CHOICES = 200  # values in a list to choose from
CAVEATS = {
    "tables": "Each table adds up the same noisy cells. A margin grows with the number of cells in a count, and the "
    "errors of two tables are not independent.",
    "margin": "In at least 95 of 100 runs the noise in a count is no larger than its margin. The margin is that of the "
    "sum of the noise in its cells, before calibration and clipping.",
}


@dataclass(frozen=True)
class TableRow:
    """A table of the release: its name, its columns in words, its rows and margins of error."""

    name: str
    words: str
    rows: int
    least_margin: float | None
    most_margin: float | None


@dataclass(frozen=True, kw_only=True)
class Tables(View):
    """The release as a whole."""

    tables: Sequence[TableRow]
    facts: Sequence[tuple[str, str]]
    statements: Sequence[tuple[str, str]]
    view: str = "tables"

    def table(self) -> Table:
        """Return the tables."""
        return ["TABLE", "BY", "ROWS", "LEAST_MOE", "MOST_MOE"], [list(astuple(one)) for one in self.tables]


@dataclass(frozen=True, kw_only=True)
class Marginal(View):
    """One table, filtered and sorted. A choice without values is a column with too many to offer.

    names: of the regions in its rows, by column and code.
    """

    name: str
    columns: Sequence[str]
    names: Mapping[str, Mapping[str, str]]
    choices: Sequence[tuple[str, Sequence[str], str]]
    page: Page[Sequence[Any]]
    sort: str
    view: str = "margin"

    def table(self) -> Table:
        """Return the rows, with the names of regions."""
        places = [(self.columns.index(column), names) for column, names in self.names.items()]
        rows = [[*row, *(names.get(row[at], "") for at, names in places)] for row in self.page.rows]
        return [*self.columns, "COUNT", "MOE", *(f"{column}_NAME" for column in self.names)], rows


class BottomUpPages(ReleasePages):
    """The views of a bottom-up release by their addresses; it has no scopes."""

    any_confidence = False

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        if scope != Scope():
            raise Refused("--scope is for releases of the Detailed DHC-A and the TopDown Algorithm")
        super().__init__(folder, manifest, scope)
        self._database = Database(folder, manifest["files"])
        stems = (PurePosixPath(name).stem for name in manifest["files"])
        names_of_tables = sorted({stem for stem in stems if _file(stem) in manifest["files"]})
        self._columns = {name: self._columns_of(name) for name in names_of_tables}
        if not self._columns:
            raise Refused(f"{folder} has no tables in parquet/")
        self._names: dict[str, dict[str, str]] = {}
        for region, name_of_region in names_of_release(folder, manifest["files"]).items():
            self._names.setdefault(region.type.removeprefix("PR-"), {})[region.id] = name_of_region

    def _columns_of(self, name: str) -> list[str]:
        """Return the columns of a table, without count and margin."""
        return [column for column in self._database.columns(_file(name)) if column not in ("COUNT", "MOE")]

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the release as a whole, or one of its tables. Raises NotThere where an address names none."""
        if not confidence().is_released:
            raise NotThere("margins of a bottom-up release are known at 95% alone")
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return self._tables()
            case ["margin", name] if name in self._columns:
                return self._marginal(name, asked)
        raise NotThere("this address is not a table of this release")

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of a table, or of the whole. Raises Refused for a region or an iteration."""
        if region is not None or iteration is not None:
            raise Refused("--region and --iteration are for releases of the Detailed DHC-A; --table names a table")
        return {"view": "overview" if table is None else f"margin/{table}"}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds: every table. Raises Refused where they have too many rows."""
        yield {"view": "overview"}
        if (rows := sum(table.rows for table in self._tables().tables)) > MOST_ROWS:
            raise Refused(f"{rows:,} rows are too many for a copy, which has at most {MOST_ROWS:,}")
        yield from ({"view": f"margin/{name}"} for name in self._columns)

    def _tables(self) -> Tables:
        """Return the release as a whole, the smallest table first."""
        tables = []
        for name, columns in self._columns.items():
            source = self._database.source(_file(name))
            ((rows, least, most),) = self._database.ask(f"SELECT count(*), min(MOE), max(MOE) FROM {source}")
            tables.append(TableRow(name, " by ".join(columns) or "everyone", rows, least, most))
        noise = self.manifest["noise"]
        return Tables(
            title="Bottom-up histogram",
            reading=caveat(self.manifest, CAVEATS["tables"], clipped=self.manifest["clipped"]),
            tables=sorted(tables, key=lambda one: one.rows),
            facts=[
                *spend_facts(self.manifest),
                ("noise of a cell", f"{noise['law']}, standard deviation {noise['variance'] ** 0.5:.3g} steps"),
                ("step", noise["step"]),
                ("calibration", self.manifest["calibration"]["method"] or "none"),
                ("negative counts", "set to 0" if self.manifest["clipped"] else "kept"),
            ],
            statements=list(self.manifest["statements"].items()),
        )

    def _marginal(self, name: str, asked: Mapping[str, str]) -> Marginal:
        """Return a page of one table, filtered and sorted as asked; all its rows for CSV."""
        columns, source = self._columns[name], self._database.source(_file(name))
        chosen = {column: asked[f"by_{column}"] for column in columns if asked.get(f"by_{column}")}
        wanted = [self._codes(column, text) for column, text in chosen.items()]
        where = " AND ".join(["true", *(f"list_contains(?, {quoted(column)})" for column in chosen)])
        ((total,),) = self._database.ask(f"SELECT count(*) FROM {source} WHERE {where}", wanted)
        given = ", ".join(map(quoted, columns)) or "COUNT"
        sort = asked.get("sort", "") if columns else ""
        order = given if sort == "code" else f"COUNT DESC, {given}"

        def read(shown: slice) -> list[Any]:
            query = f"SELECT * FROM {source} WHERE {where} ORDER BY {order} {limit(shown)}"
            return self._database.ask(query, wanted)

        choices = []
        for column in columns:
            one = quoted(column)
            values = self._database.ask(f"SELECT DISTINCT {one} FROM {source} ORDER BY 1 LIMIT {CHOICES + 1}")
            offered = [value for (value,) in values] if len(values) <= CHOICES else []
            choices.append((column, offered, chosen.get(column, "")))
        page = page_of(total, page_asked(asked), read)
        known = {column: self._names[column.upper()] for column in columns if column.upper() in self._names}
        shown = {column: {row[columns.index(column)] for row in page.rows} for column in known}
        return Marginal(
            title=" by ".join(columns) or "Everyone",
            reading=caveat(self.manifest, CAVEATS["margin"], clipped=self.manifest["clipped"]),
            name=name,
            columns=columns,
            choices=choices,
            names={
                column: {code: names[code] for code in sorted(shown[column] & names.keys())}
                for column, names in known.items()
            },
            page=page,
            sort=sort,
        )

    def _codes(self, column: str, text: str) -> list[str]:
        """Return the codes that a filter of a column names: the text itself, and those of regions of this name."""
        names = self._names.get(column.upper(), {})
        return [text, *(code for code, name in names.items() if name.casefold() == text.strip().casefold())]


def _file(table: str) -> str:
    return f"parquet/{table}.parquet"
