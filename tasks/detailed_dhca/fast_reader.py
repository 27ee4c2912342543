"""The fast reader of persons: parse and encode chunks in which no value has a fault, by compiled kernels.

That is nearly every chunk of a real file. Where a chunk holds anything else, or little, these functions return None,
and the validating reader takes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhca.person_file import AGE23_BINS, CELLS, PATTERNS, RACE_COLUMNS, PersonFile
from tasks.inputs.block_codes import STATE_UNIT
from tasks.inputs.fast_records import (
    BLOCK_FIELDS,
    BOOLEAN,
    CHOICE,
    CODE,
    CODE_OR_NULL,
    DIGITS,
    NUMBER,
    Field,
    Layout,
    parse_chunk,
)
from tasks.inputs.records import Chunk

CODES = (*RACE_COLUMNS, "QSPAN")
BLOCK, CELL = range(2)  # the numbers of a person
FIELDS = {
    "QAGE": Field(NUMBER, place=CELL),
    "QSEX": Field(CHOICE, 2, CELL, CELLS // 2),
    "HOUSEHOLDER": Field(BOOLEAN),
    **BLOCK_FIELDS,
    "CENRACE": Field(DIGITS, 2, factor=0),
    **{name: Field(CODE_OR_NULL, place=place) for place, name in enumerate(CODES)},
    "QRACE1": Field(CODE, place=CODES.index("QRACE1")),
    "QSPAN": Field(CODE, place=CODES.index("QSPAN")),
}
AGE_BINS = np.searchsorted(AGE23_BINS, np.arange(116), "right") - 1


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


def parse_persons(file: PersonFile, chunk: Chunk) -> ParsedPersons | None:
    """Parse a chunk, whatever the states of its persons; None where it is small or a value may be a fault."""
    parsed = parse_chunk(Layout(FIELDS, AGE_BINS, _code_numbers(file)), file.header, chunk)
    if parsed is None:
        return None
    return ParsedPersons(parsed.numbers[BLOCK], parsed.numbers[CELL].astype(np.uint8), parsed.codes)


def _code_numbers(file: PersonFile) -> NDArray[np.uint16]:
    """Return the number of every code of four digits, 0 where it is not listed."""
    numbers = np.zeros(10_000, np.uint16)
    well_formed = re.compile(PATTERNS["QRACE1"]).fullmatch
    for code, number in file.code_numbers.items():
        if well_formed(code):
            numbers[int(code)] = number
    return numbers


def encode_parsed(
    file: PersonFile, persons: ParsedPersons, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int] | None:
    """Encode the persons in the file's states as the validating reader does; return the number of others as well.

    None where one of them has a fault: race codes after a Null, too many, or a block that is not in GRF-C.
    """
    from tasks.detailed_dhca.compiled_combinations import SCATTER, number_combinations
    from tasks.inputs.compiled_records import find_blocks

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
