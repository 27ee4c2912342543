"""The tables of a release as one file of HTML that opens from a disk, with pyramids: no server, no other file."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64encode
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from flows.reports.show import rendering
from flows.reports.show.confidence import column_at
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.tables.table import Selection
from flows.reports.show.tables.views import TableView, table_view
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import atomic_path

MOST_ROWS = 500_000


def write_single_file(pages: ReleasePages, out: Path, about: Mapping[str, Any], table: str | None = None) -> int:
    """Write the tables of a release's scope, or one of them, to a new file; return its bytes.

    Raises Refused where the file is there or cannot be written, or there are too many rows; NotThere for no table.
    """
    if os.path.lexists(out):
        raise Refused(f"{out} is there already: choose a new file")
    chosen = [pages.table(table)] if table else list(pages.tables.values())
    if (rows := sum(one.number(Selection()) for one in chosen)) > MOST_ROWS:
        raise Refused(
            f"{rows:,} rows are too many for one file, at most {MOST_ROWS:,}: choose a state (--scope) or a "
            "table (--table)"
        )
    views = [table_view(one, {"format": "csv"}, pages.manifest, pages.places) for one in chosen]
    data = {"title": about["title"], "tables": list(map(_data, views))}
    packed = gzip.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0)
    script = (files("flows.reports.show") / "static/single.js").read_text()
    page = rendering.templates().get_template("single.html")
    text = page.render(about=about, script=script, packed=b64encode(packed).decode())
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(out) as draft:
            draft.touch(0o600 if "NOT_PRIVATE" in pages.manifest else 0o666)  # exact counts are their owner's alone
            draft.write_text(text, "utf-8")
    except OSError as error:
        raise Refused(f"{out} cannot be written: {error.strerror}") from None
    return out.stat().st_size


def _data(view: TableView) -> dict[str, Any]:
    """Return a table as the page has it: its columns with the words of their codes, and its rows."""
    columns = [
        {**vars(column), "name": column_at(column.name), "words": view.words.get(column.name, {})}
        for column in view.columns
    ]
    return {"name": view.name, "title": view.title, "reading": view.reading, "columns": columns, "rows": view.page.rows}
