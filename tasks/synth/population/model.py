"""The data that the steps exchange: whole tracts of a state, and the units and persons that live there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)
# Household types.
NONE, MARRIED, COHABITING, NEITHER, ALONE = range(5)
HEAD, SECOND, FURTHER = range(3)  # a person's part: householder, the spouse or partner, anybody else
# RELSHIP of the 2020 census.
HOUSEHOLDER, SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER = 20, 21, 22, 23, 24
OWN_CHILDREN = (25, 26, 27)
RELATIVES = (21, 23, *range(25, 34))
INSTITUTIONAL, NONINSTITUTIONAL = 37, 38
OWNED_WITH_MORTGAGE, OWNED, RENTED, NO_RENT = 1, 2, 3, 4
ADULT_AGE = 18


def has_role(role: NDArray[np.uint8], roles: Iterable[int]) -> NDArray[np.bool_]:
    """Return whether each RELSHIP is one of some; several times as fast as numpy's isin."""
    chosen = np.zeros(256, bool)
    chosen[list(roles)] = True
    return chosen[role]


@dataclass(frozen=True)
class Tracts:
    """Whole tracts of a state, their blocks in order.

    codes: uint64 (t, 2), state and county, tract. tract: (b,), the number of each block's tract. facilities, residents:
    (b, 8); column 0 has housing units and the persons in households, the others group quarters by major type.
    occupied: (b,), housing units with persons. before, country: persons of the country before the first block, and in
    all. cells: published persons, (persons, 2), ascending by block: block, and 128 * adult + 64 * Hispanic + set of
    races; None to draw them.
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
class Households:
    """Living quarters by block, housing units first, and their persons by unit, in no order within it.

    By unit, (u,): block, its row; kind, 0 a housing unit, 1 to 7 group quarters; size, its persons; first, head, the
    first of its persons and its householder (-1 without one); type, of household, 0 if nobody lives there; unit_tract.
    By person, (n,): unit; tract; head_of, the householder, or in group quarters the person; part; minor, a mask.
    """

    block: IntArray
    kind: NDArray[np.uint8]
    size: IntArray
    first: IntArray
    head: IntArray
    type: NDArray[np.uint8]
    unit_tract: IntArray
    unit: IntArray
    tract: IntArray
    head_of: IntArray
    part: NDArray[np.uint8]
    minor: NDArray[np.bool_]

    def combine(self, by: np.ufunc, values: NDArray[T]) -> NDArray[T]:
        """Return the values of each unit's persons, combined; 0 for a unit without persons."""
        lived_in, found = np.flatnonzero(self.size), np.zeros(len(self.size), values.dtype)
        if len(lived_in):
            found[lived_in] = by.reduceat(values, self.first[lived_in])
        return found

    @property
    def with_minors(self) -> NDArray[np.bool_]:
        """Whether each unit has a minor."""
        return np.bincount(self.unit[self.minor], minlength=len(self.size)) > 0


@dataclass(frozen=True)
class Codes:
    """QSPAN and QRACE1 to QRACE8 of persons.

    span, race: (n,), indices into Origins.span and Origins.race of QSPAN and QRACE1. several: (m,), persons with more
    than one code. more: (m, 7), their QRACE2 to QRACE8; len(Origins.race) is Null.
    """

    span: NDArray[np.uint8]
    race: NDArray[np.uint16]
    several: IntArray
    more: NDArray[np.uint16]


@dataclass(frozen=True)
class Population:
    """The persons and units of some tracts.

    By unit: tenure, TEN, 0 if nobody lives there. By person: role, RELSHIP; age, 0 to 115; sex, 0 male, 1 female; cell,
    64 * Hispanic + set of major races, one bit each; codes.
    """

    homes: Households
    tenure: NDArray[np.uint8]
    role: NDArray[np.uint8]
    age: NDArray[np.uint8]
    sex: NDArray[np.uint8]
    cell: NDArray[np.uint8]
    codes: Codes
