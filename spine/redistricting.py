"""The histograms of the redistricting data: the axes of persons and units, their counts, and the tables P1 to P5, H1.

The tables are those of the 2020 Census National Redistricting Data Summary File (technical documentation, chapter 5):
P1 race; P2 Hispanic origin, and race of those who are not Hispanic; P3 and P4 the same of those 18 and over; P5 group
quarters by type; H1 occupancy. A cell is named as there, table and number: P0010001 to P0050010.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, combinations, pairwise
from math import comb

from spine.counts import Axis, Count, Recode

HOUSEHOLD, NURSING = 0, 3  # of hhgq: 0 in a household, 1..7 the major group-quarters types
UNDER_18, ADULT = 0, 1  # of votingage
VACANT, OCCUPIED = 0, 1  # of h1

ALONE = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some other race",
)
HHGQ = Axis(
    "hhgq",
    "kind of living quarters",
    (
        "households",
        "correctional facilities for adults",
        "juvenile facilities",
        "nursing facilities",
        "other institutional facilities",
        "college or university student housing",
        "military quarters",
        "other noninstitutional facilities",
    ),
    "GQTYPE_PL",
    tuple("01234567"),
)
VOTING_AGE = Axis("votingage", "voting age", ("under 18", "18 and over"), "VOTING_AGE", ("1", "2"))
HISPANIC = Axis("hispanic", "Hispanic origin", ("not Hispanic", "Hispanic"), "CENHISP", ("1", "2"))
RACES = [" + ".join(races) for number in range(1, 7) for races in combinations(ALONE, number)]
CENRACE = Axis(
    "cenrace",
    "race",
    tuple(race + " alone" * (race in ALONE) for race in RACES),
    "CENRACE",
    tuple(f"{code:02d}" for code in range(1, len(RACES) + 1)),
)
PERSON_AXES = (HHGQ, VOTING_AGE, HISPANIC, CENRACE)
UNIT_AXES = (Axis("h1", "occupancy", ("vacant", "occupied"), "HH_STATUS", ("2", "1")),)
TYPES = len(HHGQ)
INSTITUTIONS = (range(1), range(1, 5), range(5, TYPES))  # households, institutional, noninstitutional
HHINSTLEVELS = Recode(
    "hhinstlevels",
    HHGQ.name,
    tuple(part for part, types in enumerate(INSTITUTIONS) for _ in types),
    ("households", "institutional group quarters", "noninstitutional group quarters"),
)

Where = dict[str, frozenset[int]]
_ADULTS: Where = {"votingage": frozenset({ADULT})}
_HISPANIC: Where = {"hispanic": frozenset({1})}
_NOT_HISPANIC: Where = {"hispanic": frozenset({0})}
# The races of a number of races, one to six, and of two and more.
_BY_NUMBER = [frozenset(range(*ends)) for ends in pairwise(accumulate((comb(6, k) for k in range(1, 7)), initial=0))]
_SEVERAL = frozenset().union(*_BY_NUMBER[1:])
_NUMBERS = ("one race", "two races", "three races", "four races", "five races", "six races")
_NAMES = ("white", "black", "AIAN", "Asian", "NHPI", "some other race")  # of the six, in files
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
