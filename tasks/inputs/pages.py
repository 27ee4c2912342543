"""Dictionary-encoded text columns of Parquet, read page by page with compiled kernels.

Arrow's reader takes some five nanoseconds for each value that stands for an entry of a dictionary, which for a
country is most of validation. What these functions read is what every writer makes of such columns: a dictionary, data
pages of indices, no value missing. Of anything else they return None, and it is read by Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError
from struct import unpack_from
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MOST_PAGES = 1 << 14  # of a column in a row group
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8  # Parquet's encodings


def read_pages(
    stream: IO[bytes], number: int, columns: Sequence[str], metadata: pq.FileMetaData
) -> dict[str, pa.DictionaryArray] | None:
    """Read columns of text of a row group; None where one of them is not plainly a dictionary and its indices."""
    group, schema = metadata.row_group(number), metadata.schema
    places = {group.column(place).path_in_schema: place for place in range(group.num_columns)}
    read = {}
    for name in columns:
        column = group.column(places[name])
        levels = schema.column(places[name])
        if (
            column.physical_type != "BYTE_ARRAY"
            or not column.dictionary_page_offset
            or column.num_values != group.num_rows
            or levels.max_repetition_level
            or levels.max_definition_level > 1
        ):
            return None
        stream.seek(column.dictionary_page_offset)
        data = stream.read(column.total_compressed_size)
        array = None
        if len(data) == column.total_compressed_size:
            array = _read_column(data, column, optional=levels.max_definition_level == 1)
        if array is None:
            return None
        read[name] = array
    return read


def _read_column(data: bytes, column: pq.ColumnChunkMetaData, *, optional: bool) -> pa.DictionaryArray | None:
    """Read a column chunk: its first page is the dictionary."""
    from tasks.inputs.compiled_pages import (
        BEGIN,
        COMPRESSED,
        COUNT,
        DATA_PAGE,
        DICTIONARY_PAGE,
        ENCODING,
        KIND,
        LEVELS,
        SIZE,
        WIDTH,
        find_pages,
        read_indices,
    )

    pages = np.empty((MOST_PAGES, WIDTH), np.int64)
    found = find_pages(np.frombuffer(data, np.uint8), pages)
    if found < 1 or pages[0, KIND] != DICTIONARY_PAGE or pages[0, ENCODING] not in (PLAIN, PLAIN_DICTIONARY):
        return None
    each, headers = pages[1:found], len(data) - pages[:found, COMPRESSED].sum()
    if (
        (each[:, KIND] != DATA_PAGE).any()
        or not np.isin(each[:, ENCODING], (RLE_DICTIONARY, PLAIN_DICTIONARY)).all()
        or (optional and (each[:, LEVELS] != RLE).any())
        or each[:, COUNT].sum() != column.num_values
        or pages[:found, SIZE].sum() + headers != column.total_uncompressed_size  # a decoder believes these sizes
    ):
        return None
    codec = None if column.compression == "UNCOMPRESSED" else pa.Codec(column.compression.lower())
    view = memoryview(data)

    def body(page: int) -> memoryview:
        held = view[pages[page, BEGIN] : pages[page, BEGIN] + pages[page, COMPRESSED]]
        return held if codec is None else memoryview(codec.decompress(held, int(pages[page, SIZE])))

    values = _read_dictionary(body(0), int(pages[0, COUNT]))
    if values is None:
        return None
    numbers, at = np.empty(column.num_values, np.int32), 0
    for page in range(1, found):
        part = numbers[at : at + pages[page, COUNT]]
        if not read_indices(np.frombuffer(body(page), np.uint8), optional, len(values), part):
            return None
        at += len(part)
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(values, pa.string()), safe=False)


def _read_dictionary(body: memoryview, count: int) -> list[str] | None:
    """Read a dictionary: the length of each text in four bytes, and the text."""
    values, at = [], 0
    try:
        for _ in range(count):
            (length,) = unpack_from("<I", body, at)
            values.append(str(body[at + 4 : at + 4 + length], "utf-8"))
            at += 4 + length
    except (StructError, UnicodeDecodeError):
        return None
    return values if at == len(body) else None
