"""Attribute loss of the Detailed DHC-A: production figures, and brute force over every pair of toy records."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.analyses.attribute_loss_dhca import (
    ATTRIBUTES,
    CROSSED,
    GroupLevel,
    Record,
    loss,
    loss_of_crossing,
    race_groups_of_codes,
)

PRODUCTION = [GroupLevel(region, 2, Fraction("2.134"), 8, 1) for region in ("USA", "STATE")]
PRODUCTION += [GroupLevel(region, 2, Fraction("0.159"), 8, 1) for region in ("COUNTY", "TRACT", "PLACE", "AIANNH")]
PRODUCTION += [
    GroupLevel(region, 1, Fraction("0.008"), 8, 1) for region in ("USA", "STATE", "COUNTY", "TRACT", "PLACE")
]
PRODUCTION_PR = [GroupLevel("PR-STATE", 2, Fraction("2.134"), 8, 1), GroupLevel("PR-STATE", 1, Fraction("0.008"), 8, 1)]
PRODUCTION_PR += [GroupLevel(region, 2, Fraction("0.159"), 8, 1) for region in ("PR-COUNTY", "PR-TRACT", "PR-PLACE")]
PRODUCTION_PR += [GroupLevel(region, 1, Fraction("0.008"), 8, 1) for region in ("PR-COUNTY", "PR-TRACT", "PR-PLACE")]
GAMMA = Fraction(1, 10)
ONE_CODE = Record("one race code", race_groups_of_codes(1))


def total(attributes, record=None, crossed=CROSSED["anywhere"], levels=PRODUCTION):
    return sum(loss(level, GAMMA, frozenset(attributes), record, crossed) for level in levels)


@pytest.mark.parametrize(
    ("attributes", "worst", "one_code"),
    [
        (["Age"], "8.8992", "2.9664"),
        (["Sex"], "8.8992", "2.9664"),
        (["Age", "Sex"], "8.8992", "2.9664"),
        (["Race"], "8.7893", "5.4933"),
        (["Ethnicity"], "1.0987", "1.0987"),
        (["Race", "Ethnicity"], "9.8880", "6.5920"),
        (["Race", "Age"], "9.7781", "6.4821"),
        (["Block"], "5.6040", "1.8680"),
        (["Age", "Sex", "Race", "Ethnicity", "Block"], "9.8880", "6.5920"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else value,
)
def test_production_budgets_of_table_7(attributes, worst, one_code):
    assert round(total(attributes), 4) == Fraction(worst)
    assert round(total(attributes, ONE_CODE), 4) == Fraction(one_code)


def test_the_whole_record_is_theorem_2():
    assert total(ATTRIBUTES) == 2 * sum(level.budget for level in PRODUCTION) == Fraction("9.888")


def test_moves_within_a_county_or_tract():
    assert total(["Block"], crossed=CROSSED["same county"]) == Fraction("0.9860")
    assert total(["Block"], crossed=CROSSED["same tract"]) == Fraction("0.652")  # Place and AIANNH only
    assert total(["Block"], crossed=CROSSED["same state"]) == Fraction("0.986") + 2 * Fraction("0.167")


def test_entering_an_aiannh_area_costs_half_of_changing_it():
    levels = [level for level in PRODUCTION if level.region_type == "AIANNH"]
    outside = Record("outside", 8, 1, aiannh=False)
    assert total(["Block"], outside, levels=levels) == total(["Block"], levels=levels) / 2 == Fraction("0.159")
    assert total(["Age", "Race"], outside, levels=levels) == 0


def test_crossing_between_the_releases_costs_both_once():
    assert loss_of_crossing(PRODUCTION, PRODUCTION_PR) == Fraction("4.944") + Fraction("2.643")
    assert loss_of_crossing(PRODUCTION, PRODUCTION_PR) > total(["Block"])  # so the worst move is not within the states
    assert loss_of_crossing(PRODUCTION, PRODUCTION_PR, ONE_CODE) == Fraction("7.587") / 3


@pytest.mark.parametrize(("codes", "groups"), [(1, 2), (2, 2), (3, 3), (8, 8)])
def test_race_groups_of_codes(codes, groups):
    assert race_groups_of_codes(codes) == groups


# A toy world: at most two of three race codes, h = 1, h_e = 1, stability 3; iteration "a alone" is TotalOnly at USA.
BLOCKS = {"b1": ("c1", "p1"), "b2": ("c1", None), "b3": ("c2", "p2")}  # block -> county, place
RACES = ("a", "b", "c", "ab", "bc")
RECORDS = list(product(BLOCKS, RACES, ("hispanic", "not"), (0, 1), (0, 1)))  # block, race codes, ethnicity, sex, age
FIELDS = ("Block", "Race", "Ethnicity", "Sex", "Age")
TOTAL_ONLY = "a alone"


def region(record, region_type):
    county, place = BLOCKS[record[0]]
    return {"USA": "usa", "COUNTY": county, "PLACE": place}[region_type]


@cache
def groups(record, region_type):
    """The flatmap g_i: population groups of a record."""
    codes = record[1]
    iterations = (
        {f"{code} in combination" for code in codes} | {record[2]} | ({f"{codes} alone"} if len(codes) == 1 else set())
    )
    where = region(record, region_type)
    return {(where, iteration) for iteration in iterations} if where else set()


def divergence(from_record, to_record, region_type, gamma, norm):
    """sum_q ||dq||^2 / (2 sigma_q^2) of a level with rho = 1: a measurement with budget B of distance d costs B d."""
    b = Fraction(1, 3)
    cost = Fraction(0)
    for group in groups(from_record, region_type) | groups(to_record, region_type):
        cells = dict.fromkeys(product((0, 1), (0, 1)), 0)
        for record, sign in ((from_record, 1), (to_record, -1)):
            if group in groups(record, region_type):
                cells[record[3:]] += sign
        if group[1] == TOTAL_ONLY and region_type == "USA":
            cost += b * norm([sum(cells.values())])
        else:
            cost += gamma * b * norm([sum(cells.values())]) + (1 - gamma) * b * norm(cells.values())
    return cost


NORMS = {"zcdp": lambda values: sum(value**2 for value in values), "puredp": lambda values: sum(map(abs, values))}
SETS = [frozenset(chosen) for size in range(6) for chosen in combinations(FIELDS, size)]
CROSSES = frozenset({"COUNTY", "PLACE"})


@pytest.mark.parametrize("definition", ["zcdp", pytest.param("puredp", marks=pytest.mark.ci)])
@pytest.mark.parametrize(
    "region_type", [pytest.param("USA", marks=pytest.mark.slow), "COUNTY", pytest.param("PLACE", marks=pytest.mark.ci)]
)
def test_brute_force_over_all_pairs_confirms_the_formula(region_type, definition):
    gamma = Fraction(1, 4)
    level = GroupLevel(region_type, 2, Fraction(1), 2, 1)
    by_change = dict.fromkeys(product(RECORDS, SETS), Fraction(0))
    for pair in combinations(RECORDS, 2):  # a divergence is the same in both directions
        changed = frozenset(name for name, a, b in zip(FIELDS, *pair, strict=True) if a != b)
        cost = divergence(*pair, region_type, gamma, NORMS[definition])
        for record in pair:
            by_change[record, changed] = max(by_change[record, changed], cost)
    worst = {
        (record, attributes): max(by_change[record, changed] for changed in SETS if changed <= attributes)
        for record, attributes in by_change
    }
    for attributes in SETS:
        assert max(worst[record, attributes] for record in RECORDS) == loss(level, gamma, attributes, crossed=CROSSES)
        for record in RECORDS:
            alone = region_type == "USA" and record[1] == "a"
            described = Record("toy", 2, 1, int(alone), place=BLOCKS[record[0]][1] is not None)
            assert worst[record, attributes] <= loss(level, gamma, attributes, described, CROSSES)
            if record[1] in ("a", "c"):  # for these some record shares no race group; "b" with "ab" and "bc" as well
                assert worst[record, attributes] == loss(level, gamma, attributes, described, CROSSES), (
                    record,
                    attributes,
                )


@settings(max_examples=50, derandomize=True, deadline=None)
@given(
    st.fractions(Fraction(1, 100), Fraction(99, 100)),
    st.sampled_from(sorted(CROSSED)),
    st.one_of(
        st.none(),
        st.builds(Record, st.just("x"), st.integers(2, 8), st.integers(0, 1), st.integers(0, 2), st.booleans()),
    ),
)
def test_a_loss_is_monotone_in_the_attributes(gamma, crossed, record):
    for level in PRODUCTION[:3] + PRODUCTION[4:6]:
        losses = {attributes: loss(level, gamma, attributes, record, CROSSED[crossed]) for attributes in SETS}
        assert losses[frozenset()] == 0
        assert all(losses[a] <= losses[b] for a in SETS for b in SETS if a < b)
        assert max(losses.values()) <= 2 * level.budget
