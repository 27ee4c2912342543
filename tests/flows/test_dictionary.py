"""dictionary.csv of a release: every column of every table, its unit and its codes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.lifecycle.dictionary import DICTIONARY_COLUMNS, DICTIONARY_FILE, described
from tasks.lifecycle.manifest import file_names, read_manifest
from tasks.top_down.published.nmf.inventory import AXES
from tasks.top_down.release.dictionary import DICTIONARY
from tasks.top_down.release.measurement_files import Layout


@pytest.mark.parametrize("kind", ["released", "top_down_released", "bottom_up_released"])
def test_every_column_of_every_table_is_described(kind: str, request: pytest.FixtureRequest) -> None:
    release: Path = request.getfixturevalue(kind)
    assert DICTIONARY_FILE in read_manifest(release)["files"]
    header, *rows = [line.split("|") for line in (release / DICTIONARY_FILE).read_text().splitlines()]
    assert tuple(header) == DICTIONARY_COLUMNS
    assert {len(row) for row in rows} == {len(header)}
    assert all(meaning for *_, meaning in rows)
    named: dict[str, list[str]] = {}
    for patterns, column, unit, code, _ in rows:
        assert (code == "") != (unit == "")
        if not code:
            named.setdefault(patterns, []).append(column)
    tables = [name for name in file_names(release) if name.endswith((".csv", ".parquet")) and name != DICTIONARY_FILE]
    for name in tables:
        (patterns,) = [each for each in named if described(each, [name])]
        assert set(columns_of(release / name)) <= set(named[patterns]), name
    assert all(described(patterns, tables) for patterns in named)  # and of no table that is not there


def columns_of(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return list(pq.read_schema(path).names)
    with path.open() as file:
        return file.readline().rstrip("\n").split("|")


def test_codes_in_the_tables_are_described(released: Path) -> None:
    rows = [line.split("|") for line in (released / DICTIONARY_FILE).read_text().splitlines()[1:]]
    codes = {(patterns, column): set() for patterns, column, *_ in rows}
    for patterns, column, _, code, _ in rows:
        codes[patterns, column] |= {code} - {""}
    for (patterns, column), known in codes.items():
        for name in described(patterns, file_names(released)) if known else ():
            if name.endswith(".parquet"):
                assert set(pq.read_table(released / name)[column].unique().to_pylist()) <= known, (name, column)


def test_the_layout_of_the_bureau_is_described() -> None:
    for product, axes in AXES.items():
        layout = Layout(tuple(axes), [], pa.int32(), True, {})
        described_columns = {column.name for column in DICTIONARY["nmf/*.parquet"]}
        assert set(layout.schema.names) <= described_columns, product
