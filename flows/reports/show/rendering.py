"""A view as a page, with its address, or as an Excel workbook: its table, and a sheet that describes it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import xlsxwriter
from jinja2 import Environment

from flows.reports.show.view import NotThere, Reading, View
from tasks.releases.pages import environment

TAG = re.compile(r"<[^>]+>")
FORM = re.compile(r'(<form [^>]*method="get"[^>]*>)')
MOST_ROWS = 1_048_575  # rows of a sheet, below its header
CELLS = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}  # names stay names
WIDTHS = {
    **dict.fromkeys(("REGION_NAME", "REGION_ID_NAME", "NAME", "GEOUNIT"), 26),
    **dict.fromkeys(("ITERATION_NAME", "ITERATION_CODE_NAME"), 34),
    "WHY": 40,
}


def address_of(asked: Mapping[str, str]) -> str:
    """Return the address of a view without page and format, which links add."""
    kept = {name: value for name, value in asked.items() if name not in ("page", "format") and value}
    return "?" + urlencode({"view": "overview", **kept}, safe="/")


def templates() -> Environment:
    """Return the templates."""
    made = environment("flows.reports.show", "templates")
    made.filters["explained"] = explained
    return made


def explained(words: Mapping[str, str], *texts: str) -> list[tuple[str, str]]:
    """Return the words that are in texts of a page, with their meanings; `Detailed DHC` is a name, not a word."""
    visible = TAG.sub(" ", " ".join(texts))
    folded = visible.casefold()
    return [
        (word, meaning)
        for word, meaning in words.items()
        if word.casefold() in folded
        and re.search(rf"\b{re.escape(word)}s?\b(?! DHC)", visible, 0 if word[0].isupper() else re.IGNORECASE)
    ]


def html(view: View | Mapping[str, str], about: Mapping[str, Any], address: str, csv: str) -> str:
    """Return the page of a view; `csv` is the address of its table."""
    text = templates().get_template("base.html").render(view=view, about=about, address=address, csv=csv)
    if not about["served"] or about["confidence"].is_released:
        return text
    percent = about["confidence"].percent  # links keep it; a confidence of their own comes later and counts
    text = text.replace('href="?', f'href="?confidence={percent}&amp;')
    return FORM.sub(rf'\1<input type="hidden" name="confidence" value="{percent}">', text)


def workbook(read: Reading) -> bytes:
    """Return the workbook of a view. Raises NotThere for a table with more rows than a sheet can have."""
    columns, rows = read.table
    if len(rows) > MOST_ROWS:
        raise NotThere(f"{len(rows):,} rows are too many for a sheet; the CSV has them")
    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"constant_memory": True, **CELLS}) as book:
        heading = book.add_format({"bold": True})
        sheet = book.add_worksheet("data")
        sheet.freeze_panes(1, 0)
        sheet.repeat_rows(0)
        sheet.set_landscape()
        sheet.fit_to_pages(1, 0)
        for number, name in enumerate(columns):
            sheet.set_column(number, number, WIDTHS.get(name, max(12, len(name) + 3)))  # + 3: the filter's button
        sheet.write_row(0, 0, columns, heading)
        for number, row in enumerate(rows, start=1):
            sheet.write_row(number, 0, row)
        sheet.autofilter(0, 0, len(rows), max(len(columns) - 1, 0))
        if described := read.view.described():
            _columns(book.add_worksheet("columns"), described, heading)
        _describe(book.add_worksheet("about"), read, heading)
    return content.getvalue()


def _columns(sheet: Any, described: Sequence[Sequence[str]], heading: Any) -> None:
    """Write the description of each column."""
    for number, (name, width) in enumerate((("column", 18), ("title", 22), ("unit", 18), ("meaning", 90))):
        sheet.set_column(number, number, width)
        sheet.write_string(0, number, name, heading)
    for at, row in enumerate(described, start=1):
        sheet.write_row(at, 0, row)


def _describe(sheet: Any, read: Reading, heading: Any) -> None:
    view, about = read.view, read.about
    facts = {
        "view": view.title,
        **({"table": of} if (of := getattr(view, "of", "")) else {}),
        "release": about["title"],
        "run": about["run"],
        "digest": about["digest"],
        **{f"mark {number}": mark for number, mark in enumerate(about["marks"], start=1)},
        **({"covers": about["covers"]} if about["covers"] else {}),
        **({"changed": "; ".join(about["changed"])} if about["changed"] else {}),
        "margins (MOE)": f"at {about['confidence'].percent}% confidence",
        "how to read it": view.reading,
    }
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    sheet.set_column(0, 0, 18)
    sheet.set_column(1, 1, 110)
    for number, (name, words) in enumerate(facts.items()):
        sheet.write_string(number, 0, name, heading)
        sheet.write_string(number, 1, words)
