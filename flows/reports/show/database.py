"""Query a release with DuckDB, reading its Parquet files in place."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tasks.errors import Refused
from tasks.geography.regions import Region
from tasks.releases.datapackage import columns_of
from tasks.releases.received import NotOfRelease, path_in, reason_of
from tasks.releases.release_database import ReleaseDatabase, Setting

# The limits apply to the database only, so that a server on a laptop stays under 500 MiB in all.
LIMITS: dict[str, Setting] = {"memory_limit": "200MB", "threads": 2}
MOST_COPIED = 1 << 26  # bytes of a table's files; a larger one would fill the disk that the database spills to
MOST_KEPT, MOST_ROWS_KEPT = 4096, 128  # cached answers, and the most rows of one
MOST_TABLES, MOST_ROWS_GROUPED = 16, 1 << 16  # cached tables by columns, and the most rows of one
Grouped = Mapping[tuple[Any, ...], list[Any]]


class Words(dict[str, str]):
    """The words of codes."""

    @cached_property
    def codes(self) -> Mapping[str, Sequence[str]]:
        """The codes by their words in lower case."""
        found: dict[str, list[str]] = {}
        for code, words in self.items():
            found.setdefault(words.casefold(), []).append(code)
        return found


class Database:
    """The files in a release's manifest, with its Parquet for SQL queries of several threads at once."""

    def __init__(self, folder: Path, named: Collection[str]) -> None:
        self.folder, self.named = folder, named
        self.words: dict[str, Words] = {}  # by table or type; filled on use
        self.regions: dict[str, list[Region]] = {}  # by the source of a table that lists them; filled on use
        self.numbers: dict[tuple[str, tuple[str, ...]], Mapping[tuple[str, ...], int] | None] = {}  # as `regions`
        self.copies = False  # for one thread that writes many pages: tables are read once, and answers are kept
        self._copied: dict[str, str] = {}
        self._answers: dict[tuple[str, str], list[Any]] = {}
        self._grouped: dict[tuple[str, tuple[str, ...], str], Grouped | None] = {}
        self._database = ReleaseDatabase(folder, **LIMITS)

    def parquet(self, *names: str) -> str:
        """Return the source of the rows of Parquet files in a SELECT. Raises Refused for files of other releases."""
        return self._database.parquet(*map(self.path, names))

    def text_table(self, *names: str, delimiter: str) -> str:
        """Return the source of the rows of text files, as `parquet`."""
        return self._database.text_table(*map(self.path, names), delimiter=delimiter)

    def source(self, rows: str, paths: Collection[str]) -> str:
        """Return the source of the rows of a SELECT in brackets over some files: itself, or a copy in the database."""
        if not self.copies or sum(self.path(name).stat().st_size for name in paths) > MOST_COPIED:
            return rows
        if rows not in self._copied:
            self._copied[rows] = f"copy{len(self._copied)}"
            try:
                self._database.execute(f"CREATE TABLE {self._copied[rows]} AS FROM {rows}")
            except duckdb.Error as error:
                raise self._unreadable(error) from None
        return self._copied[rows]

    def value(self, value: str) -> str:
        """Return the parameter for a value of the release or its scope, which all questions share."""
        return self._database.value(value)

    def columns(self, name: str, delimiter: str) -> Collection[str]:
        """Return the names of the columns of a file. Raises Refused if it is not such a table."""
        try:
            return columns_of(self.path(name), delimiter)
        except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
            raise Refused(f"{self.folder} cannot be read: {name}: {reason_of(error)}") from None

    def path(self, name: str) -> Path:
        """Return the path of a file of the release. Raises Refused for any other file."""
        if name not in self.named:
            raise Refused(f"{self.folder} is incomplete: its manifest does not name {name}")
        try:
            return path_in(self.folder, name)
        except NotOfRelease as fault:
            raise Refused(f"{self.folder} cannot be read: {fault}") from None

    def ask(self, query: str, given: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the rows of a query's answer; `given` are the values of its parameters.

        Raises Refused if a file is not the Parquet that the query expects.
        """
        asked = query, str(given)
        if asked in self._answers:
            return self._answers[asked]
        try:
            answer = self._database.ask(query, given or {})
        except duckdb.Error as error:
            raise self._unreadable(error) from None
        if self.copies and len(answer) <= MOST_ROWS_KEPT:
            self._answers[asked] = answer
            if len(self._answers) > MOST_KEPT:
                del self._answers[next(iter(self._answers))]
        return answer

    def grouped(self, rows: str, columns: tuple[str, ...], order: str = "") -> Grouped | None:
        """Return all rows of a source by the values of columns, asked once for all pages of a copy.

        None if these are not for a copy, or too many to keep.
        """
        key = rows, columns, order
        if self.copies and key not in self._grouped:
            answer = self.ask(f"SELECT {', '.join(columns)}, * FROM {rows} {order} LIMIT {MOST_ROWS_GROUPED + 1}")
            found: dict[tuple[Any, ...], list[Any]] = {}
            for row in answer:
                found.setdefault(row[: len(columns)], []).append(row[len(columns) :])
            self._grouped[key] = found if len(answer) <= MOST_ROWS_GROUPED else None
            if len(self._grouped) > MOST_TABLES:
                del self._grouped[next(iter(self._grouped))]
        return self._grouped.get(key)

    def _unreadable(self, error: duckdb.Error) -> Refused:
        return Refused(f"{self.folder} cannot be read: {str(error).splitlines()[0]}")
