"""A release, or a state of it, as one file of HTML that opens from a disk: no server, no other file."""

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
from flows.reports.show.export import file_name
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.search import SMALL
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import atomic_path

SCRIPTS = ("search.js", "single.js")


def write_single_file(pages: ReleasePages, out: Path, about: Mapping[str, Any]) -> int:
    """Write the page of a release's scope to a new file; return its bytes.

    Raises Refused where the file is there or cannot be written, or the scope has too many groups.
    """
    if os.path.lexists(out):
        raise Refused(f"{out} is there already: choose a new file")
    data = pages.single_file()
    data |= {
        "title": about["title"],
        "small": SMALL,
        "index": [[name, detail, f"{file_name({'view': view})}.html"] for name, detail, view in pages.entries()],
    }
    packed = gzip.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0)
    scripts = "".join((files("flows.reports.show") / f"static/{name}").read_text() for name in SCRIPTS)
    page = rendering.templates().get_template("single.html")
    text = page.render(about=about, scripts=scripts, packed=b64encode(packed).decode())
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(out) as draft:
            draft.touch(0o600 if "NOT_PRIVATE" in pages.manifest else 0o666)  # exact counts are their owner's alone
            draft.write_text(text, "utf-8")
    except OSError as error:
        raise Refused(f"{out} cannot be written: {error.strerror}") from None
    return out.stat().st_size
