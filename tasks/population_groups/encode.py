"""Encode records to compact integers, chunk by chunk: by the fast reader, else by the validating one.

The fast reader takes chunks in which no value has a fault, by compiled kernels: nearly every chunk of a real file.
Where a chunk holds anything else, or little, its functions return None. The validating reader checks row by row, and
every fault is a finding with its line; it is the fast reader's reference. Everything here is confidential.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tasks.inputs.block_codes import STATE_UNIT, code_number, find_blocks
from tasks.inputs.fast_records import Parsed, RecordLayout, parse_chunk
from tasks.inputs.findings import Finding
from tasks.inputs.record_digests import Sums, Weights, sum_by_state, weights
from tasks.inputs.record_fields import NULL, Field
from tasks.inputs.records import STATE, Chunk, ChunkReport, RowChecks, all_outside, read_chunk, report_of
from tasks.lifecycle.files import read_object, save_arrays, save_object
from tasks.lifecycle.process import kernels_loaded, use_kernels
from tasks.population_groups.record_kind import BLOCK, CELL, CODES, RACE_FIELDS, RACES, GroupRecords, RecordKind
from tasks.population_groups.run import SafeTabRun

SLOTS = 1 << 18  # of a table of combinations, as fit a core's cache: there are far fewer combinations than records


def encode_chunk(run: SafeTabRun, number: int, *others: SafeTabRun) -> None:
    """Check and encode one chunk of the records: records/NUMBER and its report.

    The arrays are sorted by block row: `block` int32, `combination` int32 (row in `combinations`), `cell` uint8, and
    `combinations` uint16, distinct x 9 code numbers (QRACE1..8, QSPAN). `others` are runs over other jurisdictions,
    for which the chunk is read at the same time.
    """
    if not _report_path(run, number).exists():
        use_kernels(run.state_folder)
        runs = [run, *(other for other in others if not _report_path(other, number).exists())]
        files = [each.records for each in runs]
        states = {state for file in files for state in file.states}
        chunk = read_chunk(files[0], number, skip=(STATE, partial(all_outside, states)))
        parsed = parse_records(run.KIND, files[0], chunk)
        for each, file in zip(runs, files, strict=True):
            _encode(each, number, file, chunk, parsed)


def _report_path(run: SafeTabRun, number: int) -> Path:
    return run / f"records/{number:05d}.report"


def read_report(run: SafeTabRun, number: int) -> ChunkReport:
    """Return the report of an encoded chunk."""
    return read_object(_report_path(run, number), ChunkReport)


def _encode(run: SafeTabRun, number: int, file: GroupRecords, chunk: Chunk, parsed: Parsed | None) -> None:
    """Check and encode the records of one run in a chunk; last of all comes its report."""
    blocks = np.asarray(run.geography.blocks) if file.blocks_known else np.zeros(0, np.int64)
    encoded = encode_parsed(file, parsed, blocks) if parsed is not None else None
    if parsed is not None and encoded is not None:
        arrays, left_out = encoded
        report = ChunkReport(chunk.lines, parsed.numbers.shape[1], left_out, chunk.digest, [])
    else:
        arrays, report = read_validating(run.KIND, file, chunk, blocks)
    if arrays and report.left_out < report.rows:
        arrays = _sorted_by_block(arrays)
        if file.blocks_known and len(arrays["block"]):
            report = replace(report, sums=_sums(run, file, arrays, blocks))
        save_arrays(run / f"records/{number:05d}", arrays)
    save_object(_report_path(run, number), report)


def _sorted_by_block(encoded: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    if np.all(encoded["block"][1:] >= encoded["block"][:-1]):
        return encoded
    order = np.argsort(encoded["block"], kind="stable")
    return {name: array if name == "combinations" else array[order] for name, array in encoded.items()}


def _sums(run: SafeTabRun, file: GroupRecords, encoded: dict[str, NDArray[Any]], blocks: NDArray[np.int64]) -> Sums:
    """Return the sums of encoded records, sorted by block, by the codes themselves and not by their numbers here."""
    starts = np.flatnonzero(np.diff(encoded["block"], prepend=-1))
    codes = np.zeros(1 + max(file.code_numbers.values(), default=0), np.int64)
    codes[list(file.code_numbers.values())] = [code_number(code) for code in file.code_numbers]
    of_combination = weights(*codes[encoded["combinations"].T])
    of_cell = weights(np.arange(run.KIND.cells))
    within = _within(starts, encoded["combination"], encoded["cell"], of_combination, of_cell)
    counts = np.diff(starts, append=len(encoded["block"]))
    return sum_by_state(blocks[encoded["block"][starts]], counts, within)


def _within(
    starts: NDArray[np.int64],
    combination: NDArray[np.int32],
    cell: NDArray[np.uint8],
    of_combination: Weights,
    of_cell: Weights,
) -> Weights:
    """Return the sums of the weights of the records from each start to the next."""
    if kernels_loaded():
        from tasks.population_groups.compiled_counts import add_weights

        sums = np.zeros((len(starts), len(of_cell)), np.uint64)
        add_weights(starts, combination, cell, np.stack(of_combination, axis=1), np.stack(of_cell, axis=1), sums)
        return tuple(sums.T)
    return tuple(
        np.add.reduceat(by_combination[combination] * by_cell[cell], starts)
        for by_combination, by_cell in zip(of_combination, of_cell, strict=True)
    )


def encoded_chunks(run: SafeTabRun) -> Iterator[Path]:
    """Yield the folders of all encoded chunks, in order."""
    yield from sorted(path for path in (run / "records").iterdir() if path.is_dir() and path.name.isdigit())


# -- the two readers --------------------------------------------------------------------------------------------------


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

    Returns the arrays of `encode_chunk`, the number of records outside the state filter, and the findings,
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
