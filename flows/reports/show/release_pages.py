"""The pages of a release, whichever system made it: what the server, the terminal and a copy ask for.

Every release has, by its datapackage.json, a list of its tables, each table, and its map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from flows.reports.show.confidence import caveat
from flows.reports.show.database import Database
from flows.reports.show.maps.boundaries import Places
from flows.reports.show.scope import Scope
from flows.reports.show.search import FEW, matches, words_of
from flows.reports.show.tables.table import ReleaseTable, Selection
from flows.reports.show.tables.views import CAVEATS, MOST_ROWS, TableItem, TableList, map_view, table_view
from flows.reports.show.view import NotThere, View, spend_facts
from tasks.inputs.names import NAMES, names_of_2020
from tasks.lifecycle.datapackage import read_package
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import release_digest
from tasks.lifecycle.release_database import name_of

NAMED_BY_FILES = {"PLACE": "places", "AIANNH": "AIANNH areas", "COUSUB": "county subdivisions"}  # others have a number

MOST_COPIED = 100_000  # rows of a table in a copy that has other pages too


class ReleasePages:
    """The views of a release by their addresses; a system with views of its own has a subclass.

    Attributes
    ----------
    folder : Path
        The release.
    manifest : dict
        The content of its manifest.json.
    scope : Scope
        The part of it that is shown.
    digest : str
        The digest of the manifest, which the ledger keeps.
    nation : sequence of str
        The FIPS codes of the states in its nation; empty where it has no counts of the nation.
    places : Places
        Where its regions are, for maps.
    finds : str
        What the search of every page finds; empty where there is none.
    """

    nation: Sequence[str] = ()
    places: Places = Places()
    finds = ""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        self.folder, self.manifest, self.scope = folder, manifest, scope
        self.digest = release_digest(folder)

    @cached_property
    def nameless(self) -> str:
        """Which regions have points here and no names, with what adds them; "" where all have names."""
        names = {region.type for region in NAMES.of_release(self.folder, self.manifest["files"])}
        known = {region.type for region in names_of_2020()} | names
        kinds = [several for kind, several in NAMED_BY_FILES.items() if kind in self.places.types and kind not in known]
        if not kinds:
            return ""
        return (
            f"The {' and '.join(kinds)} of this release have codes and no names: its geography had none. "
            "A file names.csv next to the geography, or the Census Bureau's Gazetteer file as it is downloaded, "
            "adds them to the next release."
        )

    @cached_property
    def tables(self) -> dict[str, ReleaseTable]:
        """The tables by name; of text and Parquet with the same rows the Parquet. Raises Refused for none."""
        files = self.manifest["files"]
        found = {resource.name: resource for resource in read_package(self.folder, files)}
        names = {**names_of_2020(), **NAMES.of_release(self.folder, files)}
        database, exact = Database(self.folder, files), "NOT_PRIVATE" in self.manifest
        made = [
            ReleaseTable(database, resource, found, names, exact, self.scope)
            for resource in found.values()
            if not resource.twin
        ]
        if tables := {table.resource.name: table for table in made if table.is_in_scope}:
            return tables
        raise Refused(f"{self.folder} has no tables" + " of this --scope" * (self.scope != Scope()))

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view that an address names. Raises NotThere where it names none."""
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                facts, statements = list(self._facts()), list(self.manifest.get("statements", {}).items())
                return replace(
                    self._list(),
                    title=self.manifest.get("title", self.manifest["release"]),
                    facts=facts,
                    statements=statements,
                )
            case ["tables"]:
                return self._list(asked.get("q", ""))
            case ["table", name] if name in self.tables:
                return table_view(self.tables[name], asked, self.manifest, self.places)
            case ["table-map", name] if name in self.tables:
                return map_view(self.tables[name], asked, self.manifest, self.places)
        raise NotThere("this address is not a view of this release")

    def _list(self, query: str = "") -> TableList:
        """Return the tables whose titles and columns have the words of a query."""
        items = [
            _item(table)
            for table in self.tables.values()
            if matches(words_of(query), f"{table.resource.title} {' '.join(one.title for one in table.columns)}")
        ]
        reading = caveat(self.manifest, CAVEATS["tables"], clipped=bool(self.manifest.get("clipped")))
        return TableList(title=f"Tables of {self.manifest['release']}", reading=reading, tables=items, query=query)

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield what was spent, and the law of a count of each table that states one for all."""
        yield from spend_facts(self.manifest)
        found: dict[tuple[str, str], set[float]] = {}
        for entry in (noise for table in self.tables.values() for noise in table.resource.noise):
            step = f", in steps of {entry['step']}" if entry.get("step", "1") != "1" else ""
            found.setdefault((str(entry["law"]), step), set()).add(float(entry["variance"]) ** 0.5)
        for (law, step), deviations in found.items():
            each = dict.fromkeys(f"{deviation:.3g}" for deviation in sorted(deviations))
            yield "noise", f"{law}, standard deviation {', '.join(each)}{step}"

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view that the options of `das show` name. Raises NotThere or Refused."""
        if region is not None or iteration is not None:
            raise Refused("--region and --iteration are for releases of the Detailed DHC-A; --table names a table")
        return {"view": "overview"} if table is None else {"view": f"table/{self.table(table).resource.name}"}

    def table(self, name: str) -> ReleaseTable:
        """Return a table by its name. Raises NotThere for a name of none, with the nearest."""
        if name not in self.tables:
            nearest = ", ".join(get_close_matches(name, self.tables, FEW, 0))
            raise NotThere(f"{name!r:.80} is not a table of this release; nearest: {nearest}")
        return self.tables[name]

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds, without page numbers; the release as a whole first.

        By default every table. Raises Refused where they have too many rows.
        """
        yield {"view": "overview"}
        if (rows := sum(table.number(Selection()) for table in self.tables.values())) > MOST_ROWS:
            raise Refused(f"{rows:,} rows are too many for a copy, which has at most {MOST_ROWS:,}")
        yield from self.table_addresses(MOST_ROWS)

    def table_addresses(self, most: int) -> Iterator[Mapping[str, str]]:
        """Return the addresses of the list of tables, and of each table of at most so many rows."""
        yield {"view": "tables"}
        yield from ({"view": f"table/{name}"} for name, one in self.tables.items() if one.number(Selection()) <= most)

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the entries of a copy's search: name, detail and the view of its address; by default none."""
        return iter(())

    def warm(self) -> None:
        """Prepare what the first answers need; by default nothing."""


def _item(table: ReleaseTable) -> TableItem:
    margin = name_of(table.margin.name) if table.margin else "NULL"
    ((rows, margins),) = table.database.ask(f"SELECT count(*), list(DISTINCT {margin}) FROM {table.rows_of}")
    known = [one for each in margins or () if (one := table.margin_at(each)) is not None]
    keys = ", ".join(one.title for one in table.keys)
    least, most = min(known, default=None), max(known, default=None)
    return TableItem(table.resource.name, table.resource.title, keys, rows, least, most)
