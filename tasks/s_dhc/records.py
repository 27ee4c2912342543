"""The three files of the S-DHC: persons, units and geo. A row is encoded as one 64-bit number (confidential).

The number is (MAFID - FIRST_MAFID) 2^bits + values, so sorting rows sorts them by housing unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.records.fast_records import RecordLayout, parse_chunk
from tasks.records.files import exists
from tasks.records.findings import MISSING, Finding
from tasks.records.marks import DataFiles
from tasks.records.record_fields import FAULT, LISTED, Field, digits, listed, whole
from tasks.records.records import Chunk, ChunkReport, RecordFile, RowChecks, open_records, read_header, report_of

MAFID = "MAFID"
FIRST_MAFID, LAST_MAFID = 100_000_001, 899_999_999
FORMS = ("parquet", "csv")
IDENTITY, VALUES = range(2)  # the two numbers that a record's fields sum to
MOST_PERSONS = 31  # a larger FINAL_POP is kept as this: it is only compared


def _choice(codes: Mapping[int, int]) -> Field:
    """Return a column of one digit; codes: its values, and what each adds."""
    meanings = tuple(codes.get(code, FAULT) for code in range(max(codes) + 1))
    return Field(LISTED, " or ".join(map(str, codes)), 1, VALUES, meanings=meanings, most=max(codes))


def _shifted(count: int, bits: int, *, first: int = 0) -> list[int]:
    return [number << bits for number in range(first, count)]


@dataclass(frozen=True)
class FileKind:
    """One of the three files: its name, its columns, the bits of its values, and a word for its rows."""

    name: str
    fields: Mapping[str, Field]
    bits: int
    noun: str

    def find(self, data: str) -> str:
        """Return the path in a data directory: Parquet if it exists, else CSV."""
        paths = [f"{data.rstrip('/')}/{self.name}.{form}" for form in FORMS]
        return next((path for path in paths if exists(path)), paths[-1])

    def open(self, data: str) -> tuple[RecordFile | None, list[Finding]]:
        """Open the file of a data directory, its delimiter by its header; return None if there are findings."""
        path = self.find(data)
        if not exists(path):
            return None, [Finding(f"{self.name}.{FORMS[-1]}", MISSING)]
        delimiter = ","
        if path.endswith(".csv"):
            with suppress(OSError, ValueError):  # open_records says why
                delimiter = "|" if any("|" in name for name in read_header(path, ",")) else ","
        return open_records(path, tuple(self.fields), delimiter=delimiter, plain=(MAFID,))


PERSONS = FileKind(
    "persons",
    {
        "RTYPE": _choice({3: 0, 5: 1 << 19}),  # in a housing unit, or in group quarters
        MAFID: digits(9),
        "QAGE": whole(range(116), place=VALUES),
        "CENHISP": listed((0, 1 << 18), place=VALUES),
        "CENRACE": listed(_shifted(64, 12, first=1), width=2, place=VALUES),
        "RELSHIP": listed(_shifted(19, 7), first=20, width=2, place=VALUES),
    },
    bits=20,
    noun="persons",
)
UNITS = FileKind(
    "units",
    {
        "RTYPE": _choice({2: 0, 4: 1}),
        MAFID: digits(9),
        "FINAL_POP": whole((min(n, MOST_PERSONS) << 29 for n in range(100_000)), place=VALUES),
        "NPF": whole([0, FAULT, *_shifted(98, 22, first=2)], place=VALUES),
        "HHSPAN": listed(_shifted(3, 1), first=0, place=VALUES),
        "HHRACE": listed(_shifted(64, 3), first=0, width=2, place=VALUES),
        "TEN": listed(_shifted(5, 9), first=0, place=VALUES),
        "HHT": listed(_shifted(8, 12), first=0, place=VALUES),
        "HHT2": listed(_shifted(13, 15), first=0, width=2, place=VALUES),
        "CPLT": listed(_shifted(6, 19), first=0, place=VALUES),
    },
    bits=34,
    noun="units",
)
GEO = FileKind(
    "geo",
    {
        "RTYPE": _choice({2: 0, 4: 1}),
        MAFID: digits(9),
        "TABBLKST": digits(2, place=VALUES, factor=2),
        "TABBLKCOU": digits(3, factor=0),
        "TABTRACTCE": digits(6, factor=0),
        "TABBLK": digits(4, factor=0),
        "TABBLKGRPCE": digits(1, factor=0),
        "REGIONCE": _choice(dict.fromkeys((1, 2, 3, 4, 9), 0)),
        "DIVISIONCE": digits(1, factor=0),
        "PLACEFP": digits(5, factor=0),
        "AIANNHCE": digits(4, factor=0),
    },
    bits=8,
    noun="rows of geo",
)
KINDS = {kind.name: kind for kind in (PERSONS, UNITS, GEO)}
DATA_FILES = DataFiles(
    records=("geo.csv", "geo.parquet"),  # which no other system has
    needs=(),
    if_there=tuple(f"{name}.{form}" for name in ("persons", "units") for form in FORMS),
)


def read_rows(kind: FileKind, file: RecordFile, chunk: Chunk) -> tuple[NDArray[np.uint64], ChunkReport]:
    """Check the rows of a chunk and return them as numbers. If the chunk has a fault, use only its findings."""
    parsed = parse_chunk(RecordLayout(kind.fields), file.header, chunk, file.delimiter)
    if parsed is not None and not _outside(parsed.numbers).any():
        return _rows(kind, parsed.numbers), report_of(chunk, parsed.numbers.shape[1], 0, [])
    table, _ = chunk.parse()
    if table is None:
        return np.zeros(0, np.uint64), report_of(chunk, 0, 0, [])
    checks = RowChecks(file, table)
    numbers, _ = checks.numbers(kind.fields, hidden=(MAFID,))
    checks.fault(f"MAFIDs that are not from {FIRST_MAFID} to {LAST_MAFID}", "", checks.good & _outside(numbers))
    return _rows(kind, numbers[:, checks.good]), report_of(chunk, len(table), 0, checks.findings)


def _outside(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((numbers[IDENTITY] < FIRST_MAFID) | (numbers[IDENTITY] > LAST_MAFID))


def _rows(kind: FileKind, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    identity, values = numbers.astype(np.uint64)
    rows: NDArray[np.uint64] = ((identity - np.uint64(FIRST_MAFID)) << np.uint64(kind.bits)) | values
    return rows
