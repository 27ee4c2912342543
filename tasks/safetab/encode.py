"""Encode records as compact integers, chunk by chunk, by the fast reader or the validating one.

Everything here is confidential, findings included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.kernels import kernels_loaded
from tasks.lifecycle.files import save_arrays, save_object
from tasks.records.block_codes import runs
from tasks.records.fast_records import Parsed
from tasks.records.record_digests import Sums, Weights, sum_by_state, weights
from tasks.records.records import STATE, Chunk, ChunkReport, all_outside, read_chunk
from tasks.safetab.readers import encode_parsed, parse_records, read_validating
from tasks.safetab.record_kind import GroupRecords
from tasks.safetab.run import SafeTabRun


def encode_chunk(run: SafeTabRun, number: int, *others: SafeTabRun) -> None:
    """Check and encode one chunk of the records: records/NUMBER and its report.

    Records are sorted by block: `block` has the rows of the blocks with records, `ends` the end of each one's records,
    `combination` (row in `combinations`) and `cell` are one per record, and `combinations` are distinct x 9 code
    numbers (QRACE1..8, QSPAN), each unsigned and as narrow as the chunk allows. `others` are runs over other
    jurisdictions, for which the chunk is read at the same time.
    """
    if not _report_path(run, number).exists():
        runs = [run, *(other for other in others if not _report_path(other, number).exists())]
        files = [each.records for each in runs]
        states = {state for file in files for state in file.states}
        chunk = read_chunk(files[0], number, skip=(STATE, partial(all_outside, states)))
        parsed = parse_records(run.KIND, files[0], chunk)
        for each, file in zip(runs, files, strict=True):
            _encode(each, number, file, chunk, parsed)


def _report_path(run: SafeTabRun, number: int) -> Path:
    return run / f"records/{number:05d}.report"


def _encode(run: SafeTabRun, number: int, file: GroupRecords, chunk: Chunk, parsed: Parsed | None) -> None:
    """Check and encode a run's records in a chunk; its report is written last."""
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
        narrow = {name: array.astype(np.min_scalar_type(array.max(initial=0))) for name, array in arrays.items()}
        save_arrays(run / f"records/{number:05d}", narrow)
    save_object(_report_path(run, number), report)


def _sorted_by_block(encoded: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    block, ends = encoded["block"], encoded["ends"]
    if np.all(block[1:] > block[:-1]):
        return encoded
    of_record = np.repeat(block, np.diff(ends, prepend=0))
    order = np.argsort(of_record, kind="stable")
    block, lengths = runs(of_record[order])
    records = {name: encoded[name][order] for name in ("cell", "combination")}
    return encoded | records | {"block": block, "ends": np.cumsum(lengths)}


def _sums(run: SafeTabRun, file: GroupRecords, encoded: dict[str, NDArray[Any]], blocks: NDArray[np.int64]) -> Sums:
    """Return the digest sums of encoded records, sorted by block; they depend on codes, not on code numbers."""
    codes = np.zeros(1 + max(file.valid_codes.values(), default=0), np.int64)
    codes[[*file.valid_codes.values()]] = [*map(int, file.valid_codes)]
    of_combination = weights(*codes[encoded["combinations"].T])
    of_cell = weights(np.arange(run.KIND.cells))
    within = _within(encoded["ends"], encoded["combination"], encoded["cell"], of_combination, of_cell)
    return sum_by_state(blocks[encoded["block"]], np.diff(encoded["ends"], prepend=0), within)


def _within(
    ends: NDArray[np.int64],
    combination: NDArray[np.uint32],
    cell: NDArray[np.uint8],
    of_combination: Weights,
    of_cell: Weights,
) -> Weights:
    """Return the sums of the weights of the records between consecutive ends."""
    if kernels_loaded():
        from tasks.safetab.compiled_counts import add_weights

        sums = np.zeros((len(ends), len(of_cell)), np.uint64)
        add_weights(ends, combination, cell, np.stack(of_combination, axis=1), np.stack(of_cell, axis=1), sums)
        return tuple(sums.T)
    starts = np.append(0, ends[:-1])
    return tuple(
        np.add.reduceat(by_combination[combination] * by_cell[cell], starts)
        for by_combination, by_cell in zip(of_combination, of_cell, strict=True)
    )


def encoded_chunks(run: SafeTabRun) -> Iterator[Path]:
    """Yield the folders of all encoded chunks, in order."""
    yield from sorted(path for path in (run / "records").iterdir() if path.is_dir() and path.name.isdigit())
