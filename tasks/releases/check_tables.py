"""Check the form of a release's tables: files, datapackage.json, columns, types, codes, and text against Parquet."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.releases.check import Check
from tasks.releases.datapackage import (
    DICTIONARY_FILE,
    OWN,
    PACKAGE_FILE,
    Resource,
    as_json,
    columns_of,
    dictionary,
    resources_of,
)
from tasks.releases.description import Column, Description, fill
from tasks.releases.received import path_in, read_in, read_json
from tasks.releases.release_database import ReleaseDatabase, differing, identifier

WORDS = {"title", "description", "label", f"{OWN}level", f"{OWN}unit"}  # of which the form does not depend
TYPES = {  # of Table Schema, by Arrow's
    "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "integer": pa.types.is_integer,
    "number": lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
    "boolean": pa.types.is_boolean,
    "any": pa.types.is_list,  # readers take no Arrow list for an array of Table Schema
}


def check_tables(release: Path, manifest: Mapping[str, Any], description: Description) -> Generator[Check, None, bool]:
    """Check files, columns, types and codes by the system's description, and text by its Parquet.

    Return whether the tables are there with their columns; else nothing can be checked of what they hold.
    """
    files = _check_names(manifest["files"], description)
    yield files
    if files.faults:
        return False
    tables = resources_of(release, description, manifest["files"])
    columns = Check("columns", f"{len(tables)} tables", tuple(_faults_of_columns(release, tables, description)))
    yield columns
    if columns.faults:
        return False
    yield _check_package(release, manifest, tables)
    yield _check_dictionary(release, manifest, description)
    by_name = {table.name: table for table in tables}
    with ReleaseDatabase(release) as database:
        yield _check_codes(database, release, tables)
        yield _check_keys(database, release, tables)
        yield _check_references(database, release, by_name)
        for table in tables:
            if table.twin:
                yield _check_text(database, release, table, by_name[table.twin])
    return True


def _check_names(files: Mapping[str, str], description: Description) -> Check:
    """Find files that no such release has, and those that it must have: also text's Parquet, and the other way."""
    faults, required = [], {PACKAGE_FILE, DICTIONARY_FILE, *description.required}
    for name in sorted(files):
        if found := description.table_of(name):
            table, _, names = found
            required |= {fill(pattern, names) for pattern in table.patterns}
        elif name not in (PACKAGE_FILE, DICTIONARY_FILE) and not description.is_other(name):
            faults.append(f"{name} is no file of such a release")
    faults += [f"{name} is missing" for name in sorted(required - set(files))]
    return Check("names of all files", f"{len(files)} files", tuple(faults))


def _faults_of_columns(release: Path, tables: Sequence[Resource], description: Description) -> Iterator[str]:
    """Yield the columns that a file has and its table has not, or the other way, and those of another type."""
    for table in tables:
        for path in table.paths:
            found = columns_of(release / path, table.delimiter)
            expected = description.required_columns(path)
            yield from (f"{path} has no column {name}" for name in expected if name not in found)
            yield from (f"{path}: {fault}" for fault in _faults_of_types(table, found))


def _faults_of_types(table: Resource, found: Mapping[str, pa.DataType | None]) -> Iterator[str]:
    columns = {column.name: column for column in table.columns}
    for name, kind in found.items():
        column = columns.get(name)
        if column is None or not column.meaning:
            yield f"{name!a:.80} is no column of this table"
        elif kind is not None:
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            as_text = bool(column.missing) and TYPES["string"](kind)
            if not (as_text or TYPES[column.type](kind)):
                yield f"{name} is {kind}, not {column.type}"


def _check_package(release: Path, manifest: Mapping[str, Any], tables: Sequence[Resource]) -> Check:
    """Compare datapackage.json with the description, except its words; that of another version is not compared."""
    made_by, own = manifest["versions"]["das-flows"], version("das-flows")
    if made_by != own:
        return Check(PACKAGE_FILE, f"of das-flows {made_by!s:.20}: not compared with that of {own}")
    found = {each["name"]: each for each in read_json(release, PACKAGE_FILE)["resources"]}
    expected = {each["name"]: each for table in tables for each in as_json(release, table)}
    faults = [f"{name!a:.80} is no table of this release" for name in found if name not in expected]
    faults += [
        f"{name} is not described as this version of das-flows describes it"
        for name, each in expected.items()
        if _form(found.get(name)) != _form(each)
    ]
    return Check(PACKAGE_FILE, f"{len(tables)} tables", tuple(faults))


def _check_dictionary(release: Path, manifest: Mapping[str, Any], description: Description) -> Check:
    """Compare dictionary.csv with the description; that of another version is not compared."""
    made_by, own = manifest["versions"]["das-flows"], version("das-flows")
    rows = dictionary(description, manifest["files"])
    same = made_by != own or read_in(release, DICTIONARY_FILE).decode("utf-8", "replace") == rows
    return Check(DICTIONARY_FILE, f"{rows.count(chr(10)):,} rows", () if same else ("it is not this version's",))


def _form(value: Any) -> Any:
    """Return a part of a description without its words."""
    if isinstance(value, dict):
        return {name: _form(each) for name, each in value.items() if name not in WORDS}
    return [_form(each) for each in value] if isinstance(value, list | tuple) else value


def _check_codes(database: ReleaseDatabase, release: Path, tables: Sequence[Resource]) -> Check:
    """Find values that are no codes of their column."""
    faults, columns = [], 0
    for table in tables:
        for column in table.columns:
            if column.codes:
                columns += 1
                name = identifier(column.name, table.column_names)
                values = database.execute(f"SELECT DISTINCT {name} FROM {_rows(database, release, table)}").fetchall()
                wrong = sorted(str(value) for (value,) in values if value is not None and value not in column.codes)
                faults += [f"{table.name}: {column.name} {value!a:.80} is no code" for value in wrong[:1]]
    return Check("codes", f"{columns} columns", tuple(faults))


def _check_keys(database: ReleaseDatabase, release: Path, tables: Sequence[Resource]) -> Check:
    """Find rows that share their key with another, or lack it."""
    faults = []
    keyed = [table for table in tables if table.key]
    for table in keyed:
        names, rows = [identifier(name, table.column_names) for name in table.key], _rows(database, release, table)
        lacking = " OR ".join(f"{name} IS NULL" for name in names)
        of_key = f"SELECT count(*) - 1 AS more, count_if({lacking}) AS bare FROM {rows} GROUP BY {', '.join(names)}"
        sums = f"SELECT coalesce(sum(more), 0), coalesce(sum(bare), 0) FROM ({of_key})"
        ((more, bare),) = database.execute(sums).fetchall()
        faults += [f"{table.name}: {more:,} rows have the key of another row"] * bool(more)
        faults += [f"{table.name}: {bare:,} rows lack their key"] * bool(bare)
    return Check("keys", f"{len(keyed)} tables", tuple(faults))


def _check_references(database: ReleaseDatabase, release: Path, tables: Mapping[str, Resource]) -> Check:
    """Find rows that name a row of another table which is not there."""
    faults, references = [], 0
    for table in tables.values():
        for each in table.references:
            sides = []
            for of, columns in ((table, each.columns), (tables[each.table], each.key)):
                names = ", ".join(f"{identifier(name, of.column_names)}::VARCHAR" for name in columns)
                sides.append(f"SELECT {names} FROM {_rows(database, release, of)}")
            ((strange,),) = database.execute(f"SELECT count(*) FROM ({' EXCEPT '.join(sides)})").fetchall()
            references += 1
            faults += [f"{table.name}: {strange:,} keys are not in {each.table}"] * bool(strange)
    return Check("references between tables", f"{references} references", tuple(faults))


def _check_text(database: ReleaseDatabase, release: Path, text: Resource, twin: Resource) -> Check:
    """Compare the rows of a text with those of its Parquet, which may have more columns."""
    selects = []
    for table in (text, twin):
        names = [(identifier(column.name, table.column_names), _sql_type(column)) for column in text.columns]
        columns = ", ".join(f"TRY_CAST({name} AS {kind})" for name, kind in names)
        selects.append(f"SELECT {columns} FROM {_rows(database, release, table)}")
    differ = differing(database, *selects)
    count = database.execute(f"SELECT count(*) FROM {_rows(database, release, twin)}").fetchall()[0][0]
    faults = (f"{differ:,} rows differ",) if differ else ()
    return Check(f"{text.name}, text and Parquet", f"{count:,} rows", faults)


def _rows(database: ReleaseDatabase, release: Path, table: Resource) -> str:
    paths = [path_in(release, path) for path in table.paths]
    return database.text_table(*paths, delimiter=table.delimiter) if table.is_text else database.parquet(*paths)


def _sql_type(column: Column) -> str:
    return {"integer": "BIGINT", "number": "DOUBLE"}.get(column.type, "VARCHAR") if not column.missing else "VARCHAR"
