"""A Detailed DHC-A release, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.reports.show.detailed_dhca import views
from flows.reports.show.detailed_dhca.child_areas import FEW
from flows.reports.show.detailed_dhca.presenters import SHAPE_WORDS, present_iteration, present_region
from flows.reports.show.detailed_dhca.release import Release
from flows.reports.show.detailed_dhca.search import index_of, one_iteration, one_region
from flows.reports.show.detailed_dhca.view_models import (
    Comparison,
    Found,
    GroupItem,
    GroupView,
    IterationView,
    Overview,
    RegionView,
    View,
)
from flows.reports.show.geography import TITLES, Region
from flows.reports.show.names import Names
from flows.reports.show.paging import page_asked
from flows.reports.show.release_pages import NotThere, ReleasePages
from flows.reports.show.scope import Scope
from tasks.lifecycle.errors import Refused

GROUP_COLUMNS = [
    "REGION_TYPE",
    "REGION_ID",
    "REGION_NAME",
    "ITERATION_CODE",
    "ITERATION_NAME",
    "STATUS",
    "COUNT",
    "MOE",
    "LOW",
    "HIGH",
    "TABLE",
    "WHY",
    "ESTIMATE",
    "ESTIMATE_MOE",
]
LONGEST = 200  # characters of one thing that is asked
Table = tuple[list[str], list[list[Any]]]


class DetailedDhcaPages(ReleasePages):
    """The views of a Detailed DHC-A release by their addresses."""

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], names: Names, params: Path | None, scope: Scope
    ) -> None:
        super().__init__(folder, manifest, scope)
        self.release = Release(folder, manifest, names, params, scope)
        if any(level.region_type == "USA" for level in self.release.facts):
            self.nation = manifest["geography"]["states"]

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view that an address names. Raises NotThere where it names none."""
        return view_of(self.release, asked)

    def rows(self, view: View) -> Table:
        """Return the columns and rows of a view's main table."""
        return table(view)

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view that a region and an iteration mean. Raises NotThere where they mean none."""
        if table is not None:
            raise Refused("--table is for bottom-up and TopDown releases")
        if region is None and iteration is None:
            return {"view": "overview"}
        place = one_region(self.release, region) if region is not None else None
        code = one_iteration(self.release, iteration) if iteration is not None else None
        if place is None:
            return {"view": f"iteration/{code}"}
        return {"view": f"region/{place.key}" if code is None else f"group/{place.key}/{code}"}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds: all regions and iterations, and groups with a table by sex and age.

        Of a group with a total alone the lists of its region and of its iteration have everything that was published.
        """
        yield {"view": "overview"}
        for region in sorted(self.release.regions):
            yield {"view": f"region/{region.key}"}
        listed = set()  # iterations; a list of one region says no more than the list before it
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

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the regions and iterations that the search of a copy finds."""
        for region in index_of(self.release).texts:
            item = present_region(self.release, region)
            within = f", {item.within}" if item.within else ""
            yield item.name + within, f"{item.kind} {item.id}", f"region/{region.key}"
        for one in map(present_iteration, self.release.iterations.values()):
            yield one.name, f"{one.level} {one.code}", f"iteration/{one.code}"

    def warm(self) -> None:
        """Index the names for the first search, and query every file once."""
        index_of(self.release)
        for region in {region.type: region for region in self.release.regions}.values():
            self.release.totals(region_type=region.type, region_id=region.id)
            for code in {one.level: code for code, one in self.release.iterations.items()}.values():
                self.release.cells(region, code)


def view_of(release: Release, asked: Mapping[str, str]) -> View:
    """Return the view that an address names. Raises NotThere where it names none."""
    asked = {name: value[:LONGEST] for name, value in asked.items()}
    match asked.get("view", "overview").split("/"):
        case ["overview"] | [""]:
            return views.overview(release)
        case ["find"]:
            return views.find(release, asked.get("q", ""))
        case ["region", kind, number]:
            return views.region(
                release,
                _region(kind, number),
                asked.get("q_iteration", ""),
                asked.get("level", ""),
                asked.get("sort", ""),
                page_asked(asked),
            )
        case ["iteration", code]:
            within = asked.get("in", "")
            inside = _region(*within.split("/", 1)) if within.count("/") == 1 else None
            return views.iteration(
                release, code, asked.get("type", ""), inside, asked.get("sort", ""), page_asked(asked)
            )
        case ["group", kind, number, code]:
            return views.group(release, _region(kind, number), code)
        case ["compare"]:
            return views.compare(
                release,
                _group(asked.get("a", "")),
                _group(asked["b"]) if asked.get("b") else None,
                asked.get("region", ""),
                asked.get("iteration", ""),
            )
    raise NotThere("this address is not a view of the page")


def _region(kind: str, number: str) -> Region:
    if kind.removeprefix("PR-") not in TITLES:
        raise NotThere(f"{kind!r} is not a region type")
    return Region(kind, number)


def _group(text: str) -> tuple[Region, str]:
    parts = text.split("/")
    if len(parts) != 3:
        raise NotThere(f"{text!r} is not a group: TYPE/REGION/ITERATION")
    return _region(parts[0], parts[1]), parts[2]


def table(view: View) -> Table:
    """Return the main table of a view: columns and rows."""
    match view:
        case Overview():
            columns = ["LEVEL", "REGIONS", "ITERATIONS", "GROUPS", "PUBLISHED", "SUPPRESSED_UP_TO"]
            shapes = list(SHAPE_WORDS)
            columns += [name.upper() for name in shapes] + [f"MOE_{name.upper()}" for name in shapes]
            return columns, [
                [row.slug, row.regions, row.iterations, row.groups, row.published, row.suppressed_up_to]
                + [row.by_shape[name] for name in shapes]
                + [row.margins[name] for name in shapes]
                for row in view.levels
            ]
        case RegionView() | IterationView():
            return list(GROUP_COLUMNS), [_group_row(row) for row in view.page.rows]
        case GroupView():
            return _group_table(view)
        case Comparison():
            rows = [*([view.total] if view.total else []), *view.rows]
            return ["AGE", "SEX", "A", "B", "DIFFERENCE", "MOE"], [list(asdict(row).values()) for row in rows]
        case Found():
            return ["KIND", "CODE", "NAME", "WITHIN"], [
                *([region.kind, region.id, region.name, region.within] for region in view.regions),
                *(["iteration", one.code, one.name, one.level] for one in view.iterations),
                *(["group", key, name, ""] for key, name in view.groups),
            ]


def _group_row(group: GroupItem) -> list[Any]:
    kind, number = group.region.key.split("/")
    names = [kind, number, group.region.name, group.iteration.code, group.iteration.name]
    counts = [group.status, group.count, group.margin, group.low, group.high, group.shape, group.why]
    return [*names, *counts, group.estimate, group.estimate_margin]


def _group_table(view: GroupView) -> Table:
    """Return a group's total and cells, then the groups around it."""
    columns = ["OF", *GROUP_COLUMNS[:5], "AGE", "SEX", "STATUS", "COUNT", "MOE", "ESTIMATE", "ESTIMATE_MOE"]

    def total(of: str, group: GroupItem) -> list[Any]:
        counts = [group.count, group.margin, group.estimate, group.estimate_margin]
        return [of, *_group_row(group)[:5], "all ages", "both", group.status, *counts]

    rows = [total("group", view.group)]
    for label, of in (
        [("all ages", view.pyramid), *((age.label, age) for age in view.pyramid.ages)] if view.pyramid else ()
    ):
        for sex in ("male", "female"):
            counts = [getattr(of, sex + of_sex) for of_sex in ("", "_margin", "_estimate", "_estimate_margin")]
            rows.append([*rows[0][:6], label, sex, view.group.status, *counts])
    rows += [total("within", group) for group in view.parents]
    rows += [total(inside.kinds, group) for inside in view.children for group in inside.rows]
    rows += [total("beside", group) for group in (view.siblings.rows if view.siblings else ())]
    return columns, rows
