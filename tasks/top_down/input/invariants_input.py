"""Read the declared invariants: living quarters by block, total population by state. Public.

Two CSV files (docs/spec/files.md#topdown-inputs): `tabblk,hu,gq1,...,gq7`, 15 digits, housing units (occupied or
vacant) and facilities of the major group-quarters types 1xx to 7xx-9xx; and `state,pop`, two digits and persons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spine.geography import IntArray
from spine.top_down.histogram import TYPES
from tasks.inputs.findings import Finding, has_errors
from tasks.inputs.tables import Column, check_mask, read_table
from tasks.top_down.tables import file_name

QUARTERS = ("hu", *(f"gq{kind}" for kind in range(1, TYPES)))
QUARTERS_COLUMNS = ("tabblk", *QUARTERS)
TOTALS_COLUMNS = ("state", "pop")
_COUNT = re.compile("[0-9]{1,9}")


def read_quarters(path: str) -> tuple[IntArray, IntArray, list[Finding]]:
    """Return sorted 15-digit block codes and (blocks, 8) living quarters; none where a finding is an error."""
    table, findings = _read(path, QUARTERS_COLUMNS, "[0-9]{15}")
    if table is None:
        return np.zeros(0, np.int64), np.zeros((0, TYPES), np.int64), findings
    counts = np.column_stack([_counts(table, name) for name in QUARTERS])
    code = _counts(table, "tabblk")
    order = np.argsort(code, kind="stable")
    return code[order], counts[order], findings


def read_totals(path: str) -> tuple[dict[int, int], list[Finding]]:
    """Return the declared population by state code; none where a finding is an error."""
    table, findings = _read(path, TOTALS_COLUMNS, "[0-9]{2}")
    if table is None:
        return {}, findings
    return dict(zip(_counts(table, "state").tolist(), _counts(table, "pop").tolist(), strict=True)), findings


def _read(path: str, columns: Sequence[str], key: str) -> tuple[pa.Table | None, list[Finding]]:
    """Read and validate a table of a key and counts; None where a finding is an error."""
    file = file_name(path)
    table, findings = read_table(path, file, columns, dictionary=True, delimiter=",")
    if table is None:
        return None, findings
    keys = re.compile(key).fullmatch
    for name in columns:
        good = Column(table[name]).where(keys if name == columns[0] else _COUNT.fullmatch)
        findings += check_mask(file, table, name, f"Invalid values found in {name}", ~good)
    numbers = Column(table[columns[0]]).numbers
    twice = np.ones(len(numbers), bool)
    twice[np.unique(numbers, return_index=True)[1]] = False
    findings += check_mask(file, table, columns[0], f"rows whose {columns[0]} appears twice", twice)
    return (None if has_errors(findings) else table), findings


def _counts(table: pa.Table, name: str) -> IntArray:
    numbers: IntArray = Column(table[name]).where(int, np.int64)
    return numbers
