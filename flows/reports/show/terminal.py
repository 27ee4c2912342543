"""A view in the terminal: what the page shows of it, in a few narrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.reports.show.detailed_dhca.view_models import GroupItem, GroupView, IterationView, RegionView
from flows.reports.show.top_down.view_models import GeounitView, Listing, Redistricting
from tasks.pages.text_table import TextTable

COUNTS = ["count", "margin", "table", "estimate", "its margin"]
AROUND = ["", "region", *COUNTS]
ESTIMATE = ("estimate", "its margin")  # columns that most releases lack


def tables(view: Any, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str]) -> list[TextTable]:
    """Return the tables of a view, its notes under the last; `columns` and `rows` are its table as CSV has it."""
    match view:
        case GroupView():
            return [*_group(view), TextTable("Around it", AROUND, _around(view), notes).without_empty(ESTIMATE)]
        case RegionView():
            named = [[f"{row.iteration.name} ({row.iteration.code})", *_count(row)] for row in view.page.rows]
            return [TextTable(view.title, ["iteration", *COUNTS], named, notes).without_empty(ESTIMATE)]
        case IterationView():
            named = [[_region(row), *_count(row)] for row in view.page.rows]
            return [TextTable(view.title, ["region", *COUNTS], named, notes).without_empty(ESTIMATE)]
        case GeounitView():
            return _geounit(view, notes)
        case Listing() | Redistricting():
            rows, columns = [row[4:] for row in rows], ["geounit", *columns[5:]]
    return [TextTable(view.title, [name.lower() for name in columns], [list(map(text, row)) for row in rows], notes)]


def text(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _geounit(view: GeounitView, notes: Sequence[str]) -> list[TextTable]:
    """Return the tables of a TopDown geounit, with its name over the first."""
    named = [f"{view.title} ({view.geounit.kind}): {table.title.lower()}" for table in view.tables[:1]]
    named += [table.title for table in view.tables[1:]]
    margins = [
        [one.count, text(one.released), "not given" if one.margin is None else f"{one.margin:,.1f}"]
        for one in view.margins
    ]
    beside = [TextTable("Margins of error, 95%", ["", "released", "margin"], margins)] if margins else []
    return beside + [
        TextTable(
            name,
            ["", *table.columns],
            [[label, *map(text, values)] for label, values in table.rows],
            notes if table is view.tables[-1] else (),
        )
        for name, table in zip(named, view.tables, strict=True)
    ]


def _group(view: GroupView) -> list[TextTable]:
    group, pyramid = view.group, view.pyramid
    if group.count is None or group.margin is None:
        return [TextTable(view.title, ["status", ""], [[group.status, group.why]])]
    rows = [[text(group.count), text(group.margin), text(group.low), text(group.high), group.shape]]
    if (estimate := view.estimate) and estimate.estimate is not None:
        rows.append(
            [text(estimate.estimate), text(estimate.margin), text(estimate.low), text(estimate.high), "estimate"]
        )
    total = TextTable(view.title, ["count", "margin", "from", "to", "table"], rows)
    if pyramid is None:
        return [total]
    kinds = ["", "_estimate"] if pyramid.estimated else [""]
    names = [sex + kind + margin for sex in ("male", "female") for kind in kinds for margin in ("", "_margin")]
    columns = [name.split("_")[-1] for name in names]
    labelled = [("all ages", pyramid), *((age.label, age) for age in pyramid.ages)]
    by_age = [[label, *(text(getattr(counts, name)) for name in names)] for label, counts in labelled]
    return [total, TextTable("By sex and age", ["age", *columns], by_age)]


def _around(view: GroupView) -> list[list[str]]:
    around = [("lies in", view.parents), *((f"its {inside.kinds}", inside.rows) for inside in view.children)]
    around += [("beside it", view.siblings.rows)] if view.siblings else []
    return [[where, _region(group), *_count(group)] for where, groups in around for group in groups]


def _count(group: GroupItem) -> list[str]:
    estimate = text(group.estimate), text(group.estimate_margin)
    return [text(group.count), text(group.margin), group.shape or group.status, *estimate]


def _region(group: GroupItem) -> str:
    within = f", {group.region.within}" if group.region.within else ""
    return f"{group.region.name}{within} ({group.region.id})"
