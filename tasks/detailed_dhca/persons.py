"""Person records (docs/spec/files.md#person-recordstxt), checked row by row and encoded to compact integers.

A chunk is 64 MiB of text or a row group of Parquet. Its columns are read dictionary-encoded, so that each distinct
value is checked once. Everything here is confidential, findings included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.inputs.findings import SHOWN_VALUES, Finding
from tasks.inputs.geography import BLOCK_COLUMNS, BLOCK_WIDTHS, block_numbers, load_geography
from tasks.inputs.tables import Column, line_numbers, locate, parse_rows, read_bytes, read_lines
from tasks.lifecycle.digests import CHUNK_BYTES, chunk_digest
from tasks.lifecycle.run_directory import RunDirectory, load_public, once, save_arrays, whole

RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, 9))
COLUMNS = ("QAGE", "QSEX", "HOUSEHOLDER", *BLOCK_COLUMNS, "CENRACE", *RACE_COLUMNS, "QSPAN")
AGE23_BINS = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)  # first ages
CELLS = 46  # sex (male, female) x age23: cell = 23 (QSEX - 1) + age bin
PATTERNS = {
    "QAGE": r"0*([0-9]|[1-9][0-9]|10[0-9]|11[0-5])",
    "QSEX": "1|2",
    "HOUSEHOLDER": "True|False",
    **{name: f"[0-9]{{{width}}}" for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True)},
    "CENRACE": "[0-9]{2}",
    "QRACE1": "[1-9][0-9]{3}",
    **dict.fromkeys(RACE_COLUMNS[1:], "[1-9][0-9]{3}|Null"),
    "QSPAN": "[1-9][0-9]{3}",
}


@dataclass(frozen=True)
class PersonFile:
    """Where the person records lie and what they are checked against; public."""

    path: str
    header: tuple[str, ...]
    states: tuple[str, ...]
    code_numbers: dict[str, int]
    max_race_codes: int
    blocks_known: bool = True  # not where GRF-C has faults of its own; then no block is looked up

    @property
    def name(self) -> str:
        """The file's name, as findings give it."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def parquet(self) -> bool:
        """True for Parquet, False for text."""
        return self.path.endswith(".parquet")


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


def encode_chunk(run: RunDirectory, number: int) -> None:
    """Check and encode one chunk of the person records: persons/NUMBER and its report.

    The arrays are sorted by block row: `block` int32, `combination` int32 (row in `combinations`), `cell` uint8, and
    `combinations` uint16, distinct x 9 code numbers (QRACE1..8, QSPAN).
    """
    report = run / f"persons/{number:05d}.json"
    once(report, lambda: _encode(run, number, report))


def read_report(run: RunDirectory, number: int) -> ChunkReport:
    """The report of an encoded chunk."""
    fields = json.loads((run / f"persons/{number:05d}.json").read_text())
    found = [Finding(**{**item, "values": tuple(item["values"])}) for item in fields.pop("findings")]
    return ChunkReport(findings=found, **fields)


def _encode(run: RunDirectory, number: int, report: Path) -> None:
    file: PersonFile = load_public(run / "public/person_file")
    chunk = (_read_row_group if file.parquet else _read_text)(file, number)
    rows = left_out = chunk.outside
    if chunk.table is not None and len(chunk.table):
        rows = len(chunk.table)
        columns = {name: Column(chunk.table[name]) for name in COLUMNS}
        blocks = load_geography(run / "public/geography").blocks if file.blocks_known else np.zeros(0, np.int64)
        encoded, left_out, faults = check_and_encode(file, columns, blocks)
        chunk.findings.extend(_at(finding, chunk.place) for finding in faults)
        save_arrays(run / f"persons/{number:05d}", encoded)
    told = ChunkReport(chunk.lines, rows, left_out, chunk.digest, chunk.findings)
    with whole(report) as temporary:
        temporary.write_text(json.dumps(asdict(told)))


def _at(finding: Finding, place: Callable[[int], int]) -> Finding:
    """A finding whose `first` is a row, with the line that the row stands on."""
    return finding if finding.first is None else Finding(**{**finding.__dict__, "first": place(finding.first)})


@dataclass(frozen=True)
class Chunk:
    """A chunk as read: no table where it cannot be parsed or where all its persons are `outside` the state filter."""

    table: pa.Table | None
    lines: int
    digest: str
    place: Callable[[int], int]
    findings: list[Finding]
    outside: int = 0


def _read_text(file: PersonFile, number: int) -> Chunk:
    """Read the lines that begin in the chunk, the chunk's digest over its own bytes."""
    lines = read_lines(file.path, number, CHUNK_BYTES)
    body = lines.body
    place = lambda row: line_numbers(body, len(file.header), [row])[0]  # noqa: E731  the body, for the rare bad row
    if _begins_outside(file, body) and body.isascii():  # then its states alone may tell that nobody here counts
        states, found = parse_rows(file.name, body, file.header, ["TABBLKST"], dictionary=True)
        if states is not None and _all_outside(file, states["TABBLKST"]):
            return Chunk(None, lines.count, lines.digest, place, found, outside=len(states))
    table, found = parse_rows(file.name, body, file.header, COLUMNS, dictionary=True)
    return Chunk(table, lines.count, lines.digest, place, found)


def _begins_outside(file: PersonFile, body: bytes) -> bool:
    fields = body.partition(b"\n")[0].split(b"|")
    return len(fields) == len(file.header) and fields[file.header.index("TABBLKST")] not in [
        state.encode() for state in file.states
    ]


def _all_outside(file: PersonFile, states: pa.ChunkedArray) -> bool:
    """True where every person of a chunk is outside the state filter, by a well-formed state."""
    malformed = _malformed("TABBLKST")
    return not any(value in file.states or malformed(value) for value in states.unique().to_pylist())


def _read_row_group(file: PersonFile, number: int) -> Chunk:
    place = lambda row: row + 1  # noqa: E731
    with fsspec.open(file.path) as stream:
        group = pq.ParquetFile(stream)
        try:
            states = group.read_row_group(number, columns=["TABBLKST"])["TABBLKST"].cast(pa.string()).fill_null("")
            if _all_outside(file, states):
                return Chunk(None, len(states), "", place, [], outside=len(states))
            table = group.read_row_group(number, columns=list(COLUMNS))
            text = {name: table[name].cast(pa.string()).fill_null("").dictionary_encode() for name in COLUMNS}
        except pa.ArrowException:
            rows = group.metadata.row_group(number).num_rows
            found = [Finding(file.name, "a column holds neither text nor numbers", rows=rows)]
            return Chunk(None, rows, "", place, found)
    return Chunk(pa.table(text), len(table), "", place, [])


def digest_chunk(run: RunDirectory, folder: str, path: str, number: int) -> None:
    """Write the digest of 64 MiB of a file into the run directory: a digest of person records is confidential."""
    data = read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES)
    with whole(run / f"{folder}/{number:05d}") as temporary:
        temporary.write_bytes(chunk_digest(data))


def chunk_count(file: PersonFile) -> int:
    """The number of chunks of the person records."""
    filesystem, name = locate(file.path)
    if file.parquet:
        with filesystem.open(name) as stream:
            return int(pq.ParquetFile(stream).num_row_groups)
    return max(1, -(-int(filesystem.size(name)) // CHUNK_BYTES))


def check_and_encode(
    file: PersonFile, columns: dict[str, Column], blocks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], int, list[Finding]]:
    """Apply the state filter, check every remaining row, encode those without a fault.

    Returns the arrays of `encode_chunk`, the number of persons outside the state filter, and the findings, whose
    `first` is the number of the row.
    """
    state = columns["TABBLKST"]
    rows = np.flatnonzero(state.where(lambda value: value in file.states) | state.where(_malformed("TABBLKST")))
    left_out = len(state.numbers) - len(rows)
    if left_out:
        for column in columns.values():
            column.numbers = column.numbers[rows]
    found: list[Finding] = []
    good = np.ones(len(rows), bool)

    def fault(rule: str, name: str, bad: NDArray[np.bool_]) -> None:
        if bad.any():
            column = columns[name]
            values = tuple(sorted({column.values[number] for number in np.unique(column.numbers[bad])}))[:SHOWN_VALUES]
            found.append(Finding(file.name, rule, name, int(bad.sum()), int(rows[bad.argmax()]), values))
            np.logical_and(good, ~bad, out=good)

    for name in PATTERNS:
        fault("Invalid values found", name, columns[name].where(_malformed(name)))
    codes = np.empty((9, len(rows)), np.uint16)
    is_code, is_null = np.empty((9, len(rows)), bool), np.empty((9, len(rows)), bool)
    for position, name in enumerate((*RACE_COLUMNS, "QSPAN")):
        column = columns[name]
        well_formed = ~column.where(_malformed(name))
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
        return _sorted_by_block({name: array[:0] for name, array in encoded.items()}, combinations), left_out, found
    return _sorted_by_block(encoded, combinations), left_out, found


def _malformed(column: str) -> Callable[[str], bool]:
    """The test for values outside a column's domain."""
    accepts = re.compile(PATTERNS[column]).fullmatch
    return lambda value: not accepts(value)


def _sorted_by_block(persons: dict[str, NDArray[Any]], combinations: NDArray[np.uint16]) -> dict[str, NDArray[Any]]:
    if np.any(np.diff(persons["block"]) < 0):
        order = np.argsort(persons["block"], kind="stable")
        persons = {name: array[order] for name, array in persons.items()}
    return {**persons, "combinations": combinations}


def _integer(text: str) -> int:
    """The number a text is, 0 where it is none; such a row has a finding."""
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


def encoded_chunks(run: RunDirectory) -> Iterator[Path]:
    """The folders of all encoded chunks, in order."""
    yield from sorted(path for path in (run / "persons").iterdir() if path.is_dir() and path.name.isdigit())
