"""Query a release with DuckDB, reading its Parquet files in place."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tasks.errors import Refused
from tasks.releases.datapackage import columns_of
from tasks.releases.received import NotOfRelease, path_in, reason_of
from tasks.releases.release_database import ReleaseDatabase, Setting

# Of the database alone: a server on a board's laptop stays under 500 MiB in all.
LIMITS: dict[str, Setting] = {"memory_limit": "200MB", "threads": 2}


class Database:
    """The files that a release's manifest names, its Parquet for SQL queries of several threads at once."""

    def __init__(self, folder: Path, named: Collection[str]) -> None:
        self.folder, self.named = folder, named
        self.words: dict[str, Mapping[str, str]] = {}  # of codes, by what names them, once they were asked for
        self._database = ReleaseDatabase(folder, **LIMITS)

    def parquet(self, *names: str) -> str:
        """Return the source of the rows of Parquet files in a SELECT. Raises Refused for another's file."""
        return self._database.parquet(*map(self.path, names))

    def text_table(self, *names: str, delimiter: str) -> str:
        """Return the source of the rows of text files, as `parquet`."""
        return self._database.text_table(*map(self.path, names), delimiter=delimiter)

    def value(self, value: str) -> str:
        """Return the parameter of a value that belongs to the release or its scope, not to one question."""
        return self._database.value(value)

    def columns(self, name: str, delimiter: str) -> Collection[str]:
        """Return the names of the columns of a file. Raises Refused where it is not such a table."""
        try:
            return columns_of(self.path(name), delimiter)
        except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
            raise Refused(f"{self.folder} cannot be read: {name}: {reason_of(error)}") from None

    def path(self, name: str) -> Path:
        """Return the path of a file of the release. Raises Refused where there is none."""
        if name not in self.named:
            raise Refused(f"{self.folder} is incomplete: its manifest does not name {name}")
        try:
            return path_in(self.folder, name)
        except NotOfRelease as fault:
            raise Refused(f"{self.folder} cannot be read: {fault}") from None

    def ask(self, query: str, given: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the rows of a query's answer; `given` are the values of its parameters.

        Raises Refused where a file is not the Parquet that the query takes it for.
        """
        try:
            return self._database.ask(query, given or {})
        except duckdb.Error as error:
            raise Refused(f"{self.folder} cannot be read: {str(error).splitlines()[0]}") from None
