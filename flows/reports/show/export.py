"""A copy of a release that needs no server and no Python: a folder of its pages.

It contains the answers of `das show` at the addresses of `ReleasePages.addresses`. A link to any other page becomes
plain text; forms and other elements of class `served` are omitted. The search uses a list of names and of the groups
that have a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import unescape
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from flows.reports.show import rendering
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.search import SMALL
from flows.reports.show.view import Reading
from tasks.errors import Failed, Refused
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.releases.pages import style
from tasks.releases.pages.text_table import as_csv

MOST_PAGES = 100_000
LINK = re.compile(r'<a ([^>]*)href="\?([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
SEARCH = {"view": "search", "title": "Find", "reading": "", "query": ""}
Address = Mapping[str, str]


def export(pages: ReleasePages, out: Path) -> dict[str, int]:
    """Write the pages of a release's scope into a new folder; return bytes by file.

    Raises Refused if `new_folder` refuses or fails, or if the scope has more than MOST_PAGES pages.
    """
    check_empty(out)
    for table in pages.tables.values():
        table.database.copies = True  # each page asks some thirty questions of the same few tables
    addresses = list(islice(pages.addresses(), MOST_PAGES + 1))
    if len(addresses) > MOST_PAGES:
        raise Refused(f"the release has more than {MOST_PAGES:,} pages; copy a state or a level of it with --scope")
    about = pages.about(pages.confidence) | {"served": False, "report": False, "scope": pages.scope.words}
    about |= {"nameless": pages.nameless, "finds": pages.finds}
    mode = 0o700 if "NOT_PRIVATE" in pages.manifest else 0o777  # exact counts are for their owner only
    try:
        with new_folder(out, mode) as draft:
            (draft / "static").mkdir()
            _write(pages, addresses, draft, about)
    except Failed as error:  # whose message would offer to resume a run
        raise Refused(str(error)) from None
    return {str(path.relative_to(out)): path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}


def _write(pages: ReleasePages, addresses: list[Address], out: Path, about: Mapping[str, Any]) -> None:
    written = _names_by_link(addresses)
    for asked in addresses:
        name, read = file_name(asked), Reading(pages.view(asked), about)
        text = rendering.html(read.view, about, rendering.address_of(asked), f"{name}.csv")
        (out / f"{name}.html").write_text(_link_files(text, written), "utf-8")
        if not read.view.is_whole:
            read = Reading(pages.view({**asked, "format": "csv"}), about)
        (out / f"{name}.csv").write_text(as_csv(*read.table), "utf-8")
    (out / "static/style.css").write_text(style(), "utf-8")
    if about["finds"]:
        _write_search(pages, written, out, about)


def _write_search(pages: ReleasePages, written: Mapping[str, str], out: Path, about: Mapping[str, Any]) -> None:
    (out / "find.html").write_text(
        _link_files(rendering.html(SEARCH, {**about, "csv": False}, "", ""), written), "utf-8"
    )
    for name in ("search.js", "find.js"):
        (out / f"static/{name}").write_bytes((files("flows.reports.show") / f"static/{name}").read_bytes())
    index = [
        [name, detail, f"{written[file]}.html"]
        for name, detail, address in pages.entries()
        if (file := file_name({"view": address})) in written
    ]
    groups: dict[str, list[str]] = {}
    for group in (name.removeprefix("group-") for name in written if name.startswith("group-")):
        groups.setdefault(group.rpartition("-")[0], []).append(group.rpartition("-")[2])
    known = {"INDEX": index, "GROUPS": groups, "SMALL": SMALL}
    lines = [f"const {name} = {json.dumps(value, ensure_ascii=False)};\n" for name, value in known.items()]
    (out / "static/index.js").write_text("".join(lines), "utf-8")


def _names_by_link(addresses: list[Address]) -> dict[str, str]:
    """Return the file of each link; a link without options leads to the first page of its view."""
    written = {file_name(asked): file_name(asked) for asked in addresses}
    for asked in addresses:
        written.setdefault(file_name({"view": asked["view"]}), file_name(asked))
    return written


def _link_files(text: str, written: Mapping[str, str]) -> str:
    """Return a page with links to files; a link to a page outside the copy becomes its text."""

    def linked(found: re.Match[str]) -> str:
        before, query, after, words = found.groups()
        name = written.get(file_name(dict(parse_qsl(unescape(query)))))
        return words if name is None else f'<a {before}href="{name}.html"{after}>{words}</a>'

    return LINK.sub(linked, text)


def file_name(asked: Address) -> str:
    """Return the file name of an address, without its ending: only letters, digits, `-`, `_`, `=` and `~`."""
    kept = sorted((name, value) for name, value in asked.items() if value and name not in ("view", "format"))
    options = [f"{name}={value}" for name, value in kept]
    view = asked.get("view") or "overview"
    name = "/".join([view, *options]) if (view, options) != ("overview", []) else "index"
    return re.sub(r"[^A-Za-z0-9_=/-]", lambda found: f"~{ord(found[0]):x}~", name).replace("/", "-")
