"""Compare a table's text with its Parquet, chunk by chunk: the same rows in the same order.

Text with commas is for spreadsheets: a text that one would take for a formula has an apostrophe there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tasks.releases.datapackage import LONGEST_HEADER
from tasks.releases.description import Column
from tasks.releases.pages.text_table import inert

CHUNK_ROWS = 1 << 17
CODED = pa.dictionary(pa.int32(), pa.string())  # texts of which each distinct one is handled once
SEPARATES = re.compile(r'[|,"\r\n]')  # values or lines, with one delimiter or the other
TYPES = {"integer": pa.int64(), "number": pa.float64()}


def differing_rows(text: Path, parquet: Path, columns: Sequence[Column], delimiter: str) -> int:
    """Return the number of rows of a text that differ from those of a Parquet file, which may have more columns.

    Raises ArrowInvalid for a value of another type than its column.
    """
    types = {each.name: pa.string() if each.missing else TYPES.get(each.type, pa.string()) for each in columns}
    if _is_written(text, parquet, [*types], delimiter):
        return 0
    stored: Iterable[pa.RecordBatch] = pq.ParquetFile(parquet).iter_batches(CHUNK_ROWS, columns=[*types])
    if delimiter == ",":
        stored = (part for batch in stored for part in _inert(pa.table(batch)).to_batches())
    return differing(_text(text, types, delimiter), stored, types)


def _is_written(text: Path, parquet: Path, columns: list[str], delimiter: str) -> bool:
    """Return whether a text is byte for byte what `lines` makes of a Parquet file: to parse it takes far longer.

    False if its lines could be read in another way: for a text that lacks or holds what separates values.
    """
    if any(map(SEPARATES.search, columns)):
        return False
    with text.open("rb") as written:
        if written.readline(LONGEST_HEADER).decode("utf-8", "replace") != delimiter.join(columns) + "\n":
            return False
        if missing := set(columns) - set(pq.read_schema(parquet).names):  # a reader would leave them out
            raise pa.ArrowInvalid(f"the Parquet file lacks columns of the text: {', '.join(sorted(missing))}")
        for batch in read_batches(parquet, columns):
            for column in batch.columns:
                if column.type == CODED:
                    texts = column.dictionary.to_pylist()
                    if column.null_count or (delimiter == "|" and any(map(SEPARATES.search, texts))):
                        return False
                elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                    return False
            made = lines(batch, delimiter)
            if not made.equals(pa.py_buffer(written.read(made.size))):  # a memoryview is compared item by item
                return False
        return not written.read(1)


def read_batches(parquet: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, its texts by dictionaries. Raises ArrowInvalid for values that are none."""
    texts = [field.name for field in pq.read_schema(parquet) if pa.types.is_string(field.type)]
    for batch in pq.ParquetFile(parquet, read_dictionary=texts).iter_batches(CHUNK_ROWS, columns=[*columns]):
        batch.validate(full=True)  # the decoder checks neither UTF-8 nor that a value is in its dictionary
        yield batch


def differing(one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch], types: Mapping[str, pa.DataType]) -> int:
    """Return the number of rows in which two tables differ in these columns, or that one of them lacks."""
    chunks = zip_longest(*(in_chunks(side, CHUNK_ROWS) for side in (one, other)))
    return sum(_differing(each, its, types) for each, its in chunks)


def _inert(rows: pa.Table) -> pa.Table:
    """Return rows with an apostrophe before every text that a spreadsheet would take for a formula."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            texts = rows[at].combine_chunks().dictionary_encode()
            safe = pa.array([text and inert(text) for text in texts.dictionary.to_pylist()], pa.string())
            rows = rows.set_column(at, field, safe.take(texts.indices))
    return rows


def lines(rows: pa.RecordBatch, delimiter: str) -> pa.Buffer:
    """Return rows as lines of text, texts between commas quoted and none a formula.

    Neighbouring texts are joined by their dictionaries, if one is constant or both have the same places.
    """
    if not len(rows):
        return pa.py_buffer(b"")
    cells: list[pa.Array] = []
    for column in rows.columns:
        if column.type != CODED:
            cells.append(column.cast(pa.string()))
            continue
        texts, places = column.dictionary.to_pylist(), column.indices
        if delimiter == ",":
            texts = ['"' + inert(text).replace('"', '""') + '"' for text in texts]
        before = cells[-1] if cells and cells[-1].type == CODED and not cells[-1].null_count else None
        if before is not None and not column.null_count:
            known = before.dictionary.to_pylist()
            if len(texts) == 1:
                known, texts, places = known, texts * len(known), before.indices
            elif len(known) == 1:
                known = known * len(texts)
            if len(texts) == len(known) and (len(before.dictionary) == 1 or places.equals(before.indices)):
                texts = [f"{one}{delimiter}{other}" for one, other in zip(known, texts, strict=True)]
                cells.pop()
        cells.append(pa.DictionaryArray.from_arrays(places, pa.array(texts, pa.string())))
    spread = [each.dictionary.take(each.indices) if each.type == CODED else each for each in cells]
    spread[-1] = pc.binary_join_element_wise(spread[-1], "", "\n", null_handling="replace")
    return pc.binary_join_element_wise(*spread, delimiter, null_handling="replace").buffers()[2]


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
        one, other = text[name].slice(0, rows), parquet[name].slice(0, rows)
        if not one.equals(other):  # as they are: dictionaries are mostly the same
            one, other = one.cast(kind), other.cast(kind)
            wrong = pc.or_(wrong, pc.invert(_same(one, other)))
    return int(pc.sum(wrong.cast(pa.int64())).as_py() or 0) + abs(len(text) - len(parquet))


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return where two columns are equal, both missing, or both nan."""
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(one.is_null(), other.is_null()))
    if pa.types.is_floating(one.type):
        nowhere = (pc.fill_null(pc.is_nan(each), False) for each in (one, other))
        same = pc.or_(same, pc.and_(*nowhere))
    return same
