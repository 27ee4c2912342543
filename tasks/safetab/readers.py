"""The two readers of a chunk of records: each checks the values and encodes them.

The fast reader's compiled kernels parse chunks without faulty values, nearly every chunk of a real file; they return
None for a small chunk or any other. The validating reader checks row by row and reports every fault as a finding with
its line; it is the reference of the fast reader. Everything here is confidential.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tasks.records.block_codes import STATE_UNIT, find_blocks, runs
from tasks.records.fast_records import Parsed, RecordLayout, parse_chunk
from tasks.records.findings import Finding
from tasks.records.record_fields import NULL
from tasks.records.records import STATE, Chunk, ChunkReport, RowChecks, all_outside, report_of
from tasks.safetab.record_kind import BLOCK, CELL, CODES, RACES, GroupRecords, RecordKind

SLOTS = 1 << 17  # entries of a hash table that fits a core's cache; combinations are far fewer than records


def parse_records(kind: RecordKind, file: GroupRecords, chunk: Chunk) -> Parsed | None:
    """Parse a chunk, including records of other states; return None for a small chunk or a possible fault."""
    return parse_chunk(RecordLayout(kind.fields, file.valid_codes), file.header, chunk)


def encode_parsed(
    file: GroupRecords, records: Parsed, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int] | None:
    """Encode the records in the file's states as `check_and_encode` does; return also the number of other records.

    Returns None if a record has a fault: a race code after a Null, too many codes, or a block that is not in GRF-C.
    """
    if not file.blocks_known:
        return None
    numbers, cells, codes = records.numbers[BLOCK], records.numbers[CELL], records.codes
    counted = np.array([f"{state:02d}" in file.states for state in range(100)])
    number, lengths = runs(numbers)
    inside = counted[number // STATE_UNIT]
    left_out = int(lengths[~inside].sum())
    if left_out:
        of_record = np.repeat(inside, lengths)
        cells, codes = cells[of_record], codes[:, of_record]
        number, lengths = number[inside], lengths[inside]
    block, known = find_blocks(blocks, number)
    if not known.all():
        return None
    combination, combinations = distinct_combinations(codes)
    given = combinations[:, : len(RACES)] > 0
    if (given[:, 1:] & ~given[:, :-1]).any() or given.sum(axis=1).max(initial=0) > file.max_race_codes:
        return None
    encoded = {
        "block": block,
        "ends": np.cumsum(lengths),
        "cell": cells.astype(np.uint8),
        "combination": combination,
        "combinations": combinations,
    }
    return encoded, left_out


def distinct_combinations(
    codes: NDArray[np.uint16], slots: int = SLOTS
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the combination of each record, and the distinct combinations in the order of first occurrence."""
    from tasks.safetab.compiled_counts import SCATTER, number_combinations

    places, rows = codes.shape
    combination, keys = np.empty(rows, np.uint32), np.empty((rows, 3), np.uint64)
    while (known := number_combinations(codes, SCATTER, np.zeros(slots, np.uint32), combination, keys)) < 0:
        slots *= 4
    return combination, keys[:known].astype("<u8").view("<u2")[:, :places].astype(np.uint16)


def read_validating(
    kind: RecordKind, file: GroupRecords, chunk: Chunk, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], ChunkReport]:
    """Check and encode a chunk; return no arrays if it has no record of the file's states."""
    table, _ = chunk.parse()
    if table is None:
        return {}, report_of(chunk, chunk.skipped, chunk.skipped, [])
    if all_outside(file.states, table[STATE]):
        return {}, report_of(chunk, len(table), len(table), [])
    arrays, left_out, findings = check_and_encode(kind, file, table, blocks)
    return arrays, report_of(chunk, len(table), left_out, findings)


def check_and_encode(
    kind: RecordKind, file: GroupRecords, table: pa.Table, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int, list[Finding]]:
    """Apply the state filter, check every remaining row, encode the rows without a fault.

    Returns the arrays of `encode.encode_chunk`, by runs of records in one block, the number of records outside the
    state filter, and the findings, whose `first` is the number of the row.
    """
    checks = RowChecks(file, table, file.states)
    columns, count = checks.columns, len(checks.rows)
    numbers, well_formed = checks.numbers(kind.fields)
    codes, is_code = np.empty((len(CODES), count), np.uint16), np.empty((len(CODES), count), bool)
    for place, name in enumerate(CODES):
        unlisted = columns[name].where(lambda value: value not in file.code_numbers)
        checks.fault("codes that are not in the code list", name, well_formed[name] & unlisted)
        codes[place] = columns[name].where(lambda value: file.code_numbers.get(value, 0), np.uint16)
        is_code[place] = well_formed[name] & columns[name].where(lambda value: value != NULL)
    is_null = np.array([columns[name].where(lambda value: value == NULL) for name in RACES])
    after_null = np.logical_or.reduce(is_code[1 : len(RACES)] & is_null[:-1])
    checks.fault("race codes after a 'Null'", RACES[1], after_null)
    given = is_code[: len(RACES)].sum(axis=0, dtype=np.uint8)
    checks.fault(f"more than {file.max_race_codes} race codes", RACES[0], given > file.max_race_codes)
    row, known = find_blocks(blocks, numbers[BLOCK])
    if file.blocks_known:
        checks.fault("block is not in GRF-C", "TABBLK", checks.good & ~known)
    combination = pd.DataFrame(codes.T).groupby(list(range(len(CODES))), sort=False).ngroup()  # as they first occur
    combinations = codes.T[~combination.duplicated()]
    block, lengths = runs(row)
    encoded = {
        "block": block,
        "ends": np.cumsum(lengths),
        "cell": numbers[CELL].astype(np.uint8),
        "combination": combination.to_numpy(np.uint32),
    }
    if not checks.good.all():
        encoded = {name: array[:0] for name, array in encoded.items()}
    return {**encoded, "combinations": combinations}, checks.left_out, checks.findings
