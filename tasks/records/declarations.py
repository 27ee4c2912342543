"""Read the file of a declaration and its public tables (docs/declarations.md)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import spine.declaration
from spine.declaration.texts import Texts
from tasks.errors import Refused
from tasks.records.files import read_text
from tasks.records.findings import Finding
from tasks.records.public_table import find_faults
from tasks.records.tables import EncodedColumn

SHIPPED = Path(spine.declaration.__file__).parent / "shipped"
OF_DATA = {  # beginnings of the names of declarations that a command writes with the tables of your blocks
    "dhc-": "das tda declare DATA OUT --redistricting RELEASE",
    "pl94-": "das tda declare DATA OUT",
}


def declarations() -> list[str]:
    """Return the names of the shipped declarations."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_declaration(name: str) -> str:
    """Return the path of a declaration: a file or URL, or the shipped one of this name. Raises Refused."""
    if "/" in name or name.endswith((".toml", ".json")) or Path(name).exists():
        return name
    if name not in declarations():
        check_has_tables(name, there=False)
        raise Refused(f"no declaration is shipped as {name}: give a file, or one of {', '.join(declarations())}")
    return str(SHIPPED / f"{name}.toml")


def check_has_tables(name: str, *, there: bool) -> None:
    """Refuse a declaration of this name whose tables are not there, if a command writes it with them."""
    written = next((command for start, command in OF_DATA.items() if name.startswith(start)), "")
    if written and not there:
        raise Refused(f"{name} needs the table of your blocks: {written} writes both into OUT; give the file there")


def read_raw(path: str) -> dict[str, Any]:
    """Return what a declaration's file says; numbers with a point are kept as text. Raises Refused."""
    try:
        text = read_text(path)
        raw = json.loads(text, parse_float=str) if path.endswith(".json") else tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: {error}") from None
    if not isinstance(raw, dict):
        raise Refused(f"{path} is not a declaration: it must be an object")
    return raw


def beside(path: str, file: str) -> str:
    """Return the path of a file or release that a declaration names: it lies in the declaration's folder, or below.

    The declaration is untrusted, so it opens nothing elsewhere: no URL, and no path or link that leads out
    of its folder. Raises Refused.
    """
    folder, slash, _ = path.rpartition("/")
    place = file if file.startswith("/") else f"{folder}{slash}{file}"
    if "://" in path:
        inside = not file.startswith("/") and ".." not in file.split("/")
    else:
        own = Path(path).parent.resolve()
        inside = "\0" not in file and Path(place).resolve().is_relative_to(own)
    if not inside or "::" in file or "://" in file:
        raise Refused(
            f"{file!r:.100} is not in the folder of the declaration: put a copy there, and name it by its name"
        )
    return place


def read_columns(
    path: str, names: Sequence[str], delimiter: str
) -> tuple[dict[str, tuple[str, ...]] | None, list[Finding]]:
    """Return columns of a public table, text or Parquet, as text."""
    found, findings = read_coded(path, names, delimiter)
    return (None if found is None else {name: tuple(own.texts().tolist()) for name, own in found.items()}), findings


def read_coded(path: str, names: Sequence[str], delimiter: str) -> tuple[dict[str, Texts] | None, list[Finding]]:
    """Return columns of a public table, which may have millions of rows, as numbers of their texts."""
    rows, findings = find_faults(path, names, delimiter=delimiter, more=True)
    return (None if rows is None else {name: _coded(rows.table[name]) for name in names}), findings


def _coded(column: pa.ChunkedArray) -> Texts:
    encoded = EncodedColumn(column)
    return Texts.numbered(np.array(encoded.values, np.str_), encoded.numbers)
