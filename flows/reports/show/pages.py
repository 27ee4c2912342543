"""From the address of a view to the view, and from a view to HTML, CSV and JSON: one address each, one function each.

An address is `view=NAME/…` and what the view may be asked besides; anything else in it is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment

from flows.reports.show import told, views
from flows.reports.show.geography import TITLES, Region
from flows.reports.show.release import Release
from flows.reports.show.telling import SHAPE_WORDS, NotThere
from flows.reports.show.told import GroupTold, View
from tasks.lifecycle.pages import environment

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
                _page(asked),
            )
        case ["iteration", code]:
            within = asked.get("in", "")
            inside = _region(*within.split("/", 1)) if within.count("/") == 1 else None
            return views.iteration(release, code, asked.get("type", ""), inside, asked.get("sort", ""), _page(asked))
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


def address_of(asked: Mapping[str, str]) -> str:
    """Return the address of a view without its page and format, as the links of its page begin."""
    kept = {name: value for name, value in asked.items() if name not in ("page", "format") and value}
    return "?" + urlencode({"view": "overview", **kept}, safe="/")


def _page(asked: Mapping[str, str]) -> int:
    """Return the page that is asked for; 0, for all rows, where a file of them is."""
    if asked.get("format") == "csv":
        return 0
    number = asked.get("page", "1")
    return int(number) if number.isdecimal() and len(number) < 8 else 1


def _region(kind: str, number: str) -> Region:
    if kind.removeprefix("PR-") not in TITLES:
        raise NotThere(f"{kind!r} is not a region type")
    return Region(kind, number)


def _group(text: str) -> tuple[Region, str]:
    parts = text.split("/")
    if len(parts) != 3:
        raise NotThere(f"{text!r} is not a group: TYPE/REGION/ITERATION")
    return _region(parts[0], parts[1]), parts[2]


# -- forms ------------------------------------------------------------------------------------------------------------


def templates() -> Environment:
    """Return the templates, which keep to what Jinja and Nunjucks share, for the static copy renders them too."""
    return environment("flows.reports.show", "templates")


def html(view: Mapping[str, Any], about: Mapping[str, Any], address: str) -> str:
    """Return the page of a view, given as a dictionary."""
    return templates().get_template("base.html").render(view=view, about=about, address=address)


def table(view: View) -> Table:
    """Return the main table of a view: columns and rows."""
    match view:
        case told.Overview():
            columns = ["LEVEL", "REGIONS", "ITERATIONS", "GROUPS", "PUBLISHED", "SUPPRESSED_UP_TO"]
            shapes = list(SHAPE_WORDS)
            columns += [name.upper() for name in shapes] + [f"MOE_{name.upper()}" for name in shapes]
            return columns, [
                [row.slug, row.regions, row.iterations, row.groups, row.published, row.suppressed_up_to]
                + [row.by_shape[name] for name in shapes]
                + [row.margins[name] for name in shapes]
                for row in view.levels
            ]
        case told.RegionView() | told.IterationView():
            return list(GROUP_COLUMNS), [_group_row(row) for row in view.page.rows]
        case told.GroupView():
            return _group_table(view)
        case told.Comparison():
            rows = [*([view.total] if view.total else []), *view.rows]
            return ["AGE", "SEX", "A", "B", "DIFFERENCE", "MOE"], [list(asdict(row).values()) for row in rows]
        case told.Found():
            return ["KIND", "CODE", "NAME", "WITHIN"], [
                *([region.kind, region.id, region.name, region.within] for region in view.regions),
                *(["iteration", one.code, one.name, one.level] for one in view.iterations),
                *(["group", key, name, ""] for key, name in view.groups),
            ]


def _group_row(group: GroupTold) -> list[Any]:
    kind, number = group.region.key.split("/")
    names = [kind, number, group.region.name, group.iteration.code, group.iteration.name]
    counts = [group.status, group.count, group.margin, group.low, group.high, group.shape, group.why]
    return [*names, *counts, group.estimate, group.estimate_margin]


def _group_table(view: told.GroupView) -> Table:
    """Return a group's total and cells, then the groups around it."""
    columns = ["OF", *GROUP_COLUMNS[:5], "AGE", "SEX", "STATUS", "COUNT", "MOE", "ESTIMATE", "ESTIMATE_MOE"]

    def total(of: str, group: GroupTold) -> list[Any]:
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
