"""The pages that every release has by its datapackage.json: a list of its tables, each table, and its map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from flows.reports.show.caveats import caveat
from flows.reports.show.confidence import confidence
from flows.reports.show.database import Database
from flows.reports.show.release_pages import NotThere, ReleasePages, View, spend_facts
from flows.reports.show.scope import Scope
from flows.reports.show.search import FEW, matches, words_of
from flows.reports.show.tables.table import ReleaseTable, Selection
from flows.reports.show.tables.views import CAVEATS, MOST_ROWS, TableItem, TableList, map_view, table_view
from tasks.inputs.names import NAMES, names_of_2020
from tasks.lifecycle.datapackage import read_package
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.release_database import name_of


class TableViews(ReleasePages):
    """The views of a release's tables by their addresses, next to those that a kind of release has of its own."""

    @cached_property
    def tables(self) -> dict[str, ReleaseTable]:
        """The tables by name; of text and Parquet with the same rows the Parquet."""
        files = self.manifest["files"]
        found = {resource.name: resource for resource in read_package(self.folder, files)}
        names = {**names_of_2020(), **NAMES.of_release(self.folder, files)}
        database, exact = Database(self.folder, files), "NOT_PRIVATE" in self.manifest
        return {
            name: ReleaseTable(database, resource, found, names, exact)
            for name, resource in found.items()
            if not resource.twin
        }

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the list of tables, a table or its map. Raises NotThere where an address names none."""
        if self.scope != Scope():
            raise NotThere("the tables are those of the whole release: leave out --scope")
        if not confidence().is_released:
            raise NotThere("margins of these tables are known at 95% alone")
        match asked.get("view", "").split("/"):
            case ["tables"]:
                return self.table_list(asked.get("q", ""))
            case ["table", name] if name in self.tables:
                return table_view(self.tables[name], asked, self.manifest, self.places)
            case ["table-map", name] if name in self.tables:
                return map_view(self.tables[name], asked, self.manifest, self.places)
        raise NotThere("this address is not a view of this release")

    def address_of_table(self, name: str) -> dict[str, str]:
        """Return the address of a table. Raises NotThere for a name of none, with the nearest."""
        if name not in self.tables:
            nearest = ", ".join(get_close_matches(name, self.tables, FEW, 0))
            raise NotThere(f"{name!r:.80} is not a table of this release; nearest: {nearest}")
        return {"view": f"table/{name}"}

    def table_list(self, query: str = "") -> TableList:
        """Return the tables whose titles and columns have the words of a query."""
        items = [
            _item(table)
            for table in self.tables.values()
            if matches(words_of(query), f"{table.resource.title} {' '.join(one.title for one in table.columns)}")
        ]
        reading = caveat(self.manifest, CAVEATS["tables"], clipped=bool(self.manifest.get("clipped")))
        return TableList(title=f"Tables of {self.manifest['release']}", reading=reading, tables=items, query=query)


class TablePages(TableViews):
    """All pages of a release of which nothing is known but its description."""

    any_confidence = False

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        if scope != Scope():
            raise Refused("--scope is for releases of the Detailed DHC-A and the TopDown Algorithm")
        super().__init__(folder, manifest, scope)
        if not self.tables:
            raise Refused(f"{folder} has no tables")

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the release as a whole, a table or its map. Raises NotThere where an address names none."""
        if asked.get("view", "overview") in ("overview", ""):
            statements = list(self.manifest.get("statements", {}).items())
            facts = list(self._facts())
            return replace(self.table_list(), title=self.manifest["release"], facts=facts, statements=statements)
        return super().view(asked)

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield what was spent, and the law of a count of each table that states one for all."""
        yield from spend_facts(self.manifest)
        for entry in {str(noise): noise for table in self.tables.values() for noise in table.resource.noise}.values():
            step = f", in steps of {entry['step']}" if entry.get("step", "1") != "1" else ""
            yield "noise", f"{entry['law']}, standard deviation {float(entry['variance']) ** 0.5:.3g}{step}"

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of a table, or of the whole. Raises Refused for a region or an iteration."""
        if region is not None or iteration is not None:
            raise Refused("--region and --iteration are for releases of the Detailed DHC-A; --table names a table")
        return {"view": "overview"} if table is None else self.address_of_table(table)

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds: every table. Raises Refused where they have too many rows."""
        yield {"view": "overview"}
        if (rows := sum(table.number(Selection()) for table in self.tables.values())) > MOST_ROWS:
            raise Refused(f"{rows:,} rows are too many for a copy, which has at most {MOST_ROWS:,}")
        yield from ({"view": f"table/{name}"} for name in self.tables)


def _item(table: ReleaseTable) -> TableItem:
    margin = name_of(table.margin.name) if table.margin else "NULL"
    ((rows, least, most),) = table.database.ask(f"SELECT count(*), min({margin}), max({margin}) FROM {table.rows_of}")
    return TableItem(
        table.resource.name, table.resource.title, ", ".join(one.title for one in table.keys), rows, least, most
    )
