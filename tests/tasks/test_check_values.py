"""Codes, keys and references of received tables: each by itself, in tables with rows and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.releases.check_tables import check_values
from tasks.releases.datapackage import Resource
from tasks.releases.description import Column, Reference, integer

CELLS = Resource("cells", "", ("cells.parquet",), (integer("cell", "", ""),), key=("cell",))
COLUMNS = (Column("area", "", ""), Column("kind", "", "", {"a": "", "b": ""}), integer("cell", "", ""))
PARTS: dict[str, dict[str, Any]] = {
    "codes": {},
    "keys": {"key": ("area", "cell")},
    "references between tables": {"references": (Reference(("cell",), "cells", ("cell",)),)},
}
GOOD = [{"area": "x", "kind": "a", "cell": 1}, {"area": "x", "kind": "b", "cell": 2}]


def faults(folder: Path, rows: list[dict[str, Any]], kind: str) -> dict[str, tuple[str, ...]]:
    columns = COLUMNS if kind == "codes" else (COLUMNS[0], Column("kind", "", ""), COLUMNS[2])
    table = Resource("parts", "", ("parts.parquet",), columns, **PARTS[kind])
    schema = pa.schema({"area": pa.string(), "kind": pa.string(), "cell": pa.int64()})
    pq.write_table(pa.table({"cell": [1, 2, 3]}), folder / "cells.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "parts.parquet")
    return {each.what: each.faults for each in check_values(folder, [CELLS, table]) if each.faults}


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("rows", [[], GOOD])
def test_a_table_is_right_with_rows_and_without(tmp_path: Path, kind: str, rows: list[dict[str, Any]]) -> None:
    assert faults(tmp_path, rows, kind) == {}


@pytest.mark.parametrize(
    ("kind", "changed", "fault"),
    [
        ("codes", {"kind": "c"}, "parts: kind 'c' is not one of its codes"),
        ("keys", GOOD[0], "parts: 1 rows have the key of another row"),
        ("keys", {"area": None}, "parts: 1 rows lack their key"),
        ("references between tables", {"cell": 4}, "parts: 1 keys are not in cells"),
        ("references between tables", {"cell": None}, "parts: 1 keys are not in cells"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, kind: str, changed: dict[str, Any], fault: str) -> None:
    assert faults(tmp_path, [GOOD[0], {**GOOD[1], **changed}], kind) == {kind: (fault,)}
