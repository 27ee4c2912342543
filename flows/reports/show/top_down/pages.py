"""The pages of a TopDown release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flows.reports.show.release_pages import MOST_COPIED, ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.search import only
from flows.reports.show.top_down import maps, views
from flows.reports.show.top_down.geounits import GEOUNIT_KINDS, US, Geounit, title_of
from flows.reports.show.top_down.release import TopDownRelease
from flows.reports.show.view import View, page_asked
from tasks.lifecycle.errors import Refused


class TopDownPages(ReleasePages):
    """The views of a TopDown release by their addresses."""

    finds = "Geography"

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        if scope.level is not None:
            raise Refused("--scope of a TopDown release is a state: 44, Rhode Island")
        super().__init__(folder, manifest, scope)
        self.release = TopDownRelease(folder, manifest, scope)
        if self.release.nation:
            self.nation = manifest["states"]

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view that an address names. Raises NotThere where it names none."""
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return replace(views.overview(self.release), maps=self._maps_of_nation())
            case ["find"]:
                return views.find(self.release, asked.get("q", ""))
            case ["geounit", kind, level, state, code]:
                one = Geounit(kind, level, state, code)
                shown_one = views.geounit(self.release, one, asked.get("table", ""))
                return replace(shown_one, maps=self._maps_of(one))
            case ["listing", kind, level, state]:
                shown = views.listing(
                    self.release, kind, level, state, asked.get("in", ""), asked.get("sort", ""), page_asked(asked)
                )
                address = f"map/{kind}/{level}/{state}" + (f"&in={asked['in']}" if asked.get("in") else "")
                return replace(shown, map=address if maps.mapped(self.places, kind, level, state) else "")
            case ["map", kind, level, state]:
                return maps.geounit_map(self.release, self.places, kind, level, state, asked)
        return super().view(asked)

    def _maps_of(self, geounit: Geounit) -> list[tuple[str, str]]:
        """Return the maps of what lies in a geounit: words and addresses."""
        return [
            (title_of(level, several=True), f"map/{geounit.kind}/{level}/{geounit.state}&in={geounit.code}")
            for level in self.release.levels_inside(geounit)
            if maps.mapped(self.places, geounit.kind, level, geounit.state)
        ]

    def _maps_of_nation(self) -> list[tuple[str, str]]:
        """Return the maps of all states together: words and addresses."""
        if len(self.release.states) < 2:
            return []
        levels = [("tabulation", level) for level in ("State", "County")]
        levels += [("entities", level) for level in self.release.levels("entities")]
        return [
            (title_of(level, several=True), f"map/{kind}/{level}/{US}")
            for kind, level in levels
            if maps.mapped(self.places, kind, level, self.release.states[0])
        ]

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view of a geounit and a table. Raises NotThere or Refused."""
        if iteration is not None:
            raise Refused("--iteration is for releases of the Detailed DHC-A; --table names a table of a geounit")
        if region is None:
            return super().address(region, iteration, table)
        found = only(
            partial(views.geounits_named, self.release),
            "geounit",
            region,
            lambda one: f"{one.key} {self.release.name(one)}",
            views.vocabulary_of(self.release),
        )
        return {"view": f"geounit/{found.key}", "table": table or ""}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds: all geounits except blocks, lists of the level below each, maps."""
        yield {"view": "overview"}
        yield from ({"view": address} for _, address in self._maps_of_nation())
        if self.release.nation and self.scope.state is None:
            yield from self._tables_of(self.release.top)
        for kind, level, state in self._levels_above_blocks():
            yield {"view": f"listing/{kind}/{level}/{state}"}
            if maps.mapped(self.places, kind, level, state):
                yield {"view": f"map/{kind}/{level}/{state}"}
            for row in self.release.rows(kind, level, state):
                yield from self._tables_of(row.geounit)
                for below in self.release.levels_inside(row.geounit)[:1]:
                    yield {"view": f"listing/{kind}/{below}/{state}", "in": row.geounit.code}
        yield from self.table_addresses(MOST_COPIED)

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the geounits for the search of a copy."""
        for kind, level, state in self._levels_above_blocks():
            words = f"{title_of(level)}, {GEOUNIT_KINDS[kind]}"
            for one in (row.geounit for row in self.release.rows(kind, level, state)):
                yield self.release.name(one), f"{one.code}, {words}", f"geounit/{one.key}"

    def _levels_above_blocks(self) -> Iterator[tuple[str, str, str]]:
        """Return kind, level and state of every list of geounits, except blocks."""
        for kind in self.release.kinds:
            for level in self.release.levels(kind):
                for state in self.release.states:
                    if level != "Block" and self.release.is_listed(kind, level, state):
                        yield kind, level, state

    def _tables_of(self, geounit: Geounit) -> Iterator[Mapping[str, str]]:
        yield {"view": f"geounit/{geounit.key}"}
        if "persons" in self.release.products_of(geounit.kind):
            yield {"view": f"geounit/{geounit.key}", "table": "races"}
