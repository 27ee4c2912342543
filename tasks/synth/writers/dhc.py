"""Persons, households and housing units, and group quarters by detailed type, for the DHC (docs/spec/files.md)."""

from __future__ import annotations

import numpy as np

from spine.dhc_households import BOTH, NO_CHILDREN, NO_PARTNER, household_types
from spine.geography import BoolArray
from tasks.synth.blocks import digits
from tasks.synth.population.ages import AGES, OLDEST
from tasks.synth.population.codes import CENRACE, SETS
from tasks.synth.population.model import ADULT_AGE, HOUSEHOLDER, OWN_CHILDREN, IntArray, has_role
from tasks.synth.writers.columns import IndexedColumns, Stretch, coded, numerals

# Detailed types of each major type of group quarters, and the first relationship code of each.
TYPES = {1: range(101, 107), 2: range(201, 204), 3: (301,), 4: range(401, 406), 5: (501,), 6: (601, 602)}
TYPES |= {7: (701, 801, 802, 900, 901, 997)}
CODES = [code for types in TYPES.values() for code in types]
FIRST = dict(zip(TYPES, np.cumsum([18, *map(len, TYPES.values())]).tolist(), strict=False))
RELATIONSHIPS = 18 + len(CODES)
# Youngest and oldest age of relationships that have no other (docs/dhc.md); drawn ages are moved into these.
AGES_OF = {
    **dict.fromkeys((*range(6), 13, *range(18, 23)), (15, OLDEST)),
    **dict.fromkeys((6, 7, 8), (0, 89)),
    **dict.fromkeys((10, 12), (30, OLDEST)),
    13: (15, 89),
    11: (0, 74),
    16: (0, 20),
    **dict.fromkeys((23, 31, 34, 35), (17, 65)),
    **dict.fromkeys((24, 25, 26), (0, 25)),
    27: (20, OLDEST),
    32: (3, 30),
    33: (16, 65),
    **dict.fromkeys((37, 38), (16, OLDEST)),
    **dict.fromkeys((39, 40), (16, 75)),
}
LIMITS = np.array([AGES_OF.get(code, (0, OLDEST)) for code in range(RELATIONSHIPS)])

AGES_OF_HOUSEHOLDERS = [25, 35, 45, 55, 60, 65, 75, 85]  # where all groups but the first begin
ELDERLY = [60, 65, 75]
PARTNERS, GRANDCHILD, PARENTS = (21, 22, 23, 24), (30,), (29, 31)  # RELSHIP
VACANCY = np.repeat(np.arange(1, 8), [23, 4, 6, 5, 33, 1, 28])  # VACS of a hundred vacant units in turn, about as 2020


def _quarters_type(stretch: Stretch) -> IntArray:
    """Return the relationship of the residents of each unit of group quarters: its types in turn, by MAFID."""
    kind = stretch.population.homes.kind.astype(np.int64)
    first, number = (np.array([0, *values]) for values in (FIRST.values(), map(len, TYPES.values())))
    turn: IntArray = (stretch.first_mafid + np.arange(len(kind))) % np.maximum(number[kind], 1)
    return first[kind] + turn


def relationships(stretch: Stretch) -> IntArray:
    """Return the DHC's relationship of each person: 0 householder alone ... 17, then 18 to 41 in group quarters."""
    people, homes = stretch.population, stretch.population.homes
    # RELSHIP 21, the spouse, is 2, and 36, the last in a household, is 17
    role = np.where(people.role == HOUSEHOLDER, (homes.size > 1)[homes.unit], people.role - np.int64(19))
    return np.where(homes.kind[homes.unit] > 0, _quarters_type(stretch)[homes.unit], role)


def person_records(stretch: Stretch) -> list[IndexedColumns]:
    """Return the records of persons: block, relationship, sex, age, Hispanic, race."""
    people, cell = stretch.population, np.arange(2 * SETS)
    relationship = relationships(stretch)
    age = np.clip(people.age, *LIMITS[relationship].T)
    words = {"CENHISP": np.array(["1", "2"], "S")[cell // SETS], "CENRACE": digits(CENRACE[cell % SETS], 2)}
    return [
        stretch.at_persons,
        coded("RELGQ", [str(code) for code in range(RELATIONSHIPS)], relationship),
        coded("QSEX", ["1", "2"], people.sex),
        coded("QAGE", [str(age) for age in range(AGES)], age),
        IndexedColumns(words, people.cell),
    ]


def facilities(stretch: Stretch) -> list[IndexedColumns]:
    """Return the housing units and the facilities of each detailed type of the blocks that have some."""
    homes, blocks = stretch.population.homes, len(stretch.blocks)
    inside = homes.kind > 0
    at = homes.block[inside] * len(CODES) + _quarters_type(stretch)[inside] - 18
    counts = np.bincount(at, minlength=blocks * len(CODES)).reshape(blocks, len(CODES))
    words = {"tabblk": stretch.blocks.codes, "hu": numerals(stretch.facilities[:, 0])}
    words |= {f"gq{code}": numerals(counts[:, at]) for at, code in enumerate(CODES)}
    return [IndexedColumns(words, np.flatnonzero(stretch.facilities.sum(axis=1)))]


def prims(stretch: Stretch) -> list[IndexedColumns]:
    """Return the crosswalk of blocks to prims: made up, a county subdivision or a county."""
    columns = stretch.blocks.columns
    cousub = columns.get("COUSUBFP", np.full(len(stretch.blocks), b"99999"))
    code = np.char.add(np.char.add(columns["TABBLKST"], columns["TABBLKCOU"]), np.char.add(cousub, b"99999"))
    words = {"tabblk": stretch.blocks.codes, "primgeo": code}
    return [IndexedColumns(words, np.arange(len(stretch.blocks)))]


def _unit_has(stretch: Stretch, persons: BoolArray) -> BoolArray:
    """Return by unit whether some of its persons are chosen."""
    found: BoolArray = np.bincount(stretch.population.homes.unit[persons], minlength=len(stretch.mafid)) > 0
    return found


def _ages_present(young: BoolArray, older: BoolArray) -> IntArray:
    """Return PAOC or PAC: under 6 only, 6 to 17 only, both, none."""
    return np.select([young & older, young, older], [BOTH, 1, 2], NO_CHILDREN)


def household_records(stretch: Stretch) -> list[IndexedColumns]:
    """Return a record of each household: block, sex, age, Hispanic origin and race of the householder, TEN, HHTYPE.

    What the DHC takes for impossible is changed: own children whom the householder is too old for are other minors, and
    nobody is old where nobody can be.
    """
    people, homes, rows, recodes = stretch.population, stretch.population.homes, stretch.households, stretch.recodes
    minor, head = people.age < ADULT_AGE, homes.head[rows]
    others = minor & ~has_role(people.role, (HOUSEHOLDER, *PARTNERS))
    child, young = has_role(people.role, OWN_CHILDREN), people.age < 6
    own, minors = (
        _ages_present(_unit_has(stretch, each & young), _unit_has(stretch, each & ~young))[rows]
        for each in (child & minor, others)
    )
    sex, size = people.sex[head].astype(np.int64), np.minimum(homes.size[rows], 7)
    under_18, couple = _unit_has(stretch, minor)[rows], recodes.cplt[rows].astype(np.int64)
    age = np.searchsorted(AGES_OF_HOUSEHOLDERS, people.age[head], side="right")
    too_old = np.where(sex == 1, (age > 6) | ((age > 4) & (own % 2 == 1)), (age > 6) & (own % 2 == 1))
    own = np.where(too_old, NO_CHILDREN, own)
    has_child, has_grandchild, has_parent = (
        _unit_has(stretch, has_role(people.role, each))[rows] for each in (OWN_CHILDREN, GRANDCHILD, PARENTS)
    )
    generations = 1 + (has_child & (has_grandchild | has_parent)).astype(np.int64)
    relatives = (recodes.family[rows] > 0).astype(np.int64)
    codes = [kind.code for kind in household_types()]
    numbers, powers = np.array(codes, np.int64), 10 ** np.arange(6, -1, -1)
    parts = np.column_stack([couple, generations, own, minors, relatives, under_18, size])
    parts[~np.isin(parts @ powers, numbers), 1] = 1  # too few persons for three generations
    kind = np.searchsorted(numbers, parts @ powers)
    least = np.array([0, 0, 0, 0, 0, 1, 2, 3, 3])[age]
    oldest = homes.combine(np.maximum, people.age)[rows]
    elderly = np.maximum(np.searchsorted(ELDERLY, oldest, side="right"), least)
    alone = (size == 1) | ((size == 2) & under_18) | ((size == 3) & (own == BOTH))  # except minors
    elderly = np.where(alone, least, np.where((couple < NO_PARTNER) & (age == 0), np.minimum(elderly, 2), elderly))
    return [
        stretch.at_households,
        coded("HHSEX", ["1", "2"], sex),
        coded("HHLDRAGE", [*"123456789"], age),
        coded("HHSPAN", list("012"), recodes.hispanic[rows]),
        coded("HHRACE", [f"{code:02d}" for code in range(8)], np.minimum(recodes.race[rows], 7)),
        coded("ELDERLY", [*"0123"], elderly),
        coded("TEN", [*"01234"], people.tenure[rows]),
        coded("HHTYPE", codes, kind),
    ]


def unit_records(stretch: Stretch) -> list[IndexedColumns]:
    """Return a record of each housing unit: block, TEN, VACS."""
    homes = stretch.population.homes
    units = np.flatnonzero(homes.kind == 0)
    vacant = VACANCY[(stretch.first_mafid + units) * 37 % len(VACANCY)]
    return [
        stretch.at_units.take(units),
        coded("TEN", [*"01234"], stretch.population.tenure[units]),
        coded("VACS", [*"01234567"], np.where(homes.head[units] < 0, vacant, 0)),
    ]
