"""datapackage.json of a release: its tables as a Data Package 2.0 with Table Schema (https://datapackage.org).

Each file is a resource, because readers of Parquet take the first file of a table for all of it. Properties that the
standard lacks have the prefix `das:` (docs/spec/files.md#datapackagejson). The file is written from the system's
Description; reading it trusts nothing, since anyone may have made the release.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import normalize

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import StringConstraints, TypeAdapter

from tasks.releases.description import (
    PLACEHOLDER,
    TIDY_FOLDER,
    Column,
    Description,
    Noise,
    Reference,
    Table,
    Tidy,
    dictionary_rows,
)
from tasks.releases.digests import CHUNK_BYTES
from tasks.releases.received import NotOfRelease, path_in, read_json, reason_of

PACKAGE_FILE, DICTIONARY_FILE = "datapackage.json", "dictionary.csv"
DICTIONARY_COLUMNS = ("FILES", "COLUMN", "UNIT", "CODE", "MEANING")
PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
UNQUOTED = {"quoteChar": "\x1f"}  # a character that no text has: the standard cannot express text without quotes
ACCENTS = re.compile("[\u0300-\u036f]")  # in a text's NFKD form
LONGEST_HEADER = 1 << 20  # characters of the first line of a text
OWN = "das:"
OWN_OF_COLUMN = ("unit", "role", "of", "frame", "labels", "region", "digits", "names", "level", "total", "overlap")
OWN_OF_TABLE = ("level", "where", "counts", "of", "sums", "dependent", "noise", "twin")
TABLE, PARTS = f"{OWN}table", f"{OWN}parts"
OF_FILE = ("name", "path", "bytes", "hash", PARTS)  # properties that differ between the files of a table


@dataclass(frozen=True)
class Resource:
    """A table of a release: its files and columns, and facts of the Table that describes it.

    level: the geographic level, in words. where: the names in the placeholders of its files. parts: for a table in
    several files, the names in the placeholders by which these differ.
    dependent: whether the noise of its rows is dependent. twin: the Parquet table with the same rows as this text.
    tidy: the tables of tables/ that are made of it; not in datapackage.json.
    """

    name: str
    title: str
    paths: tuple[str, ...]
    columns: tuple[Column, ...]
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = "|"  # pandas reads more as a pattern
    key: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    level: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counts: bool = False
    of: str = ""
    sums: str = ""
    dependent: bool = False
    noise: Sequence[Noise] = ()
    twin: str = ""
    tidy: tuple[Tidy, ...] = field(default=(), compare=False)

    def files(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield its files, each with the names that its path gives to its rows."""
        for number, path in enumerate(self.paths):
            yield path, {**self.where, **{name: parts[number] for name, parts in self.parts.items()}}

    @property
    def is_text(self) -> bool:
        """Whether its files are text."""
        return not self.paths[0].endswith(".parquet")

    @property
    def is_tidy(self) -> bool:
        """Whether it is one of tables/, whose rows other tables have too."""
        return self.paths[0].startswith(f"{TIDY_FOLDER}/")

    @property
    def column_names(self) -> list[str]:
        """Return the names of its columns."""
        return [column.name for column in self.columns]

    def with_role(self, *roles: str) -> list[Column]:
        """Return its columns with one of these roles."""
        return [column for column in self.columns if column.role in roles]


RESOURCE = TypeAdapter(Resource)  # parses untrusted input


def write_package(
    out: Path, description: Description, manifest: Mapping[str, Any], files: Sequence[str]
) -> list[Resource]:
    """Write OUT/datapackage.json and OUT/dictionary.csv for the tables among these files of OUT; return the tables."""
    tables = resources_of(out, description, files)
    (out / DICTIONARY_FILE).write_text(dictionary(description, files), "utf-8")
    package = package_of(out, manifest, tables)
    (out / PACKAGE_FILE).write_text(json.dumps(package, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return tables


def package_of(out: Path, manifest: Mapping[str, Any], tables: Iterable[Resource]) -> dict[str, Any]:
    """Return the content of datapackage.json for these tables of OUT."""
    return {
        "$schema": PROFILE,
        "name": slug(manifest["release"]),
        "title": manifest["release"],
        **({f"{OWN}run": manifest["run"]} if "run" in manifest else {}),
        "resources": [each for table in tables for each in as_json(out, table)],
    }


def dictionary(description: Description, files: Iterable[str]) -> str:
    """Return the content of dictionary.csv for the tables among these files."""
    rows = (DICTIONARY_COLUMNS, *dictionary_rows(description.tables, list(files)))
    return "".join("|".join(row) + "\n" for row in rows)


def resources_of(out: Path, description: Description, files: Iterable[str]) -> list[Resource]:
    """Return the tables among these files of a release in OUT, in the order of their description."""
    found: dict[str, tuple[Table, dict[str, str], list[tuple[str, str]]]] = {}
    columns_known: dict[tuple[int, tuple[str, ...]], tuple[Column, ...]] = {}  # files of a table mostly have the same

    def columns(table: Table, path: str) -> tuple[Column, ...]:
        names = tuple(columns_of(out / path, table.delimiter))
        key = id(table), names
        if key not in columns_known:
            columns_known[key] = _described_columns(table, names)
        return columns_known[key]

    for file in sorted(files):
        if described := description.table_of(file):
            table, pattern, names = described
            part = names.pop(table.split, "")
            found.setdefault(_name_of(table, pattern, names), (table, names, []))[2].append((part, file))
    made = [
        _resource(description, name, table, names, sorted(parts), columns(table, min(parts)[1]))
        for name, (table, names, parts) in found.items()
    ]
    place = {id(table): number for number, table in enumerate(description.tables)}

    def order(one: Resource) -> tuple[Any, ...]:
        names = [[*description.names.get(key, {}), name].index(name) for key, name in one.where.items()]
        return place[id(found[one.name][0])], names, one.is_text

    known = {resource.name for resource in made if len(resource.paths) == 1}  # a reference names one resource
    return [
        replace(one, references=tuple(each for each in one.references if each.table in known))
        if one.references
        else one
        for one in sorted(made, key=order)
    ]


def _described_columns(table: Table, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the description of a file's columns; one that its table does not describe has only a name."""
    return tuple(
        replace(
            column,
            name=name,
            title=column.title or heading(column.frame or name),
            codes=column.codes if column.type == "string" else {},
            in_text=True,
            optional=False,
        )
        for name in names
        if (column := table.column(name) or Column(name, "", ""))
    )


def _resource(
    description: Description,
    name: str,
    table: Table,
    where: dict[str, str],
    parts: list[tuple[str, str]],
    columns: tuple[Column, ...],
) -> Resource:
    paths = tuple(path for _, path in parts)
    present = {column.name for column in columns}
    key = tuple(column.name for column in columns if not column.role) if table.key == ("*",) else table.key
    words = {key: description.names.get(key, {}).get(value, value) for key, value in where.items()}
    is_text = not paths[0].endswith(".parquet")
    return Resource(
        name=name,
        title=table.title.format(**words),
        paths=paths,
        columns=columns,
        delimiter=table.delimiter if is_text else "|",
        key=key if present.issuperset(key) else (),
        references=tuple(
            replace(each, table=slug(each.table.format(**where)))
            for each in table.references
            if present.issuperset(each.columns)
        ),
        level=words.get("level", ""),
        where=where,
        parts={table.split: [part for part, _ in parts]} if table.split else {},
        counts=table.counts,
        of=slug(table.of.format(**where)),
        sums=slug(table.sums.format(**where)),
        dependent=table.dependent,
        noise=description.noise(name) if table.has_counts and not paths[0].startswith(f"{TIDY_FOLDER}/") else (),
        twin=_name_of(table, table.parquet, where) if is_text and table.parquet else "",
        tidy=table.tidy,
    )


def _name_of(table: Table, pattern: str, where: Mapping[str, str]) -> str:
    """Return the name of a file's table: its path without the placeholders of parts.

    Text with a Parquet twin, and microdata with a row per record, get the suffix `-text`.
    """
    stem = (table.text or pattern).rpartition(".")[0]
    named = PLACEHOLDER.sub(lambda match: "" if match[1] == table.split else where[match[1]], stem)
    has_sibling = bool(table.parquet) or pattern.endswith(".txt")
    return slug(named) + "-text" * (has_sibling and pattern == table.text)


def slug(text: str) -> str:
    """Return a text as a name in a Data Package: `block-group` of `Block_Group`, `ph3` of `PH3/PH3`."""
    plain = ACCENTS.sub("", normalize("NFKD", text.casefold()))
    once = "-".join(dict.fromkeys(plain.split("/")))
    return re.sub(r"[^a-z0-9]+", "-", once).strip("-")


def columns_of(path: Path, delimiter: str) -> dict[str, pa.DataType | None]:
    """Return the columns of a file with their types in Parquet; None as the type in text.

    Raises NotOfRelease for two columns of one name: readers differ in the one that they take.
    """
    names, types = _columns_of_parquet(path) if path.suffix == ".parquet" else _columns_of_text(path, delimiter)
    if twice := [name for name, number in Counter(names).items() if number > 1]:
        raise NotOfRelease(f"{path.name} has the column {twice[0]!a:.80} twice")
    return dict(zip(names, types, strict=True))


def _columns_of_parquet(path: Path) -> tuple[list[str], list[pa.DataType]]:
    schema = pq.read_schema(path)
    return schema.names, schema.types


def _columns_of_text(path: Path, delimiter: str) -> tuple[list[str], list[None]]:
    with path.open(encoding="utf-8") as file:
        header = file.readline(LONGEST_HEADER).rstrip("\n")
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL
    names = next(csv.reader([header], delimiter=delimiter, quoting=quoting), [])
    return names, [None] * len(names)


def heading(name: str) -> str:
    """Return a column name as a heading: `Age start` for `age_start`. Capitals stay."""
    return name if name.isupper() else name.replace("_", " ").capitalize()


# -- as JSON ----------------------------------------------------------------------------------------------------------


def as_json(out: Path, resource: Resource) -> list[dict[str, Any]]:
    """Return the entries of a table's files in datapackage.json: each file is a resource."""
    schema = _schema(resource)
    dialect = {"delimiter": resource.delimiter, **(UNQUOTED if resource.delimiter == "|" else {})}
    text = {"format": "csv", "mediatype": "text/csv", "encoding": "utf-8", "dialect": dialect}
    form = text if resource.is_text else {"format": "parquet", "mediatype": "application/vnd.apache.parquet"}
    return [
        {
            "name": name,
            "type": "table",
            "title": resource.title,
            "path": path,
            **form,
            **(_size_and_hash(out / path) if resource.is_text else {}),
            "schema": schema,
            **({TABLE: resource.name} if name != resource.name else {}),
            **_own(resource, OWN_OF_TABLE),
            **({PARTS: parts} if parts else {}),
        }
        for name, path, parts in _named_parts(resource)
    ]


def _named_parts(resource: Resource) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the name, path and part of each file of a table."""
    for number, path in enumerate(resource.paths):
        parts = {name: of[number] for name, of in resource.parts.items()}
        several = len(resource.paths) > 1
        yield slug("-".join([resource.name, *parts.values()])) if several else resource.name, path, parts


def _schema(resource: Resource) -> dict[str, Any]:
    schema: dict[str, Any] = {"fields": [_field(column) for column in resource.columns]}
    if not resource.is_text:
        schema["missingValues"] = []  # an empty text is a value (the nation's GEOCODE), not missing as by default
    if resource.key:
        schema["primaryKey"] = list(resource.key)
    if resource.references:
        schema["foreignKeys"] = [
            {"fields": list(each.columns), "reference": {"resource": each.table, "fields": list(each.key)}}
            for each in resource.references
        ]
    return schema


def _size_and_hash(path: Path) -> dict[str, Any]:
    """Return the size of a text file, and its SHA-256 if it is one chunk. frictionless compares neither for Parquet.

    The manifest has the digest of every file.
    """
    size = path.stat().st_size
    if size > CHUNK_BYTES:
        return {"bytes": size}
    with path.open("rb") as file:
        return {"bytes": size, "hash": f"sha256:{file_digest(file, 'sha256').hexdigest()}"}


def _field(column: Column) -> dict[str, Any]:
    made = {"name": column.name, "type": column.type, "title": column.title, "description": column.meaning}
    codes = [{"value": value, "label": label} for value, label in column.codes.items()]
    return {
        **made,
        **({"categories": codes} if codes else {}),
        **({"missingValues": list(column.missing)} if column.missing else {}),
        **_own(column, OWN_OF_COLUMN),
    }


def _own(one: Column | Resource, names: Sequence[str]) -> dict[str, Any]:
    return {f"{OWN}{name}": value for name in names if (value := getattr(one, name))}


# -- read -------------------------------------------------------------------------------------------------------------


def read_package(release: Path, named: Iterable[str]) -> list[Resource]:
    """Return the tables of a release whose manifest names these files.

    Raises NotOfRelease without a datapackage.json, or if it does not describe such tables.
    """
    named = set(named)
    if PACKAGE_FILE not in named:
        raise NotOfRelease(f"the release has no {PACKAGE_FILE}, which describes its tables")
    try:
        tables: dict[str, list[Mapping[str, Any]]] = {}
        for each in read_json(release, PACKAGE_FILE)["resources"]:
            tables.setdefault(each.get(TABLE, each["name"]), []).append(each)
        resources = [_parse(name, files) for name, files in tables.items()]
        for path in (path for resource in resources for path in resource.paths):
            if path not in named:
                raise NotOfRelease(f"{PACKAGE_FILE} describes {path[:200]!a} twice, or the manifest lacks it")
            named.remove(path)  # a file belongs to one table
            path_in(release, path)
    except NotOfRelease:
        raise
    except Exception as error:  # anyone may have written it
        raise NotOfRelease(f"{PACKAGE_FILE} is not a description of tables: {reason_of(error)}") from error
    return resources


def _parse(name: str, files: Sequence[Mapping[str, Any]]) -> Resource:
    """Return a table from its files, which may differ only in their names."""
    resource, *others = ({key: each[key] for key in each if key not in OF_FILE} for each in files)
    if any(each != resource for each in others):
        raise NotOfRelease(f"{PACKAGE_FILE} describes the files of table {name[:200]!a} in different ways")
    schema, parts = resource["schema"], [each.get(PARTS, {}) for each in files]
    references = [
        {"columns": key["fields"], "table": key["reference"]["resource"], "key": key["reference"]["fields"]}
        for key in schema.get("foreignKeys", ())
    ]
    return RESOURCE.validate_python(
        {
            "name": name,
            "title": resource["title"],
            "paths": [each["path"] for each in files],
            "parts": {key: [part[key] for part in parts] for key in parts[0]},
            "columns": [_column(field) for field in schema["fields"]],
            "delimiter": resource.get("dialect", {}).get("delimiter", "|"),
            "key": schema.get("primaryKey", ()),
            "references": references,
            **_read_own(resource, OWN_OF_TABLE),
        }
    )


def _column(field: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": field["name"],
        "meaning": field["description"],
        "codes": {code["value"]: code["label"] for code in field.get("categories", ())},
        "type": field["type"],
        "title": field["title"],
        "missing": field.get("missingValues", ()),
        "unit": "",
        **_read_own(field, OWN_OF_COLUMN),
    }


def _read_own(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: found[f"{OWN}{name}"] for name in names if f"{OWN}{name}" in found}
