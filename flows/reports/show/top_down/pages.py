"""A TopDown release, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.reports.show.names import Names
from flows.reports.show.paging import page_asked
from flows.reports.show.release_pages import NotThere, ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.top_down import views
from flows.reports.show.top_down.geounits import KINDS, Geounit, title_of
from flows.reports.show.top_down.release import TopDownRelease
from flows.reports.show.top_down.view_models import FoundGeounits, GeounitView, Listing, Redistricting, TopDownView
from tasks.lifecycle.errors import Refused

SUMS = ["PERSONS", "18_AND_OVER", "HISPANIC", "HOUSING_UNITS", "OCCUPIED", "MARGIN_OF_PERSONS"]
COUNTS = ["persons", "adults", "hispanic", "units", "occupied", "margin"]
GEOUNIT_COLUMNS = ["GEOUNIT", "TABLE", "ROW", "COLUMN", "COUNT", "MARGIN", "ESTIMATE", "STANDARD_ERROR"]
LONGEST = 200  # characters of one thing that is asked
FEW = 8  # geounits that a refusal names


class TopDownPages(ReleasePages):
    """The views of a TopDown release by their addresses."""

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], names: Names, params: Path | None, scope: Scope
    ) -> None:
        if params:
            raise Refused("--params is for releases of the Detailed DHC-A")
        if scope.level is not None:
            raise Refused("--scope of a TopDown release is a state: 44, Rhode Island")
        super().__init__(folder, manifest, scope)
        self.release = TopDownRelease(folder, manifest, names, scope)
        if self.release.nation:
            self.nation = manifest["states"]

    def view(self, asked: Mapping[str, str]) -> TopDownView:
        """Return the view that an address names. Raises NotThere where it names none."""
        asked = {name: value[:LONGEST] for name, value in asked.items()}
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return views.overview(self.release)
            case ["find"]:
                return views.find(self.release, asked.get("q", ""))
            case ["geounit", kind, level, state, code]:
                return views.geounit(self.release, Geounit(kind, level, state, code), asked.get("table", ""))
            case ["listing", kind, level, state]:
                return views.listing(
                    self.release, kind, level, state, asked.get("in", ""), asked.get("sort", ""), page_asked(asked)
                )
        raise NotThere("this address is not a view of the page")

    def rows(self, view: TopDownView) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of a view's main table."""
        match view:
            case Redistricting() | Listing():
                rows = view.states if isinstance(view, Redistricting) else view.rows
                return ["KIND", "LEVEL", "STATE", "CODE", "NAME", *SUMS], [
                    [*row.geounit.key.split("/"), row.geounit.name, *(getattr(row, name) for name in COUNTS)]
                    for row in rows
                ]
            case GeounitView():
                key = view.geounit.key
                counts = [
                    [key, table.name, label, column, value, None, None, None]
                    for table in view.tables
                    for label, values in table.rows
                    for column, value in zip(table.columns, values, strict=True)
                ]
                margins = [
                    [key, "margins", one.count, one.product, one.released, one.margin, one.estimate, one.error]
                    for one in view.margins
                ]
                return GEOUNIT_COLUMNS, counts + margins
            case FoundGeounits():
                return ["KEY", "NAME", "LEVEL", "KIND"], [
                    [one.key, one.name, one.level, one.kind] for one in view.geounits
                ]

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view that a geounit and a table mean. Raises NotThere or Refused for others."""
        if iteration is not None:
            raise Refused("--iteration is for releases of the Detailed DHC-A; --table names a table of a geounit")
        if region is None:
            if table is not None:
                raise Refused("--table is a table of a geounit: name it by --region")
            return {"view": "overview"}
        found = views.geounits_named(self.release, region)
        if not found:
            raise NotThere(f"no geounit matches {region!r}; a code does, or a name that --names gives")
        if len(found) > 1:
            named = "; ".join(f"{one.key} {self.release.name(one)}" for one in found[:FEW])
            more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
            raise NotThere(f"several geounits match {region!r}: {named}{more}")
        return {"view": f"geounit/{found[0].key}", "table": table or ""}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds: all geounits but blocks, each with a list of the level below it."""
        yield {"view": "overview"}
        if self.release.nation and self.scope.state is None:
            yield from self._tables_of(self.release.top)
        for kind, level, state in self._levels_above_blocks():
            yield {"view": f"listing/{kind}/{level}/{state}"}
            for row in self.release.rows(kind, level, state):
                yield from self._tables_of(row.geounit)
                for below in self.release.levels_inside(row.geounit)[:1]:
                    yield {"view": f"listing/{kind}/{below}/{state}", "in": row.geounit.code}

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the geounits that the search of a copy finds."""
        for kind, level, state in self._levels_above_blocks():
            words = f"{title_of(level)}, {KINDS[kind]}"
            for one in (row.geounit for row in self.release.rows(kind, level, state)):
                yield self.release.name(one), f"{one.code}, {words}", f"geounit/{one.key}"

    def _levels_above_blocks(self) -> Iterator[tuple[str, str, str]]:
        """Return kind, level and state of every list of geounits but blocks."""
        for kind in self.release.kinds:
            for level in self.release.levels(kind):
                for state in self.release.states:
                    if level != "Block" and self.release.is_listed(kind, level, state):
                        yield kind, level, state

    def _tables_of(self, geounit: Geounit) -> Iterator[Mapping[str, str]]:
        yield {"view": f"geounit/{geounit.key}"}
        if "persons" in self.release.products_of(geounit.kind):
            yield {"view": f"geounit/{geounit.key}", "table": "races"}
