"""Data on blocks other than their geography: prims, living quarters, group quarters, persons.

One CSV, a row a block: `tabblk` (15 digits) and any of `primgeo` (the prim crosswalk of the Estimates and Projections
Area), `gq1` .. `gq7` (facilities of the major group-quarters types 1xx .. 7xx-9xx), `hu` (housing units), `pop`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from spine.geography import BadGeography, Geography, geoid15, gq_pattern
from tasks.inputs.block_codes import short_codes
from tasks.inputs.files import open_file

GQ_COUNTS = tuple(f"gq{i}" for i in range(1, 8))
KNOWN = ("tabblk", "primgeo", *GQ_COUNTS, "hu", "pop")


def with_extra(geography: Geography, source: str) -> Geography:
    """Return the geography with the columns of the table at `source`; a block that is not in it has no living quarters.

    BadGeography for an unknown column, a block that comes twice or has no prim, and for a value that is not a number.
    """
    table = _read(source)
    block = short_codes(geography.geocode)
    row = table.index.get_indexer(pd.Index(block))
    added: dict[str, Any] = {}
    if "primgeo" in table:
        lost = np.flatnonzero(row < 0)
        if len(lost):
            raise BadGeography(f"block {geoid15(int(geography.geocode[lost[0]]))} has no prim in {source}")
        added["prim"] = np.unique(table["primgeo"].to_numpy(str)[row], return_inverse=True)[1].astype(np.int64)
    counts = {
        name: np.where(row < 0, 0, table[name].to_numpy()[row]) for name in (*GQ_COUNTS, "hu", "pop") if name in table
    }
    quarters = [counts[name] > 0 for name in GQ_COUNTS if name in counts]
    if len(quarters) == len(GQ_COUNTS):
        added["gq"] = gq_pattern(quarters)
        if "hu" in counts:
            added["universe"] = np.logical_or.reduce([*quarters, counts["hu"] > 0])
    if "pop" in counts:
        added["population"] = counts["pop"].astype(np.int32)
    return replace(geography, **added)


def _read(source: str) -> pd.DataFrame:
    try:
        types: Any = {"tabblk": "int64", "primgeo": str}
        with open_file(source, compression="infer") as file:
            table = pd.read_csv(file, dtype=types)
        if unknown := sorted(set(table.columns) - set(KNOWN)):
            raise BadGeography(f"{source} has the unknown column(s) {', '.join(unknown)}; known are {', '.join(KNOWN)}")
        table = table.set_index("tabblk")
        counts = [str(name) for name in table if name != "primgeo"]
        table[counts] = table[counts].fillna(0).astype(np.int64)
    except (KeyError, ValueError, OverflowError) as error:
        raise error if isinstance(error, BadGeography) else BadGeography(f"{source}: {error}") from error
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise BadGeography(f"block {twice[0]:015d} comes twice in {source}")
    return table
