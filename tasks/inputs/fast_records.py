"""The fast reader of records: parse chunks in which every value is valid, by compiled kernels.

A system describes its columns as fields. Where a chunk holds anything that the system's validating reader might refuse,
nothing is parsed, and the validating reader takes the chunk: it finds every fault and its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.inputs.block_codes import BLOCK_COLUMNS, BLOCK_FACTORS, BLOCK_WIDTHS
from tasks.inputs.records import Chunk
from tasks.inputs.tables import Column

UNREAD, DIGITS, CHOICE, NUMBER, BOOLEAN, CODE, CODE_OR_NULL = range(7)
SHORTEST = {UNREAD: 0, CHOICE: 1, NUMBER: 1, BOOLEAN: 4, CODE: 4, CODE_OR_NULL: 4}  # letters of a value
MOST_DIGITS = 9  # of a NUMBER that the kernel reads
MIN_BYTES, MIN_ROWS = 1 << 22, 1 << 16  # of text, of Parquet: for fewer, importing numba takes longer than it saves


class Field(NamedTuple):
    """The values of a column, and what one adds to the numbers of its record.

    kind, width: UNREAD is any ASCII text; DIGITS are `width` digits; CHOICE is a digit from 1 to `width`, and counts
    from 0; NUMBER is a whole number that has a meaning, and counts as that; BOOLEAN is True or False, and counts 0;
    CODE is a listed code of four digits; CODE_OR_NULL may be Null as well.
    place, factor: a value is multiplied by `factor` and added to number `place` of the record; the number of a code is
    the record's code `place`.
    """

    kind: int
    width: int = 0
    place: int = 0
    factor: int = 1


BLOCK_FIELDS = {
    name: Field(DIGITS, width, factor=BLOCK_FACTORS[name])
    for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True)
}


@dataclass(frozen=True)
class Layout:
    """The fields of a table by column; columns that are not among them are not read.

    meanings: of a NUMBER from 0 on. code_numbers: uint16, the number of each code from 0 to 9999, 0 where it is not
    listed.
    """

    fields: Mapping[str, Field]
    meanings: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    code_numbers: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(10_000, np.uint16))

    def empty(self, rows: int) -> Parsed:
        """Return the numbers and codes of `rows` records, all 0."""
        places = [[each.place + 1 for each in self.fields.values() if (each.kind >= CODE) == code] for code in (0, 1)]
        numbers, codes = (max(listed, default=0) for listed in places)
        return Parsed(np.zeros((numbers, rows), np.int64), np.zeros((codes, rows), np.uint16))


@dataclass(frozen=True)
class Parsed:
    """Parsed records: `numbers`, int64, and `codes`, uint16, each places x records; confidential."""

    numbers: NDArray[np.int64]
    codes: NDArray[np.uint16]


def parse_chunk(layout: Layout, header: Sequence[str], chunk: Chunk) -> Parsed | None:
    """Parse a chunk; None where it is small or a value may be a fault."""
    if chunk.text is not None:
        return parse_text(layout, header, chunk.text) if len(chunk.text) >= MIN_BYTES else None
    table, _ = chunk.parse()
    return parse_columns(layout, table) if table is not None and len(table) >= MIN_ROWS else None


def parse_text(layout: Layout, header: Sequence[str], text: bytes) -> Parsed | None:
    """Parse lines of text, fields between bars; None where a line may have a fault."""
    from tasks.inputs.compiled_records import read_lines

    fields = [layout.fields.get(name, Field(UNREAD)) for name in header]
    shortest = len(fields) + sum(SHORTEST.get(each.kind, each.width) for each in fields)  # a line with its ends
    parsed = layout.empty(len(text) // shortest + 1)
    letters, listed = np.frombuffer(text, np.uint8), np.array(fields, np.int64)
    rows = read_lines(letters, listed, layout.meanings, layout.code_numbers, parsed.numbers, parsed.codes)
    return None if rows < 0 else Parsed(parsed.numbers[:, :rows], parsed.codes[:, :rows])


def parse_columns(layout: Layout, table: pa.Table) -> Parsed | None:
    """Parse dictionary-encoded columns, each distinct value once; None where a value may be a fault."""
    from tasks.inputs.compiled_records import add_values

    parsed = layout.empty(len(table))
    for name, each in layout.fields.items():
        column = Column(table[name])
        values = [_number(layout, each, value) for value in column.values]
        faults = [number for number, value in enumerate(values) if value is None]
        if faults and np.isin(column.numbers, faults).any():  # a dictionary may hold values that nobody has
            return None
        if any(values):
            sums: NDArray[Any] = (parsed.codes if each.kind >= CODE else parsed.numbers)[each.place]
            add_values(np.array([value or 0 for value in values], sums.dtype), column.numbers, sums)
    return parsed


def _number(layout: Layout, field: Field, value: str) -> int | None:
    """Return what a value adds to its record, None where it may be a fault."""
    if field.kind == UNREAD:
        return 0
    if field.kind == BOOLEAN:
        return 0 if value in ("True", "False") else None
    if field.kind == CODE_OR_NULL and value == "Null":
        return 0
    if not (value.isascii() and value.isdigit()):
        return None
    if field.kind == NUMBER:
        number = int(value[-MOST_DIGITS:]) if not value[:-MOST_DIGITS].strip("0") else len(layout.meanings)
        return int(layout.meanings[number]) * field.factor if number < len(layout.meanings) else None
    if field.kind == CHOICE:
        return (int(value) - 1) * field.factor if len(value) == 1 and 1 <= int(value) <= field.width else None
    if len(value) != (field.width if field.kind == DIGITS else 4):
        return None
    return int(value) * field.factor if field.kind == DIGITS else int(layout.code_numbers[int(value)]) or None
