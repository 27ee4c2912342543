"""S-DHC attribute loss: the slides' figures, the properties of a loss, and brute force over toy households."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_households import ETHNICITIES, OTHERS, Household, counts, moves, norms, replacements, rows, valid_households

from privacy.analyses.attribute_loss_s_dhc import (
    ATTRIBUTES,
    DECK,
    HOUSEHOLDER,
    OWN_CHILD,
    PEOPLE,
    RELATIONS,
    RELATIVES,
    SECRETS,
    Person,
    TableSpend,
    loss,
    loss_by_table,
)

PAPER = "S-DHC slides"
_RESULTS = {
    "Alice": "0.055 0.558 0     0.055 0.055 0.055 1.433 1.433",
    "Bob":   "0.508 0.558 0.443 0.508 0.508 0.508 2.819 2.819",
    "Carol": "0.126 0.126 0.038 0.126 0     0.039 1.067 1.067",
    "Dave":  "0.508 0.558 0.633 0.508 0.508 0.647 2.819 2.819",
    "Elise": "0.404 2.156 1.395 0.404 1.79  2.819 1.433 1.433",
}  # fmt: skip
RESULTS = {
    (name, secret): Fraction(figure)
    for name, row in _RESULTS.items()
    for secret, figure in zip(SECRETS, row.split(), strict=True)
}
"""The slides' Results table: (person, secret) -> printed loss."""

_RELATION = {
    "Alice": "0 0.005 0     0.048 0.002 0     0 0",
    "Bob":   "0 0.005 0.443 0.048 0.002 0.009 0 0",
}  # fmt: skip
RELATION = {
    (name, table.name): Fraction(figure)
    for name, row in _RELATION.items()
    for table, figure in zip(DECK, row.split(), strict=True)
}
"""The two {Relation} tables: (person, table) -> printed loss. Their totals, .055 and .507, add rounded entries."""

NMFV8_US = (
    TableSpend("PH1", join=Fraction("0.364442"), unit=Fraction("0.001506"), tau=10),
    TableSpend("PH2", join=Fraction("0.03798"), tau=10),
    TableSpend("PH3", join=Fraction("1.358838"), tau=6),
    TableSpend("PH4", join=Fraction("0.364442"), tau=10),
    TableSpend("PH5", unit=Fraction("0.001506")),
    TableSpend("PH6", join=Fraction("0.015382"), tau=6),
    TableSpend("PH7", join=Fraction("0.364442"), tau=10),
    TableSpend("PH8", unit=Fraction("0.001506")),
)
"""Bounded rho of PHSafe's published production configuration for the United States (NMFv8), total 2.510.

Every table but PH6 and PH7 rounds to the slides' figure (PH3 is printed as twice a rounded .679); those two are 1.8
times smaller here than there, for which no explanation is known: the slides probably precede NMFv8.
"""

NAMED = {person.name: person for person in PEOPLE}
SUBSETS = [frozenset(chosen) for size in range(len(ATTRIBUTES) + 1) for chosen in combinations(ATTRIBUTES, size)]
METHODS = ("deck", "tight")
RULE_WHERE_THE_PRINTED_FIGURE_IS_ANOTHER = {
    ("Carol", "Sex"): "0.001",
    ("Carol", "Same-Sex Relationship"): "0.001",
    ("Carol", "Unmarried Partner"): "0.001",
    ("Elise", "Sex"): "1.790",
    ("Elise", "Same-Sex Relationship"): "1.790",
}


def printed(value: Fraction, places: int = 3) -> Fraction:
    """A loss as the slides print it: rounded once, half up, to three places."""
    return Fraction(int(value * 10**places + Fraction(1, 2)), 10**places)


def check_monotone(attributes: dict, losses: dict) -> list:
    """The pairs of keys with attributes A < B that contradict loss(A) <= loss(B), which every loss obeys."""
    return [
        (small, large)
        for small, large in permutations(losses, 2)
        if attributes[small] < attributes[large] and losses[small] > losses[large]
    ]


def cells(table: dict, title: str) -> list:
    return [
        pytest.param(*cell, figure, id=f"{PAPER}, {title}, {cell}: {float(figure)}") for cell, figure in table.items()
    ]


@pytest.mark.parametrize(("name", "secret", "figure"), cells(RESULTS, "Results"))
def test_results_table(name, secret, figure):
    rule = printed(loss(NAMED[name], SECRETS[secret], DECK))
    assert rule == Fraction(RULE_WHERE_THE_PRINTED_FIGURE_IS_ANOTHER.get((name, secret), figure))


def test_35_of_40_results_are_the_rule_and_the_other_five_are_listed():
    assert len(RESULTS) == 40
    off = {cell for cell in RESULTS if printed(loss(NAMED[cell[0]], SECRETS[cell[1]], DECK)) != RESULTS[cell]}
    assert off == set(RULE_WHERE_THE_PRINTED_FIGURE_IS_ANOTHER)
    assert len(off) == 5


@pytest.mark.parametrize(("name", "table", "figure"), cells(RELATION, "{Relation} by table"))
def test_relation_tables(name, table, figure):
    assert printed(loss_by_table(NAMED[name], frozenset({"Relation"}), DECK)[table]) == figure


@pytest.mark.parametrize(("name", "total", "exact"), [("Alice", "0.055", "0.05516"), ("Bob", "0.507", "0.50773")])
def test_printed_relation_totals_add_rounded_entries(name, total, exact):
    by_table = loss_by_table(NAMED[name], frozenset({"Relation"}), DECK)
    assert sum(printed(value) for value in by_table.values()) == Fraction(total)
    assert printed(sum(by_table.values()), 5) == Fraction(exact)


@pytest.mark.parametrize(
    ("tables", "total"),
    [pytest.param(DECK, "2.819", id=f"{PAPER}, total: 2.819"), pytest.param(NMFV8_US, "2.510", id="NMFv8 US: 2.510")],
)
def test_totals(tables, total):
    assert printed(sum(table.total for table in tables)) == Fraction(total)


@pytest.mark.parametrize(
    ("table", "figure"),
    [("PH1", "0.366"), ("PH2", "0.038"), ("PH4", "0.364"), ("PH5", "0.002"), ("PH8", "0.002"),
     ("PH3", "1.359"), ("PH6", "0.015"), ("PH7", "0.364")],
)  # fmt: skip
def test_production_budgets_round_to_the_slides_except_for_three_tables(table, figure):
    production, deck = ({item.name: item for item in tables}[table] for tables in (NMFV8_US, DECK))
    assert printed(production.total) == Fraction(figure)
    assert (production.total.limit_denominator(10**6), table in ("PH3", "PH6", "PH7")) == (
        production.total,
        printed(production.total) != deck.total,
    )


@pytest.mark.parametrize(
    ("size", "tau", "scale"),
    [(3, 10, "16/121"), (3, 6, "16/49"), (1, 10, "4/121"), (1, 6, "4/49"), (10, 10, "1"), (12, 10, "1")],
)
def test_scale_of_a_household_that_stays(size, tau, scale):
    person = Person("x", 30, HOUSEHOLDER, size, family=size > 1, own_children=False)
    table = TableSpend("PH2", join=Fraction(1), tau=tau)
    assert loss(person, frozenset({"Relation"}), [table]) == Fraction(scale)
    assert loss(person, frozenset({"HouseholdID"}), [table]) == 1  # the new household may be full


def test_sharper_bound_is_up_to_64_times_smaller_on_the_slides_cells():
    ratios = [
        loss(NAMED[name], SECRETS[secret], NMFV8_US) / sharper
        for name, secret in RESULTS
        if (sharper := loss(NAMED[name], SECRETS[secret], NMFV8_US, "tight"))
    ]
    assert round(float(min(ratios)), 2) == 1.21
    assert round(float(max(ratios)), 2) == 64
    assert printed(loss(NAMED["Elise"], SECRETS["Sex"], DECK, "tight")) == Fraction("0.339")  # so .404 is still a bound


def test_the_printed_table_is_not_monotone_and_the_rule_is():
    violations = {
        name: check_monotone(SECRETS, {secret: RESULTS[name, secret] for secret in SECRETS}) for name in NAMED
    }
    assert violations.pop("Elise") == [("Unmarried Partner", "Sex"), ("Unmarried Partner", "Same-Sex Relationship")]
    assert not any(violations.values())
    for person in PEOPLE:
        assert not check_monotone(SECRETS, {secret: loss(person, SECRETS[secret], DECK) for secret in SECRETS})


@st.composite
def persons(draw) -> Person:
    size = draw(st.integers(1, 14))
    if size == 1:
        return Person("x", draw(st.integers(0, 115)), HOUSEHOLDER, 1, family=False, own_children=False)
    age, relation = draw(st.integers(0, 115)), draw(st.sampled_from(sorted(RELATIONS)))
    children = (relation in OWN_CHILD and age < 18) or draw(st.booleans())
    return Person("x", age, relation, size, relation in RELATIVES or children or draw(st.booleans()), children)


@settings(max_examples=20, derandomize=True, deadline=None)
@given(persons(), st.sampled_from(METHODS))
def test_a_loss_is_monotone_in_attributes_from_nothing_to_the_whole_record(person, method):
    losses = {attributes: loss(person, attributes, DECK, method) for attributes in SUBSETS}
    assert len(losses) == 128
    assert losses[frozenset()] == 0
    assert check_monotone(dict(zip(SUBSETS, SUBSETS, strict=True)), losses) == []
    assert max(losses.values()) == losses[frozenset(ATTRIBUTES)] <= sum(table.total for table in DECK)
    if method == "deck":
        assert losses[frozenset(ATTRIBUTES)] == sum(table.total for table in DECK)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.sampled_from(SUBSETS), st.sampled_from(METHODS), st.integers(2, 14), st.fractions(1, 3))
def test_a_loss_is_monotone_in_size_and_linear_in_rho(attributes, method, size, factor):
    small, large = (Person("x", 30, HOUSEHOLDER, n, family=True, own_children=True) for n in (size, size + 1))
    assert loss(small, attributes, DECK, method) <= loss(large, attributes, DECK, method)
    scaled = [TableSpend(t.name, t.join * factor, t.unit * factor, t.tau) for t in DECK]
    assert loss(small, attributes, scaled, method) == factor * loss(small, attributes, DECK, method)


def test_size_beyond_tau_costs_no_more_where_no_row_can_be_swapped():
    ten, twelve = (Person("x", 60, HOUSEHOLDER, n, family=True, own_children=True) for n in (10, 12))
    for attributes in (frozenset({"Race"}), frozenset({"HouseholdID"}), frozenset({"Sex"})):
        assert loss(ten, attributes, DECK) == loss(twelve, attributes, DECK)


@pytest.mark.parametrize(
    "values",
    [
        {"relation": "cousin"}, {"age": -1}, {"age": 116}, {"size": 0}, {"size": 1}, {"family": False},
        {"age": 3, "own_children": False},
    ],
    ids=str,
)  # fmt: skip
def test_contradicting_descriptions_are_refused(values):
    sound = {"name": "x", "age": 20, "relation": "stepchild", "size": 3, "family": True, "own_children": True}
    with pytest.raises(ValueError, match="x: "):
        Person(**sound | values)


# Brute force: every edit of every member of toy households, and moves between two of them.

ONE, NIL = Fraction(1), Fraction(0)
PARTS = {"PH1": ("PH1", ONE, NIL), "PH1 units": ("PH1", NIL, ONE), "PH2": ("PH2", ONE, NIL), "PH3": ("PH3", ONE, NIL),
         "PH4": ("PH4", ONE, NIL), "PH5": ("PH5", NIL, ONE), "PH6": ("PH6", ONE, NIL), "PH7": ("PH7", ONE, NIL),
         "PH8": ("PH8", NIL, ONE)}  # fmt: skip


def described(home: Household, member: int) -> Person:
    row = home.rows[member]
    return Person("toy", row.age, row.relation, len(home.rows), home.family, home.own_children)


def toy_homes(seed: int) -> list[Household]:
    rng = random.Random(seed)
    heads, others = rows((HOUSEHOLDER,)), rows(OTHERS)
    larger = (Household("mortgage", (rng.choice(heads), *rng.sample(others, size - 1))) for size in [3, 3, 4, 5] * 60)
    alone = list(valid_households(1, ETHNICITIES[:1]))
    return alone + rng.sample(list(valid_households(2)), 20) + [home for home in larger if home.valid][:36]


def neighbours(homes: list[Household], tau: int, rng: random.Random) -> Iterator[tuple[Person, frozenset, np.ndarray]]:
    empty = Household("rented", ())
    for home in homes:
        before = counts(home, tau)
        for member in range(len(home.rows)):
            person = described(home, member)
            for changed, after in replacements(home, member):
                yield person, changed, counts(after, tau) - before
            for to in (empty, rng.choice(homes)) if len(home.rows) < 4 else ():
                for changed, left, entered in moves(home, member, to):
                    yield person, changed, counts(left, tau) - before + counts(entered, tau) - counts(to, tau)


def bound(part: str, person: Person, attributes: frozenset, tau: int, method: str) -> Fraction:
    name, join, unit = PARTS[part]
    table = (
        TableSpend(name, join, unit, tau if join else None)
        if part != "PH1 units"
        else TableSpend(name, join, unit, tau)
    )
    return loss(person, attributes, [table], method)


def true_loss(part: str, squared_distance: int, tau: int) -> Fraction:
    """||dq||^2 / (2 sigma^2), sigma^2 = S^2 / (2 rho): persons S = 2 tau + 2, 2 rho = 1; units S = 2, rho = 1."""
    if PARTS[part][1]:
        return Fraction(squared_distance, 2) / (2 * tau + 2) ** 2
    return Fraction(squared_distance, 4)


@pytest.mark.parametrize("tau", [1, *(pytest.param(tau, marks=pytest.mark.slow) for tau in (2, 3))])
@pytest.mark.ci
def test_brute_force_confirms_every_bound_and_attains_the_sharper_one(tau):
    pairs = defaultdict(list)
    for person, changed, difference in neighbours(toy_homes(tau), tau, random.Random(tau)):
        pairs[person, changed].append(difference)
    assert sum(map(len, pairs.values())) > 15_000
    attained = dict.fromkeys(PARTS, NIL)
    for (person, changed), differences in pairs.items():
        worst = norms(np.array(differences))
        for part in PARTS:
            truth = true_loss(part, int(worst[part].max()), tau)
            for method in METHODS:
                assert truth <= bound(part, person, changed, tau, method), (part, person, set(changed), method)
            if truth:
                attained[part] = max(attained[part], truth / bound(part, person, changed, tau, "tight"))
    assert all(share == 1 for share in attained.values()), attained  # no table's sharper bound can be lowered


def test_a_toy_change_has_the_renyi_divergence_that_the_loss_says():
    """Discrete Gaussian noise on PH4 of a family of three whose child becomes a roommate (exact sums, no sampling)."""
    tau, rho = 3, 0.182
    head, spouse, child = rows((HOUSEHOLDER,))[-1], rows(("spouse",))[-1], rows(("biological child",))[0]
    home = Household("mortgage", (head, spouse, child))
    after = home._replace(rows=(head, spouse, child._replace(relation="roommate")))
    difference = counts(after, tau) - counts(home, tau)
    squared = int(norms(difference[None, :])["PH4"][0])
    assert squared == 1  # one minor fewer; the family stays one
    sigma2 = (2 * tau + 2) ** 2 / (2 * rho)
    k = np.arange(-300, 301)  # 23 sigma: what lies beyond is below 1e-100
    p, q = (np.exp(-((k - shift) ** 2) / (2 * sigma2)) for shift in (0, 1))
    p, q = p / p.sum(), q / q.sum()
    bound = loss(
        described(home, 2), frozenset({"Relation"}), [TableSpend("PH4", Fraction(2 * 182, 1000), tau=tau)], "tight"
    )
    assert np.sum(p * np.log(p / q)) == pytest.approx(squared / (2 * sigma2))
    for alpha in (1.5, 2, 8, 40):
        assert math.log(np.sum(p * (p / q) ** (alpha - 1))) / (alpha - 1) <= alpha * float(bound)
