"""Forge each statement of a release's manifest and each table in turn, and write digests and descriptions again."""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.execution.systems import kind_of_release
from tasks.releases.check import Check, NotChecked
from tasks.releases.check_tables import check_forms, check_values
from tasks.releases.datapackage import DICTIONARY_FILE, PACKAGE_FILE, resources_of, write_package
from tasks.releases.description import Description
from tasks.releases.manifest import MANIFEST, SIGNATURE, file_names, read_any_manifest, write_manifest
from tasks.releases.tidy_rows import check_tidy

Rows = list[dict[str, Any]]
NAMED_ELSEWHERE = ("files", "format")  # every other check reads these
ALIKE = (
    "levels",
    "noise",
    "relations",
    "versions",
    "public_files",
    "parameter_files",
    "statements",
    "settings",
    "allocations",
)
TEXTS, WORD = (
    (".txt", ".html", ".json", "dictionary.csv"),
    re.compile(r"\b(of|the|a|for)\b"),
)  # files, and a word of theirs
SEVERAL = 3  # how many entries of a long list, or of equal entries, are forged


@dataclass(frozen=True)
class Forgery:
    """A part of a release, as `das check` names it; what is done to it; and the function that does it."""

    part: str
    done: str
    forge: Callable[[Path], None]

    def __str__(self) -> str:
        return f"{self.part} {self.done}"


def forgeries(release: Path) -> list[Forgery]:
    """Return every forgery of a release."""
    return [*of_statements(release), *of_tables(release)]


def stating(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return what changes the manifest."""

    def forge(release: Path) -> None:
        manifest = read_any_manifest(release)
        change(manifest)
        seal(release, manifest)

    return forge


def of_statements(release: Path) -> Iterator[Forgery]:
    """Yield every statement of the manifest deleted, emptied and changed."""
    manifest = read_any_manifest(release)
    for path, value in _nodes({name: each for name, each in manifest.items() if name not in NAMED_ELSEWHERE}):
        part = ".".join(map(str, path))
        forged: dict[str, Any] = {"deleted": None}
        if empty := [each for each in (type(value)(), None) if each != value and each is not False]:
            forged["emptied"] = empty[0]
        if not isinstance(value, dict | list) and value is not None:
            forged["changed"] = changed(value)
        for done, new in forged.items():
            yield Forgery(part, done, _stating(path, done, new))


def changed(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 10 + 1000
    if fraction := re.fullmatch(r"(\d+)(/\d+)?", value):
        return f"{int(fraction[1]) * 10 + 7}{fraction[2] or ''}"
    return ("0" if value[0] != "0" else "1") + value[1:] if re.fullmatch("[0-9a-f]{40,64}", value) else value + " x"


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the values in nested objects and lists; for lists and long objects, the first and the last."""
    if path:
        yield path, value
    inside = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if len(inside) > 1 and path[-1:] and path[-1] in ALIKE:
        inside = inside[:1]
    elif len(path) > 1 and len(inside) > 2 * SEVERAL and all(type(one) is type(inside[0][1]) for _, one in inside):
        inside = [*inside[:1], *inside[-1:]]
    for name, each in inside:
        yield from _nodes(each, (*path, name))


def _stating(path: tuple[Any, ...], done: str, new: Any) -> Callable[[Path], None]:
    def forge(release: Path) -> None:
        manifest = parent = read_any_manifest(release)
        for name in path[:-1]:
            parent = parent[name]
        if done == "deleted":
            del parent[path[-1]]
        else:
            parent[path[-1]] = new
        seal(release, manifest)

    return forge


def of_tables(release: Path) -> Iterator[Forgery]:
    """Yield every table of a release without rows, without one, with one twice, with other numbers, and removed."""
    kind = kind_of_release(read_any_manifest(release)["release"])
    assert kind is not None
    tables = resources_of(release, kind.part("description")(read_any_manifest(release)), file_names(release))
    texts = {table.twin: table for table in tables if table.twin}
    shapes = set()
    for table in tables:
        shape = re.sub(r"/.*/", "/", table.paths[0]).split("/")[0], tuple(column.name for column in table.columns)
        if table.twin or shape in shapes:
            continue
        shapes.add(shape)
        twin = texts.get(table.name)
        numbers = [column.name for column in table.columns if column.role and column.type in ("integer", "number")]
        for at, path in list(enumerate(table.paths))[:1]:
            files = [path, *([twin.paths[at]] if twin else [])]
            done: dict[str, Callable[[Rows], Rows]] = {
                "without rows": lambda _: [],
                "without a row": lambda rows: rows[1:],
                "with a row twice": lambda rows: [rows[0], *rows],
            }
            for name, change in done.items():
                yield Forgery(path, name, changing(files, change, table.delimiter))
            for column in numbers:
                margin = next(each.role for each in table.columns if each.name == column) in ("margin", "variance")
                for name, change in (("quartered", _quarter),) if margin else (("+ 1000", _more),):
                    yield Forgery(f"{path}: {column}", name, changing(files, _first(column, change), table.delimiter))
            yield Forgery(path, "removed", _removing(files))
    for name in file_names(release):
        if name not in (PACKAGE_FILE, DICTIONARY_FILE) and not any(name in table.paths for table in tables):
            yield Forgery(name, "removed", _removing([name]))
        if any(name.endswith(end) for end in TEXTS) and WORD.search((release / name).read_text("utf-8")):
            yield Forgery(f"{name}: words", "changed", _reworded(name))


def _quarter(number: Any) -> Any:
    return number // 4 if isinstance(number, int) else number / 4


def _more(number: Any) -> Any:
    return number + 1000


def _first(column: str, change: Callable[[Any], Any]) -> Callable[[Rows], Rows]:
    """Change the first number of a column that is one and does not stay the same."""

    def of(rows: Rows) -> Rows:
        for row in rows:
            if row.get(column) not in (None, ""):
                number = row[column]
                if isinstance(number, str):
                    number = int(number) if re.fullmatch(r"-?\d+", number) else float(number)
                if (new := change(number)) != number:
                    row[column] = str(new) if isinstance(row[column], str) else new
                    break
        return rows

    return of


def changing(files: list[str], change: Callable[[Rows], Rows], delimiter: str = "|") -> Callable[[Path], None]:
    """Return what changes the rows of a table and of its twin in text."""

    def forge(release: Path) -> None:
        for file in files:
            path = release / file
            if file.endswith(".parquet"):
                old = pq.read_table(path)
                new = pa.Table.from_pylist(change(old.to_pylist()), old.schema)
                path.unlink()
                pq.write_table(new, path)
            else:
                header, *lines = csv.reader(StringIO(path.read_text("utf-8")), delimiter=delimiter)
                rows = change([dict(zip(header, line, strict=True)) for line in lines])
                path.unlink()
                with open(path, "w", encoding="utf-8", newline="") as out:
                    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
                    writer.writerows([header, *([row[name] for name in header] for row in rows)])
        seal(release, read_any_manifest(release))

    return forge


def _removing(files: list[str]) -> Callable[[Path], None]:
    def forge(release: Path) -> None:
        for file in files:
            (release / file).unlink()
        seal(release, read_any_manifest(release))

    return forge


def _reworded(file: str) -> Callable[[Path], None]:
    def forge(release: Path) -> None:
        text = (release / file).read_text("utf-8")
        (release / file).unlink()
        (release / file).write_text(WORD.sub("not", text, count=1), "utf-8")
        with_digests(release, read_any_manifest(release))

    return forge


def with_digests(release: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest anew, with the digests of the files as they are."""
    for name in (MANIFEST, SIGNATURE):
        (release / name).unlink(missing_ok=True)
    manifest.pop("files", None)
    write_manifest(release, manifest)


def copied(release: Path, folder: Path) -> Path:
    """Copy a release by hard links; a forgery writes its files anew."""
    return Path(shutil.copytree(release, folder, copy_function=os.link))


def check_tables(release: Path, manifest: dict[str, Any], description: Description) -> Iterator[Check | NotChecked]:
    """Yield the checks of the form and of the values of a release's tables."""
    tables = yield from check_forms(release, manifest, description)
    yield from check_values(release, tables)
    yield from check_tidy(release, description)


def seal(release: Path, manifest: dict[str, Any]) -> None:
    """Write descriptions and manifest over the files as they are, as a forger would."""
    kind = kind_of_release(str(manifest.get("release")))
    before = {name: (release / name).read_bytes() for name in (PACKAGE_FILE, DICTIONARY_FILE)}
    for name in before:
        (release / name).unlink()
    try:
        assert kind is not None
        write_package(release, kind.part("description")(manifest), manifest, file_names(release))
    except Exception:  # the forged manifest describes no table
        for name, content in before.items():
            (release / name).write_bytes(content)
    with_digests(release, manifest)
