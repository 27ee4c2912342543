"""README.txt of a release: what its files are, how to read a table, what a margin means, and what to cite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from tasks.releases.datapackage import DICTIONARY_FILE, PACKAGE_FILE, Resource
from tasks.releases.description import TIDY_FOLDER
from tasks.releases.manifest import MANIFEST, shown_marks

README = "README.txt"
WIDTH = 100
FILES = {
    TIDY_FOLDER: "start here: the published tables, one comma-separated file (.csv) and one Parquet file each, with "
    "names and codes in every row",
    "report.html": "the release in short, its privacy loss and its noise, for a browser",
    DICTIONARY_FILE: "every column and code of every table",
    PACKAGE_FILE: "the same for programs (Data Package 2.0)",
    MANIFEST: "how the release was made, what it spent, and a digest of each file",
    "parquet": "the tables of the other folders as Parquet",
    "spine": "the optimized geographic spine of these blocks; spine.html says what it gives",
}
MEANINGS = (
    "margins",
    "errors",
    "standard_errors",
    "estimates",
    "averages",
    "truncation",
    "clipping",
    "bias",
    "unreconciled",
    "guarantee",
)
NO_ROW = (
    "Ids and codes are text: as numbers they lose their zeros. A row that is not there has a count of 0, was "
    f"suppressed or was not asked for: {DICTIONARY_FILE} says where rows of 0 are left out. In {TIDY_FOLDER}/*.csv a "
    "name that a spreadsheet would take for a formula has an apostrophe in front. Other .csv files have | between "
    "columns."
)
OVERLAP = "Rows may overlap: read their category before adding them up."
CITE = (
    f"Name the SHA-256 of {MANIFEST} as well: it stands for every file (sha256sum {MANIFEST}; das check compares all)."
)


def readme(manifest: Mapping[str, Any], tables: Sequence[Resource], files: Iterable[str]) -> str:
    """Return the text of README.txt, of a release with these tables and files."""
    heading = manifest.get("title", manifest["release"])
    tidy = [table for table in tables if table.is_tidy and not table.is_text]
    every = [*files, DICTIONARY_FILE, PACKAGE_FILE, MANIFEST]
    parts = [heading, *shown_marks(manifest), "FILES", *_folders(tables, every)]
    if tidy:
        overlap = any("category" in table.column_names for table in tidy)
        counts = [table for table in tidy if any(column.role == "count" for column in table.columns)] or tidy
        parts += ["A TABLE", *_reading(max(counts, key=lambda table: len(_codes(table)))), NO_ROW, *[OVERLAP] * overlap]
    said = manifest.get("statements", {})
    parts += ["NUMBERS", *(str(said[name]) for name in MEANINGS if name in said)]
    margins = any(column.role == "margin" for table in tidy for column in table.columns)
    parts += ["Margins are at 95%, of the noise alone: a count can also be wrong as the records are."] * margins
    made_by = manifest.get("versions", {}).get("das-flows", "of unknown version")
    parts += ["CITE", f"{heading}. Run {manifest.get('run', 'unknown')}, made with das-flows {made_by}.", CITE]
    return "\n\n".join(each if "\n" in each else fill(each, WIDTH) for each in parts) + "\n"


def _folders(tables: Sequence[Resource], files: Iterable[str]) -> Iterator[str]:
    """Yield a line about each folder and each file at the top."""
    titles: dict[str, list[str]] = {}
    for table in tables:
        title = table.title.removesuffix(f": {table.level}").partition(" (")[0]
        for path in table.paths:
            titles.setdefault(path.split("/")[0], []).append(title)
    lines = []
    for name in sorted({file.split("/")[0] for file in files} - {README}, key=lambda name: (name != TIDY_FOLDER, name)):
        words = FILES.get(name) or "; ".join(dict.fromkeys(titles.get(name, ())))
        lines.append(fill(f"{name:18} {words}", WIDTH, subsequent_indent=" " * 19))
    yield "\n".join(lines)


def _codes(table: Resource) -> list[str]:
    return [column.name for column in table.columns if column.type == "string" and column.unit == "code"]


def _reading(table: Resource) -> Iterator[str]:
    """Yield how pandas, R and DuckDB read a table."""
    path = table.paths[0].removesuffix(".parquet")
    (count, *_) = [column.name for column in table.columns if column.role] or table.column_names[-1:]
    texts = fill(", ".join(f'"{name}" = "character"' for name in _codes(table)), 70).replace("\n", "\n" + " " * 23)
    yield (
        "pandas\n"
        "    import pandas as pd\n"
        f'    table = pd.read_parquet("{path}.parquet")\n'
        f'    print(table.sort_values("{count}", ascending=False).head())'
    )
    yield (
        "R\n"
        f'    table <- read.csv("{path}.csv", check.names = FALSE, na.strings = character(0),\n'
        f"        colClasses = c({texts}))\n"
        f'    print(head(table[order(-table[["{count}"]]), ]))'
    )
    yield f"DuckDB\n    SELECT * FROM '{path}.parquet'\n    ORDER BY \"{count}\" DESC\n    LIMIT 5;"
