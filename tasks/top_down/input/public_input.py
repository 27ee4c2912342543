"""The public files of a run: its geography, and the declared invariants, which are read and validated, or written.

The invariants are two CSV files (docs/spec/files.md#topdown-inputs): living quarters by block, `tabblk,hu,gq1,...,gq7`,
15 digits, housing units (occupied or vacant) and facilities of the major group-quarters types 1xx to 7xx-9xx; and
total population by state, `state,pop`, two digits and persons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spine.geocodes import digits
from spine.geography import Geography, IntArray, gq_pattern
from spine.redistricting import TYPES
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.records.arrow import text
from tasks.records.block_codes import find_blocks, short_codes
from tasks.records.files import file_name
from tasks.records.findings import Finding, has_errors
from tasks.records.public_table import find_faults, whole_numbers
from tasks.records.tables import LINE, EncodedColumn, check_distinct, check_mask, check_pattern
from tasks.top_down.blocks import Blocks
from tasks.top_down.run_plan import QUARTERS_FILE, TOTALS_FILE, Design, Tables

QUARTERS = ("hu", *(f"gq{kind}" for kind in range(1, TYPES)))
BLOCK = "tabblk"  # its column in quarters.csv
TOTALS_COLUMNS = ("state", "pop")
MOST = 10**9  # largest count


def read_public(tables: Tables, design: Design) -> tuple[Blocks | None, IntArray, list[Finding]]:
    """Return the blocks of the universe, the codes of all blocks of the geography, and the findings.

    The universe is every block with living quarters; None where a finding is an error.
    """
    code, quarters, findings = read_quarters(tables.quarters)
    totals, faults = read_totals(tables.totals)
    findings += faults
    geography, faults = _read_geography(tables.geography, design)
    findings += faults
    if geography is None or has_errors(findings):
        return None, np.zeros(0, np.int64), findings
    codes = short_codes(geography.geocode)
    living_quarters = quarters_of_blocks(geography, code, quarters)
    file = file_name(tables.quarters)
    if others := int((~np.isin(code, codes)).sum()):
        rule = "blocks that are not of the run's geography, left out"
        findings.append(Finding(file, rule, BLOCK, others, warning=True))
    universe = living_quarters.sum(axis=1) > 0
    if not universe.any():
        findings.append(Finding(file, "no block of the geography has living quarters", BLOCK))
        return None, codes, findings
    gq = gq_pattern([living_quarters[:, gq_type] > 0 for gq_type in range(1, TYPES)])
    geography = replace(geography, gq=gq, universe=universe)
    blocks = Blocks(geography.take(universe), living_quarters[universe], totals)
    missing = [state for state in blocks.states if int(state) not in totals]
    if missing:
        rule = f"states without a declared population: {', '.join(missing)}"
        findings.append(Finding(file_name(tables.totals), rule, "state", len(missing)))
        return None, codes, findings
    return blocks, codes, findings


def _read_geography(source: str, design: Design) -> tuple[Geography | None, list[Finding]]:
    """Return the run's blocks, occupied or not; None and a finding that names a block where they are unreadable."""
    settings = replace(design.settings[design.products[0]], occupied_only=False)
    try:
        geography, _ = read_geography(source, settings, states=design.states)
    except Refused as refused:
        return None, [Finding(file_name(source), str(refused))]
    return replace(geography, population=None), []


def read_quarters(
    path: str, columns: Sequence[str] = QUARTERS, *, more: bool = False
) -> tuple[IntArray, IntArray, list[Finding]]:
    """Return sorted 15-digit block codes and (blocks, columns) living quarters; none where a finding is an error.

    more: whether the file may have other columns.
    """
    table, findings = _read(path, (BLOCK, *columns), "[0-9]{15}", more=more)
    if table is None:
        return np.zeros(0, np.int64), np.zeros((0, len(columns)), np.int64), findings
    counts = np.column_stack([whole_numbers(table[name])[0] for name in columns])
    code = whole_numbers(table[BLOCK])[0]
    order = np.argsort(code, kind="stable")
    return code[order], counts[order], findings


def quarters_of_blocks(geography: Geography, code: IntArray, quarters: IntArray) -> IntArray:
    """Return the (blocks, columns) living quarters of a geography's blocks, of those that `read_quarters` returned."""
    row, declared = find_blocks(code, short_codes(geography.geocode))
    found = np.zeros((len(declared), quarters.shape[1]), np.int64)
    found[declared] = quarters[row[declared]]
    return found


def read_totals(path: str) -> tuple[dict[int, int], list[Finding]]:
    """Return the declared population by state code; none where a finding is an error."""
    table, findings = _read(path, TOTALS_COLUMNS, "[0-9]{2}")
    if table is None:
        return {}, findings
    return dict(zip(*(whole_numbers(table[name])[0].tolist() for name in TOTALS_COLUMNS), strict=True)), findings


def _read(path: str, columns: Sequence[str], key: str, *, more: bool = False) -> tuple[pa.Table | None, list[Finding]]:
    """Read and validate a table of a key and counts; None where a finding is an error."""
    file = file_name(path)
    rows, findings = find_faults(path, columns, more=more)
    if rows is None:
        return None, findings
    table = rows.table.append_column(LINE, pa.array(rows.lines))
    findings += check_pattern(file, table, columns[0], key)
    for name in columns[1:]:
        numbers, wrong = whole_numbers(table[name], blank=-1)
        wrong |= (numbers < 0) | (numbers >= MOST)
        findings += check_mask(file, table, name, f"Invalid values found in {name}", wrong)
    keys = EncodedColumn(table[columns[0]]).numbers
    findings += check_distinct(file, table, columns[0], f"rows whose {columns[0]} appears twice", keys)
    return (None if has_errors(findings) else table), findings


@contextmanager
def open_quarters(folder: Path) -> Iterator[Callable[[IntArray, IntArray], None]]:
    """Open quarters.csv; yield how to write the living quarters, (blocks, 8), of these 15-digit blocks."""

    def write(blocks: IntArray, facilities: IntArray) -> None:
        there = np.flatnonzero(facilities.sum(axis=1))
        code = text(digits(blocks[there], 15)).cast(pa.string())
        writer.write_table(pa.table([code, *facilities[there].T], schema))

    schema = pa.schema([(BLOCK, pa.string()), *((kind, pa.int64()) for kind in QUARTERS)])
    plain = pa.csv.WriteOptions(quoting_style="none", quoting_header="none")
    with pa.csv.CSVWriter(folder / QUARTERS_FILE, schema, write_options=plain) as writer:
        yield write


def write_totals(folder: Path, totals: Mapping[int, int]) -> None:
    """Write states.csv: the population of each state."""
    (folder / TOTALS_FILE).write_text(
        "state,pop\n" + "".join(f"{state:02d},{n}\n" for state, n in totals.items()), "utf-8"
    )
