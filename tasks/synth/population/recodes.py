"""The Bureau's recodes from the persons of a household: types of households, couples, families, race of the unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.synth.population.codes import CENRACE, SETS
from tasks.synth.population.model import (
    ADULT_AGE,
    OWN_CHILDREN,
    PARTNER,
    RELATIVES,
    SAME_SEX_PARTNER,
    SAME_SEX_SPOUSE,
    SPOUSE,
    Population,
    has_role,
)

_SPOUSE, _PARTNER, _SAME_SEX, _RELATIVE, _CHILD = 1, 2, 4, 8, 16
_MARKS = np.zeros(64, np.uint8)  # marks of a household with a person of this RELSHIP
for _role, _mark in (
    (SPOUSE, _SPOUSE),
    (SAME_SEX_SPOUSE, _SPOUSE | _SAME_SEX),
    (PARTNER, _PARTNER),
    (SAME_SEX_PARTNER, _PARTNER | _SAME_SEX),
):
    _MARKS[_role] = _mark
_MARKS[list(RELATIVES)] |= _RELATIVE


@dataclass(frozen=True)
class Recodes:
    """Recodes of each unit as in the 2020 census; 0 for vacant units and group quarters.

    hht, hht2, cplt: HHT, HHT2, CPLT. race, hispanic: CENRACE and CENHISP of the householder. family: the householder
    and the persons related to them, or 0 without relatives.
    """

    hht: NDArray[np.uint8]
    hht2: NDArray[np.uint8]
    cplt: NDArray[np.uint8]
    race: NDArray[np.uint8]
    hispanic: NDArray[np.uint8]
    family: NDArray[np.uint8]


def recode(population: Population) -> Recodes:
    """Return the recodes of all units."""
    units, people = population.homes, population
    marks = _MARKS[people.role]
    marks[has_role(people.role, OWN_CHILDREN) & (people.age < ADULT_AGE)] |= _CHILD
    of_unit = units.combine(np.bitwise_or, marks)
    relatives = units.combine(np.add, (marks & _RELATIVE > 0).astype(np.int64))
    household = units.head >= 0
    head = np.where(household, units.head, 0)

    def of_head(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.where(household, values[head], 0).astype(np.uint8) if len(values) else np.zeros(len(head), np.uint8)

    spouse, partner, same = (of_unit & mark > 0 for mark in (_SPOUSE, _PARTNER, _SAME_SEX))
    relative, child, alone = of_unit & _RELATIVE > 0, of_unit & _CHILD > 0, units.size == 1
    female = of_head(people.sex) == 1
    hht = np.select([spouse, relative, alone], [1, 2 + female, 4 + 2 * female], 5 + 2 * female)
    single = np.select([alone, child, relative], [0, 1, 2], 3) + np.where(female, 5, 9)
    hht2 = np.select([spouse, partner], [2 - child.astype(int), 4 - child], single)
    cplt = np.select([spouse, partner], [1 + same, 3 + same], 5)
    family = np.where(relative, relatives + 1, 0)
    hht, hht2, cplt, family = (np.where(household, code, 0).astype(np.uint8) for code in (hht, hht2, cplt, family))
    race, hispanic = of_head(CENRACE[people.cell % SETS]), of_head(people.cell // SETS + 1)
    return Recodes(hht, hht2, cplt, race, hispanic, family)
