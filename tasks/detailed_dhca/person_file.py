"""The file of person records, text or Parquet (docs/spec/files.md#person-recordstxt): where it is, its columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tasks.inputs.block_codes import BLOCK_COLUMNS, BLOCK_WIDTHS
from tasks.inputs.files import exists
from tasks.inputs.findings import MISSING, Finding
from tasks.inputs.marks import GRF_FILE, PERSON_FILES
from tasks.inputs.records import RecordFile, open_records

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
VALID = {  # the same in words, for findings
    "QAGE": "whole numbers from 0 to 115",
    "QSEX": "1 or 2",
    "HOUSEHOLDER": "True or False",
    **{name: f"{width} digits" for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True)},
    "CENRACE": "2 digits",
    **dict.fromkeys(("QRACE1", "QSPAN"), "4 digits, the first not 0"),
    **dict.fromkeys(RACE_COLUMNS[1:], "4 digits, the first not 0, or Null"),
}
AGE23_BINS = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)  # first ages
CELLS = 2 * len(AGE23_BINS)  # sex (male, female) x age23: cell = 23 (QSEX - 1) + age bin


@dataclass(frozen=True, kw_only=True)
class PersonFile(RecordFile):
    """The person records, and what they are checked against; public."""

    states: tuple[str, ...]
    code_numbers: dict[str, int]
    max_race_codes: int
    blocks_known: bool = True  # not where GRF-C has faults of its own; then no block is looked up


def find_person_file(data: str) -> str:
    """Return the path of the person records, text or Parquet. Raises FileNotFoundError."""
    for file in PERSON_FILES:
        if exists(path := f"{data.rstrip('/')}/{file}"):
            return path
    raise FileNotFoundError(f"{data}: neither {' nor '.join(PERSON_FILES)}")


def missing_data(data: str) -> bool:
    """Return whether one of the data files does not exist."""
    try:
        find_person_file(data)
    except FileNotFoundError:
        return True
    return not exists(f"{data.rstrip('/')}/{GRF_FILE}")


def open_person_records(data: str) -> tuple[RecordFile | None, list[Finding]]:
    """Open the person records of a data directory; None where there are findings."""
    try:
        path = find_person_file(data)
    except FileNotFoundError:
        return None, [Finding(PERSON_FILES[0], MISSING)]
    return open_records(path, COLUMNS)


def malformed(column: str) -> Callable[[str], bool]:
    """Return the test for values outside a column's domain."""
    accepts = re.compile(PATTERNS[column]).fullmatch
    return lambda value: not accepts(value)
