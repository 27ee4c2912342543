"""Tables as Parquet and as text, its twin, chunk by chunk: the same rows in the same order, written and compared.

Text with commas is for spreadsheets: a text that one would take for a formula has an apostrophe there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.kernels import worth_a_kernel
from tasks.releases.datapackage import LONGEST_HEADER
from tasks.releases.description import Column
from tasks.releases.pages.text_table import FORMULA, inert

CHUNK_ROWS = 1 << 17
LEAST = -(1 << 63)  # the only 64-bit integer without an opposite
CODED = pa.dictionary(pa.int32(), pa.string())  # texts; each distinct one is handled once
LINES_AT_ONCE = 1 << 14  # whose text the processor's cache holds
QUOTED = re.compile(r'[,"\r\n]')  # what no text between commas has unquoted
CHANGED = f"^[{re.escape(FORMULA)}]|{QUOTED.pattern}"  # texts that may be written in another way between commas
SEPARATES = re.compile(r'[|,"\r\n]')  # values or lines, with one delimiter or the other
TYPES = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64()}


def write_twins(
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    parquet: Path,
    text: Path,
    *,
    delimiter: str = "|",
    left_out: Collection[str] = (),
    sought: bool = True,
) -> None:
    """Write tables of a schema as one Parquet file and as text; missing folders are made.

    left_out: columns that the text lacks. sought: Parquet has the least and the largest text of each row group, by
    which readers find rows; these cost a third of its time. Raises ArrowInvalid for what separates values by `|`.
    """
    kinds = {field.name: CODED if pa.types.is_string(field.type) else field.type for field in schema}
    coded = pa.schema(kinds)
    numbers = [name for name, kind in kinds.items() if kind != CODED]
    in_text = [name for name in kinds if name not in left_out]
    for path in (parquet, text):
        path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"compression": "zstd", "write_statistics": sought or numbers}
    options |= {"store_schema": False}  # so that texts are read as text
    with pq.ParquetWriter(parquet, coded, **options) as as_parquet, text.open("wb") as as_text:
        as_text.write((delimiter.join(map(_quoted, in_text) if delimiter == "," else in_text) + "\n").encode())
        for table in tables:
            columns = [column.combine_chunks() for column in table.columns]
            rows = pa.table(
                [each.dictionary_encode() if pa.types.is_string(each.type) else each for each in columns], schema=coded
            )
            as_parquet.write_table(rows)
            for batch in rows.select(in_text).to_batches(CHUNK_ROWS):
                as_text.writelines(lines(batch, delimiter))


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
    found = np.empty(0, np.uint8)
    with text.open("rb") as written:
        if written.readline(LONGEST_HEADER).decode("utf-8", "replace") != delimiter.join(columns) + "\n":
            return False
        if missing := set(columns) - set(pq.read_schema(parquet).names):  # a reader would leave them out
            raise pa.ArrowInvalid(f"the Parquet file lacks columns of the text: {', '.join(sorted(missing))}")
        for batch in read_batches(parquet, columns):
            for column in batch.columns:
                if column.type == CODED:
                    if column.null_count or (delimiter == "|" and separates(column.dictionary)):
                        return False
                elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                    return False
            for made in lines(batch, delimiter):
                if made.size > len(found):
                    found = np.empty(made.size, np.uint8)
                size = written.readinto(found.data[: made.size])
                if not made.equals(pa.py_buffer(found[:size])):  # a memoryview is compared item by item
                    return False
        return not written.read(1)


def read_batches(parquet: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, its texts by dictionaries. Raises ArrowInvalid for invalid values."""
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


def lines(rows: pa.RecordBatch, delimiter: str) -> Iterator[pa.Buffer]:
    """Yield rows as lines of text, some at a time: between commas none is a formula, and a missing value is empty.

    A buffer holds its lines until the next one is asked for: new memory costs more than the lines.
    """
    columns = [_cells(column, delimiter) for column in rows.columns]
    if worth_a_kernel(len(rows)):
        yield from _compiled_lines(columns, len(rows), delimiter)
        return
    cells = [
        (texts.take(values) if texts is not None else pa.array(values).cast(pa.string())).to_pylist()
        for texts, values in columns
    ]
    yield pa.py_buffer("".join(f"{delimiter.join(row)}\n" for row in zip(*cells, strict=True)).encode())


def _cells(column: pa.Array, delimiter: str) -> tuple[pa.StringArray | None, NDArray[np.integer]]:
    """Return the texts of a column, the last one empty, and the place of each row's; or None, and whole numbers."""
    is_whole, is_number = pa.types.is_integer(column.type), pa.types.is_floating(column.type)
    if is_whole and not column.null_count and column.type != pa.uint64():
        numbers = column.to_numpy()
        if numbers.min(initial=0) != LEAST:
            return None, numbers
    if column.type != CODED or column.dictionary.null_count:
        column = column.cast(pa.string()).dictionary_encode()
    if is_whole or is_number:
        pass
    elif delimiter == "|":
        if separates(column.dictionary):
            raise pa.ArrowInvalid("a text holds what separates the values of a table")
    elif _matches(column.dictionary, CHANGED):
        texts = [_quoted(inert(text)) for text in column.dictionary.to_pylist()]
        column = pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))
    places = column.indices.fill_null(len(column.dictionary)) if column.null_count else column.indices
    return pa.concat_arrays([column.dictionary, pa.array([""])]), places.to_numpy()


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if QUOTED.search(text) else text


def _compiled_lines(
    columns: Sequence[tuple[pa.StringArray | None, NDArray[np.integer]]], rows: int, delimiter: str
) -> Iterator[pa.Buffer]:
    from tasks.releases.compiled_lines import LONGEST_NUMBER, write_lines

    letters, starts, before = [np.zeros(0, np.uint8)], [], []
    known = size = longest = 0
    for texts, _ in columns:
        before.append(0 if texts is None else known)  # texts of earlier columns
        if texts is None:
            longest += LONGEST_NUMBER + 1
            continue
        ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        letters.append(np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]])
        starts.append(ends.astype(np.int64) - ends[0] + size)
        known, size, longest = known + len(ends), size + int(ends[-1] - ends[0]), longest + int(np.diff(ends).max()) + 1
    is_number = np.array([texts is None for texts, _ in columns])
    of_texts = np.concatenate(letters), np.concatenate([*starts, np.zeros(0, np.int64)])
    out, values = np.empty(LINES_AT_ONCE * longest, np.uint8), np.empty((len(columns), LINES_AT_ONCE), np.int64)
    for first in range(0, rows, LINES_AT_ONCE):
        if rows - first < LINES_AT_ONCE:
            values = np.empty((len(columns), rows - first), np.int64)
        for own, (_, numbers), start in zip(values, columns, before, strict=True):
            np.add(numbers[first : first + len(own)], start, out=own)
        yield pa.py_buffer(out[: write_lines(*of_texts, values, is_number, ord(delimiter), out)])


def separates(texts: pa.StringArray) -> bool:
    """Return whether a text holds what separates or quotes values or lines, so that `|` cannot stand behind it."""
    return _matches(texts, '[|"\r\n]')


def _matches(texts: pa.StringArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def by_dictionary(values: pa.Array) -> pa.DictionaryArray:
    """Return texts by their dictionary."""
    return values if pa.types.is_dictionary(values.type) else values.cast(pa.string()).dictionary_encode()


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
