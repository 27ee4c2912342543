"""A bottom-up release, as the page shows it: its histogram and its margins, each a table to filter, sort and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.reports.show.database import Database, quoted
from flows.reports.show.names import Names
from flows.reports.show.paging import page_asked, page_bounds
from flows.reports.show.release_pages import NotThere, ReleasePages
from flows.reports.show.scope import Scope
from tasks.lifecycle.errors import Refused

CLIPPED = (
    " Counts below 0 were set to 0 after all sums, so small ones lie too high on average and tables need not agree."
)
MOST_ROWS = 1_000_000  # of a copy
CHOICES = 200  # values that a list to choose from offers
CAVEATS = {
    "tables": "Each table adds up the same noisy cells: a margin grows with the number of cells that a count sums, and "
    "the errors of two tables are not independent.",
    "margin": "In at least 95 of 100 runs the noise in a count is no larger than its margin, which is that of the sum "
    "of the noises in the cells that it adds up, before calibration and clipping.",
}


@dataclass(frozen=True)
class TableRow:
    """A table of the release: its name, the columns it is by, its rows and margins of error."""

    name: str
    words: str
    rows: int
    least_margin: float | None
    most_margin: float | None


@dataclass(frozen=True)
class Tables:
    """The release as a whole."""

    title: str
    reading: str
    tables: Sequence[TableRow]
    facts: Sequence[tuple[str, str]]
    statements: Sequence[tuple[str, str]]
    view: str = "tables"


@dataclass(frozen=True)
class Margin:
    """One table: its rows as asked for. A choice without values is a column with too many to offer."""

    title: str
    reading: str
    name: str
    columns: Sequence[str]
    choices: Sequence[tuple[str, Sequence[str], str]]
    rows: Sequence[Sequence[Any]]
    sort: str
    number: int
    pages: int
    total: int
    view: str = "margin"


class BottomUpPages(ReleasePages):
    """The views of a bottom-up release by their addresses; always of the whole release."""

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], names: Names, params: Path | None, scope: Scope
    ) -> None:
        if scope != Scope() or names or params:
            raise Refused("--names, --params and --scope are for releases of the Detailed DHC-A")
        super().__init__(folder, manifest, scope)
        self._database = Database(folder)
        names_of_tables = sorted(path.stem for path in (folder / "parquet").glob("*.parquet"))
        self._columns = {name: self._columns_of(name) for name in names_of_tables}
        if not self._columns:
            raise Refused(f"{folder} has no tables in parquet/")

    def _columns_of(self, name: str) -> list[str]:
        """Return the columns that a table is by."""
        return [column for column in self._database.columns(_file(name)) if column not in ("COUNT", "MOE")]

    def view(self, asked: Mapping[str, str]) -> Tables | Margin:
        """Return the release as a whole, or one of its tables. Raises NotThere where an address names none."""
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return self._tables()
            case ["margin", name] if name in self._columns:
                return self._margin(name, asked)
        raise NotThere("this address is not a table of this release")

    def rows(self, view: Tables | Margin) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of a view's main table."""
        if isinstance(view, Tables):
            columns = ["TABLE", "BY", "ROWS", "LEAST_MOE", "MOST_MOE"]
            return columns, [
                [table.name, table.words, table.rows, table.least_margin, table.most_margin] for table in view.tables
            ]
        return [*view.columns, "COUNT", "MOE"], [list(row) for row in view.rows]

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
        noise, spent = self.manifest["noise"], self.manifest["spent"]
        return Tables(
            title="Bottom-up histogram",
            reading=CAVEATS["tables"] + CLIPPED * self.manifest["clipped"],
            tables=sorted(tables, key=lambda one: one.rows),
            facts=[
                ("privacy loss", f"epsilon {spent['unbounded']['decimal']:g}, bounded {spent['bounded']['decimal']:g}"),
                ("noise of a cell", f"{noise['law']}, standard deviation {noise['variance'] ** 0.5:.3g} steps"),
                ("step", noise["step"]),
                ("calibration", self.manifest["calibration"]["method"] or "none"),
                ("negative counts", "set to 0" if self.manifest["clipped"] else "kept"),
            ],
            statements=list(self.manifest["statements"].items()),
        )

    def _margin(self, name: str, asked: Mapping[str, str]) -> Margin:
        """Return a page of one table, filtered and sorted as asked; all of its rows for a file of them."""
        columns, source = self._columns[name], self._database.source(_file(name))
        chosen = {column: asked[f"by_{column}"] for column in columns if asked.get(f"by_{column}")}
        where = " AND ".join(["true", *(f"{quoted(column)} = ?" for column in chosen)])
        ((total,),) = self._database.ask(f"SELECT count(*) FROM {source} WHERE {where}", chosen.values())
        number, pages, shown = page_bounds(total, page_asked(asked))
        given = ", ".join(map(quoted, columns)) or "COUNT"
        sort = asked.get("sort", "") if columns else ""
        order = given if sort == "code" else f"COUNT DESC, {given}"
        part = f"LIMIT {shown.stop - shown.start} OFFSET {shown.start}"
        rows = self._database.ask(f"SELECT * FROM {source} WHERE {where} ORDER BY {order} {part}", chosen.values())
        choices = []
        for column in columns:
            one = quoted(column)
            values = self._database.ask(f"SELECT DISTINCT {one} FROM {source} ORDER BY 1 LIMIT {CHOICES + 1}")
            offered = [value for (value,) in values] if len(values) <= CHOICES else []
            choices.append((column, offered, chosen.get(column, "")))
        return Margin(
            title=" by ".join(columns) or "Everyone",
            reading=CAVEATS["margin"] + CLIPPED * self.manifest["clipped"],
            name=name,
            columns=columns,
            choices=choices,
            rows=rows,
            sort=sort,
            number=number,
            pages=pages,
            total=total,
        )


def _file(table: str) -> str:
    return f"parquet/{table}.parquet"
