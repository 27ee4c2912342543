"""Person records (docs/spec/files.md#person-recordstxt), checked row by row and encoded to compact integers.

A chunk is 64 MiB of text or a row group of Parquet. Its columns are read dictionary-encoded, so that each distinct
value is checked once. Everything here is confidential, findings included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.detailed_dhca.person_file import (
    AGE23_BINS,
    COLUMNS,
    PATTERNS,
    RACE_COLUMNS,
    Chunk,
    PersonFile,
    all_outside,
    malformed,
    read_chunk,
)
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.sound_persons import SoundPersons, encode_sound, read_sound_columns, read_sound_text
from tasks.inputs.findings import Finding, kept
from tasks.inputs.geography import BLOCK_COLUMNS, block_numbers
from tasks.inputs.tables import Column
from tasks.lifecycle.files import atomic_path, save_arrays
from tasks.lifecycle.process import use_kernels


@dataclass(frozen=True)
class ChunkReport:
    """What the encoding of one chunk found; confidential.

    `lines` counts the chunk's own lines (rows, for Parquet), `rows` those that hold a person; `digest` is of the 64 MiB
    of text, empty for Parquet.
    """

    lines: int
    rows: int
    left_out: int
    digest: str
    findings: list[Finding]


def encode_chunk(run: DetailedRun, number: int, *others: DetailedRun) -> None:
    """Check and encode one chunk of the person records: persons/NUMBER and its report.

    The arrays are sorted by block row: `block` int32, `combination` int32 (row in `combinations`), `cell` uint8, and
    `combinations` uint16, distinct x 9 code numbers (QRACE1..8, QSPAN). `others` are runs over other jurisdictions, for
    which the chunk is read at the same time.
    """
    if not _report_path(run, number).exists():
        use_kernels(run.state_folder)
        runs = [run, *(other for other in others if not _report_path(other, number).exists())]
        files = [each.person_file for each in runs]
        chunk = read_chunk(replace(files[0], states=tuple(state for file in files for state in file.states)), number)
        sound = _read_sound(files[0], chunk)
        for each, file in zip(runs, files, strict=True):
            _encode(each, number, file, chunk, sound)


def _read_sound(file: PersonFile, chunk: Chunk) -> SoundPersons | None:
    """The persons of a chunk in which no value has a fault, whatever the states of `file`."""
    if chunk.text is not None:
        return read_sound_text(file, chunk.text)
    table, _ = chunk.parse()
    return None if table is None else read_sound_columns(file, table)


def _report_path(run: DetailedRun, number: int) -> Path:
    return run / f"persons/{number:05d}.json"


def read_report(run: DetailedRun, number: int) -> ChunkReport:
    """Return the report of an encoded chunk."""
    fields = json.loads(_report_path(run, number).read_text())
    findings = [Finding(**{**item, "values": tuple(item["values"])}) for item in fields.pop("findings")]
    return ChunkReport(findings=findings, **fields)


def _encode(run: DetailedRun, number: int, file: PersonFile, chunk: Chunk, sound: SoundPersons | None) -> None:
    """Check and encode the persons of one jurisdiction in a chunk; last of all comes its report."""
    blocks = np.asarray(run.geography.blocks) if file.blocks_known else np.zeros(0, np.int64)
    encoded = encode_sound(file, sound, blocks) if sound is not None else None
    if sound is not None and encoded is not None:
        arrays, left_out = encoded
        report = ChunkReport(chunk.lines, len(sound.block), left_out, chunk.digest, [])
    else:
        arrays, report = _check(file, chunk, blocks)
    if arrays and report.left_out < report.rows:
        save_arrays(run / f"persons/{number:05d}", _sorted_by_block(arrays))
    with atomic_path(_report_path(run, number)) as temporary:
        temporary.write_text(json.dumps(asdict(report)))


def _check(file: PersonFile, chunk: Chunk, blocks: NDArray[np.int64]) -> tuple[dict[str, NDArray[Any]], ChunkReport]:
    """Check and encode a chunk the plain way: every fault is a finding with its line."""
    table, faults = chunk.parse()
    findings = list(faults)
    encoded: dict[str, NDArray[Any]] = {}
    rows = left_out = chunk.outside
    if table is not None and len(table):
        rows = left_out = len(table)
        if not all_outside(file, table["TABBLKST"]):
            columns = {name: Column(table[name]) for name in COLUMNS}
            encoded, left_out, faults = check_and_encode(file, columns, blocks)
            findings.extend(_at(finding, chunk.place) for finding in faults)
    return encoded, ChunkReport(chunk.lines, rows, left_out, chunk.digest, findings)


def _at(finding: Finding, place: Callable[[int], int]) -> Finding:
    """Return a finding whose `first` is a row, with the line that the row stands on."""
    return finding if finding.first is None else Finding(**{**finding.__dict__, "first": place(finding.first)})


def check_and_encode(
    file: PersonFile, columns: dict[str, Column], blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int, list[Finding]]:
    """Apply the state filter, check every remaining row, encode those without a fault.

    Returns the arrays of `encode_chunk`, the number of persons outside the state filter, and the findings, whose
    `first` is the number of the row.
    """
    state = columns["TABBLKST"]
    rows = np.flatnonzero(state.where(lambda value: value in file.states) | state.where(malformed("TABBLKST")))
    left_out = len(state.numbers) - len(rows)
    if left_out:
        for column in columns.values():
            column.numbers = column.numbers[rows]
    findings: list[Finding] = []
    good = np.ones(len(rows), bool)

    def fault(rule: str, name: str, bad: NDArray[np.bool_]) -> None:
        if bad.any():
            column = columns[name]
            values = sorted({column.values[number] for number in np.unique(column.numbers[bad])})
            findings.append(Finding(file.name, rule, name, int(bad.sum()), int(rows[bad.argmax()]), kept(values)))
            np.logical_and(good, ~bad, out=good)

    for name in PATTERNS:
        fault("Invalid values found", name, columns[name].where(malformed(name)))
    codes = np.empty((9, len(rows)), np.uint16)
    is_code, is_null = np.empty((9, len(rows)), bool), np.empty((9, len(rows)), bool)
    for position, name in enumerate((*RACE_COLUMNS, "QSPAN")):
        column = columns[name]
        well_formed = ~column.where(malformed(name))
        unlisted = column.where(lambda value: value not in file.code_numbers)
        fault("codes that are not in the code list", name, well_formed & unlisted)
        codes[position] = column.where(lambda value: file.code_numbers.get(value, 0), np.uint16)
        is_null[position] = column.where(lambda value: value == "Null")
        is_code[position] = well_formed & ~is_null[position]
    after_null = np.logical_or.reduce(is_code[1:8] & is_null[:7])
    fault("race codes after a 'Null'", "QRACE2", after_null)
    fault(
        f"more than {file.max_race_codes} race codes",
        "QRACE1",
        is_code[:8].sum(axis=0, dtype=np.uint8) > file.max_race_codes,
    )
    numbers = block_numbers({name: columns[name].where(_integer, np.int64) for name in BLOCK_COLUMNS})
    row = np.searchsorted(blocks, numbers)
    unknown = row == len(blocks)
    unknown |= blocks[np.where(unknown, 0, row)] != numbers if len(blocks) else True
    if file.blocks_known:
        fault("block is not in GRF-C", "TABBLK", good & unknown)
    encoded = {
        "block": row.astype(np.int32),
        "cell": (23 * (columns["QSEX"].where(_integer, np.int64) - 1)).astype(np.uint8)
        + columns["QAGE"].where(lambda age: np.searchsorted(AGE23_BINS, _integer(age), "right") - 1, np.uint8),
    }
    encoded["combination"], combinations = distinct_columns(codes)
    if not good.all():
        encoded = {name: array[:0] for name, array in encoded.items()}
    return {**encoded, "combinations": combinations}, left_out, findings


def _sorted_by_block(encoded: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    if np.all(encoded["block"][1:] >= encoded["block"][:-1]):
        return encoded
    order = np.argsort(encoded["block"], kind="stable")
    return {name: array if name == "combinations" else array[order] for name, array in encoded.items()}


def _integer(text: str) -> int:
    """Return the number a text is, 0 where it is none; such a row has a finding."""
    return int(text[-9:]) if text.isascii() and text.isdigit() else 0  # ages may have any number of leading zeros


def distinct_columns(codes: NDArray[np.uint16]) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Number the distinct columns of a k x n array; returns each column's number and, as rows, the distinct columns.

    A row at a time: a number so far and a code make a new number. Columns that hold 0 in a later row keep theirs, so
    the cost follows the codes given, and few persons give more than one.
    """
    numbers, distinct = pd.factorize(codes[-1].astype(np.int64) * 65536 + codes[0])
    count = len(distinct)
    for row in codes[1:-1]:
        given = np.flatnonzero(row)
        if len(given):
            pairs = numbers[given] * 65536 + row[given]
            renumbered, distinct = pd.factorize(pairs)
            numbers[given] = count + renumbered
            count += len(distinct)
    first = np.zeros(count, np.int64)
    first[numbers[::-1]] = np.arange(codes.shape[1])[::-1]
    used = np.zeros(count, bool)
    used[numbers] = True
    compact = np.cumsum(used) - 1
    return compact[numbers].astype(np.int32), np.ascontiguousarray(codes[:, first[used]].T)


def encoded_chunks(run: DetailedRun) -> Iterator[Path]:
    """Yield the folders of all encoded chunks, in order."""
    yield from sorted(path for path in (run / "persons").iterdir() if path.is_dir() and path.name.isdigit())
