"""What the tables of the S-DHC count: universes, cells, iterations; each is said here once.

A table is measured: persons, at most tau of a unit, or units, in its cells, for regions and iterations. Eleven tables
are published from nine measured ones: PH5_num is PH4, and PH8_num is made of PH7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import cycle
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Counts = Sequence[NDArray[np.int64]]  # of some tables: regions x codes x cells
Condition = Mapping[str, Collection[int]]  # columns and the values that satisfy it; all of them must
Counted = Literal["persons", "units"]

HOUSEHOLDER = 20
PARTNERS = range(21, 25)  # opposite- and same-sex spouse and unmarried partner, in turn
SPOUSES = (21, 23)
OWN_CHILD = (25, 26, 27)
RELATIVES = (*SPOUSES, *range(25, 34))
RELATIONSHIPS = range(20, 37)  # in housing units
MINORS = range(18)
ADULTS = range(18, 116)
FAMILIES = (1, 2, 3)  # HHT

LEVELS = {"A-G": "ABCDEFG", "H,I": "HI", "*": "*"}  # iteration codes by iteration level: a row is in one at most
ITERATIONS = {
    "A": "White alone",
    "B": "Black or African American alone",
    "C": "American Indian and Alaska Native alone",
    "D": "Asian alone",
    "E": "Native Hawaiian and Other Pacific Islander alone",
    "F": "Some Other Race alone",
    "G": "Two or More Races",
    "H": "Hispanic or Latino",
    "I": "White alone, not Hispanic or Latino",
    "*": "all",
}
REGION_KEYS = {"usa": "USA", "state": "STATE"}
RACES = len(LEVELS["A-G"])
GROUPS = 2 * RACES  # race, and Hispanic or not: 2 race + Hispanic


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its code, what it counts in words, and the condition."""

    code: str
    words: str
    when: Condition = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A measured table.

    rows: the condition on persons for a row to be counted, which comes before truncation. units: that on units.
    own_race: whether a person's own race and ethnicity name the iteration, not the householder's.
    """

    name: str
    title: str
    counts: Counted
    cells: tuple[Cell, ...]
    rows: Condition = field(default_factory=dict)
    units: Condition = field(default_factory=dict)
    levels: tuple[str, ...] = tuple(LEVELS)
    own_race: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its budgets in config.json: a type of region and an iteration level."""
        return tuple(f"{region}_{level}" for region in REGION_KEYS for level in self.levels)


HOUSEHOLDS: Condition = {"HHT": range(1, 8)}  # occupied housing units
AGES = (Cell("2", "under 18 years", {"QAGE": MINORS}), Cell("3", "18 years and over", {"QAGE": ADULTS}))
PARENTS = (  # in words, by HHT2; the first of their cells in PH6
    ("married couple", 1, 3),
    ("cohabiting couple", 3, 8),
    ("male householder", 10, 13),
    ("female householder", 6, 18),
)
CHILD_AGES = {
    "under 4 years": range(4),
    "4 and 5 years": range(4, 6),
    "6 to 11 years": range(6, 12),
    "12 to 17 years": range(12, 18),
}
MEASURED = (
    Table("PH1_num", "Persons in households", "persons", AGES),
    Table("PH1_denom", "Households", "units", (Cell("1", "households"),), units=HOUSEHOLDS),
    Table(
        "PH2",
        "Persons in households by type of household",
        "persons",
        (
            Cell("3", "married couple household, opposite-sex", {"HHT2": (1, 2), "CPLT": (1,)}),
            Cell("4", "married couple household, same-sex", {"HHT2": (1, 2), "CPLT": (2,)}),
            Cell("6", "cohabiting couple household, opposite-sex", {"HHT2": (3, 4), "CPLT": (3,)}),
            Cell("7", "cohabiting couple household, same-sex", {"HHT2": (3, 4), "CPLT": (4,)}),
            Cell("9", "male householder, no spouse or partner, living alone", {"HHT2": (9,)}),
            Cell("10", "male householder, no spouse or partner, with others", {"HHT2": range(10, 13)}),
            Cell("12", "female householder, no spouse or partner, living alone", {"HHT2": (5,)}),
            Cell("13", "female householder, no spouse or partner, with others", {"HHT2": range(6, 9)}),
        ),
        levels=("*",),
    ),
    Table(
        "PH3",
        "Persons under 18 years by relationship and type of household",
        "persons",
        (
            Cell("2", "householder, spouse, partner or nonrelative", {"RELSHIP": (*range(20, 25), *range(34, 37))}),
            Cell("4", "own child in a married couple household", {"RELSHIP": OWN_CHILD, "HHT2": (1,)}),
            Cell("5", "own child in a cohabiting couple household", {"RELSHIP": OWN_CHILD, "HHT2": (3,)}),
            Cell("6", "own child of a male householder without a partner", {"RELSHIP": OWN_CHILD, "HHT2": (10,)}),
            Cell("7", "own child of a female householder without a partner", {"RELSHIP": OWN_CHILD, "HHT2": (6,)}),
            Cell("9", "grandchild", {"RELSHIP": (30,)}),
            Cell("10", "other relative", {"RELSHIP": (28, 29, 31, 32, 33)}),
        ),
        rows={"QAGE": MINORS},
        own_race=True,
    ),
    Table(
        "PH4",
        "Persons in families",
        "persons",
        AGES,
        rows={"RELSHIP": (HOUSEHOLDER, *RELATIVES)},
        units={"HHT": FAMILIES},
    ),
    Table("PH5_denom", "Families", "units", (Cell("1", "families"),), units={"HHT": FAMILIES}),
    Table(
        "PH6",
        "Own children under 18 years by type of family and age",
        "persons",
        tuple(
            Cell(str(first + at), f"{words}, {age}", {"HHT2": (kind,), "QAGE": years})
            for words, kind, first in PARENTS
            for at, (age, years) in enumerate(CHILD_AGES.items())
        ),
        rows={"RELSHIP": OWN_CHILD, "QAGE": MINORS},
        levels=("*",),
    ),
    Table(
        "PH7",
        "Persons in households by tenure",
        "persons",
        (
            Cell("2", "owned with a mortgage or loan", {"TEN": (1,)}),
            Cell("3", "owned free and clear", {"TEN": (2,)}),
            Cell("4", "renter occupied", {"TEN": (3, 4)}),
        ),
    ),
    Table(
        "PH8_denom",
        "Households by tenure",
        "units",
        (Cell("2", "owner occupied", {"TEN": (1, 2)}), Cell("3", "renter occupied", {"TEN": (3, 4)})),
        units=HOUSEHOLDS,
    ),
)
TABLES = {table.name: table for table in MEASURED}
OF_PERSONS = tuple(table for table in MEASURED if table.counts == "persons")
OF_UNITS = tuple(table for table in MEASURED if table.counts == "units")
FIRST_CELL = dict(zip(TABLES, np.cumsum([0, *(len(table.cells) for table in MEASURED)]).tolist(), strict=False))
ALL_CELLS = sum(len(table.cells) for table in MEASURED)


@dataclass(frozen=True)
class PublishedTable:
    """A table of the release: the measured table that it is of, and of each of its cells the measured ones it sums."""

    name: str
    title: str
    of: Table
    cells: Mapping[str, tuple[int, ...]]
    words: Mapping[str, str]

    @property
    def column(self) -> str:
        """The column of its cells."""
        return f"{self.name.upper()}_DATA_CELL"


def _published() -> dict[str, PublishedTable]:
    found = {}
    for table in MEASURED:
        cells = {cell.code: (at,) for at, cell in enumerate(table.cells)}
        words = {cell.code: cell.words for cell in table.cells}
        found[table.name] = PublishedTable(table.name, table.title, table, cells, words)
    found["PH5_num"] = replace(found["PH4"], name="PH5_num")
    words = {"2": "owner occupied", "3": "renter occupied"}
    found["PH8_num"] = replace(found["PH7"], name="PH8_num", cells={"2": (0, 1), "3": (2,)}, words=words)
    return {name: found[name] for name in sorted(found, key=lambda name: (name[:3], "denom" in name))}


PUBLISHED = _published()


@dataclass(frozen=True)
class Average:
    """An average: each of its cells is a sum of cells of a numerator over a sum of cells of a denominator.

    least: what it is at least in the row `total`, and, if `of_all`, in every row, where households are consistent.
    """

    name: str
    title: str
    numerator: str
    denominator: str
    cells: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...]]]  # words, cells of either
    least: int
    of_all: bool = False

    @property
    def words(self) -> dict[str, str]:
        """Its cells in words, by code."""
        return {code: words for code, (words, *_) in self.cells.items()}

    def rows(self, counts: Counts) -> Iterator[tuple[str, int, int]]:
        """Yield (cell, count above, count below) of its rows, regions x codes x cells, from its tables' counts."""
        places = zip(*(cells for _, *cells in self.cells.values()), strict=True)
        above, below = (
            np.stack([each[:, :, list(cells)].sum(axis=2) for cells in of], axis=2).ravel().tolist()
            for each, of in zip(counts, places, strict=True)
        )
        yield from zip(cycle(self.cells), above, below, strict=False)

    def lowest(self, code: str) -> int:
        """Return what the average in a row is at least."""
        return self.least if self.of_all or code == "1" else 0


_BY_AGE = {
    "1": ("all ages", (0, 1), (0,)),
    "2": ("under 18 years", (0,), (0,)),
    "3": ("18 years and over", (1,), (0,)),
}
AVERAGES = (
    Average("PH1", "Persons per household", "PH1_num", "PH1_denom", _BY_AGE, 1),
    Average("PH5", "Persons per family", "PH4", "PH5_denom", _BY_AGE, 1),
    Average(
        "PH8",
        "Persons per household by tenure",
        "PH7",
        "PH8_denom",
        {
            "1": ("all tenures", (0, 1, 2), (0, 1)),
            "2": ("owner occupied", (0, 1), (0,)),
            "3": ("renter occupied", (2,), (1,)),
        },
        1,
        of_all=True,
    ),
)


# What a row counts as, for every person and unit there can be.

NOT_A_ROW, NOT_COUNTED, NO_CELL = -3, -2, -1  # before truncation; of a unit outside of the universe; a fault
AGE_STARTS = np.array([0, 4, 6, 12, 18])  # of the age groups that the cells distinguish
UNIT_SHAPE = {"HHT": 8, "HHT2": 13, "CPLT": 6, "TEN": 5}
UNIT_KINDS = int(np.prod(list(UNIT_SHAPE.values())))
PERSON_KINDS = len(AGE_STARTS) * len(RELATIONSHIPS)


def cells_of_persons() -> NDArray[np.int8]:
    """Return the cell of each kind of unit and person in each table of persons: units x persons x tables.

    A kind of unit is its number in the row-major order of UNIT_SHAPE, a kind of person 17 age group + RELSHIP - 20.
    """
    ages = np.repeat(AGE_STARTS, len(RELATIONSHIPS))
    persons = {"QAGE": ages, "RELSHIP": np.tile(np.array(RELATIONSHIPS), len(AGE_STARTS))}
    columns = {name: values[:, None] for name, values in unit_columns().items()} | persons
    return np.stack([_cells(table, columns, (UNIT_KINDS, PERSON_KINDS)) for table in OF_PERSONS], axis=2)


def cells_of_units() -> NDArray[np.int8]:
    """Return the cell of each kind of unit in each table of units: units x tables."""
    return np.stack([_cells(table, unit_columns(), (UNIT_KINDS,)) for table in OF_UNITS], axis=1)


def unit_columns() -> dict[str, NDArray[np.int64]]:
    """Return the values of each kind of unit, by column."""
    return dict(zip(UNIT_SHAPE, np.unravel_index(np.arange(UNIT_KINDS), tuple(UNIT_SHAPE.values())), strict=True))


def _cells(table: Table, columns: Mapping[str, NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.int8]:
    cells = np.full(shape, NO_CELL, np.int8)
    for at, cell in enumerate(table.cells):
        cells[meets(cell.when, columns, shape)] = FIRST_CELL[table.name] + at
    cells[~meets(table.units, columns, shape)] = NOT_COUNTED
    cells[~meets(table.rows, columns, shape)] = NOT_A_ROW
    return cells


def meets(condition: Condition, columns: Mapping[str, NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which rows of columns, whose shapes broadcast to this one, meet a condition."""
    met = (np.isin(columns[name], list(values)) for name, values in condition.items())
    return reduce(np.logical_and, met, np.ones(shape, bool))
