"""The files of a run's input: declared invariants, and records with the columns of the Bureau's microdata.

Each is read and validated, or written (docs/spec/files.md#topdown-inputs). The invariants are two CSV files: living
quarters by block, `tabblk,hu,gq1,...,gq7`, 15 digits, housing units (occupied or vacant) and facilities of the major
group-quarters types 1xx to 7xx-9xx; and total population by state, `state,pop`, two digits and persons. Columns of
records are those of the 2020 redistricting microdata detail file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spine.geocodes import digits
from spine.geography import Geography, IntArray, gq_pattern
from spine.redistricting import HOUSEHOLD, PERSONS, TYPES, UNITS
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.lifecycle.files import open_array, save_arrays
from tasks.records.arrow import text
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_WIDTHS, block_numbers, find_blocks, has_digits, short_codes
from tasks.records.files import file_name
from tasks.records.findings import Finding, has_errors
from tasks.records.public_table import find_faults, whole_numbers
from tasks.records.record_digests import Sums, sum_by_state, weights
from tasks.records.records import RowChecks
from tasks.records.tables import LINE, EncodedColumn, check_distinct, check_mask, check_pattern
from tasks.top_down.blocks import Blocks, BlockSource
from tasks.top_down.run_plan import QUARTERS_FILE, SCHEMAS, TOTALS_FILE, Design, ProductName, Tables

QUARTERS = ("hu", *(f"gq{kind}" for kind in range(1, TYPES)))
BLOCK = "tabblk"  # its column in quarters.csv
TOTALS_COLUMNS = ("state", "pop")
MOST = 10**9  # largest count
COLUMNS: dict[ProductName, tuple[str, ...]] = {
    product: (*BLOCK_COLUMNS, "RTYPE", *(axis.column for axis in schema.axes)) for product, schema in SCHEMAS.items()
}
RTYPE: dict[ProductName, dict[str, int]] = {"persons": {"3": 0, "5": 1}, "units": {"2": 0, "4": 1}}  # 1: group quarters
DISAGREE: dict[ProductName, str] = {
    "persons": "RTYPE and GQTYPE_PL disagree: 3 is a person in a household (0), 5 in group quarters (1 to 7)",
    "units": "RTYPE and HH_STATUS disagree: 2 is a housing unit, occupied (1) or vacant (2); 4 is group quarters (0)",
}
FACILITY = UNITS.cells  # group quarters among the units, which H1 does not count
CELLS: dict[ProductName, int] = {"persons": PERSONS.cells, "units": UNITS.cells + 1}
PERSON_VALUES = {axis.name: axis.coordinates for axis in PERSONS.axes}
STATUSES = {**UNITS.axes[0].coordinates, "0": FACILITY}
CODES = "prepared/codes"
_PARTS = {  # parts of a block's 16-digit geocode
    "TABBLKST": slice(0, 2),
    "TABBLKCOU": slice(2, 5),
    "TABTRACTCE": slice(5, 11),
    "TABBLKGRPCE": slice(11, 12),
    "TABBLK": slice(12, 16),
}
NO_BLOCK = "block is not in the geography"
NO_QUARTERS = "block has neither a housing unit nor group quarters, by the declared invariants"


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


def save_codes(run: BlockSource, codes: IntArray, blocks: Blocks) -> None:
    """Save the codes of all blocks of the geography, and which of them are in the universe; workers map them."""
    row = np.full(len(codes), -1)
    row[np.searchsorted(codes, short_codes(blocks.geography.geocode))] = np.arange(len(blocks.geography))
    save_arrays(run / CODES, {"code": codes, "row": row, "block": short_codes(blocks.geography.geocode)})


def sum_records(product: ProductName, geography: Path, keys: IntArray, counts: IntArray) -> Sums:
    """Return the sums of records by state, for their digests. geography: what `save_codes` saved."""
    row, cell = np.divmod(keys, CELLS[product])
    within = tuple(of_cell[cell] * counts.astype(np.uint64) for of_cell in weights(np.arange(CELLS[product])))
    return sum_by_state(open_array(geography, "block")[row], counts, within)


def encode(product: ProductName, geography: Path | None, checks: RowChecks) -> tuple[IntArray, None]:
    """Validate the records, and return the keys of those without a fault.

    geography: what `save_codes` saved; None where the geography has faults, and no block is looked up.
    """
    columns = checks.columns
    for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True):
        rule = f"Invalid values found in {name}; valid are {width} digits"
        checks.fault(rule, name, ~columns[name].where(partial(has_digits, width)))
    kind = checks.coordinates("RTYPE", RTYPE[product])
    if product == "units":
        cell = checks.coordinates("HH_STATUS", STATUSES)
        in_group = cell == FACILITY
    else:
        cell = checks.cells(PERSONS, PERSON_VALUES)
        in_group = PERSONS.types[cell] != HOUSEHOLD
    checks.fault(DISAGREE[product], "RTYPE", checks.good & ((kind == 1) != in_group))
    row = np.zeros(len(checks.rows), np.int64)
    if geography is not None:
        block, known = find_blocks(open_array(geography, "code"), block_numbers(columns))
        row = open_array(geography, "row")[block]
        checks.fault(NO_BLOCK, "TABBLK", checks.good & ~known)
        checks.fault(NO_QUARTERS, "TABBLK", checks.good & known & (row < 0))
    return (row * CELLS[product] + cell)[checks.good], None


def block_columns(geocode: IntArray) -> dict[str, pa.Array]:
    """Return the columns that name the block of each record, and its block group; geocode: 16 digits."""
    blocks, of_record = np.unique(geocode, return_inverse=True)
    code, at = digits(blocks, 16), pa.array(of_record)
    return {name: text(code[:, part]).take(at).cast(pa.string()) for name, part in _PARTS.items()}


def person_columns(cell: IntArray) -> dict[str, pa.Array]:
    """Return the other columns of persons, of these cells."""
    in_group = (PERSONS.types[cell] != HOUSEHOLD).astype(np.int64)
    columns = {axis.column: words(axis.codes, PERSONS.coordinates[axis.name][cell]) for axis in PERSONS.axes}
    return {"RTYPE": words([*RTYPE["persons"]], in_group), **columns}


def unit_columns(status: IntArray) -> dict[str, pa.Array]:
    """Return the other columns of units; status: 0 for an occupied unit, 1 for a vacant one, 2 for group quarters."""
    return {"RTYPE": words(("2", "2", "4"), status), "HH_STATUS": words(("1", "2", "0"), status)}


def words(domain: Sequence[str], at: NDArray[np.signedinteger[Any]]) -> pa.Array:
    """Return a column of words by their number in a domain."""
    return pa.array(domain).take(pa.array(at))


@contextmanager
def open_records(folder: Path, product: ProductName) -> Iterator[Callable[[IntArray, IntArray], None]]:
    """Open a Parquet file of records; yield how to write those of these geocodes and cells (or statuses)."""
    schema = pa.schema([(name, pa.string()) for name in COLUMNS[product]])
    values = person_columns if product == "persons" else unit_columns

    def write(geocode: IntArray, cell: IntArray) -> None:
        for first in range(0, len(geocode), 1 << 20):
            within = slice(first, first + (1 << 20))
            columns = block_columns(geocode[within]) | values(cell[within])
            writer.write_table(pa.table([columns[name] for name in schema.names], schema))

    with pq.ParquetWriter(folder / f"{product}.parquet", schema, compression="zstd") as writer:
        yield write


def runs_of_records(count: IntArray, most: int) -> Iterator[slice]:
    """Yield runs of rows with about `most` records together, at least one row; count: the records of each row."""
    ends, first = np.cumsum(count), 0
    while first < len(count):
        last = max(first + 1, int(np.searchsorted(ends, (ends[first - 1] if first else 0) + most, side="right")))
        yield slice(first, last)
        first = last
