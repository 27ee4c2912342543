"""PHSafe's tables on toy households, every edit of a person enumerated: the brute force behind the S-DHC bounds.

Universes, cells, iterations and truncation as in PHSafe's tabulations; ages, relations and races are few. Kept apart
from `privacy` on purpose: it knows the tables and nothing of the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, product
from typing import NamedTuple
from zlib import crc32

import numpy as np

AGES, SEXES, RACES, ETHNICITIES = (5, 10, 30), ("m", "f"), ("white", "black"), ("hispanic", "not")
OTHERS = ("spouse", "unmarried partner", "biological child", "grandchild", "roommate")
TENURES = ("mortgage", "free", "rented")
FAMILY = {"spouse", "biological child", "grandchild"}
ITERATIONS = {"A-G": RACES, "H,I": ("hispanic", "white not hispanic"), "*": ("*",)}
CELLS = {
    "PH1": ("minor", "adult"),
    "PH1 units": ("unit",),
    "PH2": tuple(product(("married", "cohabiting"), ("same", "opposite"))) + tuple(product(SEXES, ("alone", "others"))),
    "PH3": ("other", "grandchild", "married", "cohabiting", "m", "f"),
    "PH4": ("minor", "adult"),
    "PH5": ("unit",),
    "PH6": tuple(product(("married", "cohabiting", "m", "f"), (5, 10))),
    "PH7": TENURES,
    "PH8": ("owner", "renter"),
}


class Row(NamedTuple):
    age: int
    sex: str
    relation: str
    race: str
    ethnicity: str


class Household(NamedTuple):
    tenure: str
    rows: tuple[Row, ...]

    @property
    def householder(self) -> Row:
        return next(row for row in self.rows if row.relation == "householder")

    @property
    def partner(self) -> Row | None:
        return next((row for row in self.rows if row.relation in ("spouse", "unmarried partner")), None)

    @property
    def family(self) -> bool:
        return any(row.relation in FAMILY for row in self.rows)

    @property
    def own_children(self) -> bool:
        return any(row.relation == "biological child" and row.age < 18 for row in self.rows)

    @property
    def valid(self) -> bool:
        relations = [row.relation for row in self.rows]
        return not relations or (
            relations.count("householder") == 1
            and relations.count("spouse") + relations.count("unmarried partner") <= 1
        )

    @property
    def couple(self) -> str | None:
        return None if self.partner is None else {"spouse": "married"}.get(self.partner.relation, "cohabiting")


def _iterations(race: str, ethnicity: str) -> Iterator[tuple[str, str]]:
    yield "A-G", race
    if ethnicity == "hispanic":
        yield "H,I", "hispanic"
    elif race == "white":
        yield "H,I", "white not hispanic"
    yield "*", "*"


def _hash(row: Row) -> int:
    """Truncation keeps tau rows by a hash of their content, sex not among it (PHSafe's person rows have none)."""
    return crc32(repr(row._replace(sex="")).encode())


Counted = tuple[object, Row]  # a cell, and the row whose race names the iteration


def persons_counted(home: Household) -> dict[str, list[tuple[Row, Counted]]]:
    """Every person of a household in each table that would count it, before truncation."""
    found: dict[str, list[tuple[Row, Counted]]] = {table: [] for table in ("PH1", "PH2", "PH3", "PH4", "PH6", "PH7")}
    if not home.rows:
        return found
    head, couple, partner = home.householder, home.couple, home.partner
    kind = couple or head.sex
    if partner is not None:
        living = (couple, "same" if head.sex == partner.sex else "opposite")
    else:
        living = (head.sex, "alone" if len(home.rows) == 1 else "others")
    for row in home.rows:
        age = "minor" if row.age < 18 else "adult"
        found["PH1"].append((row, (age, head)))
        found["PH2"].append((row, (living, head)))
        found["PH7"].append((row, (home.tenure, head)))
        if row.age < 18:
            own = {"biological child": kind, "grandchild": "grandchild"}
            found["PH3"].append((row, (own.get(row.relation, "other"), row)))
        if home.family and row.relation in FAMILY | {"householder"}:
            found["PH4"].append((row, (age, head)))
        if row.age < 18 and row.relation == "biological child":
            found["PH6"].append((row, ((kind, row.age), head)))
    return found


def units_counted(home: Household) -> Iterator[tuple[str, Counted]]:
    """A household in each table of units that counts it."""
    if home.rows:
        head = home.householder
        yield "PH1 units", ("unit", head)
        yield "PH8", ("renter" if home.tenure == "rented" else "owner", head)
        if home.family:
            yield "PH5", ("unit", head)


def _counted(home: Household, tau: int) -> Iterator[tuple[str, object, Row]]:
    """Every (table, cell, row whose race names the iteration) that a household contributes, before iterations."""
    for table, (cell, head) in units_counted(home):
        yield table, cell, head
    for table, candidates in persons_counted(home).items():
        by_row = sorted(candidates, key=lambda each: _hash(each[0]))
        for _, (cell, named) in by_row[:tau]:
            yield table, cell, named


_KEYS: dict[tuple, int] = {}
QUERIES: dict[str, list[slice]] = {}
"""A table's queries, one for each iteration level: slices of a household's vector."""
for _table, _cells in CELLS.items():
    for _level, _codes in ITERATIONS.items():
        if _level != "*" and _table in ("PH2", "PH6"):
            continue
        _first = len(_KEYS)
        _KEYS.update({(_table, _level, *key): _first + i for i, key in enumerate(product(_codes, _cells))})
        QUERIES.setdefault(_table, []).append(slice(_first, len(_KEYS)))


@cache
def counts(home: Household, tau: int) -> np.ndarray:
    """The household's contribution to every cell of every query, int64."""
    vector = np.zeros(len(_KEYS), dtype=np.int64)
    for table, cell, named in _counted(home, tau):
        vector[places(table, cell, named)] += 1
    return vector


def places(table: str, cell: object, named: Row) -> list[int]:
    """The places of a counted row in a household's vector: one in each query of its table that has its iteration."""
    keys = [(table, level, code, cell) for level, code in _iterations(named.race, named.ethnicity)]
    return [_KEYS[key] for key in keys if key in _KEYS]


def norms(difference: np.ndarray) -> dict[str, np.ndarray]:
    """Squared L2 distance of each pair of databases, (pairs, cells) -> {table: (pairs,)}, worst iteration level."""
    squares = difference.astype(np.int64) ** 2
    return {
        table: np.max([squares[:, query].sum(axis=1) for query in queries], axis=0)
        for table, queries in QUERIES.items()
    }


def rows(relations: tuple[str, ...], ethnicities: tuple[str, ...] = ETHNICITIES) -> list[Row]:
    """All rows with one of `relations`."""
    return [Row(*values) for values in product(AGES, SEXES, relations, RACES, ethnicities)]


def valid_households(size: int, ethnicities: tuple[str, ...] = ETHNICITIES) -> Iterator[Household]:
    """All valid households of a size, members without order; tenure fixed."""
    for head in rows(("householder",), ethnicities):
        for others in combinations_with_replacement(rows(OTHERS, ethnicities), size - 1):
            home = Household("mortgage", (head, *others))
            if home.valid:
                yield home


def replacements(home: Household, member: int) -> Iterator[tuple[frozenset[str], Household]]:
    """Every valid household in which one member's row, or the tenure, is another: (attributes changed, household)."""
    names = ("Age", "Sex", "Relation", "Race", "Ethnicity")
    for new in rows(("householder", *OTHERS)):
        changed = frozenset(name for name, a, b in zip(names, home.rows[member], new, strict=True) if a != b)
        other = home._replace(rows=(*home.rows[:member], new, *home.rows[member + 1 :]))
        if changed and other.valid:
            yield changed, other
    for tenure in TENURES:
        if tenure != home.tenure:
            yield frozenset({"Tenure"}), home._replace(tenure=tenure)


def moves(home: Household, member: int, to: Household) -> Iterator[tuple[frozenset[str], Household, Household]]:
    """Every valid move of one member, with any change of the row: (attributes changed, household left, entered)."""
    names = ("Age", "Sex", "Relation", "Race", "Ethnicity")
    left = home._replace(rows=home.rows[:member] + home.rows[member + 1 :])
    if not left.valid:
        return
    for new in rows(("householder", *OTHERS)):
        entered = to._replace(rows=(*to.rows, new))
        if entered.valid:
            changed = {name for name, a, b in zip(names, home.rows[member], new, strict=True) if a != b}
            yield frozenset(changed | {"HouseholdID"}), left, entered
