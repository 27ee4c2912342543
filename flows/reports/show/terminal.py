"""A view in the terminal: a few narrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flows.reports.show.detailed_dhca import GroupView
from flows.reports.show.groups import Group
from flows.reports.show.margins import confidence, table_of
from flows.reports.show.tables.views import AcrossView, TableView
from flows.reports.show.top_down import GeounitView
from flows.reports.show.view import View
from tasks.detailed_dhca.details import SEXES
from tasks.pages import whole
from tasks.pages.text_table import TextTable

COUNTS = ["count", "margin", "table", "estimate", "its margin"]
ESTIMATE = ("estimate", "its margin")  # columns that most releases lack


def tables(view: View, notes: Sequence[str]) -> list[TextTable]:
    """Return the tables of a view, its notes under the last."""
    match view:
        case GroupView():
            around = [[f"{one.region} ({'/'.join(one.parts[:2])})", *_count(one)] for one in view.parents]
            return [*_group(view), TextTable("Within", ["region", *COUNTS], around, notes).without_empty(ESTIMATE)]
        case AcrossView():
            if not view.tables:
                return [TextTable(view.title, ["status"], [[view.nothing]], notes)]
            parts = [_plain(f"{view.title}: {one.title}", one) for one in view.tables]
            return [*parts[:-1], *(_plain(one.title, view.tables[-1], notes) for one in parts[-1:])]
        case GeounitView():
            return _geounit(view, notes)
    return [_plain(view.title, view, notes)]


def text(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(title: str, view: View, notes: Sequence[str] = ()) -> TextTable:
    if isinstance(view, TableView):  # regions without a row are in a line under it
        notes = [*filter(None, (view.about_ages, view.without)), *notes]
        view = replace(view, missing=None)
    columns, rows = table_of(view)
    return TextTable(title, [name.lower() for name in columns], [list(map(text, row)) for row in rows], notes)


def _geounit(view: GeounitView, notes: Sequence[str]) -> list[TextTable]:
    """Return the tables of a TopDown geounit, with its name over the first."""
    named = [f"{view.title} ({view.kind}): {table.title.lower()}" for table in view.tables[:1]]
    named += [table.title for table in view.tables[1:]]
    first, *others = view.margin_tables().values()
    margins = [
        [words, text(one.released), f"none: {one.why}" if one.margin is None else whole(one.margin)]
        for words, one in first
    ]
    folded = [f"{sum(map(len, others)):,} more, of tables P1 to P5: --format csv"] if others else []
    title = f"Margins of error, {confidence().percent}%"
    of_margins = [TextTable(title, ["", "released", "margin"], margins, folded)] if margins else []
    return of_margins + [
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
    if group.count is None:
        return [TextTable(view.title, ["status", ""], [[group.status, group.why]])]
    rows = [[text(group.count), text(group.margin), *map(text, group.interval), group.shape]]
    if group.estimate is not None and group.estimate_margin is not None:
        estimate, margin = group.estimate, group.estimate_margin
        rows.append([*map(text, (estimate, margin, estimate - margin, estimate + margin)), "estimate"])
    total = TextTable(view.title, ["count", "margin", "from", "to", "table"], rows)
    if pyramid is None:
        return [total]
    shown = 4 if pyramid.estimated else 2
    columns = [name for sex in SEXES.values() for name in (sex, "margin", "estimate", "margin")[:shown]]
    by_age = [
        [row.label, *(text(count) for cell in (row.male, row.female) for count in cell.counts[:shown])]
        for row in pyramid.rows()
    ]
    measures = TextTable("Age and sex", ["", ""], [[one.name, one.words] for one in view.measures])
    return [total, measures, TextTable("By sex and age", ["age", *columns], by_age)]


def _count(group: Group) -> list[str]:
    estimate = text(group.estimate), text(group.estimate_margin)
    return [text(group.count), text(group.margin), group.shape or group.status, *estimate]
