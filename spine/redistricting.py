"""The redistricting data: its products, as their shipped declarations say, their counts, and the tables P1 to P5, H1.

The tables are those of the 2020 Census National Redistricting Data Summary File (technical documentation, chapter 5):
P1 race; P2 Hispanic origin, and race of those who are not Hispanic; P3 and P4 the same of those 18 and over; P5 group
quarters by type; H1 occupancy. A cell is named as there, table and number: P0010001 to P0050010.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from math import comb

import numpy as np

from privacy.tables.histogram import Count
from spine.declaration.declaration import Declaration, read_declaration
from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.settings import Jurisdiction
from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import Product
from spine.top_down.plan import Passes

__all__ = ["PERSONS", "UNITS", "redistricting_bounds", "redistricting_passes"]  # docs/api.md names these

HOUSEHOLD, NURSING = 0, 3  # values of hhgq; 1..7 are the major group-quarters types
UNDER_18, ADULT = 0, 1  # values of votingage
VACANT, OCCUPIED = 0, 1  # values of h1


@cache
def redistricting_declaration(product: str, jurisdiction: Jurisdiction) -> Declaration:
    """Return the shipped declaration of `pl94-persons` or `pl94-units`."""
    file = files("spine.declaration") / f"shipped/{product}-{jurisdiction}.toml"
    declaration, faults = read_declaration(tomllib.loads(file.read_text("utf-8")))
    if declaration is None:
        raise ValueError(f"{product}-{jurisdiction}: {faults[0].key}: {faults[0].text}")
    return declaration


PERSON_AXES, UNIT_AXES = (redistricting_declaration(name, "us").product.axes for name in ("pl94-persons", "pl94-units"))
HHGQ, _, HISPANIC, CENRACE = PERSON_AXES
TYPES = len(HHGQ)
INSTITUTIONS = (range(1), range(1, 5), range(5, TYPES))  # households, institutional, noninstitutional

Where = dict[str, frozenset[int]]
_ADULTS: Where = {"votingage": frozenset({ADULT})}
_HISPANIC: Where = {"hispanic": frozenset({1})}
_NOT_HISPANIC: Where = {"hispanic": frozenset({0})}
# The races of a number of races, one to six, and of two and more.
_BY_NUMBER = [frozenset(range(*ends)) for ends in pairwise(accumulate((comb(6, k) for k in range(1, 7)), initial=0))]
_SEVERAL = frozenset().union(*_BY_NUMBER[1:])
_NUMBERS = ("one race", "two races", "three races", "four races", "five races", "six races")
_NAMES = ("white", "black", "AIAN", "Asian", "NHPI", "some other race")  # the six races, in files
_MAIN_RACES = [(name, CENRACE.labels[at], frozenset({at})) for at, name in enumerate(_NAMES)]
_MAIN_RACES.append(("two or more races", "two or more races", _SEVERAL))


def _person_counts() -> Iterator[Count]:
    yield Count("total", "persons")
    yield Count("voting age", "persons of voting age", _ADULTS)
    yield Count("Hispanic", "Hispanic persons", _HISPANIC)
    for name, words, races in _MAIN_RACES:
        yield Count(f"race: {name}", words, {"cenrace": races})
    for name, words, races in _MAIN_RACES:
        yield Count(f"voting age by race: {name}", f"{words}, of voting age", _ADULTS | {"cenrace": races})
    yield Count("voting age by origin: Hispanic", "Hispanic, of voting age", _ADULTS | _HISPANIC)
    for at in range(1, TYPES):
        yield Count(f"group quarters: type {at}", f"group quarters: {HHGQ.labels[at]}", {"hhgq": frozenset({at})})


PERSON_COUNTS = tuple(_person_counts())
# Groups of the Census Bureau's target for the redistricting data: Hispanic, and the others by race.
TARGET_GROUPS = (_HISPANIC, *(_NOT_HISPANIC | {"cenrace": races} for _, _, races in _MAIN_RACES))
# Everybody who is White alone and not Hispanic, and those of voting age. The rest of the two counts is the minority.
_MAJORITY = _NOT_HISPANIC | {"cenrace": frozenset({0})}
MAJORITY_COUNTS = tuple(
    Count(f"majority{of}", "White alone, not Hispanic", _MAJORITY | where)
    for of, where in (("", {}), (" of voting age", _ADULTS))
)
MINORITY = {"minority": "minority", "voting age by origin: minority": "minority, of voting age"}  # its words, by name
UNIT_COUNTS = (
    Count("total", "housing units", declared=True),
    Count("occupied", "occupied housing units", {"h1": frozenset({OCCUPIED})}),
)


def _numbered(table: str, cells: Iterable[tuple[str, Where]]) -> tuple[Count, ...]:
    return tuple(Count(f"{table}{number:04d}", words, where) for number, (words, where) in enumerate(cells, start=1))


def _by_race(where: Where, origin: str = "") -> Iterator[tuple[str, Where]]:
    """Yield a total; one race, and each; two or more; then of two, of three, ... races, all and each."""
    lead = f"{origin}: " if origin else ""
    yield origin or "everybody", where
    for number, (races, words) in enumerate(zip(_BY_NUMBER, _NUMBERS, strict=True)):
        if number == 1:
            yield f"{lead}two or more races", where | {"cenrace": _SEVERAL}
        yield lead + words, where | {"cenrace": races}
        for race in sorted(races):
            yield lead + CENRACE.labels[race], where | {"cenrace": frozenset({race})}


def _by_origin(where: Where) -> Iterator[tuple[str, Where]]:
    yield "everybody", where
    yield "Hispanic", where | _HISPANIC
    yield from _by_race(where | _NOT_HISPANIC, "not Hispanic")


def _quarters() -> Iterator[tuple[str, Where]]:
    yield "all group quarters", {"hhgq": frozenset(range(1, TYPES))}
    for words, types in zip(("institutional", "noninstitutional"), INSTITUTIONS[1:], strict=True):
        yield words, {"hhgq": frozenset(types)}
        for at in types:
            yield HHGQ.labels[at], {"hhgq": frozenset({at})}


PERSON_TABLES = {
    "P1": _numbered("P001", _by_race({})),
    "P2": _numbered("P002", _by_origin({})),
    "P3": _numbered("P003", _by_race(_ADULTS)),
    "P4": _numbered("P004", _by_origin(_ADULTS)),
    "P5": _numbered("P005", _quarters()),
}
_STATUSES = [(words, {"h1": frozenset({at})}) for words, at in (("occupied", OCCUPIED), ("vacant", VACANT))]
UNIT_TABLES = {"H1": _numbered("H001", [("housing units", {}), *_STATUSES])}
TABLE_TITLES = {
    "P1": "Race",
    "P2": "Hispanic origin, and race of those who are not Hispanic",
    "P3": "Race, 18 and over",
    "P4": "Hispanic origin, and race of those who are not Hispanic, 18 and over",
    "P5": "Group quarters by type",
    "H1": "Occupancy",
}


def _product(name: str, counts: tuple[Count, ...], tables: dict[str, tuple[Count, ...]]) -> Product:
    return replace(redistricting_declaration(name, "us").product, name=name, counts=counts, tables=tables)


PERSONS = _product("pl94-persons", PERSON_COUNTS, PERSON_TABLES)
UNITS = _product("pl94-units", UNIT_COUNTS, UNIT_TABLES)
PRODUCTS = {product.name: product for product in (PERSONS, UNITS)}


def redistricting_passes(product: Product) -> Passes:
    """Return how children are estimated; tract groups as tracts are."""
    passes = redistricting_declaration(product.name, "us").passes
    groups = {"Tract_Group"} if "Tract" in passes.total_first else set()
    return replace(passes, total_first=passes.total_first | groups)


def redistricting_bounds(
    product: Product, spine: Spine, quarters: IntArray, state_totals: dict[int, int], state_of_block: IntArray
) -> Bounds:
    """Return what is declared for the redistricting data on the levels of a spine.

    quarters: (blocks, types) housing units and group-quarters facilities of the blocks in spine order. state_totals:
    population by state code; state_of_block: the state code of the blocks in spine order. Where a spine ends at the
    states, its "blocks" are the states' parts. ValueError for a state without a declared total. A block may have no
    quarters that are known: readers of inputs refuse one, except where only units were published, and group quarters
    are not known.
    """
    codes = np.unique(state_of_block)
    if missing := sorted(set(codes.tolist()) - set(state_totals)):
        raise ValueError(f"no total population is declared for state {missing[0]:02d}")
    level = spine.levels.index("State")
    totals = np.array([state_totals[code] for code in codes.tolist()], np.int64)
    of_parts = Totals(np.searchsorted(codes, state_of_block[spine.starts[level]]), totals)
    (counts,) = redistricting_declaration(product.name, "us").form.counts
    least = np.zeros(TYPES, np.int64)
    if not counts.is_total:  # which implies it
        least[:] = counts.least
    return sum_bounds(spine, quarters, least, (level, of_parts), fixed=counts.is_total)
