"""The validating reader: check records row by row and encode them; every fault is a finding with its line.

It reads what the fast reader leaves to it, and is the fast reader's reference. Everything here is confidential.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tasks.inputs.block_codes import find_blocks
from tasks.inputs.findings import Finding
from tasks.inputs.record_fields import NULL
from tasks.inputs.records import STATE, Chunk, ChunkReport, RowChecks, all_outside, report_of
from tasks.population_groups.record_kind import BLOCK, CELL, CODES, RACES, GroupRecords, RecordKind


def read_validating(
    kind: RecordKind, file: GroupRecords, chunk: Chunk, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], ChunkReport]:
    """Check and encode a chunk; without arrays where it has no record of the file's states."""
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
    """Apply the state filter, check every remaining row, encode those without a fault.

    Returns the arrays of `encode.encode_chunk`, the number of records outside the state filter, and the findings,
    whose `first` is the number of the row.
    """
    checks = RowChecks(file, table, file.states)
    columns, count = checks.columns, len(checks.rows)
    numbers = np.zeros((1 + max(BLOCK, CELL), count), np.int64)
    well_formed = {}
    for name, field in kind.fields.items():
        counted = [field.number(value) for value in columns[name].values]
        well_formed[name] = columns[name].spread([number is not None for number in counted])
        checks.fault(f"Invalid values found; valid are {field.words}", name, ~well_formed[name])
        if not field.is_code:
            numbers[field.place] += columns[name].spread([number or 0 for number in counted], np.int64)
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
    encoded = {
        "block": row.astype(np.int32),
        "cell": numbers[CELL].astype(np.uint8),
        "combination": combination.to_numpy(np.int32),
    }
    if not checks.good.all():
        encoded = {name: array[:0] for name, array in encoded.items()}
    return {**encoded, "combinations": combinations}, checks.left_out, checks.findings
