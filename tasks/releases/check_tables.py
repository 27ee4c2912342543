"""Check the form of a release's tables: files, datapackage.json, columns, types, codes, and text against Parquet."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.releases.check import Check, NotChecked
from tasks.releases.datapackage import (
    DICTIONARY_FILE,
    PACKAGE_FILE,
    Resource,
    columns_of,
    dictionary,
    package_of,
    resources_of,
)
from tasks.releases.description import TIDY_FOLDER, Column, Description, fill
from tasks.releases.readme import README, readme
from tasks.releases.received import path_in, read_in, read_json
from tasks.releases.release_database import ReleaseDatabase, identifier
from tasks.releases.text_twin import differing_rows

OF_ALL = (PACKAGE_FILE, DICTIONARY_FILE, README)  # files that every release has
FOLLOWED = {b"pandas", b"r"}  # metadata by which pandas and R name, index or make columns of a Parquet file
MEMORY = "256MB"  # for distinct keys, which then spill: 50 million take a minute, as without it
TYPES = {  # types of Table Schema, by Arrow's
    "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "integer": pa.types.is_integer,
    "number": lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
    "boolean": pa.types.is_boolean,
    "any": pa.types.is_list,  # an Arrow list is not an array of Table Schema
}


def check_forms(
    release: Path, manifest: Mapping[str, Any], description: Description
) -> Generator[Check | NotChecked, None, list[Resource]]:
    """Check files, columns and types against the system's description.

    Return the tables, or an empty list if files or columns are missing, since their values then cannot be checked.
    """
    files = _check_names(manifest["files"], description)
    yield files
    if files.faults:
        return []
    tables = resources_of(release, description, manifest["files"])
    columns = Check("columns", f"{len(tables)} tables", tuple(_faults_of_columns(release, tables, description)))
    yield columns
    if columns.faults:
        return []
    yield from _check_words(release, manifest, description, tables)
    return tables


def check_values(release: Path, tables: Sequence[Resource]) -> Iterator[Check]:
    """Check codes, keys and references of tables, and text against its Parquet."""
    by_name = {table.name: table for table in tables}
    with ReleaseDatabase(release, memory_limit=MEMORY) as database:
        yield from _check_contents(database, release, by_name)
    for table in tables:
        if table.twin:
            yield _check_text(release, table, by_name[table.twin])


def _check_names(files: Mapping[str, str], description: Description) -> Check:
    """Report unknown and missing files: those that must exist, and the twin of each text or Parquet."""
    faults, required = [], {*OF_ALL, *description.required}
    for name in sorted(files):
        if found := description.table_of(name):
            table, _, names = found
            required |= {fill(pattern, names) for pattern in table.patterns}
            required |= {f"{TIDY_FOLDER}/{fill(tidy.path, names)}.parquet" for tidy in table.tidy}
        elif name not in OF_ALL and not description.is_other(name):
            faults.append(f"{name} is not a file of such a release")
    faults += [f"{name} is missing" for name in sorted(required - set(files))]
    return Check("names of all files", f"{len(files)} files", tuple(faults))


def _faults_of_columns(release: Path, tables: Sequence[Resource], description: Description) -> Iterator[str]:
    """Yield unknown and missing columns, and columns of another type."""
    for table in tables:
        for path in table.paths:
            found = columns_of(release / path, table.delimiter)
            expected = description.required_columns(path)
            yield from (f"{path} has no column {name}" for name in expected if name not in found)
            yield from (f"{path}: {fault}" for fault in _faults_of_types(table, found))
            if path.endswith(".parquet") and FOLLOWED.intersection(pq.read_schema(release / path).metadata or ()):
                yield f"{path} has metadata by which pandas or R make another table of it"


def _faults_of_types(table: Resource, found: Mapping[str, pa.DataType | None]) -> Iterator[str]:
    columns = {column.name: column for column in table.columns}
    for name, kind in found.items():
        column = columns.get(name)
        if column is None or not column.meaning:
            yield f"{name!a:.80} is not a column of this table"
        elif kind is not None:
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            as_text = bool(column.missing) and TYPES["string"](kind)
            if not (as_text or TYPES[column.type](kind)):
                yield f"{name} is {kind}, not {column.type}"


def _check_words(
    release: Path, manifest: Mapping[str, Any], description: Description, tables: Sequence[Resource]
) -> Iterator[Check | NotChecked]:
    """Compare what describes the tables with this version's description. Another version's is not compared."""
    if manifest["versions"]["das-flows"] != version("das-flows"):
        yield from (NotChecked(name, "the words of another version of das-flows") for name in OF_ALL)
        return
    yield _check_package(release, manifest, tables)
    texts = {
        DICTIONARY_FILE: dictionary(description, manifest["files"]),
        README: readme(manifest, tables, manifest["files"]),
    }
    for name, text in texts.items():
        same = read_in(release, name).decode("utf-8", "replace") == text
        yield Check(name, f"{text.count(chr(10)):,} lines", () if same else ("it differs from this version's",))


def _check_package(release: Path, manifest: Mapping[str, Any], tables: Sequence[Resource]) -> Check:
    """Compare datapackage.json with this version's."""
    found = read_json(release, PACKAGE_FILE)
    expected = json.loads(json.dumps(package_of(release, manifest, tables)))
    stated, own = ({each["name"]: each for each in package.pop("resources")} for package in (found, expected))
    faults = [f"{name!a:.80} is not a table of this release" for name in stated if name not in own]
    faults += [
        f"{name} has another description in this version of das-flows"
        for name, each in own.items()
        if stated.get(name) != each
    ]
    faults += ["it has another title, name, run or schema"] * (found != expected)
    return Check(PACKAGE_FILE, f"{len(tables)} tables", tuple(faults))


def _check_contents(database: ReleaseDatabase, release: Path, tables: Mapping[str, Resource]) -> Iterator[Check]:
    """Report values that are not codes, rows without a unique key, and references to missing rows.

    Neither a text nor tables/ need be read: `_check_text` compares a text with its Parquet, and `check_tidy` makes
    tables/ again from the other tables.
    """
    read = [table for table in tables.values() if not (table.twin or table.is_tidy)]
    named = _name_keys(database, release, tables, read)
    asked = [_Contents(database, release, table, named) for table in read]
    asked = [each for each in asked if each.coded or each.table.key or each.table.references]
    codes, keys, references = zip(*(each.faults() for each in asked), strict=True) if asked else ((), (), ())
    for what, found, over in (
        ("codes", codes, f"{sum(len(each.coded) for each in asked)} columns"),
        ("keys", keys, f"{sum(bool(each.table.key) for each in asked)} tables"),
        ("references between tables", references, f"{sum(len(each.table.references) for each in asked)} references"),
    ):
        yield Check(what, over, tuple(chain.from_iterable(found)))


def _name_keys(
    database: ReleaseDatabase, release: Path, tables: Mapping[str, Resource], read: Sequence[Resource]
) -> dict[tuple[str, tuple[str, ...]], str]:
    """Make a table of the keys of each table that the read ones refer to; return their names by table and columns."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for each in (each for table in read for each in table.references):
        if (each.table, each.key) not in found:
            of, name = tables[each.table], f"keys{len(found)}"
            columns = ", ".join(f"{identifier(key, of.column_names)}::VARCHAR" for key in each.key)
            rows = _rows(database, release, of)
            database.execute(f"CREATE TABLE {name} AS SELECT DISTINCT {columns} FROM {rows}")
            found[each.table, each.key] = name
    return found


@dataclass(frozen=True)
class _Contents:
    """The rows of a table, read by one query. keys: the tables of `_name_keys`."""

    database: ReleaseDatabase
    release: Path
    table: Resource
    keys: Mapping[tuple[str, tuple[str, ...]], str]

    @property
    def coded(self) -> list[Column]:
        """Return its columns with codes."""
        return [column for column in self.table.columns if column.codes]

    def faults(self) -> tuple[list[str], list[str], list[str]]:
        """Return the faults of its codes, keys and references."""
        rows = _rows(self.database, self.release, self.table)
        name = {column: identifier(column, self.table.column_names) for column in self.table.column_names}
        select = ["count(*)", *(f"list(DISTINCT {name[column.name]})" for column in self.coded)]
        if key := [name[column] for column in self.table.key]:
            select.append(f"count(*) - count(DISTINCT hash({', '.join(key)}))")  # equal keys have equal hashes
            select.append(f"count(*) FILTER ({' OR '.join(f'{column} IS NULL' for column in key)})")
        for each in self.table.references:
            own = f"SELECT DISTINCT {', '.join(f'{name[column]}::VARCHAR' for column in each.columns)} FROM {rows}"
            select.append(f"(SELECT count(*) FROM ({own} EXCEPT FROM {self.keys[each.table, each.key]}))")
        ((_, *found),) = self.database.execute(f"SELECT {', '.join(select)} FROM {rows}").fetchall()
        codes, found = found[: len(self.coded)], found[len(self.coded) :]
        (more, bare), strange = (found[:2], found[2:]) if key else ((0, 0), found)
        if more:  # some of them may have equal hashes alone
            distinct = f"SELECT DISTINCT {', '.join(key)} FROM {rows}"
            query = f"SELECT (SELECT count(*) FROM {rows}) - count(*) FROM ({distinct})"
            ((more,),) = self.database.execute(query).fetchall()
        return (
            [
                fault
                for column, values in zip(self.coded, codes, strict=True)
                for fault in self._no_codes(column, values)
            ],
            [f"{self.table.name}: {more:,} rows have the key of another row"] * bool(more)
            + [f"{self.table.name}: {bare:,} rows lack their key"] * bool(bare),
            [
                f"{self.table.name}: {keys:,} keys are not in {each.table}"
                for keys, each in zip(strange, self.table.references, strict=True)
                if keys
            ],
        )

    def _no_codes(self, column: Column, values: Sequence[Any] | None) -> list[str]:
        wrong = sorted(str(value) for value in values or () if value is not None and value not in column.codes)
        return [f"{self.table.name}: {column.name} {value!a:.80} is not one of its codes" for value in wrong[:1]]


def _check_text(release: Path, text: Resource, twin: Resource) -> Check:
    """Compare the rows of a text with those of its Parquet, which may have more columns."""
    rows, differ, faults = 0, 0, []
    for path, of in zip(text.paths, twin.paths, strict=True):
        rows += pq.read_metadata(path_in(release, of)).num_rows
        try:
            differ += differing_rows(path_in(release, path), path_in(release, of), text.columns, text.delimiter)
        except pa.ArrowInvalid:
            faults.append(f"{path} has a value that does not fit its column, or a line of another length")
    faults += [f"{differ:,} rows differ"] * bool(differ)
    return Check(f"{text.name}, text and Parquet", f"{rows:,} rows", tuple(faults))


def _rows(database: ReleaseDatabase, release: Path, table: Resource) -> str:
    paths = [path_in(release, path) for path in table.paths]
    return database.text_table(*paths, delimiter=table.delimiter) if table.is_text else database.parquet(*paths)
