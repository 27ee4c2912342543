"""A static copy of the page: HTML, scripts and Parquet for a web server without Python.

The browser renders the templates of `das show` itself (Nunjucks), over Parquet that it reads itself (hyparquet); what
the tests hold is that it shows the same as the page over the release.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.reports.show.release_pages import ReleasePages
from tasks.lifecycle.errors import Refused
from tasks.pages import style

TEMPLATES = {  # of each kind of release, beside those of all
    "": ["macros", "body", "find", "message"],
    "detailed": ["overview", "region", "iteration", "group", "compare"],
    "bottom_up": ["tables", "margin"],
    "top_down": ["redistricting", "geounit", "listing", "geounits"],
}
SCRIPTS = {  # the module of a kind is first; show.js loads it
    "": ["show.js", "words.js"],
    "detailed": ["detailed.js", "data.js", "finding.js", "views.js", "files.js"],
    "bottom_up": ["bottom_up.js"],
    "top_down": ["top_down.js", "finding.js"],
}
MOST_ROWS = 1_000_000  # that a browser should hold
VENDORED = ("hyparquet.js", "hyparquet.LICENSE.txt", "nunjucks.js", "nunjucks.LICENSE.txt")
INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Release</title>
<link rel="stylesheet" href="static/style.css">
<link rel="icon" href="data:,">
</head>
<body>
<main><p>This page needs JavaScript, and a web server: it reads its data beside it.</p></main>
<script src="static/vendor/nunjucks.js"></script>
<script src="static/laws.js"></script>
<script type="module" src="static/show.js"></script>
</body>
</html>
"""


def export(shown: ReleasePages, out: Path, about: Mapping[str, Any]) -> dict[str, int]:
    """Write a static copy of what a release's scope holds into a new folder; return bytes by file.

    Raises Refused where the folder holds something, or the scope is more than a browser should hold.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} is not empty: choose an empty or a new folder")
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        (draft / "data").mkdir(parents=True)
        _write_scripts(draft, shown.kind)
        told = {"about": {**about, "report": False}, "kind": shown.kind, **shown.write(draft / "data")}
        (draft / "data/release.json").write_text(json.dumps(told, ensure_ascii=False, separators=(",", ":")))
        if out.exists():
            out.rmdir()
        os.replace(draft, out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return {str(path.relative_to(out)): path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}


def _write_scripts(out: Path, kind: str) -> None:
    here = files("flows.reports.show")
    (out / "index.html").write_text(INDEX)
    names = TEMPLATES[""] + TEMPLATES[kind]
    templates = {f"{name}.html": (here / f"templates/{name}.html").read_text() for name in names}
    templates["pictures.html"] = (files("tasks.pages") / "pictures.html").read_text()
    _copy(here / "static", out / "static", SCRIPTS[""] + SCRIPTS[kind])
    _copy(here / "static/vendor", out / "static/vendor", VENDORED)
    _copy(files("flows.reports.tuning"), out / "static", ["laws.js"])
    (out / "static/style.css").write_text(style())
    (out / "static/templates.json").write_text(json.dumps(templates))


def _copy(source: Traversable, folder: Path, names: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes((source / name).read_bytes())


def write_parquet(path: Path, columns: Mapping[str, Any], rows: int) -> None:
    """Write a table in row groups of so many rows, as hyparquet reads it without a second library: with Snappy."""
    pq.write_table(pa.table(dict(columns)), path, compression="snappy", row_group_size=rows)
