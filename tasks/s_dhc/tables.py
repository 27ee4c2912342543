"""The tables of the S-DHC: universes, cells and iterations.

A measured table counts persons (at most tau of a unit) or units in its cells, for regions and iterations. Eleven tables
are published from nine measured ones: PH5_num is PH4, and PH8_num sums cells of PH7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privacy.tables.histogram import Axis, Condition, Histogram, IntArray, mask
from privacy.tables.published import Published, PublishedRow

Counted = Literal["persons", "units"]

HOUSEHOLDER = 20
PARTNERS = range(21, 25)  # opposite- and same-sex spouse and unmarried partner, in turn
SPOUSES = (21, 23)
OWN_CHILD = (25, 26, 27)
RELATIVES = (*SPOUSES, *range(25, 34))
RELATIONSHIPS = range(20, 37)  # in housing units
AGE_STARTS = (0, 4, 6, 12, 18)  # the age groups that cells distinguish


def _axis(name: str, codes: Iterable[int]) -> Axis:
    texts = tuple(map(str, codes))
    return Axis(name, name, texts, name, texts)


UNIT = Histogram((_axis("HHT", range(8)), _axis("HHT2", range(13)), _axis("CPLT", range(6)), _axis("TEN", range(5))))
PERSON = Histogram((_axis("QAGE", AGE_STARTS), _axis("RELSHIP", RELATIONSHIPS)))
MINORS, ADULTS = range(4), (4,)  # coordinates of QAGE
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
    """A cell of a table: its code, its words, and the condition for counting a row in it."""

    code: str
    words: str
    when: Condition = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredTable:
    """A measured table.

    rows: the condition on persons that are counted, applied before truncation. units: the condition on their units.
    own_race: whether the person's own race and ethnicity choose the iteration, or the householder's.
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


def _related(*codes: int) -> dict[str, Collection[int]]:
    """Return the condition that a person's RELSHIP is one of these."""
    return {"RELSHIP": [code - HOUSEHOLDER for code in codes]}


HOUSEHOLDS: Condition = {"HHT": range(1, 8)}  # occupied housing units
AGES = (Cell("2", "under 18 years", {"QAGE": MINORS}), Cell("3", "18 years and over", {"QAGE": ADULTS}))
PARENTS = (  # in words, by HHT2; the first of their cells in PH6
    ("married couple", 1, 3),
    ("cohabiting couple", 3, 8),
    ("male householder", 10, 13),
    ("female householder", 6, 18),
)
CHILD_AGES = {
    "under 4 years": (0,),
    "4 and 5 years": (1,),
    "6 to 11 years": (2,),
    "12 to 17 years": (3,),
}
MEASURED = (
    MeasuredTable("PH1_num", "Persons in households", "persons", AGES),
    MeasuredTable("PH1_denom", "Households", "units", (Cell("1", "households"),), units=HOUSEHOLDS),
    MeasuredTable(
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
    MeasuredTable(
        "PH3",
        "Persons under 18 years by relationship and type of household",
        "persons",
        (
            Cell("2", "householder, spouse, partner or nonrelative", _related(*range(20, 25), *range(34, 37))),
            Cell("4", "own child in a married couple household", _related(*OWN_CHILD) | {"HHT2": (1,)}),
            Cell("5", "own child in a cohabiting couple household", _related(*OWN_CHILD) | {"HHT2": (3,)}),
            Cell("6", "own child of a male householder without a partner", _related(*OWN_CHILD) | {"HHT2": (10,)}),
            Cell("7", "own child of a female householder without a partner", _related(*OWN_CHILD) | {"HHT2": (6,)}),
            Cell("9", "grandchild", _related(30)),
            Cell("10", "other relative", _related(28, 29, 31, 32, 33)),
        ),
        rows={"QAGE": MINORS},
        own_race=True,
    ),
    MeasuredTable(
        "PH4",
        "Persons in families",
        "persons",
        AGES,
        rows=_related(HOUSEHOLDER, *RELATIVES),
        units={"HHT": FAMILIES},
    ),
    MeasuredTable("PH5_denom", "Families", "units", (Cell("1", "families"),), units={"HHT": FAMILIES}),
    MeasuredTable(
        "PH6",
        "Own children under 18 years by type of family and age",
        "persons",
        tuple(
            Cell(str(first + at), f"{words}, {age}", {"HHT2": (kind,), "QAGE": years})
            for words, kind, first in PARENTS
            for at, (age, years) in enumerate(CHILD_AGES.items())
        ),
        rows=_related(*OWN_CHILD) | {"QAGE": MINORS},
        levels=("*",),
    ),
    MeasuredTable(
        "PH7",
        "Persons in households by tenure",
        "persons",
        (
            Cell("2", "owned with a mortgage or loan", {"TEN": (1,)}),
            Cell("3", "owned free and clear", {"TEN": (2,)}),
            Cell("4", "renter occupied", {"TEN": (3, 4)}),
        ),
    ),
    MeasuredTable(
        "PH8_denom",
        "Households by tenure",
        "units",
        (Cell("2", "owner occupied", {"TEN": (1, 2)}), Cell("3", "renter occupied", {"TEN": (3, 4)})),
        units=HOUSEHOLDS,
    ),
)
TABLES = {table.name: table for table in MEASURED}
PERSON_TABLES = tuple(table for table in MEASURED if table.counts == "persons")
UNIT_TABLES = tuple(table for table in MEASURED if table.counts == "units")
FIRST_CELL = dict(zip(TABLES, np.cumsum([0, *(len(table.cells) for table in MEASURED)]).tolist(), strict=False))
ALL_CELLS = sum(len(table.cells) for table in MEASURED)


def _published(
    name: str, measured: MeasuredTable, cells: Iterable[tuple[str, str, tuple[int, ...]]], title: str = ""
) -> Published:
    """Return a published table. cells: by row, its code, its words, and the places of the cells it sums."""
    unit = "housing units" if measured.counts == "units" else "persons"
    rows = tuple(PublishedRow((code,), words, summed) for code, words, summed in cells)
    return Published(name, title or measured.title, measured.name, unit, (f"{name.upper()}_DATA_CELL",), rows)


def _as_measured(name: str, measured: MeasuredTable) -> Published:
    return _published(name, measured, ((cell.code, cell.words, (at,)) for at, cell in enumerate(measured.cells)))


_TENURES = ("2", "owner occupied", (0, 1)), ("3", "renter occupied", (2,))
_ALL = (
    *(_as_measured(name, table) for name, table in TABLES.items()),
    _as_measured("PH5_num", TABLES["PH4"]),
    _published("PH8_num", TABLES["PH7"], _TENURES),
)
PUBLISHED = {table.name: table for table in sorted(_ALL, key=lambda each: (each.name[:3], "denom" in each.name))}


@dataclass(frozen=True)
class Average:
    """An average: each of its rows divides a row of the numerator by one of the denominator.

    of_all: whether consistent households make every row at least 1, or only the first.
    """

    numerator: Published
    denominator: Published
    of_all: bool

    @property
    def name(self) -> str:
        """Its name."""
        return self.numerator.name

    def rows(self, counts: Sequence[IntArray]) -> Iterator[tuple[PublishedRow, PublishedRow, int, int]]:
        """Yield numerator row, denominator row and both counts: keys x rows, from two (keys, cells) arrays."""
        tables = self.numerator, self.denominator
        above, below = (table.counts(each).ravel().tolist() for table, each in zip(tables, counts, strict=True))
        yield from zip(*(cycle(table.rows) for table in tables), above, below, strict=False)

    def lowest(self, code: str) -> int:
        """Return the smallest possible average of a row."""
        return int(self.of_all or code == "1")


def _average(name: str, title: str, above: str, below: str, rows: _Ratios, *, of_all: bool = False) -> Average:
    words, *cells = rows
    numerator, denominator = (
        _published(name, TABLES[table], zip("123", words, summed, strict=True), title)
        for table, summed in zip((above, below), cells, strict=True)
    )
    return Average(numerator, denominator, of_all)


_Cells = tuple[tuple[int, ...], ...]
_Ratios = tuple[tuple[str, ...], _Cells, _Cells]  # each row's words, and the cells in its numerator and denominator
_BY_AGE: _Ratios = ("all ages", "under 18 years", "18 years and over"), ((0, 1), (0,), (1,)), ((0,), (0,), (0,))
_BY_TENURE: _Ratios = (
    ("all tenures", "owner occupied", "renter occupied"),
    ((0, 1, 2), (0, 1), (2,)),
    ((0, 1), (0,), (1,)),
)
AVERAGES = (
    _average("PH1", "Persons per household", "PH1_num", "PH1_denom", _BY_AGE),
    _average("PH5", "Persons per family", "PH4", "PH5_denom", _BY_AGE),
    _average("PH8", "Persons per household by tenure", "PH7", "PH8_denom", _BY_TENURE, of_all=True),
)


# In place of a cell, for persons and units that a table does not count.

NOT_A_ROW, NOT_COUNTED, NO_CELL = -3, -2, -1  # not counted before truncation; outside the unit universe; a fault


def cells_of_persons() -> NDArray[np.int8]:
    """Return the cell of each kind of unit and person in each table of persons: units x persons x tables.

    A kind is a cell of UNIT or of PERSON.
    """
    cells = np.stack([_cells(table, *UNIT.axes, *PERSON.axes) for table in PERSON_TABLES], axis=1)
    return cells.reshape(UNIT.cells, PERSON.cells, -1)


def cells_of_units() -> NDArray[np.int8]:
    """Return the cell of each kind of unit in each table of units: units x tables."""
    return np.stack([_cells(table, *UNIT.axes) for table in UNIT_TABLES], axis=1)


def _cells(table: MeasuredTable, *axes: Axis) -> NDArray[np.int8]:
    kinds = np.full(mask(axes, {}).shape, NO_CELL, np.int8)
    for at, cell in enumerate(table.cells):
        kinds[mask(axes, cell.when)] = FIRST_CELL[table.name] + at
    kinds[~mask(axes, table.units)] = NOT_COUNTED
    kinds[~mask(axes, table.rows)] = NOT_A_ROW
    return kinds
