"""The fast reader: parse and encode records in chunks in which no value has a fault, by compiled kernels.

That is nearly every chunk of a real file. Where a chunk holds anything else, or little, these functions return None,
and the validating reader takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.inputs.block_codes import STATE_UNIT, find_blocks
from tasks.inputs.fast_records import Parsed, RecordLayout, parse_chunk
from tasks.inputs.record_fields import Field
from tasks.inputs.records import Chunk
from tasks.population_groups.record_kind import BLOCK, CELL, RACE_FIELDS, RACES, GroupRecords, RecordKind

SLOTS = 1 << 18  # of a table of combinations, as fit a core's cache: there are far fewer combinations than records


def parse_records(kind: RecordKind, file: GroupRecords, chunk: Chunk) -> Parsed | None:
    """Parse a chunk, whatever the states of its records; None where it is small or a value may be a fault."""
    return parse_chunk(RecordLayout(kind.fields, _code_numbers(file, RACE_FIELDS[RACES[0]])), file.header, chunk)


def _code_numbers(file: GroupRecords, field: Field) -> NDArray[np.uint16]:
    """Return the number of every code of four digits, 0 where it is not listed or no value of the field."""
    numbers = np.zeros(10_000, np.uint16)
    for code, number in file.code_numbers.items():
        if field.number(code) is not None:
            numbers[int(code)] = number
    return numbers


def encode_parsed(
    file: GroupRecords, records: Parsed, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int] | None:
    """Encode the records in the file's states as the validating reader does; return the number of others as well.

    None where one of them has a fault: race codes after a Null, too many, or a block that is not in GRF-C.
    """
    if not file.blocks_known:
        return None
    numbers, cells, codes = records.numbers[BLOCK], records.numbers[CELL], records.codes
    counted = np.array([f"{state:02d}" in file.states for state in range(100)])
    inside = counted[numbers // STATE_UNIT]
    left_out = len(inside) - int(np.count_nonzero(inside))
    if left_out:
        numbers, cells, codes = numbers[inside], cells[inside], codes[:, inside]
    block, known = find_blocks(blocks, numbers)
    if not known.all():
        return None
    combination, combinations = distinct_combinations(codes)
    given = combinations[:, : len(RACES)] > 0
    if (given[:, 1:] & ~given[:, :-1]).any() or given.sum(axis=1).max(initial=0) > file.max_race_codes:
        return None
    encoded = {
        "block": block.astype(np.int32),
        "cell": cells.astype(np.uint8),
        "combination": combination,
        "combinations": combinations,
    }
    return encoded, left_out


def distinct_combinations(
    codes: NDArray[np.uint16], slots: int = SLOTS
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Return the combination of each record, from the codes by place, and the combinations as they first occur."""
    from tasks.population_groups.compiled_counts import SCATTER, number_combinations

    places, rows = codes.shape
    combination, buffer = np.empty(rows, np.int32), np.empty((rows, places), np.uint16)
    while (known := number_combinations(codes, SCATTER, np.full(slots, -1, np.int32), combination, buffer)) < 0:
        slots *= 4
    return combination, buffer[:known].copy()
