"""Persons who come, go, move or are replaced, over all toy households: the largest change of each query's answers.

Truncation keeps the rows that come first by a hash of their content, which is anybody's guess: so every order of the
rows of a unit is tried. Others' relationships change only where the householder does; tenure stays. Two ages, sexes,
races and tenures, four relations, up to tau + 2 persons in a unit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from toy_households import QUERIES, Household, Row, persons_counted, places, units_counted

from privacy.s_dhc.stability import ONE_UNIT, TWO_UNITS, Query, spend

PEOPLE = tuple(product((5, 30), "mf", ("white", "black")))  # age, sex, race
RELATIONS = ("spouse", "biological child", "roommate")
TENURES = ("mortgage", "rented")
UNITS = ("PH1 units", "PH5", "PH8")
FIRST = {  # the query of each table: by race where it has races
    table: QUERIES[table][0] for table in ("PH1", "PH2", "PH3", "PH4", "PH6", "PH7", *UNITS)
}
Person = tuple[int, str, str]
Change = tuple[tuple[int, int], ...]  # places of a query that change, and by how much
Changes = dict[str, dict[Person, set[Change]]]
Item = tuple[Row, int]  # a row, and its number among the rows that the hash takes for the same


@cache
def households(people: tuple[Person, ...], tenure: str) -> tuple[Household, ...]:
    """All valid households of these people, whoever is the householder."""
    if not people:
        return (Household(tenure, ()),)
    found = set()
    for head in range(len(people)):
        for relations in product(RELATIONS, repeat=len(people) - 1):
            named = list(relations)
            named.insert(head, "householder")
            rows = [
                Row(age, sex, relation, race, "not") for (age, sex, race), relation in zip(people, named, strict=True)
            ]
            found.add(Household(tenure, tuple(sorted(rows))))
    return tuple(home for home in found if home.valid)


def relationships_stay(home: Household, rest: Household) -> bool:
    """Whether the persons who are in both have the same relationships, or there is another householder."""
    left = list(home.rows)
    for row in rest.rows:
        if row not in left:
            return False
        left.remove(row)
    return True


@cache
def candidates(home: Household) -> dict[str, dict[Item, int]]:
    """The rows of a household that each table would count, each with its place in the table's query."""
    found = {}
    for table, rows in persons_counted(home).items():
        seen: Counter[Row] = Counter()
        found[table] = {}
        for row, (cell, named) in rows:
            alike = row._replace(sex="")
            found[table][alike, seen[alike]] = places(table, cell, named)[0]
            seen[alike] += 1
    return found


@cache
def changes(rows: tuple[tuple[int | None, int | None], ...], tau: int) -> frozenset[Change]:
    """The changes of a query where a unit's rows change, in any order of the rows.

    rows: the places of each row before and after, None where it is not a candidate. Kept rows come before others: an
    order keeps both sets unless a row that is kept before alone and one that is kept after alone are in both.
    """
    before, after = ([at for at, row in enumerate(rows) if row[side] is not None] for side in (0, 1))
    found = set()
    for kept in combinations(before, min(tau, len(before))):
        for then in combinations(after, min(tau, len(after))):
            lost, won = (set(one) - set(other) for one, other in ((kept, then), (then, kept)))
            if not (lost & set(after) and won & set(before)):
                total = Counter(rows[at][1] for at in then)
                total.subtract(rows[at][0] for at in kept)
                found.add(tuple(sorted((place, change) for place, change in total.items() if change)))
    return frozenset(found)


def changes_of_unit(before: Household, after: Household, tau: int) -> Iterator[tuple[str, frozenset[Change]]]:
    """The changes of each table's query where a household becomes another."""
    for table in FIRST:
        if table in candidates(before):
            old, new = candidates(before)[table], candidates(after)[table]
            rows = sorted(((old.get(item), new.get(item)) for item in {*old, *new}), key=str)
            yield table, changes(tuple(rows), tau)
    for table in UNITS:
        total: Counter[int] = Counter()
        for home, sign in ((before, -1), (after, 1)):
            total.update(
                {places(name, cell, named)[0]: sign for name, (cell, named) in units_counted(home) if name == table}
            )
        yield table, frozenset([tuple(sorted((place, change) for place, change in total.items() if change))])


@cache
def arrivals(tau: int) -> Changes:
    """The changes of each query where a person comes, by person; where one goes they are the opposite."""
    found: Changes = {table: defaultdict(set) for table in FIRST}
    for size, tenure in product(range(tau + 2), TENURES):
        for rest in combinations_with_replacement(sorted(PEOPLE), size):
            for person in PEOPLE:
                for home in households(tuple(sorted((*rest, person))), tenure):
                    leaves = (*home.householder[:2], home.householder.race) == person
                    for before in households(rest, tenure):
                        if leaves or relationships_stay(home, before):
                            for table, each in changes_of_unit(before, home, tau):
                                found[table][person] |= each
    return found


def points(table: str, found: set[Change]) -> np.ndarray:
    """Changes as vectors of the table's query."""
    first, last = FIRST[table].start, FIRST[table].stop
    vectors = np.zeros((len(found), last - first), np.int64)
    for at, change in enumerate(found):
        for place, by in change:
            vectors[at, place - first] = by
    return vectors


def farthest(of: np.ndarray) -> tuple[int, int]:
    """The largest squared L2 and L1 distance of two changes: one person goes from a unit and one comes to another."""
    squared = max(int(((of - one) ** 2).sum(axis=1).max()) for one in of)
    return squared, max(int(np.abs(of - one).sum(axis=1).max()) for one in of)


MOVED = {  # the largest squared L2 where a person moves, at tau 1 and 2
    "PH1": (8, 24),
    "PH2": (8, 32),
    "PH3": (8, 32),
    "PH4": (8, 24),
    "PH6": (6, 25),
    "PH7": (4, 16),
    "PH1 units": (2, 2),
    "PH5": (5, 5),
    "PH8": (4, 4),
}


@pytest.mark.parametrize("tau", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.ci
def test_every_table_where_persons_come_go_move_or_are_replaced(tau: int) -> None:
    """Whoever comes or goes, or is replaced elsewhere, attains the bound of one or two units; a mover in two tables."""
    for table, by_person in arrivals(tau).items():
        every = points(table, set().union(*by_person.values()))
        alone = int((every**2).sum(axis=1).max()), int(np.abs(every).sum(axis=1).max())
        moved = max(farthest(points(table, of_person)) for of_person in by_person.values())
        replaced = farthest(every)
        limit = None if table in UNITS else tau
        bounds = [(change.distance(limit).squared, change.distance(limit).absolute) for change in (ONE_UNIT, TWO_UNITS)]
        assert [alone, replaced] == bounds, table
        assert moved[0] == MOVED[table][tau - 1], table
        assert moved[1] <= bounds[1][1], table
        check_what_is_charged(limit, alone, moved, replaced)


def check_what_is_charged(tau: int | None, alone: tuple[int, int], *apart: tuple[int, int]) -> None:
    """An account claims its charge where a person comes or goes, twice that where one moves or is replaced."""
    query = Query("any", tau, Fraction(1))
    for stability in ("program", "unit"):
        for norm, definition in enumerate(("zcdp", "puredp")):
            charged, scale = spend(definition, stability, [query]).charged, query.scale(definition, stability)
            assert Fraction(alone[norm], scale) <= charged
            assert all(Fraction(distances[norm], scale) <= 2 * charged for distances in apart)
