"""Persons with relationships and group quarters by detailed type, as the DHC has them (docs/spec/files.md)."""

from __future__ import annotations

import numpy as np

from tasks.synth.blocks import digits
from tasks.synth.population.ages import AGES, OLDEST
from tasks.synth.population.codes import CENRACE, SETS
from tasks.synth.population.model import HOUSEHOLDER, IntArray
from tasks.synth.writers.columns import IndexedColumns, Stretch, at_block, block_code, coded

# Detailed types of each major type of group quarters, and the first relationship code of each.
TYPES = {1: range(101, 107), 2: range(201, 204), 3: (301,), 4: range(401, 406), 5: (501,), 6: (601, 602)}
TYPES |= {7: (701, 801, 802, 900, 901, 997)}
CODES = [code for types in TYPES.values() for code in types]
FIRST = dict(zip(TYPES, np.cumsum([18, *map(len, TYPES.values())]).tolist(), strict=False))
RELATIONSHIPS = 18 + len(CODES)
# Youngest and oldest age of relationships that have no other (docs/declarations.md); drawn ages are moved into these.
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
        at_block(stretch, people.homes.unit),
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
    words = {"tabblk": block_code(stretch.blocks), "hu": stretch.facilities[:, 0].astype("S")}
    words |= {f"gq{code}": counts[:, at].astype("S") for at, code in enumerate(CODES)}
    return [IndexedColumns(words, np.flatnonzero(stretch.facilities.sum(axis=1)))]


def prims(stretch: Stretch) -> list[IndexedColumns]:
    """Return the crosswalk of blocks to prims: made up, a county subdivision or a county."""
    columns = stretch.blocks.columns
    cousub = columns.get("COUSUBFP", np.full(len(stretch.blocks), b"99999"))
    code = np.char.add(np.char.add(columns["TABBLKST"], columns["TABBLKCOU"]), np.char.add(cousub, b"99999"))
    words = {"tabblk": block_code(stretch.blocks), "primgeo": code}
    return [IndexedColumns(words, np.arange(len(stretch.blocks)))]
