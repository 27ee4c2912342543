"""The file of person records, text or Parquet: columns, chunks, digest. All but its path is confidential."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.inputs.files import InputTable, identity, locate, locate_file, open_file, read_bytes, read_lines, why
from tasks.inputs.findings import MISSING, Finding
from tasks.inputs.geography import BLOCK_COLUMNS, BLOCK_WIDTHS, GRF_FILE
from tasks.inputs.parquet import NOT_PARQUET, read_row_group
from tasks.inputs.synthetic_mark import PERSON_FILES
from tasks.inputs.tables import check_header, line_numbers, parse_rows, split_header
from tasks.lifecycle.digests import CHUNK_BYTES, chunk_digest, combine
from tasks.lifecycle.files import atomic_path
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers

RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, 9))
COLUMNS = ("QAGE", "QSEX", "HOUSEHOLDER", *BLOCK_COLUMNS, "CENRACE", *RACE_COLUMNS, "QSPAN")
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
AGE23_BINS = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)  # first ages
CELLS = 46  # sex (male, female) x age23: cell = 23 (QSEX - 1) + age bin


@dataclass(frozen=True)
class PersonFile(InputTable):
    """Where the person records lie and what they are checked against; public."""

    header: tuple[str, ...]
    states: tuple[str, ...]
    code_numbers: dict[str, int]
    max_race_codes: int
    blocks_known: bool = True  # not where GRF-C has faults of its own; then no block is looked up


def find_person_file(data: str) -> str:
    """The path of the person records, text or Parquet. Raises FileNotFoundError."""
    filesystem, name = locate(data)
    for file in PERSON_FILES:
        if filesystem.exists(f"{name.rstrip('/')}/{file}"):
            return f"{data.rstrip('/')}/{file}"
    raise FileNotFoundError(f"{data}: neither {' nor '.join(PERSON_FILES)}")


def missing_data(data: str) -> bool:
    """True where one of the data files does not exist."""
    try:
        find_person_file(data)
    except FileNotFoundError:
        return True
    filesystem, name = locate(f"{data.rstrip('/')}/{GRF_FILE}")
    return not filesystem.exists(name)


def read_person_header(data: str) -> tuple[str, list[str], list[Finding]]:
    """The path of the person records and their columns; the rest is void where there are findings."""
    name = PERSON_FILES[0]
    try:
        path = find_person_file(data)
        name = path.rsplit("/", 1)[-1]
        header = _header(path)
    except FileNotFoundError:
        return "", [], [Finding(name, MISSING)]
    except OSError as error:
        told = NOT_PARQUET if error.errno is None else f"the file cannot be read: {why(error)}"  # None: Arrow's own
        return "", [], [Finding(name, told)]
    except pa.ArrowException:
        return "", [], [Finding(name, NOT_PARQUET)]
    return path, header, check_header(name, header, COLUMNS, show=False) if header else [empty(name)]


def _header(path: str) -> list[str]:
    """The column names of the person records; none where the file holds no byte."""
    if path.endswith(".parquet"):
        with open_file(path) as stream:
            return list(pq.read_schema(stream).names)
    start = read_bytes(path, 0, 65536)
    return split_header(start.partition(b"\n")[0]) if start else []


def empty(name: str) -> Finding:
    """Return the finding of a file without a record."""
    return Finding(name, f"{name} is empty. This fails validation as records are expected.")


@dataclass(frozen=True)
class Chunk:
    """A chunk of the person records; confidential.

    `text` are its lines, None for Parquet. `parse` gives its columns as dictionaries of text, or None where that cannot
    be done, and findings. There is nothing to parse where all its persons are `outside` the state filter.
    """

    lines: int
    digest: str
    place: Callable[[int], int]
    text: bytes | None
    parse: Callable[[], tuple[pa.Table | None, list[Finding]]]
    outside: int = 0


def chunk_count(file: PersonFile) -> int:
    """The number of chunks of the person records."""
    if file.parquet:
        with open_file(file.path) as stream:
            return int(pq.ParquetFile(stream).num_row_groups)
    filesystem, name = locate_file(file.path)
    return max(1, -(-int(filesystem.size(name)) // CHUNK_BYTES))


def read_chunk(file: PersonFile, number: int) -> Chunk:
    """Read one chunk of the person records: 64 MiB of text or a row group of Parquet."""
    return (_read_row_group if file.parquet else _read_text)(file, number)


def _read_text(file: PersonFile, number: int) -> Chunk:
    """Read the lines that begin in the chunk, the chunk's digest over its own bytes."""
    lines = read_lines(file.path, number, CHUNK_BYTES)
    body = lines.body
    place = lambda row: line_numbers(body, len(file.header), [row])[0]  # noqa: E731  the body, for the rare bad row
    parse = cache(partial(parse_rows, file.name, body, file.header, COLUMNS, dictionary=True))
    return Chunk(lines.count, lines.digest, place, body, parse)


def all_outside(file: PersonFile, states: pa.ChunkedArray) -> bool:
    """True where every person of a chunk is outside the state filter, by a well-formed state."""
    bad = malformed("TABBLKST")
    return not any(value in file.states or bad(value) for value in states.unique().to_pylist())


def _read_row_group(file: PersonFile, number: int) -> Chunk:
    place = lambda row: row + 1  # noqa: E731
    metadata = _metadata(file.path, str(identity(file.path)))
    rows = metadata.row_group(number).num_rows
    with open_file(file.path) as stream:
        state = "TABBLKST"
        table, findings = read_row_group(stream, number, file.name, [state], metadata)
        if table is not None:
            states = table[state]
            if all_outside(file, states):
                return Chunk(rows, "", place, None, lambda: (None, []), outside=rows)
            others = [name for name in COLUMNS if name != state]
            table, findings = read_row_group(stream, number, file.name, others, metadata)
            table = None if table is None else table.append_column(state, states)
        return Chunk(rows, "", place, None, lambda: (table, findings))


@lru_cache(maxsize=1)  # those of a nation are half a megabyte, and take as long to parse as a tenth of a row group
def _metadata(path: str, _identity: str) -> pq.FileMetaData:
    with open_file(path) as stream:
        return pq.read_metadata(stream)


def malformed(column: str) -> Callable[[str], bool]:
    """The test for values outside a column's domain."""
    accepts = re.compile(PATTERNS[column]).fullmatch
    return lambda value: not accepts(value)


def digest_chunk(run: RunDirectory, folder: str, path: str, number: int) -> None:
    """Write the digest of 64 MiB of a file into the run directory: a digest of person records is confidential."""
    data = read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES)
    with atomic_path(run / f"{folder}/{number:05d}") as temporary:
        temporary.write_bytes(chunk_digest(data))


def digest_persons(run: RunDirectory, workers: Workers, path: str) -> str:
    """The digest of the person records, their chunks read by the workers. Confidential."""
    filesystem, name = locate(path)
    folder = f"digests-{uuid4().hex}"
    chunks = range(-(-int(filesystem.size(name)) // CHUNK_BYTES))
    workers.map("digest", run, digest_chunk, [(folder, path, number) for number in chunks])
    digest = combine((run / f"{folder}/{number:05d}").read_bytes() for number in chunks)
    shutil.rmtree(run / folder, ignore_errors=True)
    return digest
