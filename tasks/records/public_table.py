"""Read public tables that people make: text as spreadsheets, R and pandas save it, or Parquet. One tolerance for all.

Text is UTF-8 or else Latin-1, with or without a byte order mark, and lines end in any of the three ways. The delimiter
is the first of `|`, tab, `;` and `,` in the header, or what a line `sep=;` above it names. Cells may be quoted. Columns
are found by their names in any order and case. Left out are lines with `#` above the header, blank lines and rows,
columns without a name and a value, and numbers of the rows in the first column.

The formats of the Census Bureau that a run validates row by row are stricter (tables.py).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from spine.geography import BoolArray, IntArray
from tasks.errors import Refused
from tasks.records.files import count_newlines, file_name, open_file, why
from tasks.records.findings import MISSING, Finding
from tasks.records.parquet import NOT_PARQUET, as_text
from tasks.records.tables import BYTE_ORDER_MARK, HEADER_BYTES, LONG_HEADER, check_header, empty, is_utf8

DELIMITERS = "|\t;,"
LARGEST = 1 << 29  # bytes of a table that is read as text; the blocks of the nation with their districts are 0.2 GB
NUMBERED = re.compile(r"|X|\.\.\.1|Unnamed: ?[0-9]+|__index_level_0__", re.IGNORECASE)  # a column of row numbers
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_SEPARATOR = re.compile(r'"?sep=([|\t;,])"?[,;\s]*', re.IGNORECASE)


class TableFault(Refused):
    """A public table cannot be read. args: its path, and the fault with its remedy."""

    def __str__(self) -> str:
        path, fault = self.args
        return f"{path}: {fault}"

    def finding(self) -> Finding:
        """Return the fault as a finding of validation."""
        path, fault = self.args
        return Finding(file_name(path), fault)


@dataclass(frozen=True)
class TextRows:
    """The rows of a table: their text by column, the line of each row from 1, and notes on what was left out."""

    table: pa.Table
    lines: IntArray
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PublicTable:
    """A table whose header has been read.

    names: its columns' names, in order; those without a name in the file are called `column 3`, and are `unnamed`.
    start, first: the byte and the line of the first row. headless: whether the file has no header. plain: whether
    `batches` read ISO 8859-1 without quotes, as in the files of P.L. 94-171.
    """

    path: str
    names: tuple[str, ...]
    unnamed: frozenset[str] = frozenset()
    delimiter: str = ","
    start: int = 0
    first: int = 1
    headless: bool = False
    parquet: bool = False
    plain: bool = False

    def find(self, name: str) -> str | None:
        """Return the column of a name, in this case or else in another; None where none has it, or several."""
        if name in self.names:
            return name
        found = [own for own in self.names if own.casefold() == name.casefold() and own not in self.unnamed]
        return found[0] if len(found) == 1 else None

    def columns(self, names: Sequence[str]) -> dict[str, str]:
        """Return the column of each name. Raises TableFault."""
        found = {name: self.find(name) for name in names}
        if missing := [name for name, own in found.items() if own is None]:
            raise self.fault(f"no column {', '.join(missing)}; the file has {self.shown()}")
        return {name: own for name, own in found.items() if own is not None}

    def shown(self) -> str:
        """Return the names of the columns, for a message."""
        named = [name for name in self.names if name not in self.unnamed] or list(self.names)
        return ", ".join(named[:12])[:200] + (", ..." if len(named) > 12 else "")

    def fault(self, text: str) -> TableFault:
        """Return a fault of the table to raise."""
        return TableFault(self.path, text)

    def read(self, columns: Sequence[str] = ()) -> TextRows:
        """Return columns as text under the names that are asked for, or all. Raises TableFault, OSError."""
        own = self.columns(columns or self.names)
        wanted = list(dict.fromkeys(own.values()))
        if self.parquet:
            table = self._parquet(wanted)
            lines = np.arange(1, len(table) + 1)
        else:
            table, lines = self._text(dict.fromkeys(wanted, pa.string()))
        blank = blank_rows(table)
        if blank.any():
            table, lines = table.filter(pa.array(~blank)), lines[~blank]
        left_out: dict[str, str] = {} if columns else dict(self._left_out(table))
        kept = {name: table[found] for name, found in own.items() if found not in left_out}
        return TextRows(pa.table(kept), lines, tuple(dict.fromkeys(left_out.values())))

    def batches(self, types: Mapping[str, pa.DataType], block_size: int | None = None) -> Iterator[pa.Table]:
        """Yield columns of these types, in parts where a size is given. Raises pa.ArrowInvalid for another value."""
        if self.parquet:
            table = self._parquet(list(types))
            yield pa.table({name: table[name].cast(kind) for name, kind in types.items()})
            return
        options = self._options(types, "latin1" if self.plain else "utf8", block_size=block_size)
        with self._rows() as stream:
            if block_size is None:
                yield pyarrow.csv.read_csv(stream, **options)
            else:
                yield from (pa.Table.from_batches([batch]) for batch in pyarrow.csv.open_csv(stream, **options))

    @contextmanager
    def _rows(self) -> Iterator[IO[bytes]]:
        with open_file(self.path, compression="infer") as stream:
            stream.read(self.start)
            yield stream

    def _text(self, types: Mapping[str, pa.DataType]) -> tuple[pa.Table, IntArray]:
        """Return columns of text, and the line of each row."""
        with self._rows() as stream:
            body = stream.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise self.fault(f"it has more than {LARGEST:,} bytes")
        if not body.strip():
            return pa.table({name: pa.array([], kind) for name, kind in types.items()}), np.zeros(0, np.int64)
        wrong: list[Any] = []

        def judge(row: Any) -> str:
            if row.text.startswith("#"):
                return "skip"
            wrong.append(row)
            return "error"

        encoding = "utf8" if body.isascii() or is_utf8(body) else "latin1"
        for threads in (True, False):  # one thread knows the lines
            options = self._options(types, encoding, judge, threads=threads)
            try:
                table = pyarrow.csv.read_csv(pa.BufferReader(body), **options)
                return table, self._lines(body, len(table))
            except pa.ArrowInvalid as error:
                fault = str(error).splitlines()[0][:200]
        if wrong:
            line, cells = self.first - 1 + (wrong[-1].number or 0), wrong[-1].actual_columns
            fault = f"line {line} has {cells} cells, and there are {len(self.names)} columns"
        raise self.fault(fault)

    def _lines(self, body: bytes, rows: int) -> IntArray:
        """Return the line of the file of each row."""
        lines = np.arange(self.first, self.first + rows)
        if (count_newlines(body) or body.count(b"\r")) + (not body.endswith((b"\n", b"\r"))) != rows:
            width, mark = len(self.names), self.delimiter.encode()
            found = enumerate(_LINE.finditer(body), start=self.first)
            texts = ((number, line[0].strip(b"\r\n")) for number, line in found)
            kept = [number for number, text in texts if text and (text[:1] != b"#" or text.count(mark) == width - 1)]
            lines = np.array(kept) if len(kept) == rows else lines  # a quoted cell may hold ends of lines
        return lines

    def _options(
        self,
        types: Mapping[str, pa.DataType],
        encoding: str,
        judge: Callable[[Any], str] | None = None,
        *,
        threads: bool = True,
        block_size: int | None = None,
    ) -> dict[str, Any]:
        return {
            "read_options": pyarrow.csv.ReadOptions(
                column_names=self.names, encoding=encoding, use_threads=threads, block_size=block_size
            ),
            "parse_options": pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, quote_char=not self.plain and '"', invalid_row_handler=judge
            ),
            "convert_options": pyarrow.csv.ConvertOptions(
                include_columns=list(types), column_types=dict(types), strings_can_be_null=False
            ),
        }

    def _parquet(self, columns: Sequence[str]) -> pa.Table:
        try:
            with open_file(self.path) as stream:
                table = pq.read_table(stream)
            return pa.table({name: as_text(table[name]) for name in columns})
        except (pa.ArrowException, UnicodeDecodeError):
            raise self.fault(f"{NOT_PARQUET} of text and numbers") from None
        except OSError as error:
            raise self.fault(NOT_PARQUET) if error.errno is None else error from None

    def _left_out(self, table: pa.Table) -> Iterator[tuple[str, str]]:
        """Yield the columns that hold nothing of the table, with a note on each."""
        first = self.names[0]
        if len(self.names) > 1 and (first in self.unnamed or NUMBERED.fullmatch(first)):
            numbers, wrong = whole_numbers(table[first])
            if len(numbers) and not wrong.any() and numbers[0] in (0, 1) and (np.diff(numbers) == 1).all():
                yield first, "the first column numbers the rows, and is left out"
        for name in self.unnamed:
            if pc.all(is_blank(table[name])).as_py() and len(table):
                yield name, "a column without a name and without a value is left out"


def open_table(
    path: str, *, delimiter: str | None = None, is_value: Callable[[str], bool] = lambda cell: False
) -> PublicTable:
    """Read the header of a table. delimiter: the one to take where it is in the header. Raises TableFault, OSError.

    is_value: whether a cell belongs to a row; where one of the first line does, the table has no header.
    """
    with open_file(path, compression="infer") as stream:
        head = stream.read(3 * HEADER_BYTES)
    if head.startswith(b"PAR1"):
        return _open_parquet(path)
    if head.startswith(b"PK\x03\x04"):
        raise TableFault(path, "it is a workbook or an archive: save the table as CSV")
    if b"\0" in head:
        raise TableFault(path, "it is not text: save the table as CSV in UTF-8")
    start, line = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0, 1
    mark = None
    for found in _LINE.finditer(head, start):
        text = _decoded(found[0])
        if separator := _SEPARATOR.fullmatch(text):
            mark = separator[1]
        elif text.strip() and not text.lstrip("\"' ").startswith("#"):
            break
        start, line = found.end(), line + 1
    else:
        raise TableFault(path, "it is empty")
    if len(found[0]) > HEADER_BYTES:
        raise TableFault(path, LONG_HEADER)
    mark = mark or _delimiter(text, delimiter)
    names = _cells(text, mark)
    headless = any(map(is_value, names))
    if headless:
        names = [""] * len(names)
    else:
        start, line = found.end(), line + 1
        below = (_decoded(other[0]) for other in _LINE.finditer(head, start))
        row = _cells(next((other for other in below if other.strip() and other[0] != "#"), ""), mark)
        if not any(row[len(names) :]):
            names += [""] * (len(row) - len(names))
        elif len(row) == len(names) + 1 and row[0] == "1":  # names of the rows, which R gives no name
            names = ["", *names]
    return _named(PublicTable(path, tuple(names), delimiter=mark, start=start, first=line, headless=headless))


def find_faults(
    path: str, columns: Sequence[str], *, delimiter: str | None = None, more: bool = False
) -> tuple[TextRows | None, list[Finding]]:
    """Return columns of a table, or what is wrong with it as findings. more: whether it may have other columns."""
    file = file_name(path)
    try:
        table = open_table(path, delimiter=delimiter)
        names = [next((name for name in columns if table.find(name) == own), own) for own in table.names]
        if not more and (findings := check_header(file, [n for n in names if n not in table.unnamed], columns)):
            return None, findings
        rows = table.read(columns)
    except TableFault as fault:
        return None, [fault.finding()]
    except FileNotFoundError:
        return None, [Finding(file, MISSING)]
    except OSError as error:
        return None, [Finding(file, f"the file cannot be read: {why(error)}")]
    return (rows, []) if len(rows.lines) else (None, [empty(file)])


def _named(table: PublicTable) -> PublicTable:
    """Return a table whose columns all have a name. Raises TableFault where two have the same."""
    if doubled := [name for name in table.names if name and table.names.count(name) > 1]:
        raise table.fault(f"the column {doubled[0][:100]} comes twice in the header")
    names = [name or f"column {at}" for at, name in enumerate(table.names, start=1)]
    unnamed = frozenset(name for name, own in zip(names, table.names, strict=True) if not own)
    return replace(table, names=tuple(names), unnamed=unnamed)


def _open_parquet(path: str) -> PublicTable:
    try:
        with open_file(path) as stream:
            names = pq.read_schema(stream).names
    except (pa.ArrowException, UnicodeDecodeError):
        raise TableFault(path, NOT_PARQUET) from None
    except OSError as error:  # Arrow's own has no number
        raise TableFault(path, NOT_PARQUET) if error.errno is None else error from None
    return _named(PublicTable(path, tuple(names), parquet=True))


def _decoded(line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    return text.strip("\r\n")


def _delimiter(header: str, known: str | None) -> str:
    bare = re.sub('"[^"]*"', "", header)
    return next((mark for mark in f"{known or ''}{DELIMITERS}" if mark in bare), known or ",")


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, without the quotes and spaces around them."""
    return [
        cell.strip().strip("\"'").strip() for cell in next(csv.reader([line[:HEADER_BYTES]], delimiter=delimiter), [])
    ]


def is_blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which texts are blank."""
    return pc.equal(pc.utf8_trim_whitespace(column.cast(pa.string())), "").fill_null(True)


def blank_rows(table: pa.Table) -> BoolArray:
    """Return which rows have no value, as spreadsheets add them."""
    blank = np.ones(len(table), bool)
    for column in table.columns:
        if not blank.any():
            break
        blank &= np.asarray(is_blank(column))
    return blank


def whole_numbers(column: pa.ChunkedArray, blank: int = 0) -> tuple[IntArray, BoolArray]:
    """Return whole numbers from text, also `5.0` as pandas saves them; `blank` for no text. The rows of other text."""
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    text = pc.replace_substring_regex(text, pattern=r"\.0*$", replacement="")
    empty = pc.equal(text, "")
    wrong = pc.invert(pc.or_(empty, pc.match_substring_regex(text, "^-?[0-9]{1,18}$")))
    numbers = pc.if_else(pc.or_(empty, wrong), str(blank), text).cast(pa.int64())
    return numbers.to_numpy(), np.asarray(wrong)
