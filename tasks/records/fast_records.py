"""The fast reader of records: parse chunks in which every value is valid, by compiled kernels.

A system describes its columns as fields. Where a chunk holds anything that the system's validating reader might refuse,
nothing is parsed, and the validating reader takes the chunk: it finds every fault and its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.records.record_fields import BOOLEAN, CODE_OR_NULL, DIGITS, NO_MEANING, NULL, NUMBER, UNREAD, Field
from tasks.records.records import Chunk
from tasks.records.tables import DELIMITER, EncodedColumn

SHORTEST = {UNREAD: 0, NUMBER: 1, BOOLEAN: 4}  # letters of a value; other kinds have their width
MIN_BYTES, MIN_ROWS = 1 << 22, 1 << 16  # text, Parquet: below, importing numba takes longer than it saves


@dataclass(frozen=True)
class RecordLayout:
    """The fields of a table by column; columns that are not among them are not read.

    codes: the number of each listed code of four digits, from 1 on.
    """

    fields: Mapping[str, Field]
    codes: Mapping[str, int] = field(default_factory=dict)

    @property
    def code_numbers(self) -> NDArray[np.uint16]:
        """The number of each code from 0 to 9999, 0 where it is not listed."""
        numbers = np.zeros(10_000, np.uint16)
        numbers[[*map(int, self.codes)]] = [*self.codes.values()]
        return numbers

    def empty(self, rows: int) -> Parsed:
        """Return space for `rows` records: numbers, all 0, and codes, which are anything."""
        places = [[each.place + 1 for each in self.fields.values() if each.is_code == code] for code in (False, True)]
        numbers, codes = (max(listed, default=0) for listed in places)
        return Parsed(np.zeros((numbers, rows), np.int64), np.empty((codes, rows), np.uint16))

    def numbers(self, field: Field, values: Iterable[str]) -> list[int | None]:
        """Return what values add to their records, the numbers of codes; None for one that may be a fault."""
        if not field.is_code:
            return [field.number(value) for value in values]
        null = {NULL: 0} if field.kind == CODE_OR_NULL else {}
        return [*map({**self.codes, **null}.get, values)]


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
    from tasks.records.compiled_records import add_values, take_values

    parsed = layout.empty(len(table))
    for name, each in layout.fields.items():
        if not pa.types.is_dictionary(table[name].type):
            plain = _plain_numbers(each, table[name])
            if plain is None:
                return None
            parsed.numbers[each.place] += plain
            continue
        column = EncodedColumn(table[name])
        digits = _digits(each, column.dictionary)
        values = layout.numbers(each, column.values) if digits is None else digits.tolist()
        faults = [number for number, value in enumerate(values) if value is None]
        if faults and np.isin(column.numbers, faults).any():  # a dictionary may hold values without a record
            return None
        known, numbers = [value or 0 for value in values], column.numbers.view(np.uint32)
        if each.is_code:
            take_values(np.array(known, np.uint16), numbers, parsed.codes[each.place])
        elif any(known):
            add_values(np.array(known), numbers, parsed.numbers[each.place])
    return parsed


def _plain_numbers(field: Field, column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Return what a plain column of digits, text or integers, adds to its records; None where one may be a fault."""
    if not pa.types.is_integer(column.type):
        return _digits(field, column)
    numbers: NDArray[np.int64] = column.to_numpy()
    least, most = 10 ** (field.width - 1), 10**field.width  # as an integer it has no zeros before it
    fits = field.kind == DIGITS and (len(numbers) == 0 or least <= numbers.min() <= numbers.max() < most)
    return numbers * field.factor if fits else None


def _digits(field: Field, texts: pa.Array | pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Return what texts add to their records if the column and all of them are digits; otherwise None."""
    if field.kind != DIGITS or not pa.types.is_string(texts.type) or texts.null_count:
        return None
    fits = pc.and_(pc.equal(pc.binary_length(texts), field.width), pc.ascii_is_decimal(texts))
    return texts.cast(pa.int64()).to_numpy() * field.factor if pc.all(fits).as_py() else None
