"""Parquet tables: read row groups as columns of text, and report damage as findings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.records.findings import Finding


@dataclass(frozen=True)
class ValueText:
    """The text of a missing value and of the two truth values."""

    null: str = ""
    true: str = "True"
    false: str = "False"


WORDS = ValueText()
TRUTH_VALUES = [("True", "False"), ("TRUE", "FALSE"), ("true", "false"), ("1", "0"), ("T", "F"), ("yes", "no")]


def words_of(values: Collection[str]) -> ValueText:
    """Return the truth values of a column by the values that it may have: the first pair that is among them."""
    true, false = next((pair for pair in TRUTH_VALUES if set(pair) <= set(values)), (WORDS.true, WORDS.false))
    return ValueText(true=true, false=false)


NEITHER = "a column holds neither text nor numbers"
NO_WORDS: Mapping[str, ValueText] = {}
NOT_PARQUET = "cannot be read as a Parquet file"


def read_row_group(
    stream: IO[bytes],
    number: int,
    name: str,
    columns: Sequence[str],
    metadata: pq.FileMetaData | None = None,
    plain: Collection[str] = (),
    words: Mapping[str, ValueText] = NO_WORDS,
) -> tuple[pa.Table | None, list[Finding]]:
    """Read columns of a row group as text, dictionary-encoded; no table where a column is damaged or holds no text.

    The decoder makes the dictionaries, from those of the file if there are any, so no row becomes a string. A row group
    for which that fails, or that holds other types, is read value by value. `metadata` are the file's, where the caller
    has read them: those of a large file take milliseconds. `plain` columns are read without dictionaries, as text or as
    int64, where nothing has to be read value by value. `words` of columns that have others than WORDS.
    """
    metadata = metadata or pq.read_metadata(stream)
    if not _holds_values(metadata, number, columns):  # lists may be far longer than the file: they are not read
        return None, [Finding(name, NEITHER, rows=metadata.row_group(number).num_rows)]
    table = _read_dictionaries(stream, number, columns, metadata, plain)
    if table is not None:
        return table, []
    file = pq.ParquetFile(stream, metadata=metadata)
    rows = metadata.row_group(number).num_rows
    try:
        table = file.read_row_group(number, columns=list(columns), use_threads=False)
    except (pa.ArrowException, OSError, MemoryError) as error:
        if getattr(error, "errno", None):  # the file system's, not the file's content
            raise
        return None, [Finding(name, f"row group {number + 1} cannot be read", rows=rows)]
    try:
        return pa.table(
            {column: as_text(table[column], words.get(column, WORDS)).dictionary_encode() for column in columns}
        ), []
    except pa.ArrowException:
        return None, [Finding(name, NEITHER, rows=rows)]


def _holds_values(metadata: pq.FileMetaData, number: int, columns: Sequence[str]) -> bool:
    """Return whether each column has one value a row, by the file's footer."""
    group = metadata.row_group(number)
    chunks = [group.column(at) for at in range(group.num_columns)]
    values = {chunk.path_in_schema: chunk.num_values for chunk in chunks}
    return all(values.get(column) == group.num_rows for column in columns)


def _read_dictionaries(
    stream: IO[bytes], number: int, columns: Sequence[str], metadata: pq.FileMetaData, plain: Collection[str]
) -> pa.Table | None:
    """Read columns of text as dictionaries; None where one holds something else, lacks a value or is damaged."""
    try:
        types = metadata.schema.to_arrow_schema()
        kinds = {column: types.field(column).type for column in columns}
        numbers = [column for column in columns if column in plain and pa.types.is_integer(kinds[column])]
        if not all(_holds_text(kind) or column in numbers for column, kind in kinds.items()):
            return None
        coded = [column for column in columns if column not in plain]
        file = pq.ParquetFile(stream, metadata=metadata, read_dictionary=coded)
        table = file.read_row_group(number, columns=list(columns), use_threads=False).unify_dictionaries()
        if any(column.null_count for column in table.columns):
            return None
        if not all(pa.types.is_dictionary(table[column].type) for column in coded):
            return None
        for column in set(columns) - set(coded):
            values = table[column].cast(pa.int64() if column in numbers else pa.string())
            values.validate(full=True)
            table = table.set_column(table.column_names.index(column), column, values)
        for chunk in (chunk for column in coded for chunk in table[column].chunks):
            chunk.dictionary.validate(full=True)  # the decoder does not check that a value is UTF-8
            numbers = chunk.indices.to_numpy()
            unsigned = numbers.view(f"u{numbers.itemsize}")  # a negative one is larger than any dictionary
            if len(numbers) and unsigned.max() >= len(chunk.dictionary):  # nor this
                return None
    except (pa.ArrowException, OSError, MemoryError) as error:
        if getattr(error, "errno", None):
            raise
        return None
    return table


def _holds_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_text(column: pa.ChunkedArray, words: ValueText = WORDS) -> pa.ChunkedArray:
    """Return values as the text of a table would have them: 1.0 of a column with missing numbers is `1`.

    words: for what has no text in Parquet. Raises pa.ArrowException for values that are neither text nor numbers.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        text = pc.if_else(column, words.true, words.false)
    else:
        text = column.cast(pa.string())
        if pa.types.is_floating(column.type):
            numbers = column.cast(pa.float64())
            whole = pc.and_(pc.equal(pc.trunc(numbers), numbers), pc.less(pc.abs(numbers), 2.0**53))
            text = pc.if_else(whole, numbers.cast(pa.int64(), safe=False).cast(pa.string()), text)
            text = pc.if_else(pc.is_nan(numbers), None, text)
    text = text.fill_null(words.null)
    text.validate(full=True)  # Parquet promises UTF-8 and does not check it
    return text
