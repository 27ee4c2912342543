"""The fast reader: parse and encode persons by compiled kernels (`compiled_persons`), where no value has a fault.

That is nearly every chunk of a real file. Where a chunk holds anything else, or little, these functions return None,
and the validating reader takes it, which finds every fault and its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.detailed_dhca.person_file import AGE23_BINS, CELLS, COLUMNS, PATTERNS, RACE_COLUMNS, PersonFile
from tasks.inputs.block_codes import BLOCK_COLUMNS, BLOCK_FACTORS, BLOCK_WIDTHS, STATE_UNIT
from tasks.inputs.records import Chunk
from tasks.inputs.tables import Column

FEWEST_BYTES, FEWEST_ROWS = 1 << 22, 1 << 16  # of text, of Parquet: for fewer, numba would take longer than it saves
SHORTEST_LINE = 76  # bytes, its end included
CODES = (*RACE_COLUMNS, "QSPAN")
AGES = range(116)
AGE_BINS = (np.searchsorted(AGE23_BINS, AGES, "right") - 1).astype(np.uint8)


@dataclass(frozen=True)
class ParsedPersons:
    """Persons each of whose values is valid by itself; confidential.

    Attributes
    ----------
    block : int64 array, n
        Block codes as numbers of 15 digits.
    cell : uint8 array, n
        Sex-by-age23 cell.
    codes : uint16 array, 9 x n
        Code numbers of QRACE1..8 (0 for Null) and QSPAN.
    """

    block: NDArray[np.int64]
    cell: NDArray[np.uint8]
    codes: NDArray[np.uint16]

    @classmethod
    def empty(cls, rows: int) -> ParsedPersons:
        """Return empty arrays for `rows` persons."""
        return cls(np.zeros(rows, np.int64), np.zeros(rows, np.uint8), np.zeros((len(CODES), rows), np.uint16))


def parse_chunk(file: PersonFile, chunk: Chunk) -> ParsedPersons | None:
    """Parse a chunk, whatever the states of its persons; None where it is small or a value has a fault."""
    if chunk.text is not None:
        return parse_text(file, chunk.text)
    table, _ = chunk.parse()
    return None if table is None else parse_columns(file, table)


def parse_text(file: PersonFile, body: bytes) -> ParsedPersons | None:
    """Parse the lines of a chunk; None where it is small or a line has a fault."""
    if len(body) < FEWEST_BYTES:
        return None
    from tasks.detailed_dhca.compiled_persons import read_text

    buffer = ParsedPersons.empty(len(body) // SHORTEST_LINE + 1)
    letters = np.frombuffer(body, np.uint8)
    rows = read_text(letters, _fields(file), _code_numbers(file), AGE_BINS, buffer.block, buffer.cell, buffer.codes)
    return None if rows < 0 else ParsedPersons(buffer.block[:rows], buffer.cell[:rows], buffer.codes[:, :rows])


def _fields(file: PersonFile) -> NDArray[np.int64]:
    """(kind, width, place) of each field of a line, as `read_text` takes them."""
    from tasks.detailed_dhca.compiled_persons import AGE, CODE, CODE_OR_NULL, DIGITS, HOUSEHOLDER, SEX

    kinds = {
        "QAGE": (AGE, 1, 0),
        "QSEX": (SEX, 1, 0),
        "HOUSEHOLDER": (HOUSEHOLDER, 4, 0),
        **{name: (DIGITS, width, BLOCK_FACTORS[name]) for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True)},
        "CENRACE": (DIGITS, 2, 0),
        **{name: (CODE_OR_NULL, 4, place) for place, name in enumerate(CODES)},
        "QRACE1": (CODE, 4, CODES.index("QRACE1")),
        "QSPAN": (CODE, 4, CODES.index("QSPAN")),
    }
    return np.array([kinds[name] for name in file.header], np.int64)


def _code_numbers(file: PersonFile) -> NDArray[np.uint16]:
    """The number of every code of four digits, 0 where it is not listed."""
    numbers = np.zeros(10_000, np.uint16)
    well_formed = re.compile(PATTERNS["QRACE1"]).fullmatch
    for code, number in file.code_numbers.items():
        if well_formed(code):
            numbers[int(code)] = number
    return numbers


def parse_columns(file: PersonFile, table: pa.Table) -> ParsedPersons | None:
    """Parse persons from dictionaries, each distinct value once; None where they are few or a value has a fault."""
    if len(table) < FEWEST_ROWS:
        return None
    from tasks.detailed_dhca.compiled_persons import add_up

    persons = ParsedPersons.empty(len(table))
    sums: dict[str, NDArray[Any]] = {
        "QAGE": persons.cell,
        "QSEX": persons.cell,
        **dict.fromkeys(BLOCK_COLUMNS, persons.block),
        **dict(zip(CODES, persons.codes, strict=True)),
    }
    for name in COLUMNS:
        column = Column(table[name])
        accepts, number = re.compile(PATTERNS[name]).fullmatch, _meaning(file, name)
        values = [number(value) if accepts(value) else None for value in column.values]
        faults = [number for number, value in enumerate(values) if value is None]
        if faults and np.isin(column.numbers, faults).any():  # a dictionary may hold values that nobody has
            return None
        if name in sums and any(values):
            add_up(np.array([value or 0 for value in values], sums[name].dtype), column.numbers, sums[name])
    return persons


def _meaning(file: PersonFile, name: str) -> Callable[[str], int | None]:
    """What a well-formed value adds to the person's block number, cell or code number; None for an unlisted code."""
    if name in CODES:
        return file.code_numbers.get
    if name in BLOCK_FACTORS:
        return lambda value: int(value) * BLOCK_FACTORS[name]
    match name:
        case "QAGE":
            return lambda value: int(AGE_BINS[int(value[-9:])])  # it may have any number of leading zeros
        case "QSEX":
            return lambda value: CELLS // 2 * (int(value) - 1)
    return lambda value: 0


def encode_parsed(
    file: PersonFile, persons: ParsedPersons, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int] | None:
    """Encode the persons in the file's states as the validating reader does; return the number of others as well.

    None where one of them has a fault: race codes after a Null, too many, or a block that is not in GRF-C.
    """
    from tasks.detailed_dhca.compiled_persons import SCATTER, find_blocks, number_combinations

    if not file.blocks_known:
        return None
    counted = np.array([f"{state:02d}" in file.states for state in range(100)])
    inside = counted[persons.block // STATE_UNIT]
    left_out = len(inside) - int(np.count_nonzero(inside))
    if left_out:
        persons = ParsedPersons(persons.block[inside], persons.cell[inside], persons.codes[:, inside])
    rows = len(persons.block)
    block = np.empty(rows, np.int32)
    if not find_blocks(persons.block, blocks, block):
        return None
    slots = np.full(1 << (2 * rows).bit_length(), -1, np.int32)
    combination, buffer = np.empty(rows, np.int32), np.empty((rows, len(CODES)), np.uint16)
    combinations = buffer[: number_combinations(persons.codes, SCATTER, slots, combination, buffer)].copy()
    given = combinations[:, : len(RACE_COLUMNS)] > 0
    if (given[:, 1:] & ~given[:, :-1]).any() or given.sum(axis=1).max(initial=0) > file.max_race_codes:
        return None
    return {
        "block": block,
        "cell": persons.cell,
        "combination": combination,
        "combinations": combinations,
    }, left_out
