"""A bottom-up release, as the page shows it: its histogram and its margins, each a table to filter, sort and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from flows.reports.formats import as_csv
from flows.reports.show.export import MOST_ROWS, write_parquet
from flows.reports.show.names import Names
from flows.reports.show.release import MEMORY, THREADS
from flows.reports.show.scope import Scope
from flows.reports.show.telling import ROWS, NotThere
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import release_digest

CLIPPED = " Counts below 0 were set to 0 after all sums, so small ones lie too high and tables need not agree."
AT_ONCE = 65_536  # rows of a row group of a static copy
CHOICES = 200  # values that a list to choose from offers
READING = {
    "tables": "Each table adds up the same noisy cells, and a margin grows with the number of cells that a count sums.",
    "margin": "In at least 95 of 100 runs the noise in a count is no larger than its margin, which is that of the sum "
    "of the noises in the cells that it adds up, before calibration and clipping.",
}


@dataclass(frozen=True)
class TableTold:
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
    tables: Sequence[TableTold]
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


class BottomUp:
    """The views of a bottom-up release by their addresses."""

    kind = "bottom_up"
    scope = Scope()  # always the whole release

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], names: Names, params: Path | None, scope: Scope
    ) -> None:
        if scope != Scope() or names or params:
            raise Refused("--names, --params and --part are for releases of the Detailed DHC-A")
        self.folder, self.manifest, self.digest = folder, manifest, release_digest(folder)
        self._database = duckdb.connect(":memory:", config={"memory_limit": MEMORY, "threads": THREADS})
        self._columns = {path.stem: self._open(path) for path in sorted((folder / "parquet").glob("*.parquet"))}
        if not self._columns:
            raise Refused(f"{folder} has no tables in parquet/")

    def _open(self, path: Path) -> list[str]:
        quoted = str(path).replace("'", "''")
        self._database.execute(f"CREATE VIEW {_name(path.stem)} AS SELECT * FROM read_parquet('{quoted}')")
        told = self._ask(f"DESCRIBE {_name(path.stem)}")
        return [column for column, *_ in told if column not in ("COUNT", "MOE")]

    def view(self, asked: Mapping[str, str]) -> Tables | Margin:
        """The view that an address names. Raises NotThere where it names none."""
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return self._tables()
            case ["margin", name] if name in self._columns:
                return self._margin(name, asked)
        raise NotThere("this address is not a table of this release")

    def csv(self, view: Tables | Margin) -> str:
        """The main table of a view."""
        return as_csv(*self.rows(view))

    def rows(self, view: Tables | Margin) -> tuple[list[str], list[list[Any]]]:
        """The columns and rows of a view's table."""
        if isinstance(view, Tables):
            columns = ["TABLE", "BY", "ROWS", "LEAST_MOE", "MOST_MOE"]
            return columns, [
                [table.name, table.words, table.rows, table.least_margin, table.most_margin] for table in view.tables
            ]
        return [*view.columns, "COUNT", "MOE"], [list(row) for row in view.rows]

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """The address of the view that names in the terminal mean."""
        if region is not None or iteration is not None:
            raise Refused("--region and --iteration are for releases of the Detailed DHC-A; --table names a table")
        return {"view": "overview" if table is None else f"margin/{table}"}

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the data of a static copy: every table as Parquet; returns what else the browser needs to know."""
        shown, columns = self._tables(), self._columns
        if (rows := sum(one.rows for one in shown.tables)) > MOST_ROWS:
            raise Refused(f"{rows:,} rows are more than a browser should hold")
        for number, name in enumerate(columns):
            table = pq.read_table(self.folder / f"parquet/{name}.parquet")
            texts = {column: table[column].cast(pa.string()) for column in columns[name]}
            counts = {column: table[column].cast(pa.float64()) for column in ("COUNT", "MOE")}
            write_parquet(folder / f"{number}.parquet", {**texts, **counts}, AT_ONCE)
        return {
            "overview": asdict(shown),
            "reading": READING["margin"] + CLIPPED * self.manifest["clipped"],
            "tables": [[name, of] for name, of in columns.items()],
            "words": {"rows": ROWS, "choices": CHOICES},
        }

    def warm(self) -> None:
        """Nothing waits for anything here."""

    def _tables(self) -> Tables:
        tables = []
        for name, columns in self._columns.items():
            ((rows, least, most),) = self._ask(f"SELECT count(*), min(MOE), max(MOE) FROM {_name(name)}")
            tables.append(TableTold(name, " by ".join(columns) or "everyone", rows, least, most))
        noise, spent = self.manifest["noise"], self.manifest["spent"]
        return Tables(
            title="Bottom-up histogram",
            reading=READING["tables"] + CLIPPED * self.manifest["clipped"],
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
        columns = self._columns[name]
        chosen = {column: asked[f"by_{column}"] for column in columns if asked.get(f"by_{column}")}
        where = " AND ".join(["true", *(f"{_name(column)} = ?" for column in chosen)])
        ((total,),) = self._ask(f"SELECT count(*) FROM {_name(name)} WHERE {where}", chosen.values())
        pages = max(1, -(-total // ROWS))
        number = min(max(1, int(text) if (text := asked.get("page", "1")).isdecimal() and len(text) < 8 else 1), pages)
        given = ", ".join(map(_name, columns)) or "COUNT"
        sort = asked.get("sort", "") if columns else ""
        order = given if sort == "code" else f"COUNT DESC, {given}"
        part = "" if asked.get("format") == "csv" else f"LIMIT {ROWS} OFFSET {(number - 1) * ROWS}"
        rows = self._ask(f"SELECT * FROM {_name(name)} WHERE {where} ORDER BY {order} {part}", chosen.values())
        choices = []
        for column in columns:
            values = self._ask(f"SELECT DISTINCT {_name(column)} FROM {_name(name)} ORDER BY 1 LIMIT {CHOICES + 1}")
            offered = [value for (value,) in values] if len(values) <= CHOICES else []
            choices.append((column, offered, chosen.get(column, "")))
        return Margin(
            title=" by ".join(columns) or "Everyone",
            reading=READING["margin"] + CLIPPED * self.manifest["clipped"],
            name=name,
            columns=columns,
            choices=choices,
            rows=rows,
            sort=sort,
            number=number,
            pages=pages,
            total=total,
        )

    def _ask(self, query: str, given: Any = ()) -> list[Any]:
        return self._database.cursor().execute(query, list(given)).fetchall()


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
