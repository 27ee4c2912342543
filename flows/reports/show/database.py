"""Query a release with DuckDB, reading its Parquet files in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from tasks.lifecycle.errors import Refused
from tasks.lifecycle.received import NotOfRelease, path_in
from tasks.lifecycle.release_database import ReleaseDatabase, Setting

# Of the database alone: a server on a board's laptop stays under 500 MiB in all.
LIMITS: dict[str, Setting] = {"memory_limit": "200MB", "threads": 2}


class Database:
    """The files that a release's manifest names, its Parquet for SQL queries of several threads at once."""

    def __init__(self, folder: Path, named: Collection[str]) -> None:
        self.folder, self.named = folder, named
        self.words: dict[str, Mapping[str, str]] = {}  # of codes, by what names them, once they were asked for
        self._database = ReleaseDatabase(**LIMITS)

    def path(self, name: str) -> Path:
        """Return the path of a file of the release. Raises Refused where there is none."""
        if name not in self.named:
            raise Refused(f"{self.folder} is incomplete: its manifest does not name {name}")
        try:
            return path_in(self.folder, name)
        except NotOfRelease as fault:
            raise Refused(f"{self.folder} is incomplete or damaged: {fault}") from None

    def ask(self, query: str, given: Iterable[Any] = ()) -> list[Any]:
        """Return the rows of a query's answer; `given` are the values of its question marks.

        Raises Refused where a file is not the Parquet that the query takes it for.
        """
        try:  # a cursor of its own, so that threads do not take each other's rows
            return self._database.connection.cursor().execute(query, list(given)).fetchall()
        except duckdb.Error as error:
            raise Refused(f"{self.folder} cannot be read: {str(error).splitlines()[0]}") from None
