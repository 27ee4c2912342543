"""The kernel that joins persons, units and geo of a bucket, checks each housing unit and counts its rows.

Import this module only for large inputs: numba takes half a second to load, and an installation's first call compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.s_dhc.records import GEO, MOST_PERSONS, PERSONS, UNITS
from tasks.s_dhc.tables import (
    AGE_STARTS,
    HOUSEHOLDER,
    NO_CELL,
    NOT_A_ROW,
    OWN_CHILD,
    PARTNERS,
    RACES,
    RELATIONSHIPS,
    RELATIVES,
    UNIT,
)

# The faults of joined rows, in the order of tabulate.RULES, which has their words.
(
    UNIT_TWICE, GEO_TWICE, UNIT_NOT_IN_GEO, GEO_NOT_IN_UNITS, PERSON_NOT_IN_UNITS, UNIT_TYPE, PERSON_TYPE,
    QUARTERS_RELATION, HOUSEHOLDERS, COUPLES, EMPTY_RECODES, HOUSEHOLDER_RACE, HOUSEHOLDER_HISPANIC,
    PERSON_WITHOUT_CELL, UNIT_WITHOUT_CELL, RECODE_HHT, RECODE_HHT2, RECODE_CPLT, RECODE_POPULATION, RECODE_FAMILY,
    LEFT_OUT_UNITS, LEFT_OUT_PERSONS,
) = range(22)  # fmt: skip

PERSON_BITS, UNIT_BITS, GEO_BITS = (np.uint64(kind.bits) for kind in (PERSONS, UNITS, GEO))
AGE_GROUPS = (np.searchsorted(AGE_STARTS, np.arange(116), "right") - 1).astype(np.int64)
MINOR = 18
COUNT = len(RELATIONSHIPS)
IS_RELATIVE = np.isin(np.arange(39), RELATIVES)
IS_OWN = np.isin(np.arange(39), OWN_CHILD)
IS_PARTNER = np.isin(np.arange(39), list(PARTNERS))
_, HHT2_KINDS, CPLT_KINDS, TEN_KINDS = UNIT.shape
FIRST_RELATION, FIRST_QUARTERS = HOUSEHOLDER, 37


@compiled
def join_and_count(
    persons: NDArray[np.uint64],
    units: NDArray[np.uint64],
    geo: NDArray[np.uint64],
    state_of: NDArray[np.int64],
    cell_of_person: NDArray[np.int8],
    cell_of_unit: NDArray[np.int8],
    tau: NDArray[np.int64],
    own_race: NDArray[np.bool_],
    counts: NDArray[np.int64],
    faults: NDArray[np.int64],
) -> None:
    """Join the sorted rows of a bucket by housing unit; count valid rows in `counts` and faulty ones in `faults`.

    persons, units, geo: rows as in records.py, sorted by housing unit; within a unit, persons are in the order of
    truncation.
    state_of: the place of a state in the run by its FIPS code, -1 outside. cell_of_person, cell_of_unit: from
    tables.py.
    tau, own_race: by table of persons. counts: filled; states x GROUPS x cells. faults: filled; rows with each fault.
    """
    p, g = 0, 0
    kept = np.zeros(len(tau), np.int64)
    race: Any  # numba infers int64 for these
    values: Any
    for u in range(len(units)):
        mafid = units[u] >> UNIT_BITS
        if u > 0 and units[u - 1] >> UNIT_BITS == mafid:
            faults[UNIT_TWICE] += 1
            continue
        while g < len(geo) and geo[g] >> GEO_BITS < mafid:
            faults[GEO_NOT_IN_UNITS] += 1
            g += 1
        while p < len(persons) and persons[p] >> PERSON_BITS < mafid:
            faults[PERSON_NOT_IN_UNITS] += 1
            p += 1
        start = p
        while p < len(persons) and persons[p] >> PERSON_BITS == mafid:
            p += 1
        if g == len(geo) or geo[g] >> GEO_BITS != mafid:
            faults[UNIT_NOT_IN_GEO] += 1
            continue
        place = np.int64(geo[g] & np.uint64(255))
        g += 1
        while g < len(geo) and geo[g] >> GEO_BITS == mafid:
            faults[GEO_TWICE] += 1
            g += 1
        state = state_of[place >> 1]
        if state < 0:
            faults[LEFT_OUT_UNITS] += 1
            faults[LEFT_OUT_PERSONS] += p - start
            continue
        unit = np.int64(units[u] & np.uint64((1 << 34) - 1))
        quarters = unit & 1
        faults[UNIT_TYPE] += quarters != (place & 1)
        check_unit(persons[start:p], unit, faults)
        if quarters == 1 or (place & 1) == 1:
            continue
        hht, hht2, cplt, tenure = unit >> 12 & 7, unit >> 15 & 15, unit >> 19 & 7, unit >> 9 & 7
        kind = ((hht * HHT2_KINDS + hht2) * CPLT_KINDS + cplt) * TEN_KINDS + tenure
        race, hispanic = unit >> 3 & 63, unit >> 1 & 3
        group = 2 * (min(race, RACES) - 1) + (hispanic == 2)
        for table in range(cell_of_unit.shape[1]):
            cell = cell_of_unit[kind, table]
            if cell >= 0 and race > 0:
                counts[state, group, cell] += 1
            elif cell >= NO_CELL:
                faults[UNIT_WITHOUT_CELL] += 1
        kept[:] = 0
        for row in range(start, p):
            values = np.int64(persons[row] & np.uint64((1 << 20) - 1))
            relation = values >> 7 & 31
            if values >> 19 or relation >= COUNT:
                continue
            person = AGE_GROUPS[values & 127] * COUNT + relation
            own = 2 * (min(values >> 12 & 63, RACES) - 1) + (values >> 18 & 1)
            lost = False
            for table in range(len(tau)):
                cell = cell_of_person[kind, person, table]
                if cell == NOT_A_ROW or kept[table] == tau[table]:
                    continue
                kept[table] += 1
                named = race > 0 or own_race[table]
                if cell >= 0 and named:
                    counts[state, own if own_race[table] else group, cell] += 1
                elif cell >= NO_CELL:
                    lost = True
            faults[PERSON_WITHOUT_CELL] += lost
    faults[GEO_NOT_IN_UNITS] += len(geo) - g
    faults[PERSON_NOT_IN_UNITS] += len(persons) - p


@compiled
def check_unit(persons: NDArray[np.uint64], unit: Any, faults: NDArray[np.int64]) -> None:
    """Check the persons of a unit against each other and against its recodes (docs/s-dhc.md#households)."""
    quarters, size = unit & 1, len(persons)
    hht, hht2, cplt, tenure = unit >> 12 & 7, unit >> 15 & 15, unit >> 19 & 7, unit >> 9 & 7
    race, hispanic = unit >> 3 & 63, unit >> 1 & 3
    householders, partners, partner, relatives, own = 0, 0, 0, 0, 0
    values: Any
    for row in persons:
        values = np.int64(row & np.uint64((1 << 20) - 1))
        relation: Any = (values >> 7 & 31) + FIRST_RELATION
        faults[PERSON_TYPE] += (values >> 19) != quarters
        faults[QUARTERS_RELATION] += (relation >= FIRST_QUARTERS) != (quarters == 1)
        if relation == HOUSEHOLDER:
            householders += 1
            faults[HOUSEHOLDER_RACE] += (values >> 12 & 63) != race
            faults[HOUSEHOLDER_HISPANIC] += (values >> 18 & 1) + 1 != hispanic
        if IS_PARTNER[relation]:
            partners += 1
            partner = relation - HOUSEHOLDER
        relatives += IS_RELATIVE[relation]
        own += IS_OWN[relation] and (values & 127) < MINOR
    occupied = quarters == 0 and size > 0
    faults[HOUSEHOLDERS] += occupied and householders != 1
    faults[COUPLES] += partners > 1
    for recode in (race, hispanic, tenure, hht, hht2, cplt):
        if (recode > 0) != occupied:
            faults[EMPTY_RECODES] += 1
            break
    faults[RECODE_POPULATION] += (unit >> 29 & 31) != min(size, MOST_PERSONS)
    family = relatives + 1 if occupied and relatives > 0 else 0
    faults[RECODE_FAMILY] += (unit >> 22 & 127) != family
    if not occupied:
        return
    check_recodes(hht, hht2, cplt, size, partner, relatives, own, faults)


@compiled
def check_recodes(
    hht: int, hht2: int, cplt: int, size: int, partner: int, relatives: int, own: int, faults: NDArray[Any]
) -> None:
    """Check the recodes of an occupied unit. Male and female householders are not distinguished.

    partner: 1 to 4, opposite-sex spouse, opposite-sex partner, same-sex spouse, same-sex partner; 0 without one.
    """
    married, cohabiting = partner in (1, 3), partner in (2, 4)
    if married:
        faults[RECODE_HHT] += hht != 1
    elif relatives > 0:
        faults[RECODE_HHT] += hht not in (2, 3)
    elif size == 1:
        faults[RECODE_HHT] += hht not in (4, 6)
    else:
        faults[RECODE_HHT] += hht not in (5, 7)
    if married or cohabiting:
        faults[RECODE_HHT2] += hht2 != (1 if married else 3) + (own == 0)
    else:
        kind = 0 if size == 1 else 1 if own > 0 else 2 if relatives > 0 else 3
        faults[RECODE_HHT2] += hht2 not in (5 + kind, 9 + kind)
    expected = 5
    if partner > 0:
        expected = (1, 3, 2, 4)[partner - 1]
    faults[RECODE_CPLT] += cplt != expected
