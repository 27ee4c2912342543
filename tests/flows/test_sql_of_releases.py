"""No text of a release that somebody sent becomes SQL, and the database that reads it writes no file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_releases import copy_of, forge, replace

from flows.commands.check import check
from flows.commands.show import open_release
from flows.frames import read_release
from flows.reports.show.application import _answer
from flows.reports.show.view import NotThere, refusing_malformed
from flows.reports.terminal import printing
from tasks.errors import Refused
from tasks.releases.datapackage import PACKAGE_FILE
from tasks.releases.manifest import MANIFEST
from tasks.releases.received import NotOfRelease
from tasks.releases.release_database import ReleaseDatabase, identifier
from tasks.top_down.check.redistricting import BureauLayout

RELEASES = ("few_levels", "top_down_released", "bottom_up_released")
SOME = ("few_levels", pytest.param("top_down_released", marks=pytest.mark.ci), "bottom_up_released")
DOCUMENTS = (MANIFEST, PACKAGE_FILE)
FORGED = "f0rged"
STATEMENTS = (
    "COPY (SELECT 1) TO '{place}/written.csv'",
    "WITH x AS (COPY (SELECT 1) TO '{place}/written.csv') FROM x",
    "ATTACH '{place}/written.db'",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "COPY (FROM read_csv('/etc/passwd')) TO '{place}/written.csv'",
)


def payload(statement: str, number: int) -> str:
    """Return a text that ends a literal or a name, then a bracket, and goes on with a statement."""
    end = ("')", "')])", '")', "'", '"', "")[number % 6]
    return f"{FORGED}{end}; {statement}; --"


def texts(document: Any) -> Iterator[str]:
    """Yield every key and text of a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from texts(value)
    elif isinstance(document, list):
        for value in document:
            yield from texts(value)
    elif isinstance(document, str):
        yield document


def replaced(document: Any, text: str, other: str) -> Any:
    """Return a document with another text wherever it has this one, also as a key."""
    if isinstance(document, dict):
        return {other if key == text else key: replaced(value, text, other) for key, value in document.items()}
    if isinstance(document, list):
        return [replaced(value, text, other) for value in document]
    return other if document == text else document


def read(release: Path) -> None:
    """Check a release, answer some pages and read it as one table: all is answered, or refused in a line."""
    with redirect_stdout(StringIO()), printing(as_json=True), suppress(Refused):
        check(release)
    with suppress(Refused):
        read_release(release)
    with suppress(Refused, NotThere), refusing_malformed(release):
        pages = open_release(release)
        for address in islice(pages.addresses(), 0, 40, 20):
            assert _answer(pages, {**address, "format": "json"}).status_code in (200, 404)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Return everything below a folder with its size and time."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.fixture
def release(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the release that this fixture's parameter names; the working directory is next to it, and empty."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return copy_of(request.getfixturevalue(request.param), tmp_path / "sent")


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every query that is asked of a release."""
    asked: list[str] = []
    parse = ReleaseDatabase._parse

    def recorded(self: ReleaseDatabase, query: str, given: Any) -> Any:
        asked.append(query)
        return parse(self, query, given)

    monkeypatch.setattr(ReleaseDatabase, "_parse", recorded)
    return asked


def try_texts(release: Path, queries: list[str], most: int) -> None:
    """Forge at most so many texts of the manifest and the description of the tables, one at a time, wherever it is."""
    documents = {name: json.loads((release / name).read_bytes()) for name in DOCUMENTS}
    found = sorted({text for document in documents.values() for text in texts(document)})
    assert len(found) > 50
    for number, text in enumerate(found[:: max(1, len(found) // most)][:most]):
        place = release if number % 2 else release.parent
        other = payload(STATEMENTS[number % len(STATEMENTS)].format(place=place), number)
        for name, document in documents.items():
            replace(release / name, json.dumps(replaced(document, text, other)).encode())
        with suppress(OSError, KeyError, AttributeError, TypeError):  # where it has no such files any more
            forge(release)
        before = contents(release.parent)
        read(release)
        assert contents(release.parent) == before, (text, other)
        assert not [query for query in queries if FORGED in query], text
    assert queries


@pytest.mark.parametrize("release", SOME, indirect=True)
def test_no_text_of_a_release_becomes_sql(release: Path, queries: list[str]) -> None:
    try_texts(release, queries, len(STATEMENTS))


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES, indirect=True)
def test_none_of_all_texts_of_a_release_becomes_sql(release: Path, queries: list[str]) -> None:
    try_texts(release, queries, 10_000)


@pytest.mark.parametrize("release", ["top_down_released"], indirect=True)
def test_a_level_of_the_manifest_is_no_sql(release: Path) -> None:
    """Such a key of `shares` ended the query of the paths to the blocks, and its own statement wrote a file."""
    manifest = json.loads((release / MANIFEST).read_bytes())
    key = (
        "x') USING (query, variance)) AS level0 ON true LEFT JOIN (SELECT '0' AS share) AS level1 ON true "
        "GROUP BY ALL; COPY (SELECT 1) TO 'written.csv'; --"
    )
    manifest["products"]["persons"]["shares"] = {key: "0", "Block": "1"}
    with ReleaseDatabase(release) as database:
        layout = BureauLayout(database, release, manifest, "persons")
        database.register("laws", layout.laws())
        with pytest.raises(NotOfRelease, match="outside of the release"):
            list(layout.break_paths())
    assert not os.listdir()
    replace(release / MANIFEST, json.dumps(manifest).encode())
    with redirect_stdout(StringIO()), printing(as_json=True), suppress(Refused):
        check(release)
    assert not os.listdir()


@pytest.mark.parametrize("release", SOME, indirect=True)
def test_no_cell_and_no_column_of_a_table_writes(release: Path) -> None:
    """Cells are values; a column has a quoted name, and only where its file has it."""
    paths = sorted(release.rglob("*.parquet"))
    for number, path in enumerate(paths[:: len(paths) // 2][:2]):
        other = payload(STATEMENTS[number].format(place=release.parent), number)
        table = pq.read_table(path)
        name = table.column_names[0]
        cells = table.set_column(0, name, pa.array([other] * len(table)))
        package = json.loads((release / PACKAGE_FILE).read_bytes())
        for forged, described in ((cells, package), (cells.rename_columns([other, *table.column_names[1:]]), None)):
            path.unlink()
            pq.write_table(forged, path)
            text = json.dumps(described or replaced(package, name, other))
            replace(release / PACKAGE_FILE, text.encode())
            forge(release)
            before = contents(release.parent)
            read(release)
            assert contents(release.parent) == before


@pytest.mark.parametrize("release", ["few_levels"], indirect=True)
def test_no_name_of_a_file_writes(release: Path, queries: list[str]) -> None:
    path = sorted(release.rglob("*.parquet"))[0]
    name, other = path.name, f"{FORGED}'); COPY (SELECT 1) TO 'written'; --.parquet"
    path.rename(path.with_name(other))
    for document in DOCUMENTS:
        text = (release / document).read_text()
        replace(release / document, text.replace(f"/{name}", f"/{other}").encode())
    forge(release)
    before = contents(release.parent)
    read(release)
    assert contents(release.parent) == before
    assert not [query for query in queries if FORGED in query]


def test_the_database_reads_its_folder_and_writes_nothing(tmp_path: Path) -> None:
    release, elsewhere = tmp_path / "a release [1]", tmp_path / "elsewhere"
    for folder in (release, elsewhere):
        folder.mkdir()
        pq.write_table(pa.table({"COUNT": [1]}), folder / "t.parquet")
    (release / "link.parquet").symlink_to(elsewhere / "t.parquet")
    before = contents(tmp_path)
    with ReleaseDatabase(release) as database:
        assert database.ask(f"FROM {database.parquet(release / 't.parquet')}", {}) == [(1,)]
        for path in (elsewhere / "t.parquet", release / "../elsewhere/t.parquet", release / "link.parquet"):
            with pytest.raises(duckdb.PermissionException):
                database.execute(f"FROM {database.parquet(path)}")
        with pytest.raises(duckdb.PermissionException):
            database.execute("FROM read_text('/etc/passwd')")
        for statement in STATEMENTS:
            for query in (statement.format(place=release), f"SELECT 1; {statement.format(place=release)}"):
                with pytest.raises(ValueError, match="not one statement that only reads"):
                    database.execute(query)
        connection = database._connection  # as if a statement had come through
        for statement in ("SET enable_external_access = true", "SET threads = 1", "INSTALL httpfs", "LOAD httpfs"):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
        with pytest.raises(duckdb.PermissionException):
            connection.execute(f"ATTACH '{elsewhere}/written.db'")
        with pytest.raises(duckdb.PermissionException):
            connection.execute(f"COPY (SELECT 1) TO '{elsewhere}/written.csv'")
    assert contents(tmp_path) == before


def test_copy_is_refused_as_a_word_and_not_as_a_name(tmp_path: Path) -> None:
    with ReleaseDatabase(tmp_path) as database:
        assert database.ask(f"SELECT 1 AS {identifier('copy', ['copy'])}, 'COPY', $given -- copy", {"given": 2}) == [
            (1, "COPY", 2)
        ]
        for query in ("WITH x AS(copy(SELECT 1) TO 'y') FROM x", "WITH x AS (/*ü*/CoPy--\n(SELECT 1) TO 'y') FROM x"):
            with pytest.raises(ValueError, match="only reads"):
                database.execute(query)
    assert not os.listdir(tmp_path)


def test_a_name_that_is_no_column_of_the_file_is_refused() -> None:
    assert identifier('a"; COPY', ['a"; COPY']) == '"a""; COPY"'
    with pytest.raises(NotOfRelease, match="not a column"):
        identifier("filename", ["COUNT"])  # DuckDB would answer with the path of the file
