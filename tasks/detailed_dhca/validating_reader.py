"""The validating reader: check persons row by row and encode them; every fault is a finding with its line.

It reads what the fast reader leaves to it, and is the fast reader's reference. Everything here is confidential.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tasks.detailed_dhca.person_file import AGE23_BINS, PATTERNS, RACE_COLUMNS, VALID, PersonFile, malformed
from tasks.inputs.block_codes import block_numbers, code_number, find_blocks
from tasks.inputs.findings import Finding
from tasks.inputs.records import Chunk, ChunkReport, RowChecks, all_outside, report_of


def read_validating(
    file: PersonFile, chunk: Chunk, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], ChunkReport]:
    """Check and encode a chunk; without arrays where it has no person of the file's states."""
    table, _ = chunk.parse()
    if table is None:
        return {}, report_of(chunk, chunk.skipped, chunk.skipped, [])
    if all_outside(file.states, table["TABBLKST"]):
        return {}, report_of(chunk, len(table), len(table), [])
    arrays, left_out, findings = check_and_encode(file, table, blocks)
    return arrays, report_of(chunk, len(table), left_out, findings)


def check_and_encode(
    file: PersonFile, table: pa.Table, blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int, list[Finding]]:
    """Apply the state filter, check every remaining row, encode those without a fault.

    Returns the arrays of `persons.encode_chunk`, the number of persons outside the state filter, and the findings,
    whose `first` is the number of the row.
    """
    checks = RowChecks(file, table, file.states)
    columns = checks.columns
    for name in PATTERNS:
        checks.fault(f"Invalid values found; valid are {VALID[name]}", name, columns[name].where(malformed(name)))
    count = len(checks.rows)
    codes = np.empty((9, count), np.uint16)
    is_code, is_null = np.empty((9, count), bool), np.empty((9, count), bool)
    for position, name in enumerate((*RACE_COLUMNS, "QSPAN")):
        column = columns[name]
        well_formed = ~column.where(malformed(name))
        unlisted = column.where(lambda value: value not in file.code_numbers)
        checks.fault("codes that are not in the code list", name, well_formed & unlisted)
        codes[position] = column.where(lambda value: file.code_numbers.get(value, 0), np.uint16)
        is_null[position] = column.where(lambda value: value == "Null")
        is_code[position] = well_formed & ~is_null[position]
    after_null = np.logical_or.reduce(is_code[1:8] & is_null[:7])
    checks.fault("race codes after a 'Null'", "QRACE2", after_null)
    given = is_code[:8].sum(axis=0, dtype=np.uint8)
    checks.fault(f"more than {file.max_race_codes} race codes", "QRACE1", given > file.max_race_codes)
    row, known = find_blocks(blocks, block_numbers(columns))
    if file.blocks_known:
        checks.fault("block is not in GRF-C", "TABBLK", checks.good & ~known)
    encoded = {
        "block": row.astype(np.int32),
        "cell": (len(AGE23_BINS) * (columns["QSEX"].where(code_number, np.int64) - 1)).astype(np.uint8)
        + columns["QAGE"].where(lambda age: np.searchsorted(AGE23_BINS, code_number(age), "right") - 1, np.uint8),
    }
    combination = pd.DataFrame(codes.T).groupby(list(range(9)), sort=False).ngroup()  # numbered as they first occur
    encoded["combination"] = combination.to_numpy(np.int32)
    combinations = codes.T[~combination.duplicated()]
    if not checks.good.all():
        encoded = {name: array[:0] for name, array in encoded.items()}
    return {**encoded, "combinations": combinations}, checks.left_out, checks.findings
