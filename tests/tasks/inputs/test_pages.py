"""Dictionary pages of Parquet, read by kernels: what Arrow's reader gives, or nothing."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import PROPERTY
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.inputs import parquet
from tasks.inputs.pages import read_pages
from tasks.inputs.parquet import read_large_row_group, read_row_group

texts = st.lists(st.sampled_from(["", "1", "2", "Null", "é", "x" * 40]) | st.text("ab", max_size=3), max_size=60)
PLAIN_FORMS: list[dict[str, Any]] = [{"compression": name} for name in ("zstd", "snappy", "gzip", "none")]
PLAIN_FORMS += [{"write_statistics": False}, {"data_page_size": 1}, {"store_schema": False}, {"max_rows_per_page": 3}]
OTHER_FORMS: list[dict[str, Any]] = [
    {"use_dictionary": False},
    {"data_page_version": "2.0"},
    {"dictionary_pagesize_limit": 4, "data_page_size": 1},
    {"write_page_checksum": True},
]


def written(values: list[Any], form: dict[str, Any], kind: pa.DataType, *, optional: bool = True) -> io.BytesIO:
    stream = io.BytesIO()
    schema = pa.schema([pa.field("a", kind, nullable=optional), pa.field("b", pa.int8())])
    table = pa.table([pa.array(values, kind), pa.array([1] * len(values), pa.int8())], schema=schema)
    pq.write_table(table, stream, **form)
    return stream


def read(stream: io.BytesIO, columns: tuple[str, ...] = ("a",)) -> list[str] | None:
    made = read_pages(stream, 0, columns, pq.read_metadata(stream))
    return None if made is None else made["a"].to_pylist()


@given(
    values=texts.filter(bool) | st.integers(1, 3).map(lambda many: ["1", *["2"] * 900] * many),
    form=st.sampled_from(PLAIN_FORMS),
    optional=st.booleans(),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
)
@example(values=[str(number) for number in range(3000)] * 2, form={}, optional=True, kind=pa.string())
@PROPERTY
def test_what_a_writer_makes_of_text_is_read(
    values: list[str], form: dict[str, Any], optional: bool, kind: pa.DataType
) -> None:
    assert read(written(values, form, kind, optional=optional)) == values


@given(values=st.lists(st.none() | st.sampled_from(["1", "2"]), min_size=1), form=st.sampled_from(OTHER_FORMS))
@PROPERTY
def test_other_forms_and_missing_values_are_left_to_arrow(values: list[str | None], form: dict[str, Any]) -> None:
    for each in ({}, form):
        found = read(written(values, each, pa.string()))
        assert found is None or found == values
        if None in values:
            assert found is None


def test_what_is_no_text_is_left_to_arrow() -> None:
    stream = written(["1"], {}, pa.string())
    assert read(stream, ("a", "b")) is None
    lists = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([["1"], ["2"]])}), lists)
    metadata = pq.read_metadata(lists)
    assert read_pages(lists, 0, [metadata.row_group(0).column(0).path_in_schema], metadata) is None


@given(
    values=st.lists(st.sampled_from(["1", "2", "Null"]), min_size=1, max_size=40),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3),
    form=st.sampled_from([{"compression": "none"}, {"compression": "zstd"}, {"max_rows_per_page": 3}]),
)
@PROPERTY
def test_changed_bytes_never_give_what_arrow_does_not(
    values: list[str], changes: list[tuple[int, int]], form: dict[str, Any]
) -> None:
    """In the pages of the column alone: it is read as Arrow reads it, or left to Arrow."""
    stream = written(values, form, pa.string())
    metadata = pq.read_metadata(stream)
    column = metadata.row_group(0).column(0)
    data = bytearray(stream.getvalue())
    for at, byte in changes:
        data[column.dictionary_page_offset + at % column.total_compressed_size] = byte
    changed = io.BytesIO(bytes(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "FEWEST_ROWS", 0)
        ours, findings = read_large_row_group(changed, 0, "", ["a"], metadata)
    theirs, faults = read_row_group(changed, 0, "", ["a"], metadata)
    if theirs is not None:
        assert ours is not None
        assert ours["a"].to_pylist() == theirs["a"].to_pylist()
    elif ours is None:
        assert findings == faults
