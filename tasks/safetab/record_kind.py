"""The record of a SafeTab, a person or a household by its householder, and the file of a run's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tasks.records.files import exists
from tasks.records.findings import MISSING, Finding
from tasks.records.marks import DataFiles
from tasks.records.parquet import ValueText
from tasks.records.record_fields import CODE_OR_NULL, NULL, Field, code
from tasks.records.records import RecordFile, open_records
from tasks.safetab.iterations import RACE_CODES

BLOCK, CELL = range(2)  # the two numbers that a record's fields sum to: its block (15 digits) and its cell
RACES = tuple(f"QRACE{number}" for number in range(1, RACE_CODES + 1))
CODES = (*RACES, "QSPAN")
RACE_FIELDS = {name: code(place, or_null=name in RACES[1:]) for place, name in enumerate(CODES)}


@dataclass(frozen=True)
class RecordKind:
    """A kind of record: person or household.

    product, noun: its product, and its name in messages and digests.
    files: the names that the file may have in a data directory, and other files that it needs.
    fields: the columns: BLOCK_FIELDS, RACE_FIELDS, the fields of the cell, and fields that are only checked.
    cells: the number of cells; a record is counted in one of them.
    """

    product: str
    noun: str
    files: DataFiles
    fields: Mapping[str, Field]
    cells: int

    def find(self, data: str) -> str:
        """Return the path of the records in a data directory. Raises FileNotFoundError."""
        for file in self.files.records:
            if exists(path := f"{data.rstrip('/')}/{file}"):
                return path
        raise FileNotFoundError(f"{data}: neither {' nor '.join(self.files.records)}")

    def missing_data(self, data: str) -> bool:
        """Return whether the records, or files that they need, are missing."""
        folder = data.rstrip("/")
        there = any(exists(f"{folder}/{file}") for file in self.files.records)
        return not (there and all(exists(f"{folder}/{file}") for file in self.files.needs))

    def open(self, data: str) -> tuple[RecordFile | None, list[Finding]]:
        """Open the records of a data directory; return None if there are findings."""
        try:
            path = self.find(data)
        except FileNotFoundError:
            return None, [Finding(self.files.records[0], MISSING)]
        words = {name: ValueText(null=NULL) for name, field in self.fields.items() if field.kind == CODE_OR_NULL}
        return open_records(path, tuple(self.fields), words=words)


@dataclass(frozen=True, kw_only=True)
class GroupRecords(RecordFile):
    """The records of a run, and what they are checked against; public."""

    states: tuple[str, ...]
    code_numbers: dict[str, int]
    max_race_codes: int
    blocks_known: bool = True  # False if GRF-C itself has faults; then no block is looked up

    @cached_property
    def valid_codes(self) -> dict[str, int]:
        """The numbers of the listed codes that a record may have."""
        valid = RACE_FIELDS[RACES[0]].number
        return {code: number for code, number in self.code_numbers.items() if valid(code) is not None}
