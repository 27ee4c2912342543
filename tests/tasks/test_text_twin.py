"""The text of a table against its Parquet: every row that differs, whatever the chunks, and what is no such text."""

from __future__ import annotations

import csv
import io
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from dhca_inputs import PROPERTY
from hypothesis import given
from hypothesis import strategies as st

from tasks import kernels
from tasks.lifecycle.staging import PIPES
from tasks.releases import text_twin
from tasks.releases.description import Column, integer, number
from tasks.releases.pages.text_table import inert
from tasks.releases.text_twin import CODED, differing_rows, in_chunks, lines, read_batches

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


TEXT = st.sampled_from(["", "a", 'say "so"', "a, b", "=1+1", "-5", "two\nlines", "é"])
CODES = st.lists(TEXT, min_size=1, max_size=4, unique=True)


@given(data=st.data(), rows=st.integers(1, 6), wide=st.integers(1, 5))
@PROPERTY
def test_lines_are_what_others_write(data: st.DataObject, rows: int, wide: int) -> None:
    """Values used several times, once, never or missing, and numbers between them, by the kernel and without it."""
    columns: list[pa.Array] = []
    for _ in range(wide):
        texts = data.draw(CODES)
        places = st.lists(st.integers(0, len(texts) - 1) | st.none(), min_size=rows, max_size=rows)
        columns.append(pa.DictionaryArray.from_arrays(pa.array(data.draw(places), pa.int32()), pa.array(texts)))
        few, many = [-7, 0, -(1 << 63), 1 - (1 << 63), (1 << 63) - 1, 99], [None, 0.5, 2.0, 1e-7, 1e17, -0.0]
        numbers = data.draw(st.sampled_from([[], [range(rows)], [few], [many], [[3, None] * 3]]))
        columns += [pa.array([*each][:rows]) for each in numbers]
    table = pa.record_batch(columns, [str(place) for place in range(len(columns))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "kernels_loaded", bool)  # none
        patch.setattr(text_twin, "LINES_AT_ONCE", 4)
        for patched, delimiter in product((0, 1 << 30), ",|"):
            patch.setattr(kernels, "FEWEST", patched)
            others = with_commas(columns) if delimiter == "," else with_bars(columns)
            if others is None:
                with pytest.raises(pa.ArrowInvalid, match="separates the values"):
                    list(lines(table, delimiter))
            else:
                assert b"".join(map(bytes, lines(table, delimiter))) == others


def with_commas(columns: list[pa.Array]) -> bytes:
    """Return rows as Python writes them; one with an empty text alone is an empty line."""
    stream = io.StringIO()
    cells = [[inert(text) for text in each.cast(pa.string()).to_pylist()] for each in columns]
    for row in zip(*cells, strict=True):
        csv.writer(stream, lineterminator="\n").writerow(row) if row != ("",) else stream.write("\n")
    return stream.getvalue().encode()


def with_bars(columns: list[pa.Array]) -> bytes | None:
    """Return rows as Arrow writes them, None for texts that it refuses."""
    plain = [each.cast(pa.string()) if each.type == CODED else each for each in columns]
    texts = [text for each in columns if each.type == CODED for text in each.dictionary.to_pylist()]
    if any(each in text for text in texts for each in '"\n|'):
        return None
    stream = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, delimiter="|", quoting_style="none")
    pa.csv.write_csv(pa.table(plain, [str(place) for place in range(len(plain))]), stream, options)
    return stream.getvalue()


def test_a_text_as_written_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"CODE": ["01", "02"] * 3, "COUNT": [3, -4, 0] * 2})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=2)
    pa.csv.write_csv(rows, tmp_path / "t.csv", PIPES)
    with monkeypatch.context() as patch:
        patch.delattr(text_twin, "_text")
        assert differing_rows(tmp_path / "t.csv", tmp_path / "t.parquet", COLUMNS[:2], "|") == 0
    (tmp_path / "t.csv").write_bytes((tmp_path / "t.csv").read_bytes() + b"01|3\n")
    assert differing_rows(tmp_path / "t.csv", tmp_path / "t.parquet", COLUMNS[:2], "|") == 1


def test_a_column_that_the_parquet_lacks_is_refused(tmp_path: Path) -> None:
    """Lines of the Parquet's own columns, below a header of one more, are no rows of that header."""
    pq.write_table(ROWS.select(["CODE", "COUNT"]).slice(0, 2), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("CODE|N|COUNT\n01|3\nNA|-4\n", "utf-8")
    with pytest.raises(pa.ArrowInvalid):
        differing_rows(tmp_path / "t.csv", tmp_path / "t.parquet", [COLUMNS[0], COLUMNS[3], COLUMNS[1]], "|")


@pytest.mark.parametrize("text", ["01|5", "01\n02", '"01', None])
def test_a_text_that_reads_otherwise_is_no_twin_though_its_bytes_are_those_of_the_rows(
    tmp_path: Path, text: str | None
) -> None:
    rows = pa.table({"CODE": pa.array([text, "03"], pa.string()), "COUNT": [3, 4]})
    pq.write_table(rows, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(f"CODE|COUNT\n{text or ''}|3\n03|4\n", "utf-8")
    try:
        differ = differing_rows(tmp_path / "t.csv", tmp_path / "t.parquet", COLUMNS[:2], "|")
    except pa.ArrowInvalid:
        return
    assert differ == (text != '"01')  # with `|` no quote has a meaning


def test_a_place_outside_its_dictionary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"CODE": ["01"]}), tmp_path / "t.parquet")
    beyond = pa.DictionaryArray.from_arrays(pa.array([1], pa.int32()), pa.array(["01"]), safe=False)
    batch = pa.RecordBatch.from_arrays([beyond], ["CODE"])
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: iter([batch]))
    with pytest.raises(pa.ArrowInvalid):
        [*read_batches(tmp_path / "t.parquet", ["CODE"])]
