"""Invariants of the redistricting product, from declared numbers, never from the confidential records.

Declared are each state's total population and each block's number of housing units and of group-quarters facilities by
type. A geounit without quarters of a type has no person of it; every facility has at least one person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine
from spine.redistricting import HOUSEHOLD, TYPES


@dataclass(frozen=True)
class Invariants:
    """The declared invariants on every level of a spine.

    quarters: for each level (geounits, types): housing units (occupied or vacant), then facilities of the other types.
    state_totals: (states,) declared populations. state_of: (geounits of the level State,) the state of each part.
    """

    quarters: tuple[IntArray, ...]
    state_totals: IntArray
    state_of: IntArray

    def housing_units(self, level: int) -> IntArray:
        """Return the (geounits,) housing units."""
        return self.quarters[level][:, HOUSEHOLD]

    def allowed(self, level: int) -> BoolArray:
        """Return (geounits, types) whether a geounit has living quarters of a type, and so may have persons there."""
        return self.quarters[level] > 0

    def lower_bound(self, level: int) -> IntArray:
        """Return the (geounits, types) fewest persons: one in every facility; housing units may be vacant."""
        bound = self.quarters[level].copy()
        bound[:, HOUSEHOLD] = 0
        return bound


def invariants(spine: Spine, quarters: IntArray, state_totals: dict[int, int], state_of_block: IntArray) -> Invariants:
    """Sum the declared invariants up the spine.

    quarters: (blocks, types) of the blocks in spine order. state_totals: population by state code; state_of_block: the
    state code of the blocks in spine order. Where a spine ends at the states, its "blocks" are the states' parts.
    ValueError for a state without a declared total. A block may have no quarters that are known: readers of inputs
    refuse one, except where only units were published, and group quarters are not known.
    """
    if quarters.shape != (spine.blocks, TYPES) or (quarters < 0).any():
        raise ValueError(f"quarters must be ({spine.blocks}, {TYPES}) counts of housing units and facilities")
    by_level = [np.add.reduceat(quarters, starts, axis=0) for starts in spine.starts]
    codes = np.unique(state_of_block)
    if missing := sorted(set(codes.tolist()) - set(state_totals)):
        raise ValueError(f"no total population is declared for state {missing[0]:02d}")
    parts = spine.starts[spine.levels.index("State")]
    totals = np.array([state_totals[code] for code in codes.tolist()], np.int64)
    return Invariants(tuple(by_level), totals, np.searchsorted(codes, state_of_block[parts]))
