"""Off-spine entities (OSEs): families of areas, each family a partition of the blocks (paper, sections 4 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spine.geography import (
    AIAN_CLASSES,
    NO_AIANNH,
    NO_COUSUB,
    NO_PLACE,
    NO_SCHOOL_DISTRICT,
    PUERTO_RICO,
    BoolArray,
    Geography,
    IntArray,
)
from spine.settings import SpineSettings


@dataclass(frozen=True)
class Entities:
    """One family of OSEs.

    name: aian, place, mcd, pme, gq, sd; or the tabulation geounits state, county, tract, cbg.
    codes: (entities,) sorted codes that mean the same in every state: a place is state * 10^5 + PLACEFP, an MCD
        county * 10^5 + COUSUBFP, an AIAN area AIANNHCE, a school district state * 10^15 + its code, a GQ
        pattern its seven binary digits.
    of_block: (blocks,) index into `codes`, for the rows of the geography.
    """

    name: str
    codes: IntArray
    of_block: IntArray

    @property
    def outside(self) -> BoolArray:
        """(entities,) whether this is the region outside all entities of the family."""
        outside: BoolArray = self.codes == OUTSIDE
        return outside


OUTSIDE = -1


class Areas(NamedTuple):
    """The areas of a family, without the region outside all of them.

    codes: (areas,) as in `Entities`. of_block: (blocks,) the area of each block, -1 outside; every area has a block.
    """

    name: str
    codes: IntArray
    of_block: IntArray

    def sums(self, values: IntArray) -> IntArray:
        """Return the (areas, columns) sums of values of blocks, (blocks, columns)."""
        found, inside = np.zeros((len(self.codes), values.shape[1]), values.dtype), self.of_block >= 0
        np.add.at(found, self.of_block[inside], values[inside])
        return found


def entities(geography: Geography, name: str, settings: SpineSettings) -> Entities | None:
    """Return the family `name`, or None if the geography lacks its column."""
    code = _codes(geography, name, settings)
    if code is None:
        return None
    codes, of_block = np.unique(code, return_inverse=True)
    return Entities(name, codes, of_block.astype(np.int64))


def _codes(geography: Geography, name: str, settings: SpineSettings) -> IntArray | None:
    outside = np.int64(OUTSIDE)
    place = np.where(geography.place == NO_PLACE, outside, geography.state * 10**5 + geography.place)
    strong = is_strong_mcd(geography, settings)
    # 00000 is used where county subdivisions are not defined (water): it is not an entity.
    no_mcd = (geography.cousub == NO_COUSUB) | (geography.cousub == 0) | ~strong
    mcd = np.where(no_mcd, outside, geography.county * 10**5 + geography.cousub)
    if name == "place":
        return place
    if name == "mcd":
        return mcd
    if name == "pme":  # an MCD's code is above every place's: 55001 * 10^5 against 55 * 10^5
        return np.where(strong & ~in_aian(geography, settings), mcd, place)
    if name == "aian":
        return np.where(in_aian(geography, settings), geography.aiannh.astype(np.int64), outside)
    if name == "gq":
        return None if geography.gq is None else np.where(geography.gq == 0, outside, geography.gq.astype(np.int64))
    if name == "sd":
        district = geography.school_district
        if district is None:
            return None
        return np.where(district == NO_SCHOOL_DISTRICT, outside, geography.state * 10**15 + district)
    if name in ("cbg", "tract", "county", "state"):
        levels = {"cbg": geography.block_group, "tract": geography.tract, "county": geography.county}
        return (levels | {"state": geography.state})[name]
    raise ValueError(f"there is no family of off-spine entities {name!r}")


def in_aian(geography: Geography, settings: SpineSettings) -> BoolArray:
    """Return whether each block is in an AIAN area of a selected class (docs/spec/spine.md#aian-areas)."""
    chosen = np.zeros(NO_AIANNH + 1, bool)
    for lower, upper, name in AIAN_CLASSES:
        chosen[lower : upper + 1] = name in settings.aian_classes
    return chosen[geography.aiannh]


def aian_part(geography: Geography, settings: SpineSettings) -> BoolArray:
    """Return whether each block is in the AIAN part of its state; no block is where states are not split."""
    return in_aian(geography, settings) & settings.aian_split


def is_strong_mcd(geography: Geography, settings: SpineSettings) -> BoolArray:
    """Return whether each block is in a strong-MCD state."""
    return np.isin(geography.state, np.array(settings.strong_mcd_states))


def block_group_key(geography: Geography, name: str, settings: SpineSettings) -> IntArray | None:
    """Return the code by which optimized block groups are separated inside a tract, as the programs write it.

    It differs from `entities` in the number for "none": 99999, which sorts last.
    """
    if name == "pme":
        mcd = is_strong_mcd(geography, settings) & ~in_aian(geography, settings)
        return np.where(mcd, geography.cousub, geography.place).astype(np.int64)
    if name == "aian":
        return np.where(in_aian(geography, settings), geography.aiannh, NO_AIANNH).astype(np.int64)
    if name == "sd":
        return geography.school_district
    return _codes(geography, name, settings)


# Places that the Estimates and Projections Area separates whatever their status (docs/spec/spine.md#entities).
_PRIM_PLACES = ((22, 36255), (11, 50000), (15, 71550), (20, 71450))


def prims(
    geography: Geography, cousub_status: IntArray | None = None, place_status: IntArray | None = None
) -> IntArray:
    """Return the 15-digit prim of each block, for use without a crosswalk (docs/spec/spine.md#entities).

    cousub_status, place_status: FUNCSTAT of the block's county subdivision and place as character codes. Only Puerto
    Rico, where a prim is a county, does not need them.
    """
    none = np.int64(99999)
    cousub = np.full(len(geography), none)
    place = np.full(len(geography), none)
    in_pr = geography.state == PUERTO_RICO
    if not in_pr.all():
        if cousub_status is None or place_status is None:
            raise ValueError("prims need the functional status of county subdivisions and places (COUSUBFS, PLACEFS)")
        active = np.isin(cousub_status, [ord(c) for c in "ABC"])
        has_active = np.isin(geography.county, np.unique(geography.county[active]))
        cousub = np.where(has_active, geography.cousub, none)
        own = np.isin(place_status, [ord(c) for c in "ABF"]) & (geography.place != NO_PLACE)
        for state, kept in _PRIM_PLACES:
            own |= (geography.state == state) & (geography.place == kept)
        place = np.where(own, geography.place, none)
    code: IntArray = geography.county * 10**10 + np.where(in_pr, none, cousub) * 10**5 + np.where(in_pr, none, place)
    return code
