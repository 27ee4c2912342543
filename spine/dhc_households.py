"""The DHC's households and housing units as two declarations, of which the second keeps the first's tenures.

They are made rather than shipped as files: the type of a household has 522 values, which seven rules give, and the
shares are those of `spine.production`. Zeros and queries are those of the production runs of 2022-09-22 (the programs'
Constraints_DHCH.py, dhch_strategies.py and hhtype_map.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from spine.production import allocation
from spine.settings import Jurisdiction

Raw = dict[str, Any]
BOTH, NO_CHILDREN, NO_PARTNER = 3, 4, 5
BLOCK_KEY = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
TENURES = {
    "1": "owned with a mortgage or loan",
    "2": "owned free and clear",
    "3": "rented",
    "4": "occupied without payment of rent",
}
VACANCIES = {
    "1": "for rent",
    "2": "rented, not occupied",
    "3": "for sale only",
    "4": "sold, not occupied",
    "5": "for seasonal, recreational or occasional use",
    "6": "for migrant workers",
    "7": "other vacant",
}
NO_RENT, UNITS = "norent", "hu"  # columns of blocks, copied: the second is of their table
VACANT = {status: f"vacs{status}" for status in VACANCIES}
OTHER_UNITS = (NO_RENT, *VACANT.values())  # of the release of units
FIRST_ANCHORS, LATER_ANCHORS = {"ten*hhsize": "1/10"}, {"elderly*ten": "1/100", "ten*under18": "1/100"}
NAMES = {"State": "state_name", "County": "county_name"}  # columns of blocks with the names of geounits
COLUMNS = {  # by level, top first
    "US": [],
    "State": ["state", "aian"],  # Puerto Rico's is the top
    "County": ["TABBLKCOU"],
    "Prim": ["prim"],
    "Tract_Subset_Group": ["tsg"],
    "Tract_Subset": ["TABTRACTCE"],
    "Block_Group": ["obg"],
    "Block": ["TABBLK"],
}


class HouseholdType(NamedTuple):
    """A type of household, in codes of the Bureau's microdata; a code of seven digits names it.

    couple: CPLT, married of opposite sex, of same sex, cohabiting of opposite, of same sex, neither. generations:
    MULTG, 2 for three or more. own: PAOC, own children under 6 only, 6 to 17 only, both, none. minors: PAC, the same
    for all minors except householder and partner. relatives: 1 with some. under_18: 1 with minors. size: 7 is seven or
    more.
    """

    couple: int
    generations: int
    own: int
    minors: int
    relatives: int
    under_18: int
    size: int

    @property
    def partner(self) -> bool:
        """Return whether the householder has a spouse or a partner."""
        return self.couple < NO_PARTNER

    @property
    def married(self) -> bool:
        """Return whether the householder has a spouse."""
        return self.couple < 3

    @property
    def code(self) -> str:
        """Return the value of the records' column."""
        return "".join(map(str, self))

    @property
    def words(self) -> str:
        """Return the couple, the generations, the own children and the size in words."""
        generations = "" if self.generations == 1 else "three generations, "
        return f"{COUPLES[self.couple]}, {generations}{OWN[self.own]}, {size_words(self)}"


COUPLES = {
    1: "married couple of opposite sex",
    2: "married couple of same sex",
    3: "unmarried couple of opposite sex",
    4: "unmarried couple of same sex",
    5: "no couple",
}
OWN = {
    1: "own children under 6 only",
    2: "own children 6 to 17 only",
    3: "own children under 6 and 6 to 17",
    4: "no own children under 18",
}

FAMILIES = ("married couple family", "other family", "householder living alone", "householder with nonrelatives only")


def _family(own: HouseholdType) -> int:
    return 0 if own.married else 1 if own.relatives else 2 if own.size == 1 else 3


def size_words(own: HouseholdType) -> str:
    """Return the number of persons in words."""
    return "1 person" if own.size == 1 else f"{own.size}{' or more' * (own.size == 7)} persons"


def can_be(own: HouseholdType) -> bool:
    """Return whether a household may have a type: the seven rules."""
    minors = {NO_CHILDREN: 0, BOTH: 2}.get(own.minors, 1)
    further = own.own == NO_CHILDREN and not own.married and own.relatives
    third = own.minors == BOTH and own.own in (BOTH, NO_CHILDREN)
    return (
        (own.own == NO_CHILDREN or own.minors in (own.own, BOTH))
        and (own.relatives == 1 or not (own.married or own.own < NO_CHILDREN or own.generations == 2))
        and (own.under_18 == 1 or own.minors == NO_CHILDREN)
        and not (own.under_18 and own.minors == NO_CHILDREN and not own.partner and own.generations == 2)
        and own.size >= 1 + own.partner + minors
        and (own.size >= 2 + own.partner or not further)
        and (own.size >= 3 + own.partner + third or own.generations == 1)
    )


@cache
def household_types() -> tuple[HouseholdType, ...]:
    """Return the 522 types, by their codes."""
    parts = product(range(1, 6), (1, 2), range(1, 5), range(1, 5), (0, 1), (0, 1), range(1, 8))
    return tuple(own for own in (HouseholdType(*each) for each in parts) if can_be(own))


def _recode(key: Callable[[HouseholdType], Any], labels: Callable[[HouseholdType], str], words: str) -> Raw:
    """Return a recode of the types that puts those with one key into one part. words: what the parts are."""
    parts: dict[Any, list[HouseholdType]] = {}
    for own in household_types():
        parts.setdefault(key(own), []).append(own)
    ordered = [parts[each] for each in sorted(parts)]
    return {
        "axis": "hhtype",
        "words": words,
        "from": [[own.code for own in part] for part in ordered],
        "labels": [labels(part[0]) for part in ordered],
    }


# Types of household that the zeros name, and what they are.
KINDS: dict[str, tuple[Callable[[HouseholdType], object], str]] = {
    "minoralone": (lambda own: own.size == 1 and own.under_18, "a minor alone"),
    "noelder": (
        lambda own: (
            own.size == 1 or (own.size == 2 and own.minors < NO_CHILDREN) or (own.size == 3 and own.own == BOTH)
        ),
        "nobody else but minors",
    ),
    "nootherelder": (
        lambda own: own.size == 1 or (own.size == 2 and own.under_18) or (own.size == 3 and own.own == BOTH),
        "one adult at most",
    ),
    "couplealone": (
        lambda own: (
            own.partner
            and (own.size == 2 or (own.size == 3 and own.own < NO_CHILDREN) or (own.size == 4 and own.own == BOTH))
        ),
        "nobody else but a partner and own children",
    ),
    "ownunder6": (lambda own: own.own in (1, BOTH), "own children under 6"),
    "ownunder18": (lambda own: own.own < NO_CHILDREN, "own children under 18"),
}
ZEROS: tuple[dict[str, list[str]], ...] = (  # six constraints of the production runs
    {"hhage": ["6"], "elderly": ["0"]},  # the oldest member is at least as old as the householder
    {"hhage": ["7"], "elderly": ["0-1"]},
    {"hhage": ["8-9"], "elderly": ["0-2"]},
    {"hhage": ["1-5"], "elderly": ["1-3"], "noelder": [KINDS["noelder"][1]]},
    {"hhage": ["6"], "elderly": ["2-3"], "nootherelder": [KINDS["nootherelder"][1]]},
    {"hhage": ["7"], "elderly": ["3"], "nootherelder": [KINDS["nootherelder"][1]]},
    {"hhage": ["1"], "elderly": ["3"], "couplealone": [KINDS["couplealone"][1]]},
    {"hhage": ["2-9"], "minoralone": [KINDS["minoralone"][1]]},
    {"hhsex": ["1"], "hhage": ["8-9"], "ownunder6": [KINDS["ownunder6"][1]]},
    {"hhsex": ["2"], "hhage": ["6-9"], "ownunder6": [KINDS["ownunder6"][1]]},
    {"hhsex": ["2"], "hhage": ["8-9"], "ownunder18": [KINDS["ownunder18"][1]]},
)


# Queries of the production runs by their names, and what they are in a declaration.
GROUP, COARSE = "DetailedCoupleTypeMultGenDetOwnChildSize", "hhsex*hhspan*hhrace*ten*typegroup"
FIRST = {
    "multig*hisp*hhtenshort_2lev": "hhspan*ten2*generations",
    "hisp*hhtenshort_2lev": "hhspan*ten2",
    "hisp*hhtenshort_2lev*race": "hhspan*hhrace*ten2",
    "partner_type_detailed_own_child_status*sex*hhtenshort_2lev": "hhsex*ten2*partnerown",
    "coupled_hh_type*hisp*hhtenshort_2lev": "hhspan*ten2*couple",
    f"sex*hisp*hhtenshort_3lev*race*{GROUP}": COARSE,
}
SECOND = {
    f"sex*hisp*hhtenshort_3lev*race*hhage*{GROUP}": "hhsex*hhage*hhspan*hhrace*ten*typegroup",
    f"hhtenshort_3lev*hhage*{GROUP}": "hhage*ten*typegroup",
    "detailed": "detailed",
}
OF_UNITS = {  # tables of their release: title, universe, sums, tenures that it has
    "tenure": ("Tenure", "occupied housing units", "ten", "1-4"),
    "vacancy": ("Vacancy status", "vacant housing units", "vacs", "0"),
}
OF_HOUSEHOLDS = {  # title, sums; all of occupied housing units
    "size": ("Tenure by household size", "ten*hhsize"),
    "age": ("Tenure by age of householder", "hhage*ten"),
    "race": ("Tenure by race of householder", "hhrace*ten"),
    "type": ("Tenure by household type", "ten*family"),
    "children": ("Couples by own children under 18", "partnerown"),
    "under-18": ("Presence of persons under 18", "under18"),
    "elderly": ("Presence of persons of 60 and over", "elderly"),
}


def _axis(words: str, column: str, labels: Mapping[str, str]) -> Raw:
    return {"words": words, "column": column, "values": [*labels], "labels": [*labels.values()]}


@cache
def household_axes() -> Raw:
    """Return the axes of households, in the order of the production runs' histogram."""
    ages = ["15 to 24", "25 to 34", "35 to 44", "45 to 54", "55 to 59", "60 to 64", "65 to 74", "75 to 84"]
    races = ["White", "Black or African American", "American Indian and Alaska Native", "Asian"]
    races = [f"{race} alone" for race in (*races, "Native Hawaiian and Other Pacific Islander", "Some other race")]
    elderly = ["nobody of 60 and over", "60 to 64", "65 to 74", "75 and over"]
    rented = [TENURES["1"], TENURES["2"], "rented or occupied without payment of rent"]
    kinds = "type of household: couple, generations, own children, minors, relatives, under 18, size"
    return {
        "hhsex": _axis("sex of the householder", "HHSEX", {"1": "male", "2": "female"}),
        "hhage": _axis(
            "age of the householder", "HHLDRAGE", dict(zip("123456789", [*ages, "85 and over"], strict=True))
        ),
        "hhspan": _axis("Hispanic origin of the householder", "HHSPAN", {"1": "not Hispanic", "2": "Hispanic"}),
        "hhrace": _axis(
            "race of the householder",
            "HHRACE",
            {f"{code:02d}": race for code, race in enumerate([*races, "Two or more races"], 1)},
        ),
        "elderly": _axis("the oldest of 60 and over", "ELDERLY", dict(zip("0123", elderly, strict=True))),
        "ten": {"words": "tenure", "column": "TEN", "values": ["1", "2", ["3", "4"]], "labels": rented},
        "hhtype": {"words": kinds, "column": "HHTYPE", "values": [own.code for own in household_types()]},
    }


def _household_recodes() -> Raw:
    def partners(own: HouseholdType) -> str:
        return "married couple" if own.married else "unmarried couple" if own.partner else "no couple"

    third, alone = "three or more generations", "up to two generations"
    return {
        "ten2": {
            "axis": "ten",
            "words": "tenure",
            "from": [["1", "2"], ["3", "4"]],
            "labels": ["owned", "rented or without rent"],
        },
        "generations": _recode(
            lambda own: own.generations, lambda own: third if own.generations == 2 else alone, "generations"
        ),
        "couple": _recode(lambda own: own.couple, lambda own: COUPLES[own.couple], "couple"),
        "partnerown": _recode(
            lambda own: (own.partner + own.married, own.own),
            lambda own: f"{partners(own)}, {OWN[own.own]}",
            "couple and own children under 18",
        ),
        "typegroup": _recode(
            lambda own: (own.couple, own.generations, own.own, own.size),
            lambda own: own.words,
            "couple, generations, own children and size",
        ),
        "hhsize": _recode(lambda own: own.size, size_words, "household size"),
        "under18": _recode(
            lambda own: own.under_18,
            lambda own: "somebody under 18" if own.under_18 else "nobody under 18",
            "presence of persons under 18",
        ),
        **{name: _kind(*kind) for name, kind in KINDS.items()},
    }


def _kind(is_of: Callable[[HouseholdType], object], words: str) -> Raw:
    return _recode(lambda own: not is_of(own), lambda own: words if is_of(own) else "others", "type of household")


def _shares(jurisdiction: Jurisdiction, names: Mapping[str, str]) -> Raw:
    """Return budget, levels and queries of some queries of the production run. names: theirs in a declaration."""
    production = allocation("dhc-units", jurisdiction)
    rho = {
        level: {own: production.budget * production.levels[level] * shares[name] for name, own in names.items()}
        for level, shares in production.queries.items()
    }
    of_level = {level: sum(own.values(), Fraction(0)) for level, own in rho.items()}
    budget = sum(of_level.values(), Fraction(0))
    return {
        "budget": str(budget),
        "levels": [
            {"name": level, "share": str(share / budget), **(_columns(level) if at else {})}
            for at, (level, share) in enumerate(of_level.items())
        ],
        "queries": {
            level: {own: str(each / of_level[level]) for own, each in queries.items()} for level, queries in rho.items()
        },
    }


def _columns(level: str) -> Raw:
    return {"columns": COLUMNS[level]} | ({"names": NAMES[level]} if level in NAMES else {})


def _declaration(name: str, jurisdiction: Jurisdiction, records: str, queries: Mapping[str, str], rest: Raw) -> Raw:
    own = {"name": name, "records": records, "delimiter": "|", "leaves": {"file": "blocks.txt", "key": BLOCK_KEY}}
    return own | _shares(jurisdiction, queries) | rest


def units_declaration(jurisdiction: Jurisdiction, release: str = "redistricting") -> Raw:
    """Return the declaration of housing units by tenure and vacancy; occupied and vacant are of a release."""
    occupancy = {"axis": "ten", "words": "occupancy", "from": ["0", ["1-4"]], "labels": ["vacant", "occupied"]}
    h1 = {"partition": "h1", "release": release, "columns": {"h1": "HH_STATUS"}, "only": {"HH_STATUS": ["1-2"]}}
    rest = {
        "unit": "household",
        "axes": {
            "ten": _axis("tenure", "TEN", {"0": "vacant"} | TENURES),
            "vacs": _axis("vacancy status", "VACS", {"0": "occupied"} | VACANCIES),
        },
        "recodes": {"h1": occupancy},
        "zeros": [{"where": {"ten": ["0"], "vacs": ["0"]}}, {"where": {"ten": ["1-4"], "vacs": ["1-7"]}}],
        "counts": [{"partition": "total", "columns": [UNITS], "least": [1], "most": [1]}],
        "publish": {
            "tables": {
                name: {"title": title, "universe": universe, "by": by, "where": {"ten": [tenures]}}
                for name, (title, universe, by, tenures) in OF_UNITS.items()
            }
        },
        "equal": [h1],
    }
    return _declaration("dhc-units", jurisdiction, "housing unit", {"tenvacgq": "detailed"}, rest)


def households_declaration(
    jurisdiction: Jurisdiction, facilities: Iterable[str], release: str = "units", *, anchored: bool = False
) -> Raw:
    """Return the declaration of households, whose tenures are those of a release of `units_declaration`.

    facilities: columns of the table of blocks with the group quarters of each type, which the microdata repeat.
    anchored: rounding in two steps, and anchors of what no small query asks, instead of the program's way.
    """
    universe = "occupied housing units"
    first: Raw = {
        "levels": [*allocation("dhc-units", jurisdiction).levels],
        "least_squares": [[*FIRST.values()]],
        "round": ["ten*typegroup", COARSE],
    }
    then: Raw = {"least_squares": [["rest"]]}
    if anchored:
        first |= {"anchors": FIRST_ANCHORS, "rounding": "stepwise"}
        then |= {"anchors": LATER_ANCHORS}
    rest = {
        "axes": household_axes(),
        "recodes": _household_recodes(),
        "zeros": [{"where": where} for where in ZEROS],
        "equal": [{"partition": "ten", "release": release, "only": {"ten": ["1-4"]}}],
        "publish": {
            "recodes": {"family": _recode(_family, lambda own: FAMILIES[_family(own)], "type of household")},
            "tables": {
                name: {"title": title, "universe": universe, "by": by} for name, (title, by) in OF_HOUSEHOLDS.items()
            },
        },
        "copied": [*OTHER_UNITS, UNITS, *facilities],
        "passes": [first | {"then": [then]}],
    }
    return _declaration("dhc-households", jurisdiction, "household", FIRST | SECOND, rest)
