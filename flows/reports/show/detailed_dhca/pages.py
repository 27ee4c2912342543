"""The pages of a Detailed DHC-A release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.reports.show.detailed_dhca import views
from flows.reports.show.detailed_dhca.child_areas import FEW
from flows.reports.show.detailed_dhca.maps import iteration_map
from flows.reports.show.detailed_dhca.presenters import present_iteration, present_region
from flows.reports.show.detailed_dhca.release import Release
from flows.reports.show.detailed_dhca.search import index_of, one_iteration, one_region
from flows.reports.show.geography import TITLES, Region
from flows.reports.show.release_pages import MOST_COPIED, ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.view import NotThere, View, page_asked


class DetailedDhcaPages(ReleasePages):
    """The views of a Detailed DHC-A release by their addresses."""

    finds = "Geography or iteration"

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        super().__init__(folder, manifest, scope)
        self.release = Release(folder, manifest, scope)
        if any(level.region_type == "USA" for level in self.release.facts):
            self.nation = manifest["geography"]["states"]

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view that an address names. Raises NotThere where it names none."""
        match asked.get("view", "overview").split("/"):
            case ["overview"] | [""]:
                return views.overview(self.release)
            case ["find"]:
                return views.find(self.release, asked.get("q", ""))
            case ["iterations"]:
                return views.iterations(self.release)
            case ["region", kind, number]:
                return views.region(
                    self.release,
                    _region(kind, number),
                    asked.get("q_iteration", ""),
                    asked.get("level", ""),
                    asked.get("sort", ""),
                    page_asked(asked),
                )
            case ["iteration", code]:
                kind, sort = asked.get("type", ""), asked.get("sort", "")
                shown = views.iteration(self.release, code, kind, _inside(asked), sort, page_asked(asked))
                return replace(shown, mapped=shown.chosen in self.places.types)
            case ["map", code]:
                return iteration_map(self.release, self.places, code, asked.get("type", ""), _inside(asked), asked)
            case ["group", kind, number, code]:
                group = views.group(self.release, _region(kind, number), code)
                return replace(group, mapped=sorted(self.places.types & {one.type for one in group.children}))
            case ["compare"]:
                return views.compare(
                    self.release,
                    _group(asked.get("a", "")),
                    _group(asked["b"]) if asked.get("b") else None,
                    asked.get("region", ""),
                    asked.get("iteration", ""),
                )
        return super().view(asked)

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view of a region, an iteration or both. Raises NotThere where none matches."""
        if table is not None or (region is None and iteration is None):
            return super().address(None, None, table)
        place = one_region(self.release, region) if region is not None else None
        code = one_iteration(self.release, iteration) if iteration is not None else None
        if place is None:
            return {"view": f"iteration/{code}"}
        return {"view": f"region/{place.key}" if code is None else f"group/{place.key}/{code}"}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds: all regions and iterations, and groups with a table by sex and age.

        A group with a total alone is complete in the lists of its region and its iteration.
        """
        yield {"view": "overview"}
        yield {"view": "iterations"}
        for region in sorted(self.release.regions):
            yield {"view": f"region/{region.key}"}
        listed = set()  # iterations; a list of one region adds nothing to an earlier list
        for level in self.release.levels:
            for code, regions in self.release.numbers(level).items():
                if regions > 1 or code not in listed:
                    yield {"view": f"iteration/{code}", "type": level.region_type}
                    listed.add(code)
            for region, code in self.release.groups_with_tables(level):
                yield {"view": f"group/{region.key}/{code}"}
                for kind in region.child_types if self.scope.complete_in(region) else ():
                    if self.release.number(region_type=kind, prefix=region.child_prefix, code=code) > FEW:
                        yield {"view": f"iteration/{code}", "type": kind, "in": region.key}
        yield from self.table_addresses(MOST_COPIED)

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the regions and iterations for the search of a copy."""
        for region in index_of(self.release).texts:
            item = present_region(self.release, region)
            within = f", {item.within}" if item.within else ""
            yield item.name + within, f"{item.kind} {item.id}", f"region/{region.key}"
        for one in map(present_iteration, self.release.iterations.values()):
            yield one.name, f"{one.level} {one.code}", f"iteration/{one.code}"

    def warm(self) -> None:
        """Index the names for the first search, and query every file once."""
        index_of(self.release).vocabulary.begins("")
        for region in {region.type: region for region in self.release.regions}.values():
            self.release.totals(region_type=region.type, region_id=region.id)
            for code in {one.level: code for code, one in self.release.iterations.items()}.values():
                self.release.cells(region, code)


def _region(kind: str, number: str) -> Region:
    if kind.removeprefix("PR-") not in TITLES:
        raise NotThere(f"{kind!r} is not a region type")
    return Region(kind, number)


def _inside(asked: Mapping[str, str]) -> Region | None:
    """Return the region that an address limits its answer to."""
    within = asked.get("in", "")
    return _region(*within.split("/", 1)) if within.count("/") == 1 else None


def _group(text: str) -> tuple[Region, str]:
    parts = text.split("/")
    if len(parts) != 3:
        raise NotThere(f"{text!r} is not a group: TYPE/REGION/ITERATION")
    return _region(parts[0], parts[1]), parts[2]
