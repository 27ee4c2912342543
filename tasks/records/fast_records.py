"""The fast reader of records: parse chunks in which every value is valid, by compiled kernels.

A system describes its columns as fields. Where a chunk holds anything that the system's validating reader might refuse,
nothing is parsed, and the validating reader takes the chunk: it finds every fault and its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.records.record_fields import BOOLEAN, DIGITS, NO_MEANING, NUMBER, UNREAD, Field
from tasks.records.records import Chunk
from tasks.records.tables import DELIMITER, EncodedColumn

SHORTEST = {UNREAD: 0, NUMBER: 1, BOOLEAN: 4}  # letters of a value; other kinds have their width
MIN_BYTES, MIN_ROWS = 1 << 22, 1 << 16  # text, Parquet: below, importing numba takes longer than it saves


@dataclass(frozen=True)
class RecordLayout:
    """The fields of a table by column; columns that are not among them are not read.

    code_numbers: uint16, the number of each code from 0 to 9999, 0 where it is not listed.
    """

    fields: Mapping[str, Field]
    code_numbers: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(10_000, np.uint16))

    def empty(self, rows: int) -> Parsed:
        """Return the numbers and codes of `rows` records, all 0."""
        places = [[each.place + 1 for each in self.fields.values() if each.is_code == code] for code in (False, True)]
        numbers, codes = (max(listed, default=0) for listed in places)
        return Parsed(np.zeros((numbers, rows), np.int64), np.zeros((codes, rows), np.uint16))

    def number(self, field: Field, value: str) -> int | None:
        """Return what a value adds to its record, the number of a code; None where it may be a fault."""
        number = field.number(value)
        if field.is_code and number:
            return int(self.code_numbers[number]) or None
        return number


@dataclass(frozen=True)
class Parsed:
    """Parsed records: `numbers`, int64, and `codes`, uint16, each places x records; confidential."""

    numbers: NDArray[np.int64]
    codes: NDArray[np.uint16]


def parse_chunk(layout: RecordLayout, header: Sequence[str], chunk: Chunk, delimiter: str = DELIMITER) -> Parsed | None:
    """Parse a chunk; None where it is small or a value may be a fault."""
    if chunk.text is not None:
        return parse_text(layout, header, chunk.text, delimiter) if len(chunk.text) >= MIN_BYTES else None
    table, _ = chunk.parse()
    return parse_columns(layout, table) if table is not None and len(table) >= MIN_ROWS else None


def parse_text(
    layout: RecordLayout, header: Sequence[str], text: bytes | memoryview, delimiter: str = DELIMITER
) -> Parsed | None:
    """Parse lines of text; None where a line may have a fault."""
    from tasks.records.compiled_records import read_lines

    fields = [layout.fields.get(name, Field(UNREAD)) for name in header]
    shortest = len(fields) + sum(0 if each.blank else SHORTEST.get(each.kind, each.width) for each in fields)
    parsed = layout.empty(len(text) // shortest + 1)
    described, meanings = _describe(fields)
    letters = np.frombuffer(text, np.uint8)
    letters.setflags(write=False)  # one kernel, whatever the buffer is
    rows = read_lines(letters, ord(delimiter), described, meanings, layout.code_numbers, parsed.numbers, parsed.codes)
    return None if rows < 0 else Parsed(parsed.numbers[:, :rows], parsed.codes[:, :rows])


def _describe(fields: Sequence[Field]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what `read_lines` takes of each field of a line, and all meanings."""
    starts = np.cumsum([0, *(len(each.meanings) for each in fields)]).tolist()
    rows = [
        (each.kind, each.width, each.place, each.factor, each.most, start if each.meanings else NO_MEANING, each.blank)
        for each, start in zip(fields, starts[:-1], strict=True)
    ]
    return np.array(rows, np.int64), np.array([meaning for each in fields for meaning in each.meanings], np.int64)


def parse_columns(layout: RecordLayout, table: pa.Table) -> Parsed | None:
    """Parse dictionary-encoded columns, each distinct value once, and plain ones; None where a value may be a fault."""
    from tasks.records.compiled_records import add_values

    parsed = layout.empty(len(table))
    for name, each in layout.fields.items():
        if not pa.types.is_dictionary(table[name].type):
            plain = _plain_numbers(each, table[name])
            if plain is None:
                return None
            parsed.numbers[each.place] += plain * each.factor
            continue
        column = EncodedColumn(table[name])
        values = [layout.number(each, value) for value in column.values]
        faults = [number for number, value in enumerate(values) if value is None]
        if faults and np.isin(column.numbers, faults).any():  # a dictionary may hold values without a record
            return None
        if any(values):
            sums: NDArray[Any] = (parsed.codes if each.is_code else parsed.numbers)[each.place]
            add_values(np.array([value or 0 for value in values], sums.dtype), column.numbers, sums)
    return parsed


def _plain_numbers(field: Field, column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Return the numbers of a plain column of digits, text or integers; None where one may be a fault."""
    if field.kind != DIGITS:
        return None
    if pa.types.is_string(column.type):
        fits = pc.and_(pc.equal(pc.binary_length(column), field.width), pc.ascii_is_decimal(column))
        if not pc.all(fits).as_py():
            return None
        column = column.cast(pa.int64())
    numbers: NDArray[np.int64] = column.to_numpy()
    least, most = 10 ** (field.width - 1), 10**field.width  # as an integer it has no zeros before it
    return numbers if len(numbers) == 0 or least <= numbers.min() <= numbers.max() < most else None
