"""Kernels that read Parquet's page headers and dictionary indices. What is not plain they leave to Arrow's reader.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
Source: the Parquet format (github.com/apache/parquet-format: README, Encodings, parquet.thrift) and Thrift's compact
protocol.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

# A page's row in `find_pages`, by the fields of PageHeader and of the header that is in it.
KIND, SIZE, COMPRESSED, BEGIN, COUNT, ENCODING, LEVELS = range(7)
WIDTH = LEVELS + 1
DATA_PAGE, DICTIONARY_PAGE = 0, 2  # PageType
DATA_HEADER, DICTIONARY_HEADER = 5, 7  # the fields of PageHeader that hold them
DEEPEST = 4  # structs in structs
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 12  # Thrift's compact types


@compiled
def find_pages(data: NDArray[np.uint8], pages: NDArray[np.int64]) -> int:
    """Find the pages of a column chunk; return how many, or -1 if there are too many or one is not plain.

    Each row of `pages` is filled: its kind, its bytes, those it is compressed to, where these begin, its number of
    values, their encoding and that of the definition levels.
    """
    size, at, found = len(data), 0, 0
    last, parent = np.zeros(DEEPEST + 1, np.int64), np.zeros(DEEPEST + 1, np.int64)
    value: Any  # numba knows it as int64
    while at < size:
        if found == len(pages):
            return -1
        page = pages[found]
        page[:] = -1
        depth, last[0] = 0, 0
        while depth >= 0:
            if at >= size:
                return -1
            byte = np.int64(data[at])
            at += 1
            if byte == 0:
                depth -= 1
                continue
            kind = byte & 15
            if byte >> 4 == 0:  # a field far from the last: none of ours
                return -1
            last[depth] += byte >> 4
            field = last[depth]
            if kind == STRUCT:
                depth += 1
                if depth > DEEPEST:
                    return -1
                last[depth], parent[depth] = 0, field
            elif kind == DOUBLE:
                at += 8
            elif kind == BYTE:
                at += 1
            elif kind in (I16, I32, I64, BINARY):
                value, shift = 0, 0
                while True:
                    if at >= size or shift > 56:
                        return -1
                    byte = np.int64(data[at])
                    at += 1
                    value |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                if kind == BINARY:
                    at += value
                else:
                    value = (value >> 1) ^ -(value & 1)
                    if depth == 0 and field <= 3:
                        page[field - 1] = value
                    elif depth == 1 and (parent[1] == DATA_HEADER or parent[1] == DICTIONARY_HEADER) and field <= 3:
                        page[COUNT + field - 1] = value
            elif kind != TRUE and kind != FALSE:
                return -1
        page[BEGIN] = at
        if page[COMPRESSED] < 0 or page[COMPRESSED] > size - at or page[SIZE] < 0 or page[COUNT] < 0:
            return -1
        at += page[COMPRESSED]
        found += 1
    return found


@compiled
def read_indices(body: NDArray[np.uint8], optional: bool, distinct: int, numbers: NDArray[np.int32]) -> bool:
    """Read the dictionary indices of a data page, none of whose values is missing; False for anything else.

    `optional` says whether definition levels precede them. Indices are less than `distinct`.
    """
    size, at, row, count = len(body), 0, 0, len(numbers)
    value: Any
    header: Any
    held: Any
    bits: Any
    if optional:  # their bytes in four, then one run: all values are there
        if size < 5:
            return False
        length = np.int64(body[0]) | np.int64(body[1]) << 8 | np.int64(body[2]) << 16 | np.int64(body[3]) << 24
        header, at, shift = 0, 4, 0
        while at < size and shift <= 56:
            header |= (np.int64(body[at]) & 127) << shift
            at, shift = at + 1, shift + 7
            if body[at - 1] < 128:
                break
        if header & 1 or header >> 1 < count or at >= size or body[at] != 1 or at + 1 != 4 + length:
            return False
        at += 1
    if at >= size or body[at] > 31:
        return False
    width, most = np.int64(body[at]), 0
    at += 1
    mask = (1 << width) - 1
    while row < count:
        header, shift = 0, 0
        while True:
            if at >= size or shift > 56:
                return False
            header |= (np.int64(body[at]) & 127) << shift
            at, shift = at + 1, shift + 7
            if body[at - 1] < 128:
                break
        if header & 1:  # groups of eight, packed
            if (header >> 1) * width > size - at:
                return False
            held, bits, place = 0, 0, at
            for number in range(row, min(count, row + 8 * (header >> 1))):
                while bits < width:
                    held |= np.int64(body[place]) << bits
                    place, bits = place + 1, bits + 8
                value = held & mask
                held, bits = held >> width, bits - width
                numbers[number] = value
                most = max(most, value)
            at, row = at + (header >> 1) * width, row + 8 * (header >> 1)
        else:  # a run
            value = 0
            for byte in range((width + 7) // 8):
                if at >= size:
                    return False
                value |= np.int64(body[at]) << (8 * byte)
                at += 1
            numbers[row : min(count, row + (header >> 1))] = value
            most, row = max(most, value), row + (header >> 1)
    return most < distinct
