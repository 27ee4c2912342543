"""A database in memory over the tables of a release, which may be anybody's, or hold exact counts."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from weakref import finalize

import duckdb

Setting = str | int | float | list[str]


class ReleaseDatabase:
    """A DuckDB connection that fetches nothing from the network, and spills where only its owner reads: a context.

    settings: DuckDB's own, as `memory_limit`.
    """

    def __init__(self, **settings: Setting) -> None:
        scratch = mkdtemp(prefix="das-tables-")  # 0700; DuckDB's own would be .tmp in the working directory
        self._end = finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        own: dict[str, Setting] = {"temp_directory": scratch, "autoinstall_known_extensions": False}
        self.connection = duckdb.connect(":memory:", config=own | settings)
        self.connection.execute("SET enable_progress_bar = false")  # which it prints to stdout, into what --json prints

    def __enter__(self) -> duckdb.DuckDBPyConnection:
        return self.connection

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self._end()


def parquet(*paths: Path | str) -> str:
    """Return the name of Parquet files, or of those of a pattern, in a SELECT."""
    return f"read_parquet([{', '.join(map(quoted, paths))}], hive_partitioning = false)"


def text_table(*paths: Path | str, delimiter: str = "|") -> str:
    """Return the name of text files in a SELECT, every column as text; with `|` nothing in them is quoted."""
    quote = "quote = '', escape = ''" if delimiter == "|" else "quote = '\"'"
    files = ", ".join(map(quoted, paths))
    form = f"delim = {quoted(delimiter)}, header = true, all_varchar = true, nullstr = '\x1f', {quote}"
    return f"read_csv([{files}], {form})"


def name_of(column: str) -> str:
    """Return a column's name as it stands in a query."""
    return '"' + column.replace('"', '""') + '"'


def quoted(path: Path | str) -> str:
    """Return a text as an SQL literal."""
    return "'" + str(path).replace("'", "''") + "'"


def differing(database: duckdb.DuckDBPyConnection, one: str, other: str) -> int:
    """Return the number of rows of one SELECT that the other lacks, or the other way, whichever is larger."""
    pairs = ((one, other), (other, one))
    found = [database.execute(f"SELECT count(*) FROM (({a}) EXCEPT ALL ({b}))").fetchall()[0][0] for a, b in pairs]
    return int(max(found))
