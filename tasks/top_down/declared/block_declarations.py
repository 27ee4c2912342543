"""Declarations of the redistricting data and of the DHC, written with the tables of blocks that they name."""

from __future__ import annotations

import json
import os
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
from spine.dhc_households import NAMES, households_declaration, units_declaration
from spine.entities import aian_part, block_group_key
from spine.geography import BoolArray, IntArray, gq_pattern
from spine.hierarchy import Spine
from spine.settings import Jurisdiction, settings_for
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.geography.names import names_of_2020
from tasks.geography.regions import Region
from tasks.lifecycle.staging import PIPES
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.declarations import SHIPPED, read_raw
from tasks.records.findings import has_errors
from tasks.records.marks import GRF_FILE
from tasks.releases.manifest import require_release
from tasks.top_down.blocks import Blocks
from tasks.top_down.input.public_input import QUARTERS, quarters_of_blocks, read_quarters
from tasks.top_down.input.records import block_columns
from tasks.top_down.run_plan import QUARTERS_FILE, SCHEMAS

LEAVES_FILE, TOTALS_FILE = "blocks.txt", "totals.txt"
STATE = "state"  # the column that totals are declared by
BLOCK_GROUP = "TABBLKGRPCE"
PRIMS_FILE = "prims.csv"  # where there is one: tabblk, primgeo
RELEASE = "redistricting"  # that the shipped declaration names
Kept = Literal["redistricting", "units"]
NUMBERED = {"Prim": "prim", "Tract_Subset_Group": "tsg", "Block_Group": "obg"}  # levels without codes of their own


def write_declarations(blocks: Blocks, jurisdiction: Jurisdiction, out: Path) -> list[str]:
    """Write the shipped declarations of a jurisdiction into a folder with the tables that they name.

    A run of one with the same records and noise estimates what `das tda run` does on the optimized spine with the US
    level; with other levels, on the other spines (docs/declarations.md). Returns the names of the declarations.
    """
    states = {STATE: list(blocks.states), "total": [blocks.totals[int(state)] for state in blocks.states]}
    for file, columns in ((LEAVES_FILE, block_table(blocks, jurisdiction)), (TOTALS_FILE, states)):
        pa.csv.write_csv(pa.table(columns), out / file, PIPES)
    names = [f"{product.name}-{jurisdiction}.toml" for product in SCHEMAS.values()]
    for name in names:
        shutil.copyfile(SHIPPED / name, out / name)
    return names


def block_table(blocks: Blocks, jurisdiction: Jurisdiction) -> dict[str, pa.Array]:
    """Return the table of leaves: a block's codes, what block groups are made apart by, and its living quarters.

    aian: 1 in the AIAN part of its state. pme, aianarea, gqpattern: its place or county subdivision, its AIAN area and
    which types of group quarters it has, as the optimized spine takes them (docs/spec/spine.md#entities).
    TABBLKGRPCE: its block group, for the other spines.
    """
    settings, geography = settings_for(SCHEMAS["persons"].name, jurisdiction), blocks.geography
    codes = block_columns(geography.geocode)
    part = aian_part(geography, settings)
    quarters = zip(QUARTERS, blocks.quarters.T, strict=True)
    return {
        **{name: codes[name] for name in (*BLOCK_COLUMNS, BLOCK_GROUP)},
        STATE: codes[BLOCK_COLUMNS[0]],
        "aian": pa.array(part.astype(int)),
        "pme": pa.array(block_group_key(geography, "pme", settings)),
        "aianarea": pa.array(block_group_key(geography, "aian", settings)),
        "gqpattern": pa.array(geography.gq),
        **{name: pa.array(number) for name, number in quarters},
    }


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
    pa.csv.write_csv(table, out / LEAVES_FILE, PIPES)
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
    code, counts, findings = read_quarters(str(data / QUARTERS_FILE), ["hu", *columns], more=True)
    if has_errors(findings):
        fault, line = findings[0], f", line {findings[0].first}" if findings[0].first else ""
        raise Refused(f"{data / QUARTERS_FILE}{line}: {fault.rule}")
    facilities = quarters_of_blocks(geography, code, counts)
    universe = facilities.sum(axis=1) > 0
    if not universe.any():
        raise Refused(f"{data / QUARTERS_FILE}: no block of {GRF_FILE} has living quarters")
    major = np.array([0, *(min(int(column[2]), 7) for column in columns)])  # 8xx and 9xx are with 7xx
    gq = gq_pattern([facilities[:, major == kind].sum(axis=1) > 0 for kind in range(1, 8)])
    blocks = replace(geography, gq=gq, universe=universe).take(universe)
    part = aian_part(blocks, settings)
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
