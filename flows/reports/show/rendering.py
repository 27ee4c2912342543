"""A view as a page: its address and its HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment

from flows.reports.show.view import View
from flows.reports.show.workbook import WIDTHS
from tasks.releases.pages import environment

TAG = re.compile(r"<[^>]+>")
FORM = re.compile(r'(<form [^>]*method="get"[^>]*>)')
WIDTHS |= {"REGION_ID_NAME": 26, "ITERATION_CODE_NAME": 34}


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
    percent = about[
        "confidence"
    ].percent  # kept from page to page; an address with its own confidence, which comes later, overrides it
    text = text.replace('href="?', f'href="?confidence={percent}&amp;')
    return FORM.sub(rf'\1<input type="hidden" name="confidence" value="{percent}">', text)
