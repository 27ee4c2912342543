"""The text of a table against its Parquet: every row that differs, whatever the chunks, and what is no such text."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tasks.lifecycle.staging import PIPES
from tasks.releases import text_twin
from tasks.releases.description import Column, integer, number
from tasks.releases.text_twin import differing_rows, in_chunks

COLUMNS = (
    Column("CODE", "", ""),
    integer("COUNT", "", ""),
    number("RATIO", "", ""),
    Column("N", "", "", missing=("X",)),
)
ROWS = pa.table(
    {
        "CODE": ["01", "NA", "", "O'Brien", "05"],
        "COUNT": [3, -4, None, 0, 1 << 60],
        "RATIO": [0.1, float("nan"), None, 1e-17, float("inf")],
        "N": ["1", "X", "2", "X", "3"],
        "MOE": [1, 2, 3, 4, 5],
    }
)


def differing(folder: Path, text: pa.Table, rows: pa.Table = ROWS) -> int:
    pa.csv.write_csv(text.select([each.name for each in COLUMNS]), folder / "t.csv", PIPES)
    pq.write_table(rows, folder / "t.parquet", row_group_size=2)
    return differing_rows(folder / "t.csv", folder / "t.parquet", COLUMNS, "|")


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_each_row_that_differs_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(text_twin, "CHUNK_ROWS", rows)
    assert differing(tmp_path, ROWS) == 0
    assert differing(tmp_path, ROWS.slice(0, 3)) == differing(tmp_path, ROWS, ROWS.slice(0, 3)) == 2
    assert differing(tmp_path, ROWS.slice(0, 0)) == 5
    for at, name, value in ((0, "CODE", "1"), (2, "COUNT", 0), (4, "COUNT", 1), (1, "RATIO", 0.0), (3, "N", "0")):
        other = [{**row, name: value} if place == at else row for place, row in enumerate(ROWS.to_pylist())]
        assert differing(tmp_path, pa.Table.from_pylist(other, ROWS.schema)) == 1, (at, name)


@pytest.mark.parametrize("line", ["01|3|0.1", "01|three|0.1|1", "01|3|0.1|1|1", "01|3.0|0.1|1"])
def test_a_line_that_is_no_row_is_refused(tmp_path: Path, line: str) -> None:
    pq.write_table(ROWS.slice(0, 1), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(f"CODE|COUNT|RATIO|N\n{line}\n", "utf-8")
    with pytest.raises(pa.ArrowInvalid):
        differing_rows(tmp_path / "t.csv", tmp_path / "t.parquet", COLUMNS, "|")


def test_chunks_have_their_size_and_all_rows() -> None:
    batches = [ROWS.drop("RATIO").to_batches()[0].slice(0, length) for length in (5, 0, 1, 4)]
    chunks = [*in_chunks(batches, 3)]
    assert [len(chunk) for chunk in chunks] == [3, 3, 3, 1]
    assert pa.concat_tables(chunks).to_pylist() == pa.Table.from_batches(batches).to_pylist()
