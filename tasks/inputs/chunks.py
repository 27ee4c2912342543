"""A large table of records by chunks: 64 MiB of text or a row group of Parquet, its columns as dictionaries of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.inputs.files import InputTable, digest_file, locate_file, open_file, read_bytes, read_lines, why
from tasks.inputs.findings import MISSING, Finding
from tasks.inputs.parquet import NOT_PARQUET, read_row_group
from tasks.inputs.tables import check_header, line_numbers, parse_rows, split_header
from tasks.lifecycle.digests import CHUNK_BYTES, combine


@dataclass(frozen=True)
class TableFile(InputTable):
    """A table of records and the columns that are read of it; it may have more."""

    header: tuple[str, ...]
    columns: tuple[str, ...]
    delimiter: str = "|"

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        if self.parquet:
            with open_file(self.path) as stream:
                return int(pq.ParquetFile(stream).num_row_groups)
        filesystem, name = locate_file(self.path)
        return max(1, -(-int(filesystem.size(name)) // CHUNK_BYTES))

    def digest(self, of_chunks: Sequence[str]) -> str:
        """The digest of the file: of text from those of its chunks, Parquet is read for it."""
        return digest_file(self.path) if self.parquet else combine(bytes.fromhex(each) for each in of_chunks)


@dataclass(frozen=True)
class Chunk:
    """A chunk as read: no table where it has no row or cannot be parsed.

    lines: its own lines (rows, for Parquet). digest: of its bytes, empty for Parquet. place: the line of a row, counted
    from the chunk's first line.
    """

    table: pa.Table | None
    lines: int
    digest: str
    place: Callable[[int], int]
    findings: list[Finding]


def open_table(path: str, columns: Sequence[str], delimiter: str = "|") -> tuple[TableFile | None, list[Finding]]:
    """Open a table by path or URL; return it with the findings in its header, or None if it cannot be read."""
    name = path.rsplit("/", 1)[-1]
    try:
        if path.endswith(".parquet"):
            with open_file(path) as stream:
                header = list(pq.read_schema(stream).names)
        else:
            start = read_bytes(path, 0, 65536)
            header = split_header(start.partition(b"\n")[0], delimiter) if start else []
    except FileNotFoundError:
        return None, [Finding(name, MISSING)]
    except OSError as error:
        told = NOT_PARQUET if error.errno is None else f"the file cannot be read: {why(error)}"  # None: Arrow's own
        return None, [Finding(name, told)]
    except pa.ArrowException:
        return None, [Finding(name, NOT_PARQUET)]
    if not header:
        return None, [Finding(name, f"{name} is empty. This fails validation as records are expected.")]
    findings = check_header(name, header, columns, more=True, show=False)
    return (None if findings else TableFile(path, tuple(header), tuple(columns), delimiter)), findings


def read_chunk(file: TableFile, number: int) -> Chunk:
    """Read one chunk."""
    return (_row_group if file.parquet else _text)(file, number)


def _text(file: TableFile, number: int) -> Chunk:
    lines = read_lines(file.path, number, CHUNK_BYTES)
    body = lines.body if lines.body.strip() else b""
    table, findings = parse_rows(file.name, body, file.header, file.columns, dictionary=True, delimiter=file.delimiter)
    place = lambda row: line_numbers(body, len(file.header), [row])[0]  # noqa: E731  the body, for the rare bad row
    return Chunk(table if table is None or len(table) else None, lines.count, lines.digest, place, findings)


def _row_group(file: TableFile, number: int) -> Chunk:
    with open_file(file.path) as stream:
        rows = pq.ParquetFile(stream).metadata.row_group(number).num_rows
        table, findings = read_row_group(stream, number, file.name, file.columns)
    return Chunk(table if rows else None, rows, "", lambda row: row + 1, findings)
