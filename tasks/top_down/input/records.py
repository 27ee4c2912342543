"""Records of persons and units as the Bureau's microdata names them, checked and counted by block and cell.

Columns are those of the 2020 redistricting microdata detail file (docs/spec/files.md#topdown-inputs). A chunk is 64 MiB
of text or a row group of Parquet. Everything here is confidential, findings included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from spine.geography import BoolArray, Geography, IntArray
from spine.top_down.histogram import NURSING, OCCUPIED, PERSONS, UNDER_18, VACANT
from tasks.inputs.chunks import TableFile, read_chunk
from tasks.inputs.findings import SHOWN_VALUES, Finding
from tasks.inputs.tables import Column
from tasks.lifecycle.files import atomic_path, load_object, open_array, save_arrays, unless_done
from tasks.top_down.run import Blocks, TopDownRun
from tasks.top_down.run_plan import ProductName

BLOCK = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
WIDTHS = (2, 3, 6, 4)
COLUMNS: dict[ProductName, tuple[str, ...]] = {
    "persons": (*BLOCK, "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"),
    "units": (*BLOCK, "RTYPE", "HH_STATUS"),
}
DOMAINS: dict[ProductName, dict[str, tuple[str, ...]]] = {
    "persons": {
        "RTYPE": ("3", "5"),
        "GQTYPE_PL": tuple("01234567"),
        "VOTING_AGE": ("1", "2"),
        "CENHISP": ("1", "2"),
        "CENRACE": tuple(f"{race:02d}" for race in range(1, 64)),
    },
    "units": {"RTYPE": ("2", "4"), "HH_STATUS": ("0", "1", "2")},
}
HOUSEHOLD_PERSON, GROUP_PERSON, HOUSING_UNIT, GROUP_QUARTERS = "3", "5", "2", "4"  # RTYPE
FACILITY = 2  # the cell after vacant and occupied: group quarters among the units, which H1 does not count
CELLS: dict[ProductName, int] = {"persons": PERSONS.cells, "units": 3}
CODES = "prepared/codes"
NO_BLOCK = "block is not in the geography"
NO_QUARTERS = "block has neither a housing unit nor group quarters, by the declared invariants"


@dataclass(frozen=True)
class Records:
    """The records of a product: their file, and the blocks that they may lie in.

    blocks: sorted codes of 15 digits of the whole geography, None where that has faults of its own and no block is
    looked up. row: the number of each block in the universe, -1 outside. states: that the run covers.
    """

    file: TableFile
    blocks: IntArray | None
    row: IntArray
    states: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What one chunk showed; confidential. lines: its own lines; rows: those with a record; left_out: other states'."""

    lines: int
    rows: int
    left_out: int
    digest: str
    findings: list[Finding]


def records_name(product: ProductName) -> str:
    """Where the description of the file of a product's records lies in a run directory."""
    return f"prepared/{product}"


def save_codes(run: TopDownRun, codes: IntArray, blocks: Blocks) -> None:
    """Save the codes of all blocks of the geography, and which of them are in the universe; workers map them."""
    row = np.full(len(codes), -1)
    row[np.searchsorted(codes, short_codes(blocks.geography))] = np.arange(len(blocks.geography))
    save_arrays(run / CODES, {"code": codes, "row": row})


def load_records(run: TopDownRun, product: ProductName) -> Records:
    """What the records of a product are held against."""
    file: TableFile = load_object(run / records_name(product))
    if not (run / CODES).exists():
        return Records(file, None, np.zeros(0, np.int64), ())
    states = tuple(sorted(path.name for path in (run / "prepared/blocks").iterdir()))
    return Records(file, open_array(run / CODES, "code"), open_array(run / CODES, "row"), states)


def short_codes(geography: Geography) -> IntArray:
    """The 15-digit codes of blocks, sorted as the blocks are."""
    codes: IntArray = geography.geocode // 10**5 * 10**4 + geography.geocode % 10**4
    return codes


def count_chunk(run: TopDownRun, product: ProductName, number: int) -> None:
    """Check and count a chunk: `key`, block row * cells + cell, ascending, and `count`; and its report."""
    folder = run.chunk_folder(product, number)
    unless_done(folder.with_suffix(".json"), lambda: _count(run, product, number))


def read_report(run: TopDownRun, product: ProductName, number: int) -> Report:
    """The report of a counted chunk."""
    told = json.loads(run.chunk_folder(product, number).with_suffix(".json").read_text())
    findings = [Finding(**{**item, "values": tuple(item["values"])}) for item in told.pop("findings")]
    return Report(findings=findings, **told)


def _count(run: TopDownRun, product: ProductName, number: int) -> None:
    records = load_records(run, product)
    folder, chunk = run.chunk_folder(product, number), read_chunk(records.file, number)
    rows = left_out = 0
    findings = list(chunk.findings)
    if chunk.table is not None:
        rows = len(chunk.table)
        columns = {name: Column(chunk.table[name]) for name in COLUMNS[product]}
        key, left_out, faults = encode(product, records, columns)
        findings += [_placed(finding, chunk.place) for finding in faults]
        keys, counts = np.unique(key, return_counts=True)
        save_arrays(folder, {"key": keys, "count": counts})
    with atomic_path(folder.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(asdict(Report(chunk.lines, rows, left_out, chunk.digest, findings))))


def _placed(finding: Finding, place: Callable[[int], int]) -> Finding:
    """A finding whose `first` is a row, with the line that the row stands on."""
    return finding if finding.first is None else Finding(**{**finding.__dict__, "first": place(finding.first)})


def encode(
    product: ProductName, records: Records, columns: Mapping[str, Column]
) -> tuple[IntArray, int, list[Finding]]:
    """Keys of the records without a fault, the number of records of other states, and findings by row."""
    findings: list[Finding] = []
    good = np.ones(len(columns["RTYPE"].numbers), bool)

    def fault(rule: str, name: str, bad: BoolArray, column: Column | None = None) -> None:
        bad = bad & inside
        if bad.any():
            shown = column or columns[name]
            values = sorted({shown.values[at] for at in np.unique(shown.numbers[bad]).tolist()})[:SHOWN_VALUES]
            findings.append(Finding(records.file.name, rule, name, int(bad.sum()), int(bad.argmax()), tuple(values)))
            np.logical_and(good, ~bad, out=good)

    state = columns["TABBLKST"]
    inside = ~state.where(lambda value: _digits(2, value) and value not in records.states)
    for name, width in zip(BLOCK, WIDTHS, strict=True):
        fault(f"Invalid values found in {name}", name, ~columns[name].where(partial(_digits, width)))
    for name, domain in DOMAINS[product].items():
        fault(f"Invalid values found in {name}", name, ~columns[name].where(domain.__contains__))
    for rule, name, bad in _CONTRADICTIONS[product](columns):
        fault(rule, name, bad)
    row = np.zeros(len(good), np.int64)
    if records.blocks is not None:
        number = np.zeros(len(good), np.int64)
        for name, width in zip(BLOCK, WIDTHS, strict=True):
            number = number * 10**width + columns[name].where(partial(_code, width), np.int64)
        at = np.minimum(np.searchsorted(records.blocks, number), len(records.blocks) - 1)
        known = records.blocks[at] == number
        row = records.row[at]
        fault(NO_BLOCK, "TABBLK", good & ~known)
        fault(NO_QUARTERS, "TABBLK", good & known & (row < 0))
    keep = good & inside
    key = row * CELLS[product] + _CELL_OF[product](columns)
    return key[keep], int((~inside).sum()), findings


def _digits(width: int, value: str) -> bool:
    return len(value) == width and value.isascii() and value.isdigit()


def _code(width: int, value: str) -> int:
    return int(value) if _digits(width, value) else 0


def _is(column: Column, *values: str) -> BoolArray:
    chosen: BoolArray = column.where(lambda value: value in values)
    return chosen


def _number(column: Column, domain: tuple[str, ...]) -> IntArray:
    place = {value: number for number, value in enumerate(domain)}
    numbers: IntArray = column.where(lambda value: place.get(value, 0), np.int64)
    return numbers


def _person_contradictions(columns: Mapping[str, Column]) -> list[tuple[str, str, BoolArray]]:
    household = _is(columns["GQTYPE_PL"], "0")
    return [
        (
            "RTYPE and GQTYPE_PL disagree: 3 is a person in a household (0), 5 in group quarters (1 to 7)",
            "RTYPE",
            (_is(columns["RTYPE"], HOUSEHOLD_PERSON) & ~household) | (_is(columns["RTYPE"], GROUP_PERSON) & household),
        ),
        (
            "persons under 18 in nursing facilities (GQTYPE_PL 3), which is a structural zero",
            "VOTING_AGE",
            _is(columns["GQTYPE_PL"], str(NURSING)) & _is(columns["VOTING_AGE"], str(UNDER_18 + 1)),
        ),
    ]


def _unit_contradictions(columns: Mapping[str, Column]) -> list[tuple[str, str, BoolArray]]:
    group = _is(columns["HH_STATUS"], "0")
    return [
        (
            "RTYPE and HH_STATUS disagree: 2 is a housing unit, occupied (1) or vacant (2); 4 is group quarters (0)",
            "RTYPE",
            (_is(columns["RTYPE"], HOUSING_UNIT) & group) | (_is(columns["RTYPE"], GROUP_QUARTERS) & ~group),
        )
    ]


def _person_cell(columns: Mapping[str, Column]) -> IntArray:
    domains, cell = DOMAINS["persons"], np.zeros(1, np.int64)
    names = ("GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE")  # the axes hhgq, votingage, hispanic, cenrace
    for name, size in zip(names, PERSONS.shape, strict=True):
        cell = cell * size + _number(columns[name], domains[name])
    return cell


def _unit_cell(columns: Mapping[str, Column]) -> IntArray:
    cells = np.array([FACILITY, OCCUPIED, VACANT])  # HH_STATUS 0, 1, 2
    cell: IntArray = cells[_number(columns["HH_STATUS"], DOMAINS["units"]["HH_STATUS"])]
    return cell


_CONTRADICTIONS: dict[str, Any] = {"persons": _person_contradictions, "units": _unit_contradictions}
_CELL_OF: dict[str, Any] = {"persons": _person_cell, "units": _unit_cell}
