"""A database in memory over the tables of a release, which may come from anyone or hold exact counts.

DuckDB can do more than answer: `COPY` writes files, even inside `WITH`, and functions read any path. Therefore all
queries are written here. Texts of a release, including file names, are parameters (`ReleaseDatabase.value`); only a
column that a file has enters a query by name (`identifier`). As a second barrier, the database can read only the given
folders and its scratch folder, and `execute` refuses statements that could write.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from functools import lru_cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import duckdb
import pyarrow as pa

from tasks.releases.received import NotOfRelease

Setting = str | int | float | list[str]
Value = str | tuple[str, ...]
SHUT: dict[str, Setting] = {  # settings that must precede the start of the database
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a table name is never a Python variable
}
KINDS = {duckdb.StatementType.SELECT, duckdb.StatementType.CREATE, duckdb.StatementType.INSERT}  # within its memory


class ReleaseDatabase:
    """A DuckDB database that reads only some folders, and spills where only its owner reads; a context manager.

    folders: those that it reads. settings: DuckDB's own, such as `memory_limit`.
    """

    def __init__(self, *folders: Path, **settings: Setting) -> None:
        scratch = mkdtemp(prefix="das-tables-")  # 0700; DuckDB's own would be .tmp in the working directory
        self._end = finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        own: dict[str, Setting] = {"temp_directory": scratch}
        self._connection = duckdb.connect(":memory:", config=SHUT | own | settings)
        self._connection.execute("SET enable_progress_bar = false")  # printed to stdout, into what --json prints
        self._connection.execute("SET allowed_directories = ?", [[str(folder.absolute()) for folder in folders]])
        self._connection.execute("SET enable_external_access = false")  # from here on no directory can be added
        self._connection.execute("SET lock_configuration = true")
        self._names: dict[Value, str] = {}
        self._values: dict[str, Value] = {}
        self._numbers = count()

    def __enter__(self) -> ReleaseDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._end()

    def value(self, value: Value) -> str:
        """Return the parameter that has this value in every query."""
        name = self._names.setdefault(value, f"value{next(self._numbers)}")  # atomic: two threads never share a name
        self._values[name] = value
        return f"${name}"

    def parquet(self, *paths: Path) -> str:
        """Return the source of the rows of Parquet files in a SELECT."""
        return f"read_parquet({self._files(paths)}, hive_partitioning = false)"

    def text_table(self, *paths: Path, delimiter: str = "|") -> str:
        """Return the source of the rows of text files, every column as text; with `|` nothing in them is quoted."""
        quote = "quote = '', escape = ''" if delimiter == "|" else "quote = '\"'"
        form = f"delim = {self.value(delimiter)}, header = true, all_varchar = true, nullstr = '\x1f', {quote}"
        return f"read_csv({self._files(paths)}, hive_partitioning = false, {form})"

    def _files(self, paths: Collection[Path]) -> str:
        return self.value(tuple(str(path.absolute()) for path in paths))

    def register(self, name: str, table: pa.Table) -> None:
        """Give a table in memory a name for the queries of `execute`."""
        self._connection.register(name, table)

    def execute(self, query: str, given: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
        """Run one SELECT, CREATE or INSERT. given: values of parameters that `value` did not name.

        Raises ValueError for another statement, and for `COPY`, which `WITH` allows in a SELECT.
        """
        return self._connection.execute(*self._parse(query, given or {}))

    def batches(self, query: str) -> pa.RecordBatchReader:
        """Return the rows of a query as `execute`, for files larger than memory."""
        statement, values = self._parse(query, {})
        return self._connection.sql(statement, params=values).to_arrow_reader()

    def ask(self, query: str, given: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a query as `execute`, from any thread, without the registered tables."""
        return self._connection.cursor().execute(*self._parse(query, given)).fetchall()

    def _parse(self, query: str, given: Mapping[str, Any]) -> tuple[duckdb.Statement, dict[str, Any]]:
        """Return the statement of a query and the values of its parameters. Raises ValueError as `execute`."""
        statement = _statement(query)
        names = statement.named_parameters
        return statement, {name: given[name] if name in given else self._values[name] for name in names}


@lru_cache(maxsize=256)
def _statement(query: str) -> duckdb.Statement:
    """Return a query as one statement that reads; many pages ask the same. Raises ValueError."""
    statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type not in KINDS or "copy" in _bare_words(query):
        raise ValueError(f"{query[:200]!a} is not one statement that only reads")
    return statements[0]


def identifier(column: str, found: Collection[str]) -> str:
    """Return a column's quoted name for a query. Raises NotOfRelease unless it is one of `found`."""
    if column not in found:
        raise NotOfRelease(f"{column!a:.80} is not a column of its file")
    return '"' + column.replace('"', '""') + '"'


def differing(database: ReleaseDatabase, one: str, other: str) -> int:
    """Return the number of rows of one SELECT that the other lacks, or vice versa, whichever is larger."""
    rows = f"SELECT *, 1 AS side FROM ({one}) UNION ALL SELECT *, -1 AS side FROM ({other})"
    more = f"SELECT * EXCLUDE (side), sum(side) AS more FROM ({rows}) GROUP BY ALL HAVING more <> 0"
    sums = "coalesce(sum(more) FILTER (more > 0), 0), coalesce(-sum(more) FILTER (more < 0), 0)"
    return int(max(database.execute(f"SELECT {sums} FROM ({more})").fetchall()[0]))


def _bare_words(query: str) -> set[str]:
    """Return the words of a query outside of quotes and comments, in lower case."""
    text = query.encode()
    starts = [start for start, _ in duckdb.tokenize(query)]
    tokens = (text[start:end].decode() for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    return {token.strip().casefold() for token in tokens}
