"""The distances of the S-DHC's queries: figures of the production budgets, and brute force over toy households."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from toy_households import QUERIES, Household, Row, counts

from privacy.accounting.conversions import epsilon
from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric
from privacy.s_dhc.stability import CHANGES, CODED, CODED_VALID, HOUSEHOLD, ONE_UNIT, TWO_UNITS, Query, spend

PERSON_TABLES = ("PH1", "PH2", "PH3", "PH4", "PH6", "PH7")
UNIT_TABLES = ("PH1 units", "PH5", "PH8")


def nmfv8(kinds: tuple[str, ...]) -> list[Query]:
    """The production budgets: usa_ three keys, state_H,I and state_*, state_A-G; PH2 and PH6 with `*` alone."""
    of_tables = {10: ("0.002619", "0.016371", "0.141622"), 6: ("0.001061", "0.006630", "0.662976")}
    units = ("0.000022", "0.000135", "0.001170")
    keys = {"usa_A-G": 0, "usa_H,I": 0, "usa_*": 0, "state_H,I": 1, "state_*": 1, "state_A-G": 2}
    tables = {"PH1_num": 10, "PH4": 10, "PH7": 10, "PH2": 10, "PH3": 6, "PH6": 6} | dict.fromkeys(
        ("PH1_denom", "PH5_denom", "PH8_denom")
    )
    return [
        Query(f"{table}/{key}", tau, Fraction((of_tables[tau] if tau else units)[place]))
        for table, tau in tables.items()
        for key, place in keys.items()
        if key.startswith(kinds) and (table not in ("PH2", "PH6") or key.endswith("*"))
    ]


@pytest.mark.parametrize(
    ("kinds", "number", "figures"),
    [
        (("usa", "state"), 46, ("1.257281", "1.117048", ".628641", ".488408", ".244204", "1.953631")),
        (("state",), 23, ("1.226649", "1.089252", ".613325", ".475927", ".237964", "1.903709")),
    ],
    ids=["US", "PR"],
)
def test_figures_of_the_production_budgets(kinds: tuple[str, ...], number: int, figures: tuple[str, ...]) -> None:
    queries = nmfv8(kinds)
    assert len(queries) == number
    spent = spend("zcdp", "program", queries)
    keys = ("coded", "coded_valid", "one_unit", "household", "two_units")
    found = [spent.charged, *(spent.figure(key) for key in keys)]
    assert [round(float(figure), 6) for figure in found] == [pytest.approx(float(figure)) for figure in figures]
    assert spent.unit == "person"
    if number == 46:
        shown = [epsilon(figure, 1e-10) for figure in found]
        assert shown == pytest.approx([11.41, 10.68, 7.76, 6.75, 4.64, 14.67], abs=0.005)


def test_laws_of_the_production_budgets() -> None:
    persons, minors, units = (
        Query("a", 10, Fraction("0.141622")),
        Query("b", 6, Fraction("0.662976")),
        Query("c", None, Fraction("0.00117")),
    )
    variances = [query.law("zcdp", "program").variance() for query in (persons, minors, units)]
    assert variances == pytest.approx([1708.774, 147.818, 1709.402], abs=0.001)
    assert persons.law("zcdp", "unit") == DiscreteGaussian(100 / Fraction("0.141622"))
    assert units.law("zcdp", "unit") == DiscreteGaussian(1 / Fraction("0.00117"))
    assert persons.law("puredp", "program") == TwoSidedGeometric(22 / Fraction("0.141622"))
    assert persons.law("puredp", "unit") == TwoSidedGeometric(20 / Fraction("0.141622"))
    assert units.law("puredp", "unit") == units.law("puredp", "program") == TwoSidedGeometric(2 / Fraction("0.00117"))


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_what_the_account_claims_covers_every_person_and_every_move(definition: str) -> None:
    """An account claims its charge for a person who comes or goes, and twice that for one who moves."""
    for stability in ("program", "unit"):
        spent = spend(definition, stability, nmfv8(("usa", "state")))
        assert spent.figure("one_unit") <= spent.charged
        assert spent.figure("two_units") <= 2 * spent.charged
    total = sum(query.budget for query in nmfv8(("usa", "state")))
    by_unit = spend(definition, "unit", nmfv8(("usa", "state")))
    assert by_unit.figure("one_unit") == total
    assert by_unit.figure("two_units") == (4 if definition == "zcdp" else 2) * total
    assert by_unit.charged == (2 if definition == "zcdp" else 1) * total


# Brute force: all valid toy households of a few persons.


def toy_households(most: int) -> Iterator[Household]:
    heads = [Row(30, sex, "householder", race, "not") for sex in "mf" for race in ("white", "black")]
    kinds = [
        *((30, sex, relation) for sex in "mf" for relation in ("spouse", "unmarried partner", "roommate")),
        *((age, "m", "biological child") for age in (5, 30)),
        (5, "m", "roommate"),
    ]
    others = [Row(age, sex, relation, race, "not") for age, sex, relation in kinds for race in ("white", "black")]
    yield Household("mortgage", ())
    for size in range(1, most + 1):
        for head, rest in product(heads, combinations_with_replacement(others, size - 1)):
            for tenure in ("mortgage", "rented"):
                home = Household(tenure, (head, *rest))
                if home.valid:
                    yield home


@cache
def vectors(tau: int) -> dict[str, list[np.ndarray]]:
    """The distinct answers of each query about one unit, by table."""
    found = np.unique([counts(home, tau) for home in toy_households(tau + 1)], axis=0)
    return {
        table: [np.unique(found[:, query], axis=0) for query in queries if query.stop > query.start]
        for table, queries in QUERIES.items()
    }


def farthest(points: np.ndarray) -> tuple[int, int]:
    """The largest squared L2 and L1 distance between two of the points."""
    points = points.astype(np.int64)
    squares = max(int(((points - one) ** 2).sum(axis=1).max()) for one in points)
    return squares, max(int(np.abs(points - one).sum(axis=1).max()) for one in points)


@pytest.mark.parametrize("tau", [1, 2])
@pytest.mark.parametrize("table", [*PERSON_TABLES, *UNIT_TABLES])
def test_one_unit_rewritten_attains_its_bound_and_no_more(table: str, tau: int) -> None:
    bound = ONE_UNIT.distance(tau if table in PERSON_TABLES else None)
    found = [farthest(points) for points in vectors(tau)[table]]
    assert max(found) == (bound.squared, bound.absolute)


@pytest.mark.parametrize("tau", [1, 2])
def test_a_household_that_comes_or_goes(tau: int) -> None:
    for table, queries in vectors(tau).items():
        bound = HOUSEHOLD.distance(tau if table in PERSON_TABLES else None)
        assert max(int((points**2).sum(axis=1).max()) for points in queries) == bound.squared


@pytest.mark.parametrize("tau", [1, 2])
def test_two_units_rewritten_attain_their_bound(tau: int) -> None:
    """The most of |x + y|, x and y changes of one unit each, is attained at x = y; the triangle says no more."""
    for table, queries in vectors(tau).items():
        bound = TWO_UNITS.distance(tau if table in PERSON_TABLES else None)
        squares, absolute = max(farthest(points) for points in queries)
        assert (4 * squares, 2 * absolute) == (bound.squared, bound.absolute)


def test_two_moves_that_attain_the_bound() -> None:
    """A man leaves his husband and joins a couple of two men, whose householder he becomes: all rows change cell."""

    def home(*relations: str, age: int = 30) -> Household:
        return Household("mortgage", tuple(Row(age, "m", relation, "white", "not") for relation in relations))

    for tau in (1, 2, 10):
        rest = ("roommate",) * tau
        left, stays = home("householder", "spouse", *rest), home("householder", *rest)
        joined, becomes = home("householder", "spouse", *rest), home("householder", "roommate", "roommate", *rest)
        change = sum(counts(after, tau) - counts(before, tau) for before, after in ((left, stays), (joined, becomes)))
        (query,) = QUERIES["PH2"]
        assert int((change[query] ** 2).sum()) == TWO_UNITS.distance(tau).squared
        children = tuple(Row(5, "m", "biological child", "white", "not") for _ in range(tau))
        lost = tuple(Row(5, "m", "roommate", "white", "not") for _ in range(tau))
        man, other = Row(30, "m", "householder", "white", "not"), Row(30, "f", "roommate", "white", "not")
        before = Household("mortgage", (man, *children))
        after = Household(
            "mortgage", (man._replace(relation="roommate"), other._replace(relation="householder"), *lost)
        )
        change = 2 * (counts(after, tau) - counts(before, tau))
        assert max(int((change[query] ** 2).sum()) for query in QUERIES["PH3"]) == TWO_UNITS.distance(tau).squared


# The relation as coded: rows of units and of persons change apart.


@cache
def joined(persons: tuple[int, ...], unit: int | None, tau: int) -> np.ndarray:
    """One unit's counts: persons of two kinds, in the order of their hash, tau kept; the cell takes both kinds.

    As in PH3, where the cell of an own child depends on the unit, that of a grandchild does not.
    """
    vector = np.zeros(2, np.int64)
    if unit is not None:
        for kind in sorted(persons)[:tau]:
            vector[unit ^ kind] += 1
    return vector


def coded_changes(tau: int) -> dict[str, set[tuple[int, ...]]]:
    """The changes of one unit's counts, by what changes: its row edited (e) or gone (g), a person's row (p)."""
    found: dict[str, set[tuple[int, ...]]] = {kind: set() for kind in ("e", "ep", "g", "gp", "p")}
    for size in range(tau + 2):
        for persons in combinations_with_replacement((0, 1), size):
            fewer = {persons[:at] + persons[at + 1 :] for at in range(size)}
            for one, other in product((0, 1, None), repeat=2):
                row = "" if one == other else "g" if None in (one, other) else "e"
                for people, kind in [(persons, row), *((rest, row + "p") for rest in fewer)]:
                    if kind:
                        change = joined(people, other, tau) - joined(persons, one, tau)
                        found[kind] |= {tuple(change), tuple(-change)}
    return found


def most(*changes: set[tuple[int, ...]]) -> tuple[int, int]:
    sums = np.array([np.sum(one, axis=0) for one in product(*changes)])
    return int((sums**2).sum(axis=1).max()), int(np.abs(sums).sum(axis=1).max())


@pytest.mark.parametrize("tau", [1, 2, 3])
def test_the_relation_as_coded(tau: int) -> None:
    changes = coded_changes(tau)
    bound = CODED_VALID.distance(tau)
    valid = max(most(changes["ep"]), most(changes["e"], changes["p"]))
    assert valid == (bound.squared, bound.absolute)
    bound = CODED.distance(tau)
    two_rows = most(changes["gp"], changes["g"]), most(changes["g"], changes["g"], changes["p"])
    found = max(valid, *two_rows)
    assert found == (bound.squared, bound.absolute)
    assert found[1] == 2 * tau + 2 == Query("", tau, Fraction(1)).scale("puredp", "program")


def test_units_vanish_and_appear_in_the_relation_as_coded() -> None:
    cells = np.eye(3, dtype=np.int64)
    edited = [int(((one - other) ** 2).sum()) for one, other in product(cells, repeat=2)]
    two_gone = [int(((one + sign * other) ** 2).sum()) for one, other in product(cells, repeat=2) for sign in (1, -1)]
    assert max(edited) == CODED_VALID.units.squared
    assert max(two_gone) == CODED.units.squared
    assert [change.units.squared for change in CHANGES] == [2, 8, 1, 2, 4]
