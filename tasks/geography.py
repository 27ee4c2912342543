"""Blocks and the regions made of them, from GRF-C (specs/safetab-p.md sections 2.2 and 4). Public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.configuration import REGION_TYPES, Region
from tasks.findings import Finding, has_errors
from tasks.run_directory import load_public, open_array, save_arrays, save_public, stamp
from tasks.tables import check_mask, check_pattern, read_table

GRF_FILE = "GRF-C.txt"
BLOCK_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
BLOCK_WIDTHS = (2, 3, 6, 4)
COLUMNS = (*BLOCK_COLUMNS, "PLACEFP", "AIANNHCE")
WIDTHS = (*BLOCK_WIDTHS, 5, 4)
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
        """Cut the blocks into runs of whole tracts of about `blocks_each` blocks each."""
        tracts = self.blocks // 10_000
        starts = np.flatnonzero(np.diff(tracts, prepend=-1))
        cuts = [int(starts[0])] if len(starts) else []
        for start in starts.tolist():
            if start - cuts[-1] >= blocks_each:
                cuts.append(start)
        return [slice(start, stop) for start, stop in zip(cuts, [*cuts[1:], len(self.blocks)], strict=True)]

    def regions_in(self, region_type: str, blocks: slice) -> tuple[int, int]:
        """The first and the last-but-one region number that a run of blocks touches; (0, 0) where it touches none."""
        regions = self.region_of[region_type][blocks]
        regions = regions[regions != NOWHERE]
        return (int(regions.min()), int(regions.max()) + 1) if len(regions) else (0, 0)


def block_numbers(columns: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Join the four block columns, as numbers, to numbers of 15 digits."""
    number = np.zeros(1, np.int64)
    for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True):
        number = number * 10**width + columns[name]
    return number


def read_geography(data: str, region: Region, states: tuple[str, ...]) -> tuple[Geography | None, list[Finding]]:
    """Read GRF-C.txt, keep the blocks of the states, check them; None where a finding is an error.

    A region without a block gives a geography without blocks.
    """
    table, found = read_table(f"{data.rstrip('/')}/{GRF_FILE}", GRF_FILE, COLUMNS, more=True)
    if table is None:
        return None, found
    found += check_pattern(GRF_FILE, table, "TABBLKST", "[0-9]{2}")
    table = table.filter(pc.is_in(table["TABBLKST"], pa.array(states)))
    for column, width in zip(COLUMNS, WIDTHS, strict=True):
        found += check_pattern(GRF_FILE, table, column, f"[0-9]{{{width}}}")
    if has_errors(found):
        return None, found
    blocks = block_numbers({name: pc.cast(table[name], pa.int64()).to_numpy() for name in BLOCK_COLUMNS})[: len(table)]
    order = np.argsort(blocks, kind="stable")
    repeated = np.zeros(len(blocks), bool)
    repeated[order[1:]] = np.diff(blocks[order]) == 0
    found += check_mask(GRF_FILE, table, "TABBLK", "blocks that stand twice", repeated)
    if has_errors(found):
        return None, found
    present = set(table["TABBLKST"].unique().to_pylist())
    if present and (absent := sorted(set(states) - present)):
        rule = f"states without a block, which a run is charged to all the same: {absent}"
        found.append(Finding(GRF_FILE, rule, "TABBLKST", len(absent), warning=True))
    table = table.take(pa.array(order))
    ids = {region_type: _region_ids(region_type, table) for region_type in REGION_TYPES[region]}
    encoded = {region_type: _encode(column) for region_type, column in ids.items()}
    return (
        Geography(
            blocks=blocks[order],
            region_ids={region_type: names for region_type, (names, _) in encoded.items()},
            region_of={region_type: numbers for region_type, (_, numbers) in encoded.items()},
        ),
        found,
    )


def _region_ids(region_type: str, table: pa.Table) -> pa.ChunkedArray:
    """The region id of each block as the release spells it, null for none."""
    state, county, tract = (table[name] for name in BLOCK_COLUMNS[:3])
    match region_type.removeprefix("PR-"):
        case "USA":
            return pa.chunked_array([pa.array(["1"] * len(table), pa.string())])
        case "STATE":
            return state
        case "COUNTY":
            return pc.binary_join_element_wise(state, county, "")
        case "TRACT":
            return pc.binary_join_element_wise(state, county, tract, "")
        case "PLACE":
            place = pc.binary_join_element_wise(state, table["PLACEFP"], "")
            return pc.if_else(pc.equal(table["PLACEFP"], "99999"), pa.scalar(None, pa.string()), place)
        case "AIANNH":
            area = table["AIANNHCE"]
            return pc.if_else(pc.equal(area, "9999"), pa.scalar(None, pa.string()), area)
    raise ValueError(f"{region_type} is not a region type")


def _encode(column: pa.ChunkedArray) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Number the distinct ids in their sorted order."""
    encoded = (
        column.combine_chunks().dictionary_encode() if len(column) else pa.array([], pa.string()).dictionary_encode()
    )
    names = np.array(encoded.dictionary.to_pylist(), dtype=object)
    order = np.argsort(names)
    rank = np.empty(len(names) + 1, np.int32)
    rank[order] = np.arange(len(names))
    rank[-1] = NOWHERE
    numbers = encoded.indices.fill_null(len(names)).to_numpy()
    return tuple(names[order]), rank[numbers]


def save_geography(folder: Path, geography: Geography) -> None:
    """Write a geography for the workers."""
    save_arrays(folder / "blocks", {"blocks": geography.blocks, **geography.region_of})
    save_public(folder / "region_ids", geography.region_ids)


def load_geography(folder: Path) -> Geography:
    """Map what `save_geography` wrote into memory: workers of one machine share its pages."""
    return _load(folder, stamp(folder / "region_ids"))


@lru_cache(maxsize=4)
def _load(folder: Path, _stamp: tuple[int, int]) -> Geography:
    region_ids = load_public(folder / "region_ids")
    return Geography(
        blocks=open_array(folder / "blocks", "blocks"),
        region_ids=region_ids,
        region_of={region_type: open_array(folder / "blocks", region_type) for region_type in region_ids},
    )
