"""Read a table of records of any system: text or Parquet, by path or URL, one chunk at a time.

A chunk is 64 MiB of text or a row group of Parquet. Its columns are matched by the names in the header, in any order,
and read dictionary-encoded, so that each distinct value is checked once. Everything here is confidential, except a
file's path and columns: findings, numbers of rows and digests too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privacy.tables.histogram import Histogram
from tasks.lifecycle.files import atomic_path, read_object, remove
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.block_codes import has_digits
from tasks.records.files import LONGEST_LINE, file_name, identity, open_file, read_bytes, read_lines, size_of, why
from tasks.records.findings import KEPT_LINES, MISSING, Finding, kept
from tasks.records.parquet import NO_WORDS, NOT_PARQUET, ValueText, read_row_group
from tasks.records.record_digests import Sums
from tasks.records.record_fields import Field
from tasks.records.tables import DELIMITER, EncodedColumn, check_header, empty, line_of_row, parse_rows, split_header
from tasks.releases.digests import CHUNK_BYTES, chunk_digest, combine

if TYPE_CHECKING:
    from tasks.lifecycle.workers import Workers

STATE = "TABBLKST"
FEW = 8  # values of an axis that a finding names


@dataclass(frozen=True)
class RecordFile:
    """A table of records, text or Parquet by its name, and the columns that are read of it; public.

    plain: columns with about as many values as rows: Parquet is read without dictionaries of them, as text or integers.
    words: those of missing and truth values, for columns of Parquet with unusual ones.
    """

    path: str
    header: tuple[str, ...]
    columns: tuple[str, ...]
    delimiter: str = DELIMITER
    plain: tuple[str, ...] = ()
    words: tuple[tuple[str, ValueText], ...] = ()

    @property
    def name(self) -> str:
        """The file's name, as findings give it."""
        return file_name(self.path)

    @property
    def parquet(self) -> bool:
        """True for Parquet, False for text."""
        return self.path.endswith(".parquet")

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        if self.parquet:
            with open_file(self.path) as stream:
                return int(pq.ParquetFile(stream).num_row_groups)
        return max(1, _chunks_of_bytes(self.path))


def open_records(
    path: str,
    columns: Sequence[str],
    *,
    more: bool = False,
    own: bool = False,
    delimiter: str = DELIMITER,
    plain: tuple[str, ...] = (),
    words: Mapping[str, ValueText] = NO_WORDS,
) -> tuple[RecordFile | None, list[Finding]]:
    """Open a table by path or URL; return it with the findings in its header, or None where there are any.

    `more` says whether the table may have other columns as well. own: as in `check_header`. plain, words: as in
    RecordFile.
    """
    name = file_name(path)
    try:
        header = read_header(path, delimiter)
    except FileNotFoundError:
        return None, [Finding(name, MISSING)]
    except OSError as error:
        return None, [Finding(name, f"the file cannot be read: {why(error)}")]
    except ValueError as error:
        return None, [Finding(name, str(error))]
    findings = check_header(name, header, columns, more=more, show=False, own=own) if header else [empty(name)]
    file = RecordFile(path, tuple(header), tuple(columns), delimiter, plain, tuple(words.items()))
    return (None if findings else file), findings


def read_header(path: str, delimiter: str = DELIMITER) -> list[str]:
    """Return the column names of a table; none where a text file is empty.

    Raises OSError if it cannot be read, ValueError if it is not a Parquet file.
    """
    if not path.endswith(".parquet"):
        start = read_bytes(path, 0, LONGEST_LINE)
        return split_header(start.split(b"\n", 1)[0], delimiter) if start else []
    try:
        with open_file(path) as stream:
            return list(pq.read_schema(stream).names)
    except pa.ArrowException:
        raise ValueError(NOT_PARQUET) from None
    except OSError as error:
        if error.errno is None:  # Arrow's own
            raise ValueError(NOT_PARQUET) from None
        raise


@dataclass(frozen=True)
class Chunk:
    """A chunk as read.

    lines: its own lines (rows, for Parquet). digest: that of the 64 MiB of text; empty for Parquet. text: its lines;
    None for Parquet. parse: returns its columns as dictionaries of text, None where it has no row or cannot be parsed,
    and findings. line_of_row: the line of a parsed row, counted from the chunk's first. skipped: rows not read.
    """

    lines: int
    digest: str
    text: bytes | None
    parse: Callable[[], tuple[pa.Table | None, list[Finding]]]
    line_of_row: Callable[[int], int]
    skipped: int = 0


def read_chunk(
    file: RecordFile, number: int, *, skip: tuple[str, Callable[[pa.ChunkedArray], bool]] | None = None
) -> Chunk:
    """Read one chunk: the lines that begin in it, or a row group.

    `skip` is a column and a test: a row group whose values there pass the test is not read any further.
    """
    return _read_row_group(file, number, skip) if file.parquet else _read_text(file, number)


def _read_text(file: RecordFile, number: int) -> Chunk:
    lines = read_lines(file.path, number, CHUNK_BYTES)
    body = lines.body
    line = partial(line_of_row, body, len(file.header), delimiter=file.delimiter)
    return Chunk(lines.count, lines.digest, body, cache(partial(_parse, file, body)), line)


def _parse(file: RecordFile, body: bytes) -> tuple[pa.Table | None, list[Finding]]:
    table, findings = parse_rows(file.name, body, file.header, file.columns, dictionary=True, delimiter=file.delimiter)
    return (None if table is None or not len(table) else table), findings


def _read_row_group(file: RecordFile, number: int, skip: tuple[str, Callable[[pa.ChunkedArray], bool]] | None) -> Chunk:
    metadata = _metadata(file.path, str(identity(file.path)))
    rows = metadata.row_group(number).num_rows
    line = partial(add, 1)
    read: dict[str, pa.ChunkedArray] = {}
    words = dict(file.words)
    with open_file(file.path) as stream:
        if skip:
            column, test = skip
            table, findings = read_row_group(stream, number, file.name, [column], metadata, words=words)
            if table is None or test(table[column]):
                skipped = 0 if table is None else rows
                return Chunk(rows, "", None, lambda: (None, findings), line, skipped)
            read[column] = table[column]
        others = [name for name in file.columns if name not in read]
        table, findings = read_row_group(stream, number, file.name, others, metadata, file.plain, words)
    for name, values in read.items():
        table = None if table is None else table.append_column(name, values)
    return Chunk(rows, "", None, lambda: (table if rows else None, findings), line)


@lru_cache(maxsize=1)  # those of a nation are half a megabyte, and take as long to parse as a tenth of a row group
def _metadata(path: str, _identity: str) -> pq.FileMetaData:
    with open_file(path) as stream:
        return pq.read_metadata(stream)


class RowChecks:
    """The checks of a chunk's rows, all of them or those in some states.

    columns: those of the checked rows. good: which of these have no fault yet. findings: by number of row in the chunk.
    """

    def __init__(self, file: RecordFile, table: pa.Table, states: Collection[str] | None = None) -> None:
        columns = {name: EncodedColumn(table[name]) for name in file.columns}
        self.rows: NDArray[np.int64] = np.arange(len(table))
        if states is not None:
            self.rows = np.flatnonzero(columns[STATE].where(partial(is_checked, states)))
        self.left_out = len(table) - len(self.rows)
        self.columns = {name: column.take(self.rows) for name, column in columns.items()} if self.left_out else columns
        self.good = np.ones(len(self.rows), bool)
        self.findings: list[Finding] = []
        self._file = file.name

    def fault(self, rule: str, name: str, bad: NDArray[np.bool_]) -> None:
        """Find the rows that break a rule in a column; `name` is empty for a rule about several."""
        if bad.any():
            values: tuple[str, ...] = ()
            if name:
                column = self.columns[name]
                values = kept(sorted({column.values[number] for number in np.unique(column.numbers[bad])}))
            lines = tuple(self.rows[np.flatnonzero(bad)[:KEPT_LINES]].tolist())
            self.findings.append(Finding(self._file, rule, name, int(bad.sum()), lines, values))
            np.logical_and(self.good, ~bad, out=self.good)

    def numbers(
        self, fields: Mapping[str, Field], hidden: Collection[str] = ()
    ) -> tuple[NDArray[np.int64], dict[str, NDArray[np.bool_]]]:
        """Find invalid values; return the numbers of each row, places x rows, and by column which values are valid.

        hidden: columns of which findings keep no value.
        """
        places = 1 + max(each.place for each in fields.values() if not each.is_code)
        numbers, valid = np.zeros((places, len(self.rows)), np.int64), {}
        for name, each in fields.items():
            column = self.columns[name]
            counted = [each.number(value) for value in column.values]
            valid[name] = column.spread([number is not None for number in counted])
            rule = f"Invalid values found; valid are {each.words}"
            self.fault(*((f"{name}: {rule}", "") if name in hidden else (rule, name)), ~valid[name])
            if not each.is_code:
                numbers[each.place] += column.spread([number or 0 for number in counted], np.int64)
        return numbers, valid

    def cells(self, histogram: Histogram, values: Mapping[str, Mapping[str, int]]) -> NDArray[np.int64]:
        """Find values that an axis does not have, and declared zeros; return the cell of each row.

        values: the coordinate of each value that a column may have, by axis.
        """
        at = {axis.name: self.coordinates(axis.column, values[axis.name]) for axis in histogram.axes}
        for zero in histogram.zeros:
            axes = [axis for axis in histogram.axes if axis.name in zero]
            chosen = (np.isin(np.arange(len(axis)), [*zero[axis.name]])[at[axis.name]] for axis in axes)
            inside, columns = reduce(np.logical_and, chosen), [axis.column for axis in axes]
            rule = f"records in a cell that is declared a zero, by {' and '.join(columns)}"
            self.fault(rule, columns[-1], inside & self.good)  # an invalid value has no cell
        return histogram.cell([*at.values()])

    def coordinates(self, column: str, known: Mapping[str, int]) -> NDArray[np.int64]:
        """Find values that a column may not have; return the coordinate of each row, 0 for such a value."""
        read = self.columns[column]
        if any(value not in known for value in read.values):
            listed = ", ".join([*known][:FEW]) + ", ..." * (len(known) > FEW)
            bad = ~read.where(known.__contains__)
            self.unknown(f"Invalid values found in {column}; valid are {listed}", column, bad, known)
        return read.where(lambda value: known.get(value, 0), np.int64)

    def unknown(self, rule: str, name: str, bad: NDArray[np.bool_], known: Iterable[str]) -> None:
        """Add a finding for rows with an unknown code, and another for codes that lost their leading zeros."""
        if bad.any():
            bare = {code.lstrip("0") or "0" for code in known if code.startswith("0")}
            lost = bad & self.columns[name].where(bare.__contains__)
            self.fault(f"{rule}; with leading zeros they would match: read codes as text", name, lost)
            self.fault(rule, name, bad & ~lost)


def is_checked(states: Collection[str], state: str) -> bool:
    """Return whether a record of this state is checked: it is one of `states`, or no state at all."""
    return state in states or not has_digits(2, state)


def all_outside(states: Collection[str], column: pa.ChunkedArray) -> bool:
    """Return whether no record with these values of the state's column is checked."""
    if pa.types.is_dictionary(column.type):  # of many rows it has few values, and mostly all are used
        values = {value for chunk in column.chunks if len(chunk) for value in chunk.dictionary.to_pylist()}
        checked = {value for value in values if is_checked(states, value)}
        if len(checked) in (0, len(values)):
            return not checked
    return not any(is_checked(states, value) for value in column.unique().to_pylist())


@dataclass(frozen=True)
class ChunkReport:
    """The result of reading one chunk.

    lines, digest: the chunk's. rows: those with a record. left_out: those of other states. findings: by line of the
    chunk. sums: its records' by state (record_digests.py).
    """

    lines: int
    rows: int
    left_out: int
    digest: str
    findings: list[Finding]
    sums: Sums = field(default_factory=dict)


def report_of(
    chunk: Chunk, rows: int, left_out: int, findings: Iterable[Finding], sums: Sums | None = None
) -> ChunkReport:
    """Return the report of a chunk, whose table it was parsed to; `findings` are by number of row."""
    _, faults = chunk.parse()
    placed = [finding.at(chunk.line_of_row) for finding in findings]
    return ChunkReport(chunk.lines, rows, left_out, chunk.digest, [*faults, *placed], sums or {})


@dataclass(frozen=True)
class FileReport:
    """The result of reading all chunks: rows, those of other states, findings by line of the file, the file's digest.

    sums: each chunk's, by state.
    """

    rows: int
    left_out: int
    findings: list[Finding]
    digest: str
    sums: list[Sums]


def join_reports(
    run: RunDirectory, workers: Workers, file: RecordFile, folder: Path, *, may_be_empty: bool = False
) -> FileReport:
    """Join the reports of a file's chunks, FOLDER/NUMBER.report; a file without a row is a finding.

    The digest is that of the file's bytes: text has it from its chunks, Parquet is read again for it.
    """
    reports = [read_object(folder / f"{number:05d}.report", ChunkReport) for number in range(file.chunks)]
    findings: list[Finding] = []
    line = 0 if file.parquet else 1  # the header
    for report in reports:
        findings += [finding.below(line) for finding in report.findings]
        line += report.lines
    if not (findings or may_be_empty or any(report.rows for report in reports)):
        findings.append(empty(file.name))
    by_chunks = (bytes.fromhex(report.digest) for report in reports)
    digest = digest_by_workers(run, workers, file.path) if file.parquet else combine(by_chunks)
    rows, left_out = (sum(getattr(report, name) for report in reports) for name in ("rows", "left_out"))
    return FileReport(rows, left_out, findings, digest, [report.sums for report in reports])


def digest_by_workers(run: RunDirectory, workers: Workers, path: str) -> str:
    """Return the digest of a file, its chunks read by the workers."""
    folder = f"digests-{uuid4().hex}"
    chunks = range(_chunks_of_bytes(path))
    workers.map("digest", run, digest_chunk, [(folder, path, number) for number in chunks])
    digest = combine((run / f"{folder}/{number:05d}").read_bytes() for number in chunks)
    remove(run / folder)
    return digest


def digest_chunk(run: RunDirectory, folder: str, path: str, number: int) -> None:
    """Write the digest of 64 MiB of a file into the run directory: a digest of records is confidential."""
    data = read_bytes(path, number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES)
    with atomic_path(run / f"{folder}/{number:05d}") as temporary:
        temporary.write_bytes(chunk_digest(data))


def _chunks_of_bytes(path: str) -> int:
    return -(-size_of(path) // CHUNK_BYTES)
