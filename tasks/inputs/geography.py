"""Blocks and the regions made of them, from GRF-C. Public (docs/spec/files.md#regions)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.inputs.configuration import REGION_TYPES, Jurisdiction
from tasks.inputs.findings import Finding, has_errors
from tasks.inputs.tables import Column, check_mask, read_table
from tasks.lifecycle.files import load_object, open_array, save_arrays, save_object, stamp

GRF_FILE = "GRF-C.txt"
BLOCK_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
BLOCK_WIDTHS = (2, 3, 6, 4)
COLUMNS = (*BLOCK_COLUMNS, "PLACEFP", "AIANNHCE")
WIDTHS = (*BLOCK_WIDTHS, 5, 4)
NO_PLACE, NO_AREA = 99999, 9999
NOWHERE = -1  # the region number of a block that lies in no region of a type


@dataclass(frozen=True)
class Geography:
    """The blocks of one run and, for each region type, the region that each lies in.

    Attributes
    ----------
    blocks : int64 array, sorted
        Block codes as numbers of 15 digits; the index in it is the block's row.
    region_ids : {region type: sorted tuple of str}
        Every region of the type, inhabited or not; the index in it is the region's number.
    region_of : {region type: int32 array, one per block}
        The region of each block, -1 for none.
    """

    blocks: NDArray[np.int64]
    region_ids: dict[str, tuple[str, ...]]
    region_of: dict[str, NDArray[np.int32]]

    def partitions(self, blocks_each: int) -> list[slice]:
        """Cut the blocks into ranges of whole tracts of about `blocks_each` blocks each."""
        tracts = self.blocks // 10_000
        starts = np.flatnonzero(np.diff(tracts, prepend=-1))
        cuts = [int(starts[0])] if len(starts) else []
        for start in starts.tolist():
            if start - cuts[-1] >= blocks_each:
                cuts.append(start)
        return [slice(start, stop) for start, stop in zip(cuts, [*cuts[1:], len(self.blocks)], strict=True)]

    def regions_in(self, region_type: str, blocks: slice) -> tuple[int, int]:
        """Return (first, last + 1) of the region numbers that some consecutive blocks touch; (0, 0) if none."""
        regions = self.region_of[region_type][blocks]
        regions = regions[regions != NOWHERE]
        return (int(regions.min()), int(regions.max()) + 1) if len(regions) else (0, 0)


def block_numbers(columns: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Join the four block columns, as numbers, to numbers of 15 digits."""
    number = np.zeros(1, np.int64)
    for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True):
        number = number * 10**width + columns[name]
    return number


def read_geography(
    data: str, jurisdiction: Jurisdiction, states: tuple[str, ...]
) -> tuple[Geography | None, list[Finding]]:
    """Read GRF-C.txt, keep the blocks of the states, check them; None where a finding is an error.

    A region without a block gives a geography without blocks.
    """
    table, findings = read_table(f"{data.rstrip('/')}/{GRF_FILE}", GRF_FILE, COLUMNS, more=True, dictionary=True)
    if table is None:
        return None, findings
    findings += _malformed(table, "TABBLKST", 2)
    table = table.filter(pa.array(Column(table["TABBLKST"]).where(lambda state: state in states)))
    for column, width in zip(COLUMNS, WIDTHS, strict=True):
        findings += _malformed(table, column, width)
    if has_errors(findings):
        return None, findings
    columns = {name: Column(table[name]) for name in COLUMNS}
    numbers = {name: column.where(_integer, np.int64) for name, column in columns.items()}
    blocks = block_numbers(numbers)[: len(table)]
    order = np.argsort(blocks, kind="stable")
    repeated = np.zeros(len(blocks), bool)
    repeated[order[1:]] = np.diff(blocks[order]) == 0
    findings += check_mask(GRF_FILE, table, "TABBLK", "blocks that appear twice", repeated)
    if has_errors(findings):
        return None, findings
    present = set(np.array(columns["TABBLKST"].values)[np.unique(columns["TABBLKST"].numbers)].tolist())
    if present and (absent := sorted(set(states) - present)):
        rule = f"states without a block; a run is charged to them all the same: {absent}"
        findings.append(Finding(GRF_FILE, rule, "TABBLKST", len(absent), warning=True))
    encoded = {region_type: _regions(region_type, numbers, order) for region_type in REGION_TYPES[jurisdiction]}
    return (
        Geography(
            blocks=blocks[order],
            region_ids={region_type: names for region_type, (names, _) in encoded.items()},
            region_of={region_type: regions for region_type, (_, regions) in encoded.items()},
        ),
        findings,
    )


def _malformed(table: pa.Table, column: str, width: int) -> list[Finding]:
    """Find the values of a column that are not `width` digits."""
    digits = re.compile(f"[0-9]{{{width}}}").fullmatch
    bad = Column(table[column]).where(lambda value: not digits(value))
    return check_mask(GRF_FILE, table, column, f"Invalid values found in {column}", bad)


def _integer(text: str) -> int:
    """Return the number a text is; one that is none belongs to a state that was left out."""
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else 0


def _regions(
    region_type: str, numbers: dict[str, NDArray[np.int64]], order: NDArray[np.int64]
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the sorted ids of a type's regions, as a release spells them, and each block's region in `order`."""
    code, width = _region_code(region_type, numbers)
    code = code[order]
    distinct = np.unique(code[code != NOWHERE])
    regions = np.searchsorted(distinct, code).astype(np.int32)
    regions[code == NOWHERE] = NOWHERE
    return tuple(f"{number:0{width}d}" for number in distinct.tolist()), regions


def _region_code(region_type: str, numbers: dict[str, NDArray[np.int64]]) -> tuple[NDArray[np.int64], int]:
    """Return the region id of each block as a number, -1 for none, and the digits it is written with."""
    state, county, tract = (numbers[name] for name in BLOCK_COLUMNS[:3])
    place, area = numbers["PLACEFP"], numbers["AIANNHCE"]
    match region_type.removeprefix("PR-"):
        case "USA":
            return np.ones_like(state), 1
        case "STATE":
            return state, 2
        case "COUNTY":
            return state * 10**3 + county, 5
        case "TRACT":
            return (state * 10**3 + county) * 10**6 + tract, 11
        case "PLACE":
            return np.where(place == NO_PLACE, NOWHERE, state * 10**5 + place), 7
        case "AIANNH":
            return np.where(area == NO_AREA, NOWHERE, area), 4
    raise ValueError(f"{region_type} is not a region type")


def save_geography(folder: Path, geography: Geography) -> None:
    """Write a geography for the workers."""
    save_arrays(folder / "blocks", {"blocks": geography.blocks, **geography.region_of})
    save_object(folder / "region_ids", geography.region_ids)


def load_geography(folder: Path) -> Geography:
    """Map what `save_geography` wrote into memory: workers of one machine share its pages."""
    return _load(folder, stamp(folder / "region_ids"))


@lru_cache(maxsize=4)
def _load(folder: Path, _stamp: tuple[int, int]) -> Geography:
    region_ids = load_object(folder / "region_ids")
    return Geography(
        blocks=open_array(folder / "blocks", "blocks"),
        region_ids=region_ids,
        region_of={region_type: open_array(folder / "blocks", region_type) for region_type in region_ids},
    )
