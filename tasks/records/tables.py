"""Text tables, by default pipe-delimited: UTF-8, one header row, no quoting (docs/spec/files.md#text-tables).

Columns are matched by the names in the header, in any order. Every fault is a finding with its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from tasks.records.files import LONGEST_LINE, count_newlines, read_bytes, why
from tasks.records.findings import KEPT_LINES, MISSING, Finding, kept, shown

DELIMITER = "|"
PARSE_BYTES = 4 * LONGEST_LINE  # text that the parser takes at a time
HEADER_BYTES = 65536  # a header is shorter
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STRAY_RETURN = "a line holds a carriage return; only a newline ends a line"
TOO_LONG = f"a line is longer than {LONGEST_LINE:,} bytes"
LONG_HEADER = f"the first line, the header, is longer than {HEADER_BYTES:,} bytes"
UNQUOTED = "quotes join no cells here: write a table that needs them as Parquet"
LINE = "line"  # column of a table that `read_table` adds: the line of a row in the file, from 1


def split_header(line: bytes, delimiter: str = DELIMITER) -> list[str]:
    """Return the column names of a header line; a byte order mark and a carriage return are taken off."""
    return line.decode("utf-8", "replace").removeprefix("\ufeff").strip("\r\n").split(delimiter)


def check_header(
    file: str,
    header: Sequence[str],
    columns: Sequence[str],
    *,
    more: bool = False,
    show: bool = True,
    own: bool = False,
) -> list[Finding]:
    """Find missing and doubled columns; with `more`, further columns are allowed and ignored.

    `show` says whether the rule may hold the names found: in a person file without a header they are a person. `own`:
    the columns and the delimiter are of a declaration, and not the Bureau's.
    """
    if any("\r" in name for name in header):
        return [Finding(file, STRAY_RETURN, lines=(1,))]
    if sum(len(name) + 1 for name in header) > HEADER_BYTES:
        return [Finding(file, LONG_HEADER, lines=(1,))]
    findings = []
    if own and (missing := [name for name in columns if name not in header]):
        other = next((each for each in ",;|\t" if len(header) == 1 and each in header[0]), None)
        there = f"; the file has {', '.join(header[:10])}{', …' * (len(header) > 10)}" if show else ""
        if other:
            there = f"; it has one column only: should it be delimiter = {json.dumps(other)}?"
        elif any('"' in name for name in header):
            there += f"; {UNQUOTED}"
        findings.append(Finding(file, f"no column {', '.join(missing)}{there}", values=kept(header)))
    elif missing := [name for name in columns if name not in header]:
        findings.append(Finding(file, f"Missing columns. Expected columns: {list(columns)}. Missing: {missing}."))
    if (unnamed := list(header).count("")) > 1:
        findings.append(Finding(file, f"{unnamed} columns without a name: delete them", lines=(1,)))
    read = [name for name in header if name in columns or not more]
    doubled = sorted({name for name in read if name and read.count(name) > 1})
    unknown = [name for name in read if name not in columns]
    for rule, names in (("Columns that appear twice", doubled), ("Unexpected columns found", unknown)):
        if names:
            public = [name for name in names if show or name in columns]
            named = f"{rule}: {shown(public)}" if public else rule
            findings.append(Finding(file, named, lines=(1,), values=kept(names)))
    return findings


def empty(file: str) -> Finding:
    """Return the finding of a file without a record."""
    return Finding(file, f"{file} is empty. This fails validation as records are expected.")


def parse_rows(
    file: str,
    body: bytes,
    header: Sequence[str],
    columns: Sequence[str],
    *,
    dictionary: bool = False,
    delimiter: str = DELIMITER,
) -> tuple[pa.Table | None, list[Finding]]:
    """Parse the rows below a header into text columns, dictionary-encoded on request.

    A finding counts lines within `body`, from 1. Rows of a wrong width are findings and left out; text that
    is not UTF-8, or no text at all, leaves no table.
    """
    if not body:
        return None, []
    if findings := _too_long(file, body) or _stray_returns(file, body):
        return None, findings
    if not (body.isascii() or is_utf8(body)):
        # A column that is not read may hold what it likes, but the parser prints a traceback for each such row of a
        # wrong width.
        all_read = set(header) <= set(columns)
        if all_read or any(not _fits(text, len(header), delimiter) for _, text in _lines(body)):
            return None, _unreadable(file, body)
    # A byte order mark here is part of a row's first value; the parser alone would take it off the first row.
    parsed = b"\n" + body if body.startswith(BYTE_ORDER_MARK) else body
    bad_rows = []

    def keep_out(row: Any) -> str:
        bad_rows.append(row.number)
        return "skip"

    text = pa.dictionary(pa.int32(), pa.string()) if dictionary else pa.string()
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(parsed),
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=PARSE_BYTES, column_names=list(header)),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, quote_char=False, invalid_row_handler=keep_out, ignore_empty_lines=True
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(header, text), include_columns=list(columns), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None, _unreadable(file, body)
    if bad_rows:
        unfit = (line for line, text in _lines(body) if not _fits(text, len(header), delimiter))
        lines = tuple(islice(unfit, KEPT_LINES))
        rule = f"a row does not have {len(header)} columns" + f"; {UNQUOTED}" * (delimiter != DELIMITER)
        findings.append(Finding(file, rule, rows=len(bad_rows), lines=lines))
    return table.unify_dictionaries().combine_chunks(), findings


def line_of_row(body: bytes, width: int, row: int, delimiter: str = DELIMITER) -> int:
    """Return the line (from 1) of a parsed row (from 0) of `body`; for the rare bad row."""
    good = (line for line, text in _lines(body) if _fits(text, width, delimiter))
    return next(islice(good, row, None))


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    for number, text in enumerate(body.split(b"\n"), start=1):
        if text.strip(b"\r"):
            yield number, text


def _fits(text: bytes, width: int, delimiter: str = DELIMITER) -> bool:
    return text.count(delimiter.encode()) == width - 1


def is_utf8(body: bytes) -> bool:
    """Return whether bytes are UTF-8 text, without copying them."""
    ends = np.array([0, len(body)], np.int64)
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(body)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _too_long(file: str, body: bytes) -> list[Finding]:
    """Find the first line that is too long, in steps of the longest line."""
    start = 0
    while len(body) - start > LONGEST_LINE:
        end = body.rfind(b"\n", start, start + LONGEST_LINE + 1)
        if end < 0:
            return [Finding(file, TOO_LONG, lines=(count_newlines(body[:start]) + 1,))]
        start = end + 1
    return []


def _stray_returns(file: str, body: bytes) -> list[Finding]:
    """Find carriage returns within lines: the parser would break the line there."""
    if b"\r" not in body or body.count(b"\r") == body.count(b"\r\n"):
        return []
    bad = [line for line, text in enumerate(body.split(b"\n"), start=1) if b"\r" in text.removesuffix(b"\r")]
    return [Finding(file, STRAY_RETURN, rows=len(bad), lines=tuple(bad[:KEPT_LINES]))] if bad else []


def _unreadable(file: str, body: bytes) -> list[Finding]:
    bad = []
    for line, text in _lines(body):
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            bad.append(line)
    if bad:
        return [Finding(file, "is not UTF-8 text", rows=len(bad), lines=tuple(bad[:KEPT_LINES]))]
    return [Finding(file, "cannot be parsed as a delimited table")]


class EncodedColumn:
    """A column, dictionary-encoded here if it is not: the distinct values, and per row the number of its value."""

    def __init__(self, array: pa.ChunkedArray) -> None:
        if not pa.types.is_dictionary(array.type):
            array = array.cast(pa.string()).dictionary_encode()
        chunk = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        self.dictionary: pa.Array = chunk.dictionary
        self.numbers: NDArray[np.int32] = chunk.indices.to_numpy(zero_copy_only=False)

    @cached_property
    def values(self) -> list[str]:
        """The distinct values."""
        values: list[str] = self.dictionary.to_pylist()
        return values

    def where(self, test: Callable[[str], Any], kind: type = bool) -> NDArray[Any]:
        """Evaluate `test` once per distinct value and spread the outcomes over the rows."""
        return self.spread([test(value) for value in self.values], kind)

    def spread(self, of_values: Sequence[Any], kind: type = bool) -> NDArray[Any]:
        """Return what each distinct value has, spread over the rows."""
        outcomes: NDArray[Any] = np.array(of_values, dtype=kind)
        if len(outcomes) and (outcomes == outcomes[0]).all():  # most checks: every value passes
            return np.full(len(self.numbers), outcomes[0])
        return outcomes[self.numbers]

    def take(self, rows: NDArray[np.int64]) -> EncodedColumn:
        """Return the column of these rows."""
        taken = copy(self)
        taken.numbers = self.numbers[rows]
        return taken


def read_table(
    path: str, file: str, columns: Sequence[str], *, more: bool = False, dictionary: bool = False
) -> tuple[pa.Table | None, list[Finding]]:
    """Read a whole table of text columns, and the column LINE; None and findings where that cannot be done."""
    try:
        start = read_bytes(path, 0, HEADER_BYTES)
        begin = start.find(b"\n") + 1 or len(start)
        body = read_bytes(path, begin)
    except FileNotFoundError:
        return None, [Finding(file, MISSING)]
    except OSError as error:
        return None, [Finding(file, f"the file cannot be read: {why(error)}")]
    header = split_header(start[:begin])
    if start and (findings := check_header(file, header, columns, more=more)):
        return None, findings
    if not body[:HEADER_BYTES].strip() and not body.strip():
        return None, [empty(file)]
    table, findings = parse_rows(file, body, header, columns, dictionary=dictionary)
    if table is not None:
        table = table.append_column(LINE, pa.array(_row_lines(body, len(header), len(table)), pa.int32()))
    return table, [finding.below(1) for finding in findings]


def _row_lines(body: bytes, width: int, rows: int) -> NDArray[np.int32]:
    """Return the line of the file, below its header, of each parsed row."""
    tail = body[-HEADER_BYTES:]
    after_last_row = tail[len(tail.rstrip()) :].count(b"\n")
    if count_newlines(body) - after_last_row + 1 == rows:  # no blank line in between and no row left out
        return np.arange(2, rows + 2, dtype=np.int32)
    return np.array([line + 1 for line, text in _lines(body) if _fits(text, width)], np.int32)


def check_pattern(file: str, table: pa.Table, column: str, pattern: str) -> list[Finding]:
    """Find the values of a column that a regular expression does not match as a whole."""
    good = EncodedColumn(table[column]).where(re.compile(pattern).fullmatch)
    return check_mask(file, table, column, f"Invalid values found in {column}", ~good)


def check_distinct(file: str, table: pa.Table, column: str, rule: str, keys: NDArray[Any]) -> list[Finding]:
    """Find the rows of a public table whose key an earlier row has."""
    again = np.ones(len(keys), bool)
    again[np.unique(keys, return_index=True)[1]] = False
    return check_mask(file, table, column, rule, again)


def check_mask(file: str, table: pa.Table, column: str, rule: str, bad: Any, *, warning: bool = False) -> list[Finding]:
    """Find the rows of a public table that a mask marks, with the distinct values of `column` there."""
    mask = np.asarray(bad)
    if not mask.any():
        return []
    values = tuple(sorted(set(table[column].filter(pa.array(mask)).to_pylist())))
    lines = tuple(table[LINE].take(np.flatnonzero(mask)[:KEPT_LINES]).to_pylist())
    return [Finding(file, f"{rule}: {shown(values)}", column, int(mask.sum()), lines, kept(values), warning)]
