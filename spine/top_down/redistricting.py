"""The redistricting products as what the estimation takes: persons and housing units, their passes and bounds.

The passes are those of the production program's run (Strategy1b_ST_CTY_TR_BG_isoTot_Ordering_dsepJune3).
"""

from __future__ import annotations

import numpy as np

from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.redistricting import (
    HHGQ,
    HHINSTLEVELS,
    HOUSEHOLD,
    NURSING,
    PERSON_AXES,
    PERSON_COUNTS,
    PERSON_TABLES,
    TYPES,
    UNDER_18,
    UNIT_AXES,
    UNIT_COUNTS,
    UNIT_TABLES,
    VOTING_AGE,
)
from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import Product
from spine.top_down.plan import Passes

PERSONS = Product(
    "pl94-persons",
    PERSON_AXES,
    PERSON_COUNTS,
    PERSON_TABLES,
    recodes=(HHINSTLEVELS,),
    bounded=HHGQ.name,
    zeros=({HHGQ.name: {NURSING}, VOTING_AGE.name: {UNDER_18}},),
)
UNITS = Product("pl94-units", UNIT_AXES, UNIT_COUNTS, UNIT_TABLES)
PRODUCTS = {product.name: product for product in (PERSONS, UNITS)}
PASSES = Passes(
    total_first=frozenset(("State", "County", "Tract_Group", "Tract", "Block_Group")),
    rounded=("hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace"),
    cell_weight=2,  # hhgq*votingage*hispanic*cenrace and detailed are the same cells: they count twice
)


def redistricting_bounds(
    product: Product, spine: Spine, quarters: IntArray, state_totals: dict[int, int], state_of_block: IntArray
) -> Bounds:
    """Return what is declared for the redistricting data on the levels of a spine.

    quarters: (blocks, types) housing units and group-quarters facilities of the blocks in spine order. state_totals:
    population by state code; state_of_block: the state code of the blocks in spine order. Where a spine ends at the
    states, its "blocks" are the states' parts. ValueError for a state without a declared total. A block may have no
    quarters that are known: readers of inputs refuse one, except where only units were published, and group quarters
    are not known.
    """
    codes = np.unique(state_of_block)
    if missing := sorted(set(codes.tolist()) - set(state_totals)):
        raise ValueError(f"no total population is declared for state {missing[0]:02d}")
    level = spine.levels.index("State")
    totals = np.array([state_totals[code] for code in codes.tolist()], np.int64)
    of_parts = Totals(np.searchsorted(codes, state_of_block[spine.starts[level]]), totals)
    least = np.ones(TYPES, np.int64)
    least[HOUSEHOLD] = 0  # housing units may be vacant
    return sum_bounds(spine, quarters, least, (level, of_parts), fixed=product is UNITS)
