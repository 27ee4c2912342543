"""The DHC as declarations with their tables: blocks on their spine, facilities, the release that each is equal to."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spine.build import optimized
from spine.declaration.declaration import read_declaration
from spine.declaration.figures import whole_numbers
from spine.dhc_households import households_declaration, units_declaration
from spine.entities import in_aian
from spine.geography import IntArray, gq_pattern
from spine.hierarchy import Spine
from spine.settings import Jurisdiction, settings_for
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.lifecycle.staging import PIPES
from tasks.records.block_codes import BLOCK_COLUMNS, find_blocks, short_codes
from tasks.records.declarations import SHIPPED, read_columns, read_raw
from tasks.records.marks import GRF_FILE
from tasks.releases.manifest import require_release
from tasks.top_down.declared.dhc_other_units import other_units
from tasks.top_down.input.records import block_columns
from tasks.top_down.run_plan import QUARTERS_FILE

CODE = re.compile("[0-9]{15}")
PRIMS_FILE = "prims.csv"  # where there is one: tabblk, primgeo
BLOCKS_FILE = "blocks.txt"
RELEASE, UNITS_RELEASE = "redistricting", "units"  # the folders that declarations are equal to
NUMBERED = {"Prim": "prim", "Tract_Subset_Group": "tsg", "Block_Group": "obg"}  # levels without codes of their own


def write_dhc_declarations(data: Path, release: Path, jurisdiction: Jurisdiction, out: Path) -> tuple[list[Path], int]:
    """Write the declarations of the DHC's persons and housing units into a folder, with their blocks and the release.

    data: GRF-C.txt; quarters.csv, housing units and facilities by block; prims.csv. Leaves are the blocks with living
    quarters. Returns the declarations and the number of blocks. Raises Refused for tables with faults.
    """
    require_release(release)
    persons, units = out / f"dhc-persons-{jurisdiction}.toml", out / f"dhc-units-{jurisdiction}.json"
    table = _block_table(data, jurisdiction)
    pa.csv.write_csv(table, out / BLOCKS_FILE, PIPES)
    shutil.copyfile(SHIPPED / persons.name, persons)
    units.write_text(json.dumps(units_declaration(jurisdiction), indent=1), "utf-8")
    shutil.copytree(release, out / RELEASE, copy_function=_link)
    return [persons, units], len(table)


def write_households_declaration(
    data: Path, release: Path, jurisdiction: Jurisdiction, out: Path, *, anchored: bool = False
) -> tuple[list[Path], int]:
    """Write the declaration of the DHC's households as `write_dhc_declarations`, with the release of its housing units.

    The table of blocks gets what this release has of each: vacant units by status, and units without payment of rent.
    """
    require_release(release)
    table = _block_table(data, jurisdiction)
    leaves = {name: [*map(str, table[name].to_pylist())] for name in table.column_names}
    for column, number in other_units(str(release), jurisdiction, leaves).items():
        table = table.append_column(column, pa.array(number))
    path = out / f"dhc-households-{jurisdiction}.json"
    pa.csv.write_csv(table, out / BLOCKS_FILE, PIPES)
    made = households_declaration(jurisdiction, _facility_columns(jurisdiction), anchored=anchored)
    path.write_text(json.dumps(made), "utf-8")
    shutil.copytree(release, out / UNITS_RELEASE, copy_function=_link)
    return [path], len(table)


def _facility_columns(jurisdiction: Jurisdiction) -> list[str]:
    declaration, _ = read_declaration(read_raw(str(SHIPPED / f"dhc-persons-{jurisdiction}.toml")))
    assert declaration is not None
    return [column for count in declaration.form.counts for column in count.columns if column]


def _block_table(data: Path, jurisdiction: Jurisdiction) -> pa.Table:
    """Return the blocks with living quarters: their codes, geounits on the DHC's spine, units and facilities."""
    columns, extra = _facility_columns(jurisdiction), data / PRIMS_FILE
    settings = settings_for("dhc-persons", jurisdiction)
    geography, _ = read_geography(
        data / GRF_FILE, replace(settings, occupied_only=False), extra=str(extra) if extra.exists() else None
    )
    code, counts = _read_facilities(data / QUARTERS_FILE, columns)
    codes = short_codes(geography.geocode)
    row, declared = find_blocks(code, codes)
    facilities = np.zeros((len(codes), counts.shape[1]), np.int64)
    facilities[declared] = counts[row[declared]]
    universe = facilities.sum(axis=1) > 0
    if not universe.any():
        raise Refused(f"{data / QUARTERS_FILE}: no block of {GRF_FILE} has living quarters")
    major = np.array([0, *(min(int(column[2]), 7) for column in columns)])  # 8xx and 9xx are with 7xx
    gq = gq_pattern([facilities[:, major == kind].sum(axis=1) > 0 for kind in range(1, 8)])
    blocks = replace(geography, gq=gq, universe=universe).take(universe)
    part = in_aian(blocks, settings) if settings.aian_split else np.zeros(len(blocks), bool)
    spine, own = optimized(blocks, settings), block_columns(blocks.geocode)
    return pa.table(
        {
            **{name: own[name] for name in BLOCK_COLUMNS},
            "state": own[BLOCK_COLUMNS[0]],
            "aian": pa.array(part.astype(int)),
            **{column: pa.array(_numbers(spine, level)) for level, column in NUMBERED.items()},
            **{column: pa.array(facilities[universe, at]) for at, column in enumerate(["hu", *columns])},
        }
    )


def _read_facilities(path: Path, columns: list[str]) -> tuple[IntArray, IntArray]:
    """Return sorted 15-digit block codes, and (blocks, 1 + types) housing units and facilities."""
    table, findings = read_columns(str(path), ["tabblk", "hu", *columns], ",")
    if table is None:
        raise Refused(f"{path}: {findings[0].rule} {findings[0].column}".rstrip())
    if wrong_code := next((text for text in table["tabblk"] if not CODE.fullmatch(text)), None):
        raise Refused(f"{path}: tabblk is {wrong_code!r:.50}: the 15 digits of a block are read")
    numbers = [np.array(table["tabblk"], np.int64)]
    for name in ("hu", *columns):
        values, wrong = whole_numbers(table[name])
        if wrong:
            raise Refused(f"{path}: {name} is {table[name][wrong[0]]!r:.50} in row {wrong[0] + 1}: no whole number")
        numbers.append(values)
    order = np.argsort(numbers[0], kind="stable")
    code, *counts = (each[order] for each in numbers)
    if (np.diff(code) == 0).any():
        raise Refused(f"{path}: the block {code[:-1][np.diff(code) == 0][0]:015d} has two rows")
    return code, np.column_stack(counts)


def _numbers(spine: Spine, level: str) -> IntArray:
    """Return by block the number of its geounit of a level within the one above, from 1."""
    at = spine.levels.index(level)
    own, above = spine.geounit_of_block(at), spine.geounit_of_block(at - 1)
    number = np.zeros(len(own), np.int64)
    number[spine.order] = own - own[spine.starts[at - 1]][above] + 1
    return number


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
