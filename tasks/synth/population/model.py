"""What the steps exchange: whole tracts of a state, and the units and persons that live there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
# Household types.
NONE, MARRIED, COHABITING, NEITHER, ALONE = range(5)
# RELSHIP of the 2020 census.
HOUSEHOLDER, SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER = 20, 21, 22, 23, 24
OWN_CHILDREN = (25, 26, 27)
RELATIVES = (21, 23, *range(25, 34))
INSTITUTIONAL, NONINSTITUTIONAL = 37, 38
OWNED_WITH_MORTGAGE, OWNED, RENTED, NO_RENT = 1, 2, 3, 4
ADULT_AGE = 18


@dataclass(frozen=True)
class Tracts:
    """Whole tracts of a state, their blocks in order.

    codes: uint64 (t, 2), state and county, tract. tract: (b,), the number of each block's. facilities, residents:
    (b, 8); column 0 has housing units and the persons in households, the others group quarters by major type.
    occupied: (b,), housing units with persons. before, country: persons of the country before the first block, and in
    all. cells: of the persons where they are published, ascending by block: block, and 128 * adult + 64 * Hispanic +
    set of races, (persons, 2); None where they are drawn.
    """

    codes: NDArray[np.uint64]
    tract: IntArray
    facilities: IntArray
    residents: IntArray
    occupied: IntArray
    before: int
    country: int
    cells: IntArray | None = None


@dataclass(frozen=True)
class Units:
    """Living quarters by block, housing units first; (u,) each.

    block: row of the block. kind: 0 a housing unit, 1 to 7 group quarters. size: persons. first, head: the first of
    its persons, and its householder (-1 without one). type: of household. tenure: TEN; both 0 where nobody lives.
    """

    block: IntArray
    kind: NDArray[np.uint8]
    size: IntArray
    first: IntArray
    head: IntArray
    type: NDArray[np.uint8]
    tenure: NDArray[np.uint8]


@dataclass(frozen=True)
class People:
    """Persons by unit, in no order within it; (n,) each.

    unit: row of the unit. role: RELSHIP. age: 0 to 115. sex: 0 male, 1 female. hispanic: 0, 1. races: set of major
    races, a bit each. span, race: indices into Origins.span and Origins.race of QSPAN and QRACE1. several: (m,), those
    with two codes and more. more: (m, 7), their QRACE2 to QRACE8, len(Origins.race) for none.
    """

    unit: IntArray
    role: NDArray[np.uint8]
    age: NDArray[np.uint8]
    sex: NDArray[np.uint8]
    hispanic: NDArray[np.uint8]
    races: NDArray[np.uint8]
    span: NDArray[np.uint8]
    race: NDArray[np.uint16]
    several: IntArray
    more: NDArray[np.uint16]
