"""Records of persons and units with the columns of the Bureau's microdata: validated and counted, or written.

Columns are those of the 2020 redistricting microdata detail file (docs/spec/files.md#topdown-inputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spine.geocodes import digits
from spine.geography import IntArray
from spine.redistricting import HOUSEHOLD, PERSONS, UNITS
from tasks.lifecycle.files import open_array, save_arrays
from tasks.records.arrow import text
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_WIDTHS, block_numbers, find_blocks, has_digits, short_codes
from tasks.records.record_digests import Sums, sum_by_state, weights
from tasks.records.records import RowChecks
from tasks.top_down.blocks import BlockSource
from tasks.top_down.run_plan import SCHEMAS

COLUMNS: dict[str, tuple[str, ...]] = {
    product: (*BLOCK_COLUMNS, "RTYPE", *(axis.column for axis in schema.axes)) for product, schema in SCHEMAS.items()
}
RTYPE: dict[str, dict[str, int]] = {"persons": {"3": 0, "5": 1}, "units": {"2": 0, "4": 1}}  # 1: group quarters
DISAGREE: dict[str, str] = {
    "persons": "RTYPE and GQTYPE_PL disagree: 3 is a person in a household (0), 5 in group quarters (1 to 7)",
    "units": "RTYPE and HH_STATUS disagree: 2 is a housing unit, occupied (1) or vacant (2); 4 is group quarters (0)",
}
FACILITY = UNITS.cells  # group quarters among the units, which H1 does not count
CELLS: dict[str, int] = {"persons": PERSONS.cells, "units": UNITS.cells + 1}
PERSON_VALUES = {axis.name: axis.coordinates for axis in PERSONS.axes}
STATUSES = {**UNITS.axes[0].coordinates, "0": FACILITY}
CODES = "prepared/codes/{}"
_PARTS = {  # parts of a block's 16-digit geocode
    "TABBLKST": slice(0, 2),
    "TABBLKCOU": slice(2, 5),
    "TABTRACTCE": slice(5, 11),
    "TABBLKGRPCE": slice(11, 12),
    "TABBLK": slice(12, 16),
}
NO_BLOCK = "block is not in the geography"
NO_QUARTERS = "block has neither a housing unit nor group quarters, by the declared invariants"


def save_codes(run: BlockSource, product: str, codes: IntArray) -> None:
    """Save the codes of all blocks of the geography, and their places in the order of the spines; workers map them."""
    branches = run.branches_of(product)
    spines = ((run.spine(branch), run.state(branch.name).geography.geocode) for branch in branches)
    block = short_codes(np.concatenate([geocode[spine.order] for spine, geocode in spines]))
    row = np.full(len(codes), -1)
    row[np.searchsorted(codes, block)] = np.arange(len(block))
    save_arrays(run / CODES.format(product), {"code": codes, "row": row, "block": block})


def sum_records(product: str, geography: Path, keys: IntArray, counts: IntArray) -> Sums:
    """Return the sums of records by state, for their digests. geography: what `save_codes` saved."""
    row, cell = np.divmod(keys, CELLS[product])
    within = tuple(of_cell[cell] * counts.astype(np.uint64) for of_cell in weights(np.arange(CELLS[product])))
    return sum_by_state(open_array(geography, "block")[row], counts, within)


def encode(product: str, geography: Path | None, checks: RowChecks) -> tuple[IntArray, None]:
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
def open_records(folder: Path, product: str) -> Iterator[Callable[[IntArray, IntArray], None]]:
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
