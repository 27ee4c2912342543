"""A view in the terminal: one table, narrower than that of its CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flows.reports.show.detailed_dhca import GroupView
from flows.reports.show.tables.views import AcrossView, TableView
from flows.reports.show.top_down import CELLS, GeounitView
from flows.reports.show.view import Reading
from tasks.releases.pages import whole
from tasks.releases.pages.text_table import TextTable
from tasks.safetab.persons.details import SEXES


def table(read: Reading) -> TextTable:
    """Return the table of a view without its empty columns, followed by notes on how to read it."""
    view, about = read.view, read.about
    status = [view.group.why] if isinstance(view, GroupView) and view.group.why else []
    more = [] if view.is_whole else ["the first rows of each table alone: --format csv has all"]
    extra = [words for name in ("summed", "margin") if (words := getattr(view, name, ""))]
    notes = [*status, *more, *extra, view.reading, *filter(None, [about["covers"]]), *about["marks"]]
    match view:
        case GroupView():
            made = _group(view, notes)
        case GeounitView():
            made = _geounit(view, notes)
        case AcrossView(tables=[]):
            made = TextTable(view.title, ["status"], [[view.nothing]], notes)
        case AcrossView():
            rows = [words for one in view.tables for words in _about_rows(one)]
            made = _across(view, [*rows, *notes])
        case TableView():
            made = _plain(replace(read, view=replace(view, missing=None)), [*_about_rows(view), *notes])
        case _:
            made = _plain(read, notes)
    return made.without_empty(made.columns) if made.rows else made


def _across(view: AcrossView, notes: Sequence[str]) -> TextTable:
    """Return the rows of several tables: what each counts in words, without the codes that were chosen."""
    numbers = dict.fromkeys(column.title for one in view.tables for column in one.columns if column.role)
    rows = []
    for one in view.tables:
        for row in one.page.rows:
            cells = list(zip(one.columns, map(text, row), strict=True))
            keys = [(own, cell) for own, cell in cells if not (own.role or own.chosen)]
            words = [one.words.get(own.name, {}).get(cell, cell) for own, cell in keys]
            values = {own.title: cell for own, cell in cells if own.role}
            rows.append([one.title, ", ".join(words), *(values.get(title, "") for title in numbers)])
    title = f"{view.title} ({view.kind})" if view.kind else view.title
    return TextTable(title, ["table", "row", *(title.lower() for title in numbers)], rows, notes, words=2)


def text(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(read: Reading, notes: Sequence[str]) -> TextTable:
    columns, rows = read.table
    title = read.view.title
    return TextTable(title, [name.lower() for name in columns], [list(map(text, row)) for row in rows], notes)


def _about_rows(view: TableView) -> list[str]:
    """Return notes on which rows have ages, and which regions have no row."""
    return [words for words in (view.about_ages, view.without) if words]


def _geounit(view: GeounitView, notes: Sequence[str]) -> TextTable:
    """Return the counts of a TopDown geounit; margins of tables P1 to P5 are only counted."""
    shown = replace(view, margins=[one for one in view.margins if one.count not in CELLS])
    if folded := len(view.margins) - len(shown.margins):
        notes = [f"{folded:,} more margins, of tables P1 to P5: --format csv", *notes]
    rows = [
        [title, row, column, text(count), f"none: {why}" if why else "" if margin is None else whole(margin)]
        for _, title, row, column, count, margin, *_, why in shown.table()[1]
    ]
    return TextTable(f"{view.title} ({view.kind})", ["table", "row", "column", "count", "margin"], rows, notes, words=3)


def _group(view: GroupView, notes: Sequence[str]) -> TextTable:
    """Return a group's total and its counts by sex and age, or why they were not published."""
    group, pyramid = view.group, view.pyramid
    if group.count is None:
        return TextTable(view.title, ["status", ""], [[group.status, group.why]], notes)
    named = ("", " margin", " estimate", " estimate's margin")
    columns = ["age", *(f"{sex}{words}" for sex in ("both", *SEXES.values()) for words in named)]
    totals = [group.count, group.margin, group.estimate, group.estimate_margin]
    rows = [
        [row.label, *(totals if row.label == "all ages" else [None] * 4), *row.male.counts, *row.female.counts]
        for row in (pyramid.rows() if pyramid else ())
    ] or [["all ages", *totals, *[None] * 8]]
    ratio = [f"Males per 100 females: {view.sex_ratio.words}."] if view.sex_ratio else []
    notes = [f"Published as {group.shape}.", *ratio, *notes]
    return TextTable(view.title, columns, [list(map(text, row)) for row in rows], notes)
