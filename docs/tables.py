"""Write tables.md among the specifications: every column of the tables of a release, by system. `make site` does.

The columns are those of the releases in the folder that `das demo` made, which is given.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "spec/tables.md"
SYSTEMS = {
    "Detailed DHC-A": "release/us",
    "Detailed DHC-B": "ddhcb/release/us",
    "S-DHC": "sdhc/release/us",
    "TopDown Algorithm": "tda/release/us",
    "Geographic spine": "release/us/spine",
}
HEAD = """# Tables of a release

Every column of the tables that the releases of `das demo` have, from their `dictionary.csv`. [files.md](files.md) says
what the files are for. A release's own [`datapackage.json`](files.md#datapackagejson) also has types, codes, keys and
the laws of the noise.
"""
Columns = tuple[tuple[str, str, str], ...]


def page_of(demo: Path) -> str:
    """Return the page for the releases in the folder that `das demo` made."""
    return "\n".join([HEAD, *(line for title, path in SYSTEMS.items() for line in _section(title, demo / path))])


def _section(title: str, release: Path) -> Iterator[str]:
    """Yield the lines of a system: files that have the same columns are one table."""
    tables: dict[Columns, list[str]] = {}
    for files, columns in _tables(release / "dictionary.csv").items():
        tables.setdefault(columns, []).append(files)
    yield f"## {title}\n"
    for columns, files in tables.items():
        yield ", ".join(f"`{path}`" for path in files) + "\n"
        yield "| column | unit | meaning |\n|---|---|---|"
        yield from (f"| `{name}` | {unit} | {meaning} |" for name, unit, meaning in columns)
        yield ""


def _tables(dictionary: Path) -> dict[str, Columns]:
    with open(dictionary, newline="", encoding="utf-8") as text:
        rows = [row for row in csv.DictReader(text, delimiter="|", quoting=csv.QUOTE_NONE) if not row["CODE"]]
    files = dict.fromkeys(row["FILES"] for row in rows)
    return {
        path: tuple((row["COLUMN"], row["UNIT"], row["MEANING"]) for row in rows if row["FILES"] == path)
        for path in files
    }


if __name__ == "__main__":
    PAGE.write_text(page_of(Path(sys.argv[1])), "utf-8")
