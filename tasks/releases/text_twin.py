"""Compare a table's text with its Parquet, chunk by chunk: the same rows in the same order.

Text with commas is for spreadsheets: a text that one would take for a formula has an apostrophe there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tasks.releases.description import Column
from tasks.releases.pages.text_table import FORMULA, inert

CHUNK_ROWS = 1 << 17
TYPES = {"integer": pa.int64(), "number": pa.float64()}


def differing_rows(text: Path, parquet: Path, columns: Sequence[Column], delimiter: str) -> int:
    """Return the number of rows of a text that differ from those of a Parquet file, which may have more columns.

    Raises ArrowInvalid for a value of another type than its column.
    """
    types = {each.name: pa.string() if each.missing else TYPES.get(each.type, pa.string()) for each in columns}
    stored: Iterable[pa.RecordBatch] = pq.ParquetFile(parquet).iter_batches(CHUNK_ROWS, columns=[*types])
    if delimiter == ",":
        stored = (part for batch in stored for part in inert_rows(pa.table(batch)).to_batches())
    return differing(_text(text, types, delimiter), stored, types)


def differing(one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch], types: Mapping[str, pa.DataType]) -> int:
    """Return the number of rows in which two tables differ in these columns, or that one of them lacks."""
    chunks = zip_longest(*(in_chunks(side, CHUNK_ROWS) for side in (one, other)))
    return sum(_differing(each, its, types) for each, its in chunks)


def inert_rows(rows: pa.Table) -> pa.Table:
    """Return rows with an apostrophe before every text that a spreadsheet would take for a formula."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) and any(map(_may_be_formula, rows[at].chunks)):
            rows = rows.set_column(at, field, pa.array([inert(text) for text in rows[at].to_pylist()], pa.string()))
    return rows


def _may_be_formula(texts: pa.Array) -> bool:
    """Return whether a text begins as a formula, by the first bytes of all."""
    _, offsets, content = texts.buffers()
    if content is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first = np.frombuffer(content, np.uint8)[ends[:-1][ends[1:] > ends[:-1]]]
    return bool(np.isin(first, [*FORMULA.encode()]).any())


def in_chunks(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Yield the rows of batches as tables of `size` rows; the last may have fewer."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        rest = batch
        while rows + len(rest) >= size:
            yield pa.Table.from_batches([*held, rest.slice(0, size - rows)])
            rest, held, rows = rest.slice(size - rows), [], 0
        held, rows = [*held, rest], rows + len(rest)
    if rows:
        yield pa.Table.from_batches(held)


def _text(path: Path, types: dict[str, pa.DataType], delimiter: str) -> Iterable[pa.RecordBatch]:
    """Read a text; with `|` nothing in it is quoted."""
    form = pa.csv.ParseOptions(
        delimiter=delimiter, quote_char='"' if delimiter != "|" else False, ignore_empty_lines=False
    )
    values = pa.csv.ConvertOptions(column_types=types, include_columns=[*types], null_values=[""])
    rows: Iterable[pa.RecordBatch] = pa.csv.open_csv(path, parse_options=form, convert_options=values)
    return rows


def _differing(text: pa.Table | None, parquet: pa.Table | None, types: Mapping[str, pa.DataType]) -> int:
    """Return the number of rows of two chunks that differ or that one of them lacks."""
    if text is None or parquet is None:
        return sum(len(chunk) for chunk in (text, parquet) if chunk is not None)
    rows = min(len(text), len(parquet))
    wrong = pa.repeat(False, rows)
    for name, kind in types.items():
        one, other = text[name].slice(0, rows), parquet[name].slice(0, rows).cast(kind)
        if not one.equals(other):
            wrong = pc.or_(wrong, pc.invert(_same(one, other)))
    return int(pc.sum(wrong.cast(pa.int64())).as_py() or 0) + abs(len(text) - len(parquet))


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return where two columns are equal, both missing, or both nan."""
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(one.is_null(), other.is_null()))
    if pa.types.is_floating(one.type):
        nowhere = (pc.fill_null(pc.is_nan(each), False) for each in (one, other))
        same = pc.or_(same, pc.and_(*nowhere))
    return same
