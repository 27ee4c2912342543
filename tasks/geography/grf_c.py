"""Blocks and the regions that they make up, from GRF-C. Public (docs/spec/files.md#regions).

Workers parse a large file chunk by chunk with a compiled kernel. The validating reader takes a small or faulty file and
finds every fault and its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from spine.settings import Jurisdiction
from tasks.geography.regions import REGION_TYPES
from tasks.lifecycle.files import load_object, open_array, remove, save_arrays, save_object, stamp
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.block_codes import COUNTY_UNIT, STATE_UNIT, TRACT_UNIT, block_numbers, code_number
from tasks.records.fast_records import RecordLayout, parse_text
from tasks.records.files import size_of
from tasks.records.findings import Finding, has_errors
from tasks.records.marks import GRF_FILE
from tasks.records.record_fields import BLOCK_FIELDS, digits
from tasks.records.records import RecordFile, open_records, read_chunk
from tasks.records.tables import EncodedColumn, check_distinct, check_pattern, read_table
from tasks.releases.digests import combine

NO_PLACE, NO_AREA = 99999, 9999
UNITS = {"STATE": (2, STATE_UNIT), "COUNTY": (5, COUNTY_UNIT), "TRACT": (11, TRACT_UNIT)}  # width, and unit of a block
NOWHERE = -1  # the region number of a block outside all regions of a type
MIN_BYTES = 1 << 25  # below this, importing numba takes longer than it saves
FIELDS = {**BLOCK_FIELDS, "PLACEFP": digits(5, place=1), "AIANNHCE": digits(4, place=2)}
COLUMNS = tuple(FIELDS)


@dataclass(frozen=True)
class RegionMap:
    """The blocks of one run and, for each region type, the region of each block.

    blocks: int64 array, sorted; block codes as numbers of 15 digits; the index in it is the block's row.
    region_ids: {region type: sorted tuple of str}; every region of the type, inhabited or not; the index in it is the
    region's number.
    region_of: {region type: int32 array, one per block}; the region of each block, or -1.
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
        """Return (first, last + 1) of the region numbers that consecutive blocks touch; (0, 0) without regions."""
        regions = self.region_of[region_type][blocks]
        regions = regions[regions != NOWHERE]
        return (int(regions.min()), int(regions.max()) + 1) if len(regions) else (0, 0)


@dataclass(frozen=True)
class BlockCodes:
    """The blocks of a file, in its order.

    block: int64, the number of 15 digits. place, area: int32 codes, or NO_PLACE and NO_AREA. digest: the file's, if the
        fast reader read all of its blocks.
    """

    block: NDArray[np.int64]
    place: NDArray[np.int32]
    area: NDArray[np.int32]
    digest: str = ""

    def take(self, rows: NDArray[Any]) -> BlockCodes:
        """Return these rows; `rows` are numbers or a mask."""
        return BlockCodes(self.block[rows], self.place[rows], self.area[rows])

    def within(self, states: Sequence[str]) -> BlockCodes:
        """Return the blocks of these states."""
        listed = np.array([f"{state:02d}" in states for state in range(100)])
        inside = listed[self.block // STATE_UNIT]
        return self if inside.all() else self.take(inside)


def read_region_map(
    data: str, jurisdiction: Jurisdiction, states: tuple[str, ...], parsed: BlockCodes | None = None
) -> tuple[RegionMap | None, list[Finding]]:
    """Read GRF-C.txt, keep and check the blocks of the states; return None if a finding is an error.

    A jurisdiction without blocks gives a map without blocks. parsed: the blocks of the file, if the fast reader has
    read it (`parse_blocks`).
    """
    findings: list[Finding] = []
    codes = _in_order(parsed.within(states)) if parsed else None
    if codes is None:
        read, findings = _read_validating(data, states)
        codes = None if read is None else _in_order(read)
    if codes is None:
        return None, findings
    begin, end = (np.searchsorted(codes.block, [(int(state) + k) * STATE_UNIT for state in states]) for k in (0, 1))
    absent = sorted(state for state, none in zip(states, begin == end, strict=True) if none)
    if absent and len(codes.block):
        rule = f"states without a block; a run is charged to them all the same: {absent}"
        findings.append(Finding(GRF_FILE, rule, "TABBLKST", len(absent), warning=True))
    encoded = {region_type: _regions(region_type, codes) for region_type in REGION_TYPES[jurisdiction]}
    return (
        RegionMap(
            blocks=codes.block,
            region_ids={region_type: names for region_type, (names, _) in encoded.items()},
            region_of={region_type: regions for region_type, (_, regions) in encoded.items()},
        ),
        findings,
    )


def _in_order(codes: BlockCodes) -> BlockCodes | None:
    """Return blocks sorted by number, or None if one appears twice."""
    if (codes.block[1:] > codes.block[:-1]).all():
        return codes
    codes = codes.take(np.argsort(codes.block, kind="stable"))
    return codes if (codes.block[1:] > codes.block[:-1]).all() else None


def _read_validating(data: str, states: tuple[str, ...]) -> tuple[BlockCodes | None, list[Finding]]:
    """Read and check the blocks of the states; every fault is a finding with its line."""
    table, findings = read_table(f"{data.rstrip('/')}/{GRF_FILE}", GRF_FILE, COLUMNS, more=True, dictionary=True)
    if table is None:
        return None, findings
    findings += check_pattern(GRF_FILE, table, "TABBLKST", "[0-9]{2}")
    table = table.filter(pa.array(EncodedColumn(table["TABBLKST"]).where(lambda state: state in states)))
    for column, field in FIELDS.items():
        findings += check_pattern(GRF_FILE, table, column, f"[0-9]{{{field.width}}}")
    if has_errors(findings):
        return None, findings
    columns = {name: EncodedColumn(table[name]) for name in COLUMNS}
    blocks = block_numbers(columns)
    place, area = (columns[name].where(code_number, np.int32) for name in ("PLACEFP", "AIANNHCE"))
    findings += check_distinct(GRF_FILE, table, "TABBLK", "blocks that appear twice", blocks)
    return BlockCodes(blocks, place, area), findings


def _regions(region_type: str, blocks: BlockCodes) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the sorted ids of a type's regions, as in a release, and the region of each of the sorted blocks."""
    kind = region_type.removeprefix("PR-")
    if kind == "PLACE":
        width, code = 7, blocks.block // STATE_UNIT * 10**5 + blocks.place
        code[blocks.place == NO_PLACE] = NOWHERE
    elif kind == "AIANNH":
        width, code = 4, blocks.area.astype(np.int64)
        code[code == NO_AREA] = NOWHERE
    elif kind == "USA":
        width, code = 1, np.ones_like(blocks.block)
    else:
        width, unit = UNITS[kind]
        code = blocks.block // unit
    codes, numbers = _numbered(code)
    return tuple(f"{number:0{width}d}" for number in codes.tolist()), numbers


def _numbered(code: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the sorted distinct region codes, and each code's number among them; NOWHERE stays NOWHERE."""
    if len(code) and code[0] != NOWHERE and (code[1:] >= code[:-1]).all():  # ranges of the blocks
        begins = np.diff(code, prepend=NOWHERE) != 0
        return code[begins], np.cumsum(begins, dtype=np.int32) - np.int32(1)
    somewhere = code != NOWHERE
    numbers = np.full(len(code), NOWHERE, np.int32)
    numbers[somewhere], codes = pd.factorize(code[somewhere], sort=True)
    return codes, numbers


def parse_blocks(run: RunDirectory, workers: Workers, path: str) -> BlockCodes | None:
    """Parse a GRF-C by its chunks of 64 MiB; return None if it is small, missing or empty, or has an invalid value."""
    grf_c, _ = open_records(path, COLUMNS, more=True)
    if grf_c is None or size_of(path) < MIN_BYTES:
        return None
    folder, chunks = "prepared/blocks", range(grf_c.chunks)
    digests = workers.map("geography", run, encode_blocks, [(folder, grf_c, number) for number in chunks])
    try:
        if not all(digests):
            return None
        parts = [run / f"{folder}/{number:05d}" for number in chunks]
        block, place, area = (
            np.concatenate([open_array(part, name) for part in parts]) for name in ("block", "place", "area")
        )
    finally:
        remove(run / folder)
    return BlockCodes(block, place, area, combine(map(bytes.fromhex, digests))) if len(block) else None


def encode_blocks(run: RunDirectory, folder: str, grf_c: RecordFile, number: int) -> str:
    """Write the blocks of one chunk and return the chunk's digest; "" without output if a line has a fault."""
    chunk = read_chunk(grf_c, number)
    parsed = parse_text(RecordLayout(FIELDS), grf_c.header, chunk.text or b"")
    if parsed is None:
        return ""
    block, place, area = parsed.numbers
    arrays = {"block": block, "place": place.astype(np.int32), "area": area.astype(np.int32)}
    save_arrays(run / f"{folder}/{number:05d}", arrays)
    return chunk.digest


def save_region_map(folder: Path, geography: RegionMap) -> None:
    """Write a map for the workers."""
    save_arrays(folder / "blocks", {"blocks": geography.blocks, **geography.region_of})
    save_object(folder / "region_ids", geography.region_ids)


def load_region_map(folder: Path) -> RegionMap:
    """Memory-map the files of `save_region_map`, so that workers of one machine share its pages."""
    return _load(folder, stamp(folder / "region_ids"))


@lru_cache(maxsize=4)
def _load(folder: Path, _stamp: tuple[int, int]) -> RegionMap:
    region_ids = load_object(folder / "region_ids", dict[str, tuple[str, ...]])
    return RegionMap(
        blocks=open_array(folder / "blocks", "blocks"),
        region_ids=region_ids,
        region_of={region_type: open_array(folder / "blocks", region_type) for region_type in region_ids},
    )
