"""The pages of a release of any system: the views that the server, the terminal and a copy show.

By its datapackage.json, every release has a list of its tables, each table and its map, the rows of each region and of
each named code in all tables, and a search for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from itertools import product
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from flows.reports.show.database import Database
from flows.reports.show.geography import number_within, plain_name, title
from flows.reports.show.maps.view import map_view
from flows.reports.show.margins import caveat, has_estimates
from flows.reports.show.scope import Scope
from flows.reports.show.search import FEW, FOUND, Code, FoundView, Index, SearchResult, SearchResults, matches, words_of
from flows.reports.show.tables.picture import Picture, picture_of
from flows.reports.show.tables.table import ReleaseTable, Selection
from flows.reports.show.tables.views import (
    CAVEATS,
    MOST_ROWS,
    AcrossView,
    TableItem,
    TableList,
    TableViews,
    as_options,
    is_mapped,
    without_noise,
)
from flows.reports.show.view import Confidence, Links, NotThere, View, link
from tasks.errors import Refused
from tasks.geography.names import NAMES, Names, coverage, names_of_2020, states_of_nation
from tasks.geography.regions import NATION, Region
from tasks.releases.check import file_fault
from tasks.releases.datapackage import PACKAGE_FILE, Resource, read_package
from tasks.releases.description import TIDY_FOLDER
from tasks.releases.manifest import release_digest, shown_marks, spend_of
from tasks.releases.pages.words import capitalized, level_words
from tasks.releases.tidy import WITH_NAMES

NAMED_BY_FILES = {"PLACE": "places", "AIANNH": "AIANNH areas", "COUSUB": "county subdivisions"}  # others have numbers
REPORT = "report.html"
CONFIDENCES = ("90", "95", "99")  # offered on every page; the Census Bureau's tables use 90
LISTED = 60  # regions listed by name within a region
SHORT = 30  # rows of a table that a unit's page shows
CONSTANT = ("table", "level", "unit")  # columns of a table of tables/ that have one text


class Unit(NamedTuple):
    """A unit of a declaration: its codes, those of the levels above first; its name; the unit that it is within."""

    codes: tuple[str, ...]
    name: str
    parent: Code | None


class ReleasePages(TableViews):
    """The views of a release by their addresses; a system with further views has a subclass.

    folder: the release. scope: the part of it to show. digest: the manifest's, as in the ledger.
    changed: the findings of `check`, which is complete if `checked`. described: the facts on every page.
    nation: the FIPS codes of the states in its nation; empty if it has no counts of the nation.
    words: the meanings of terms and codes, {percent} being the confidence; a page explains those that it has.
    nothing: the text of a page of a region and a code without a row in any table.
    across: a further note on one region or code in several tables.
    """

    words: ClassVar[dict[str, str]] = {
        "AIANNH": "American Indian area, Alaska Native area or Hawaiian home land. Its code has four digits; it may "
        "lie in several states."
    }
    nothing = "Nothing was published here."
    across = ""

    states_of_nation = staticmethod(states_of_nation)

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        self.folder, self.manifest, self.scope = folder, manifest, scope
        self.changed: list[str] = []
        self.checked = False
        self.digest, self.nation = release_digest(folder), self.states_of_nation(manifest)
        nation = {Region("USA", NATION): plain_name(Region("USA", NATION))}
        self.names: Names = {**names_of_2020(), **NAMES.of_release(folder, manifest["files"]), **nation}
        self.has_estimates = has_estimates(manifest)
        self.described = {
            "title": manifest.get("title", manifest["release"]),
            "run": manifest["run"],
            "digest": self.digest,
            "marks": shown_marks(manifest),
            "report": REPORT in manifest["files"],
            "tables": PACKAGE_FILE in manifest["files"],
            "finds": "",  # set, as `nameless`, where faults of the release are handled
            "csv": True,
            "served": True,
            "confidences": () if "NOT_PRIVATE" in manifest else CONFIDENCES,
            "covers": coverage(self.nation),
            "scope": "",
            "nameless": "",
        }

    def about(self, at: Confidence) -> dict[str, Any]:
        """Return the facts on every page of the release, at a confidence."""
        if self.changed:
            checked = "Some files differ from the digests in the manifest."
        elif not self.checked:
            checked = "Comparing the files with the digests in the manifest."
        else:
            checked = f"All {len(self.manifest['files'])} files match the digests in the manifest."
        words = {word: meaning.format(percent=at.percent) for word, meaning in self.words.items()}
        asked = {"confidence": at, "estimated": self.estimated(at), "words": words}
        return self.described | asked | {"changed": list(self.changed), "checked": checked}

    def estimated(self, at: Confidence) -> bool:
        """Return whether the release has estimates at a confidence: their margins are known at 95% only."""
        return self.has_estimates and at.is_released

    def check(self) -> None:
        """Compare every file in the manifest with its digest."""
        for name, digest in sorted(self.manifest["files"].items()):
            if word := file_fault(self.folder, name, digest):
                self.changed.append(word)
        self.checked = True

    @cached_property
    def nameless(self) -> str:
        """The types of regions that have points here but no names, with the remedy; "" if all have names."""
        known = {region.type for region in self.names}
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
        """Return the tables by name, as Parquet where text has the same rows. Raises Refused without tables."""
        files = self.manifest["files"]
        found = {resource.name: resource for resource in read_package(self.folder, files)}
        database, exact = Database(self.folder, files), "NOT_PRIVATE" in self.manifest
        units = any(column.level for resource in found.values() for column in resource.columns)
        shown = [one for one in found.values() if not one.twin and one.is_tidy == (units and one.dependent)]
        made = [
            ReleaseTable(database, _as_shown(one, found) if one.is_tidy else one, found, self.names, exact, self.scope)
            for one in shown
        ]
        made += [counts for table in made if (counts := table.named_counts())]
        if tables := {table.resource.name: table for table in made if table.is_in_scope}:
            return tables
        raise Refused(f"{self.folder} has no tables" + " of this --scope" * (self.scope != Scope()))

    @cached_property
    def regions(self) -> set[Region]:
        """The regions of its tables of counts, or of the table that lists them; none if there are named units."""
        found: set[Region] = set()
        if self.units:
            return found
        listed: dict[str, ReleaseTable] = {}
        for table in self.tables.values():
            if table.count and not table.summed:
                listing = table.listing or table
                listed[listing.resource.name] = listing
        for table in listed.values():
            found.update(region for region in table.regions() if self.scope.holds(region))
        return found

    @cached_property
    def index(self) -> Index:
        """The index for searches."""
        named: dict[str, Mapping[str, str]] = {}
        for table in self.tables.values():
            for column in table.keys if table.count else ():
                if table.is_named(column):
                    named.setdefault(column.name, table.words(column))
        codes = {Code(column, code): words for column, known in named.items() for code, words in known.items()}
        codes |= {code: unit.name for code, unit in self.units.items()}
        return Index({region: self.name(region) for region in self.regions}, codes, self.found_by_code)

    @cached_property
    def units(self) -> dict[Code, Unit]:
        """The units of a declaration's levels: those with names, or those in the first table of counts of a level."""
        found: dict[Code, Unit] = {}
        read: set[str] = set()
        for table in self.tables.values():
            own = table.of_units
            if own and own[-1].level not in read and (table.count or table.resource.with_role("name")):
                read.add(level := own[-1].level)
                above = [one.level for one in own if one.level != level]
                for *codes, name in table.units():
                    parent = Code.nested(above[-1], codes[: len(above)]) if above else None
                    unit = Unit(tuple(codes), name or f"{capitalized(level_words(level))} {codes[-1]}", parent)
                    found.setdefault(Code.nested(level, codes), unit)
        return found

    @cached_property
    def _units_within(self) -> dict[Code | None, list[Code]]:
        """The units directly within another; within None, those of the highest level."""
        found: dict[Code | None, list[Code]] = {}
        for code, unit in self.units.items():
            found.setdefault(unit.parent, []).append(code)
        return found

    def found_by_code(self, text: str) -> Sequence[Region]:
        """Return regions that a search finds only by their code; by default none."""
        return ()

    def regions_above(self, region: Region) -> list[Region]:
        """Return the regions that contain a region, the smallest first."""
        above = []
        while (parent := region.parent) is not None:
            above += [parent] if parent in self.regions else []
            region = parent
        return above

    def within(self, region: Region) -> str:
        """Return the names of the regions that contain a region, without the nation's."""
        return ", ".join(self.name(above) for above in self.regions_above(region) if above.type != "USA")

    # -- views --------------------------------------------------------------------------------------------------------

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view at an address. Raises NotThere for an unknown address."""
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return replace(
                    self._list(self.confidence_in(asked)),
                    title=self.manifest.get("title", self.manifest["release"]),
                    example=self.example,
                    facts=list(self.facts()),
                    statements=list(self.manifest.get("statements", {}).items()),
                    begin=self.begin(),
                    picture=self.picture(self.confidence_in(asked)),
                )
            case ["tables"]:
                return self._list(self.confidence_in(asked), asked.get("q", ""))
            case ["find"]:
                return self.find(asked.get("q", ""), self.confidence_in(asked))
            case ["table", name] if name in self.tables:
                return self.table_view(self.tables[name], asked)
            case ["table-map", name] if name in self.tables:
                return map_view(self, self.tables[name], asked)
            case ["region", kind, number]:
                return self.region(Region(kind, number), asked)
            case ["code", column, *code] if Code(column, "/".join(code)) in self.index.codes:
                return self.code(Code(column, "/".join(code)), asked)
        raise NotThere("this address is not a view of this release")

    def begin(self) -> Links:
        """Return the links to start with: the nation and the states, or the units of the highest level."""
        kinds = ("USA", "STATE", "PR-STATE")
        largest = sorted(
            (one for one in self.regions if one.type in kinds), key=lambda one: (one.type != "USA", one.id)
        )
        return [(self.name(region), f"region/{region.key}") for region in largest] or self._links_to(None)

    def picture(self, at: Confidence) -> Picture | None:
        """Return a picture of the first table of counts with several rows; None without one."""
        tables = (table for table in self._tables_in_order() if table.count)
        return next((picture_of(table, at) for table in tables if 1 < table.number(Selection()) <= MOST_ROWS), None)

    @cached_property
    def example(self) -> str:
        """A query with results: the code and the region of a large count, or a region."""
        for table in self.tables.values():
            named = next((one for one in table.keys if one.overlap and table.is_named(one)), None)
            if named and table.place and "COUNTY" in table.types:
                for row in table.rows(Selection(), "", slice(0, 1)):
                    codes = dict(zip((one.name for one in table.columns), row, strict=True))
                    return " ".join(table.words_of_code(one.name, codes[one.name]) for one in (named, table.place))
        units = (unit.name for unit in self.units.values())
        return next((self.name(region) for region in self.index.listed if region.type != "USA"), next(units, ""))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the spend, and the law of a count of each table with a single law."""
        spend = spend_of(self.manifest)
        yield from ((f"privacy loss, {row.sentence}", row.words) for row in (spend.rows() if spend else ()))
        found: dict[tuple[str, str], set[float]] = {}
        for entry in (noise for table in self.tables.values() for noise in table.resource.noise):
            step = f", in steps of {entry['step']}" if entry.get("step", "1") != "1" else ""
            found.setdefault((str(entry["law"]), step), set()).add(float(entry["variance"]) ** 0.5)
        for (law, step), deviations in found.items():
            each = dict.fromkeys(f"{deviation:.3g}" for deviation in sorted(deviations))
            yield "noise", f"{law}, standard deviation {', '.join(each)}{step}"

    def _tables_in_order(self) -> list[ReleaseTable]:
        """Return the tables: named counts of regions, then counts with margins, then the others.

        Those of a declaration by the columns that say what a row counts: totals first.
        """

        def place(one: ReleaseTable) -> tuple[bool, bool, float]:
            columns = len(one.resource.key) - len(one.of_units) if one.count else inf
            return not (one.place and one.summed), not (one.place and one.margin), columns if self.units else 0

        return sorted(self.tables.values(), key=place)

    def _list(self, at: Confidence, query: str = "") -> TableList:
        """Return the tables whose titles and columns match a query."""
        by = [[one.title for one in table.keys] for table in self.tables.values() if table.count]
        common = [one for one in by[0] if all(one in others for others in by)] if len(by) > 1 else []
        geounits = self.manifest.get("geounits") if self.units else None
        top = next(iter(geounits), "") if isinstance(geounits, dict) else ""
        items = [
            _item(table, common if table.count else (), top, at)
            for table in self._tables_in_order()
            if matches(words_of(query), f"{table.resource.title} {' '.join(one.title for one in table.columns)}")
        ]
        has_margins = any(table.margin for table in self.tables.values())
        caveats = CAVEATS["tables"] if has_margins else without_noise(self.manifest)
        return TableList(
            title=f"{self.manifest.get('title', self.manifest['release'])}: its tables",
            reading=caveat(self.manifest, caveats, at),
            tables=items,
            query=query,
            common=", ".join(common),
        )

    def region(self, region: Region, asked: Mapping[str, str]) -> View:
        """Return the rows of a region in all tables, and the regions around it. Raises NotThere for others."""
        if region not in self.regions:
            raise NotThere(f"{region.key} is not a region of this release")
        found = [(table, table.at(region)) for table in self._with_counts() if region.type in table.types]
        view = self._across(self.name(region), title(region.type), region.id, found, asked)
        tables = [replace(one, map="") for one in view.tables]  # maps show the regions within it
        return replace(view, around=[*self.around(region), *self._maps_within(region, view)], tables=tables)

    def around(self, region: Region) -> list[tuple[str, Links]]:
        """Return headings with links to the regions that contain a region, and to those within it."""
        above = [(self.name(one), f"region/{one.key}") for one in self.regions_above(region)]
        inside = [
            (number_within(kind, len(found)), self._named(found))
            for kind in (region.child_types if self.scope.complete_in(region) else ())
            if (found := [one for one in self._by_type.get(kind, ()) if one.id.startswith(region.child_prefix)])
        ]
        return [*([("In", above)] if above else []), *inside]

    @cached_property
    def _by_type(self) -> dict[str, list[Region]]:
        found: dict[str, list[Region]] = {}
        for region in sorted(self.regions):
            found.setdefault(region.type, []).append(region)
        return found

    def _named(self, regions: Sequence[Region]) -> Links:
        links = [(self.name(one), f"region/{one.key}") for one in regions[:LISTED]]
        return [*links, ("… find the others by name or code", "")] if len(regions) > LISTED else links

    def code(self, code: Code, asked: Mapping[str, str]) -> AcrossView:
        """Return the rows of a code, such as an iteration or a unit, in all tables."""
        found = [(table, of) for table in self._with_counts() if (of := self._codes_in(table, code))]
        unit = self.units.get(code)
        view = self._across(self.index.codes[code], code.column if unit else self.codes_are, code.code, found, asked)
        above = [] if unit is None or unit.parent is None else [(self.index.codes[unit.parent], _address(unit.parent))]
        inside = self._links_to(code) if unit else []
        return replace(
            view, around=[(words, links) for words, links in (("In", above), ("Within it", inside)) if links]
        )

    def _links_to(self, above: Code | None) -> list[tuple[str, str]]:
        """Return links to the first units directly within another."""
        within = self._units_within.get(above, ())
        links = [(self.units[one].name, _address(one)) for one in within[:LISTED]]
        return [*links, ("… find the others by name or code", "")] if len(within) > LISTED else links

    def _codes_in(self, table: ReleaseTable, code: Code) -> dict[str, str]:
        """Return the codes by column that select a code's rows in a table; {} if it has no such column."""
        if unit := self.units.get(code):
            own = table.of_units[: len(unit.codes)]
            return {one.name: each for one, each in zip(own, unit.codes, strict=False) if own[-1].level == code.column}
        return {code.column: code.code} if any(one.name == code.column for one in table.keys) else {}

    def _with_counts(self) -> list[ReleaseTable]:
        tables = (table for table in self.tables.values() if table.place or table.of_units)
        return [table for table in tables if table.count or table.resource.of]

    def _across(
        self,
        title: str,
        kind: str,
        code: str,
        found: Sequence[tuple[ReleaseTable, Mapping[str, str]]],
        asked: Mapping[str, str],
    ) -> AcrossView:
        """Return the rows of tables by codes of their columns, and links to the others.

        Shown are the tables with the fewest keys, and of a declaration all with at most SHORT rows.
        """
        further = {name.removeprefix("by_"): code for name, code in asked.items() if name.startswith("by_")}
        widths = [len(table.resource.key or table.keys) for table, _ in found]
        kept = {name: asked[name] for name in ("format", "confidence") if name in asked}
        shown, others = [], []
        for width, (table, codes) in sorted(zip(widths, found, strict=True), key=itemgetter(0)):
            by = {**codes, **further}
            rows = table.number(table.select(by)) if self.units or width > min(widths) else 0
            if width == min(widths) or (self.units and 0 < rows <= SHORT):
                view = self.table_view(table, {**kept, **as_options(by)}, plain=True)
                shown += [view] if view.page.total or view.missing else []
            elif rows:
                others.append((table.resource.title, link(f"table/{table.resource.name}", **as_options(by))))
        reading = f"{shown[0].reading} {self.across}".strip() if shown else ""
        words = [found[0][0].words_of_code(name, one) for name, one in further.items()] if found else []
        title = ", ".join([*words, title])
        nothing = "" if shown else self.nothing
        return AcrossView(
            title=title, reading=reading, kind=kind, code=code, tables=shown, others=others, nothing=nothing
        )

    def _maps_within(self, region: Region, view: AcrossView) -> list[tuple[str, Links]]:
        """Return links to maps of the regions within a region; if codes overlap, of the code with the largest count."""
        found: dict[str, str] = {}
        for shown in view.tables if self.scope.complete_in(region) else ():
            row = dict(zip((column.name for column in shown.columns), next(iter(shown.page.rows), ()), strict=False))
            for kind, table in product(region.child_types if row else (), self.tables.values()):
                own = [column.name for column in table.columns]
                if own != list(row) or kind not in table.types or not is_mapped(table, self.places) or not table.place:
                    continue
                by = {column.name: row[column.name] for column in table.columns if column.overlap}
                values = ", ".join(table.words_of_code(*each) for each in by.items())
                if region.child_prefix:
                    by[table.place.name] = f"{region.child_prefix}*"
                if table.number(table.select(by)):
                    words = title(kind, several=True) + f" by {values}" * bool(values)
                    found.setdefault(words, link(f"table-map/{table.resource.name}", **as_options(by)))
        return [("Maps", list(found.items()))] if found else []

    # -- search -------------------------------------------------------------------------------------------------------

    def find(self, query: str, at: Confidence) -> FoundView:
        """Return the results for a query or, without any, for the closest query of known words."""
        kinds, nearest = self._found(query, at), ""
        if not any(kind.total for kind in kinds) and (corrected := self.index.vocabulary.corrected(query)):
            again = self._found(corrected, at)
            if any(kind.total for kind in again):
                kinds, nearest = again, corrected
        reading = "The release contains everything that is listed here. A page says where there is no count, and why."
        return FoundView(
            title=f"“{query}”" if query else "Find", reading=reading, query=query, kinds=kinds, nearest=nearest
        )

    def _found(self, query: str, at: Confidence) -> list[SearchResults]:
        regions, codes = self.index.regions_named(query), self.index.codes_named(query)
        pairs, total = ([], 0) if regions or codes else self.index.pairs_named(query)
        if pairs:
            return [SearchResults("group", "groups", total, [self.pair(*pair, at) for pair in pairs])]
        places = [
            SearchResult(f"region/{one.key}", title(one.type), one.id, self.name(one), self.within(one))
            for one in regions[:FOUND]
        ]
        found = [SearchResults("geography", "geographies", len(regions), places)]
        if self.index.codes:
            named = [
                SearchResult(_address(one), one.column * (one in self.units), one.code, self.index.codes[one])
                for one in codes[:FOUND]
            ]
            found.append(SearchResults(self.codes_are, f"{self.codes_are}s", len(codes), named))
        return found

    @cached_property
    def codes_are(self) -> str:
        """The kind of the named codes, in a word, or ""."""
        if self.units:
            return "place"
        names = {code.column for code in self.index.codes}
        titles = (one.title for table in self.tables.values() for one in table.keys if one.name in names)
        return next(titles, "").lower()

    @property
    def finds(self) -> str:
        """The kinds of things that the search of every page finds, or ""."""
        return capitalized(" or ".join(["geography"] * bool(self.regions) + [self.codes_are] * bool(self.codes_are)))

    def pair(self, region: Region, code: Code, at: Confidence) -> SearchResult:
        """Return the search result for a region and a code together."""
        name = f"{self.index.codes[code]}, {self.name(region)}"
        return SearchResult(
            f"region/{region.key}&by_{code.column}={code.code}", "group", f"{region.key}/{code.code}", name
        )

    # -- what others ask for ------------------------------------------------------------------------------------------

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view for the options of `das show`. Raises NotThere.

        Either option names the units of a declaration.
        """
        if region is not None and iteration is None and not self.regions and self.index.codes:
            region, iteration = None, region
        code = self.index.code(iteration, self.codes_are or "code") if iteration is not None else None
        if table is not None:
            found, by = self.table(table), dict[str, str]()
            if region is not None and found.place is None:
                raise NotThere(f"{table} has no regions: leave --region out")
            if code and not self._codes_in(found, code):
                raise NotThere(f"{table} has no column {code.column}")
            by |= found.at(self.index.region(region)) if region is not None else {}
            by |= self._codes_in(found, code) if code else {}
            return {"view": f"table/{found.resource.name}", **as_options(by)}
        if region is not None:
            place = self.index.region(region)
            return self.address_of_pair(place, code) if code else {"view": f"region/{place.key}"}
        return {"view": _address(code) if code else "overview"}

    def address_of_pair(self, region: Region, code: Code) -> dict[str, str]:
        """Return the address of a region and a code together."""
        return {"view": f"region/{region.key}", f"by_{code.column}": code.code}

    def table(self, name: str) -> ReleaseTable:
        """Return a table by its name. Raises NotThere for an unknown name; the message suggests the closest."""
        if name not in self.tables:
            nearest = ", ".join(get_close_matches(name, self.tables, FEW, 0))
            raise NotThere(f"{name!r:.80} is not a table of this release; nearest: {nearest}")
        return self.tables[name]

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses in a copy, without page numbers; the release as a whole first.

        These are all regions, all named codes, and the tables that are not too long.
        """
        yield {"view": "overview"}
        yield from ({"view": f"region/{region.key}"} for region in sorted(self.regions))
        yield from ({"view": _address(one)} for one in self.index.codes)
        yield {"view": "tables"}
        yield from ({"view": f"table/{one.name}"} for one in self._list(self.confidence).tables if one.is_copied)

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the entries of a copy's search: name, detail and the view of its address."""
        for region in self.index.listed:
            within = self.within(region)
            name = self.name(region) + (f", {within}" if within else "")
            yield name, f"{title(region.type)} {region.id}", f"region/{region.key}"
        for one, words in self.index.codes.items():
            yield words, f"{one.column if one in self.units else self.codes_are} {one.code}", _address(one)


def _address(code: Code) -> str:
    return f"code/{code.column}/{code.code}"


def _as_shown(table: Resource, others: Mapping[str, Resource]) -> Resource:
    """Return a table of tables/ as pages show it: named by its path there, the words of codes next to these."""
    beside = {column.names for column in table.columns if not column.level}
    columns = tuple(one for one in table.columns if one.name not in {*CONSTANT, *beside})
    short = table.name.removeprefix(f"{TIDY_FOLDER}-")
    name = table.name if short in others else short
    return replace(table, name=name, title=table.title.removesuffix(WITH_NAMES), columns=columns)


def _item(table: ReleaseTable, common: Sequence[str], top: str, at: Confidence) -> TableItem:
    """Return the entry of a table in the list. top: the highest level, whose tables have no columns of units."""
    margin = table.sql(table.margin.name) if table.margin else "NULL"
    ((rows, *ends),) = table.database.ask(f"SELECT count(*), min({margin}), max({margin}) FROM {table.rows_of}")
    least, most = (table.margin_at(one, at) for one in ends)
    level = level_words(next((one.level for one in reversed(table.of_units)), top if table.count else ""))
    own = [one.title for one in table.keys if one.title not in common and not one.level]
    keys = [capitalized(level), *own] if table.of_units else own
    title = table.resource.title
    subject = title.replace(f" by {level}", "", 1) if level else ""
    return TableItem(table.resource.name, title, ", ".join(keys), rows, least, most, capitalized(level), subject)
