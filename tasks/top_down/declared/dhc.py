"""The DHC as declarations with their tables: blocks on their spine, facilities, the release that each is equal to."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spine.build import optimized
from spine.declaration.declaration import read_declaration
from spine.declaration.figures import whole_numbers
from spine.dhc_households import NAMES, households_declaration, units_declaration
from spine.entities import in_aian
from spine.geography import BoolArray, IntArray, gq_pattern
from spine.hierarchy import Spine
from spine.settings import Jurisdiction, settings_for
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.geography.names import names_of_2020
from tasks.geography.regions import Region
from tasks.lifecycle.staging import PIPES
from tasks.records.block_codes import BLOCK_COLUMNS, find_blocks, short_codes
from tasks.records.declarations import SHIPPED, read_columns, read_raw
from tasks.records.marks import GRF_FILE
from tasks.releases.manifest import require_release
from tasks.top_down.input.block_files import block_columns
from tasks.top_down.run_plan import QUARTERS_FILE

CODE = re.compile("[0-9]{15}")
PRIMS_FILE = "prims.csv"  # where there is one: tabblk, primgeo
BLOCKS_FILE = "blocks.txt"
RELEASE = "redistricting"  # that the shipped declaration names
Kept = Literal["redistricting", "units"]
NUMBERED = {"Prim": "prim", "Tract_Subset_Group": "tsg", "Block_Group": "obg"}  # levels without codes of their own


class ToKeep(NamedTuple):
    """A release that a declaration keeps: its name in the folder of the declaration, and where it is now, if it is."""

    name: str
    place: Path | None = None


def write_dhc_declarations(
    data: Path, jurisdiction: Jurisdiction, out: Path, kept: Mapping[Kept, ToKeep], *, anchored: bool = False
) -> tuple[list[Path], int]:
    """Write the declarations of the DHC into a folder, with their blocks and the releases that they keep.

    data: GRF-C.txt; quarters.csv, housing units and facilities by block; prims.csv. Leaves are the blocks with living
    quarters. kept: a redistricting release for persons and housing units, a release of these for households, which are
    rounded in two steps and `anchored`, or as in the production runs. Returns the declarations and the number of
    blocks. Raises Refused for tables with faults.
    """
    places = {own.name: own.place for own in kept.values() if own.place}
    for place in places.values():
        require_release(place)
    table = _block_table(data, jurisdiction)
    pa.csv.write_csv(table, out / BLOCKS_FILE, PIPES)
    made = dict[str, str]()
    if first := kept.get("redistricting"):
        persons = f"dhc-persons-{jurisdiction}.toml"
        shipped = (SHIPPED / persons).read_text("utf-8")
        made[persons] = shipped.replace(f'release = "{RELEASE}"', f"release = {json.dumps(first.name)}")
        made[f"dhc-units-{jurisdiction}.json"] = json.dumps(units_declaration(jurisdiction, first.name), indent=1)
    if units := kept.get("units"):
        raw = households_declaration(jurisdiction, _facility_columns(jurisdiction), units.name, anchored=anchored)
        made[f"dhc-households-{jurisdiction}.json"] = json.dumps(raw)
    for name, text in made.items():
        (out / name).write_text(text, "utf-8")
    for name, place in places.items():
        shutil.copytree(place, out / name, copy_function=_link)
    return [out / name for name in made], len(table)


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
    states, counties = (own[name] for name in BLOCK_COLUMNS[:2])
    return pa.table(
        {
            **{name: own[name] for name in BLOCK_COLUMNS},
            "state": states,
            "aian": pa.array(part.astype(int)),
            NAMES["State"]: _names("STATE", states, part),
            NAMES["County"]: _names("COUNTY", pc.binary_join_element_wise(states, counties, ""), part),
            **{column: pa.array(_numbers(spine, level)) for level, column in NUMBERED.items()},
            **{column: pa.array(facilities[universe, at]) for at, column in enumerate(["hu", *columns])},
        }
    )


def _names(kind: str, codes: pa.Array, part: BoolArray) -> pa.Array:
    """Return by block the name of its state or county, or of the part that is in AIAN areas."""
    known, of_block = names_of_2020(), codes.dictionary_encode()
    of_kind = (Region.named(kind, code) for code in of_block.dictionary.to_pylist())
    names = [known.get(region, f"{kind.capitalize()} {region.id}") for region in of_kind]
    both = pa.array([*names, *(f"{name}, AIAN areas" for name in names)])
    return both.take(pa.array(of_block.indices.to_numpy() + len(names) * part))


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
