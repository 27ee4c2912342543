"""Read the Census Bureau's "2020 Redistricting Data File Least Squares Estimates" (April 2025).

Of every US, state, county and tract there is an estimate and a standard deviation of each cell of the tables P1 to P5:

```
us/Tract/State=01/County=001/Tract=020100/part-....csv    geocode|query|estimate|std_dev|query_description
```

The Bureau estimates from the noisy measurements of persons of both the redistricting data and the DHC.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa

from tasks.lifecycle.errors import Refused
from tasks.lifecycle.received import reason_of

WIDTHS = {"US": 0, "State": 2, "County": 5, "Tract": 11}  # digits of a geocode
COLUMNS = ("geocode", "query", "estimate", "std_dev")
NAMED = re.compile(r"(?:State|County|Tract)=([0-9]+)")
LARGEST_HEADER = 4096  # bytes
Files: TypeAlias = dict[str, str]  # paths, and the geocode that each file's folders name


def find_product(folder: Path, jurisdiction: str) -> Path:
    """Return the folder of a jurisdiction: in the given one, that itself, or one level below.

    Raises Refused where there is none.
    """
    places = [folder / jurisdiction, folder]
    places += sorted(path / jurisdiction for path in folder.glob("*") if path.is_dir())
    for place in places:
        if any((place / level).is_dir() for level in WIDTHS if level != "US"):
            return place
    raise Refused(
        f"{folder}: no folder {jurisdiction} with State, County or Tract: give the folder of the Bureau's least "
        "squares estimates, as downloaded"
    )


def list_files(product: Path, level: str, states: Iterable[str]) -> Files:
    """Return the files of a level in these states (two digits), or of the US. No link is followed."""
    files = {}
    for top in [product / level] if level == "US" else [product / level / f"State={state}" for state in states]:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if not path.isascii() and path != path.encode(errors="replace").decode():
                    raise Refused(f"{path!a}: the name of a file that is no text")
                if name.endswith(".csv") and os.path.isfile(path) and not os.path.islink(path):
                    files[path] = "".join(NAMED.findall(os.path.relpath(folder, product / level)))
    return files


def load_estimates(database: duckdb.DuckDBPyConnection, name: str, level: str, files: Files) -> None:
    """Make the table `name`: geocode, query, estimate, std_dev of every row of the files.

    Raises Refused where a file has other columns, a value that is no such number, a geocode that is not its folder's,
    or a row twice.
    """
    for path in files:
        _check_header(path)
    own = pa.table({"filename": [*files], "folder": [*files.values()]})
    database.register("files", own)
    read = "FROM read_csv($files, delim = '|', header = true, skip = 0, all_varchar = true, filename = true, "
    read += "hive_partitioning = false, union_by_name = true)"
    try:
        database.execute(
            f"CREATE OR REPLACE TABLE {name} AS "
            "SELECT filename, files.folder, coalesce(geocode, '') AS geocode, query, "
            f"TRY_CAST(estimate AS DOUBLE) AS estimate, TRY_CAST(std_dev AS DOUBLE) AS std_dev {read} "
            "JOIN files USING (filename)",
            {"files": [*files]},
        )
    except duckdb.Error as error:
        for path in files:
            try:
                database.execute(f"SELECT count(COLUMNS(*)) {read}", {"files": [path]}).fetchall()
            except duckdb.Error as fault:
                raise Refused(f"{path} is no such table: {reason_of(fault)}") from None
        raise Refused(f"the Bureau's estimates, level {level}: {reason_of(error)}") from None
    finally:
        database.unregister("files")
    for rule, condition in _rules(level):
        found = database.execute(f"SELECT filename FROM {name} WHERE {condition} LIMIT 1").fetchone()
        if found:
            raise Refused(f"{found[0]}: {rule}")
    twice = (
        f"SELECT any_value(filename), geocode, query FROM {name} GROUP BY geocode, query HAVING count(*) > 1 LIMIT 1"
    )
    if found := database.execute(twice).fetchone():
        raise Refused(f"{found[0]}: {found[2]} of {found[1]} is there twice")


def _rules(level: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a row, and the SQL of the rows with which it is."""
    width = WIDTHS[level]
    yield f"a geocode that is not {width} digits", f"NOT regexp_full_match(geocode, '[0-9]{{{width}}}')"
    yield "a geocode that is not its folder's", "geocode <> folder"
    yield "a row without its query", "query IS NULL"
    for column in ("estimate", "std_dev"):
        yield f"a value of {column} that is no number", f"{column} IS NULL OR NOT isfinite({column})"
    yield "a negative std_dev", "std_dev < 0"


def _check_header(path: str) -> None:
    try:
        with open(path, "rb") as file:
            columns = file.readline(LARGEST_HEADER).decode("utf-8", "replace").strip().split("|")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    if missing := [column for column in COLUMNS if columns.count(column) != 1]:
        raise Refused(f"{path}: not one column {missing[0]}; its first line is {ascii('|'.join(columns))[:120]}")
