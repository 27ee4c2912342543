"""The redistricting data as declarations to change: the public files of a run as tables next to the shipped ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spine.entities import block_group_key, in_aian
from spine.settings import Jurisdiction, settings_for
from tasks.lifecycle.staging import PIPES
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.declarations import SHIPPED
from tasks.top_down.blocks import Blocks
from tasks.top_down.input.block_files import QUARTERS, block_columns
from tasks.top_down.run_plan import SCHEMAS

LEAVES_FILE, TOTALS_FILE = "blocks.txt", "totals.txt"
STATE = "state"  # the column that totals are declared by
BLOCK_GROUP = "TABBLKGRPCE"


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
    part = in_aian(geography, settings) if settings.aian_split else np.zeros(len(geography), bool)
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
