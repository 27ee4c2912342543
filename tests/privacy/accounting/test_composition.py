"""Stability, the split of a level's budget, and composition: SafeTab-P section 4, with exact numbers."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.composition import (
    Relation,
    Spend,
    disjoint,
    query_budgets,
    read_spend,
    rounded_down,
    rounded_up,
    spend,
)
from privacy.accounting.stability import IterationCounts, record_reach, stability

PROPERTY = settings(derandomize=True, database=None, deadline=None, max_examples=30)
PRODUCTION = IterationCounts(alone=1, combination=1, ethnicity=1, alone_reach=1, all_combination=1500)
FRACTIONS = st.fractions(min_value=Fraction(1, 1000), max_value=10)


def test_production_has_stability_9() -> None:
    assert stability(PRODUCTION, 8) == 9
    assert record_reach(PRODUCTION, 8) == 9  # eight codes of different iterations, and an ethnicity


@pytest.mark.parametrize(
    ("counts", "max_race_codes", "expected"),
    [
        (IterationCounts(1, 1, 1, 1, 40), 1, 3),  # in one iteration alone and in combination, and an ethnicity
        (IterationCounts(1, 1, 0, 1, 40), 1, 2),
        (IterationCounts(1, 1, 0, 2, 40), 3, 3),
        (IterationCounts(1, 0, 0, 0, 0), 8, 8),
        (IterationCounts(0, 1, 0, 0, 40), 8, 8),
        (IterationCounts(0, 0, 1, 0, 0), 8, 1),
    ],
)
def test_stability(counts: IterationCounts, max_race_codes: int, expected: int) -> None:
    assert stability(counts, max_race_codes) == expected


@pytest.mark.parametrize(("reach", "max_race_codes"), [(2, 2), (3, 3), (8, 8)])
def test_a_record_that_reaches_more_is_refused(reach: int, max_race_codes: int) -> None:
    """As many in-combination iterations as codes, and one alone iteration over all of them."""
    counts = IterationCounts(1, 1, 1, reach, 40)
    with pytest.raises(ValueError, match=f"in {max_race_codes + 2} population groups"):
        stability(counts, max_race_codes)
    assert stability(IterationCounts(1, 1, 1, reach - 1, 40), max_race_codes) == max_race_codes + 1


def test_a_level_that_nobody_reaches_is_refused() -> None:
    with pytest.raises(ValueError, match="no code maps"):
        stability(IterationCounts(0, 0, 0, 0, 0), 8)


@given(budget=FRACTIONS, gamma=st.fractions(min_value=Fraction(1, 100), max_value=Fraction(99, 100)))
@PROPERTY
def test_no_group_costs_more_than_the_levels_budget(budget: Fraction, gamma: Fraction) -> None:
    """Total only, or both steps: exactly the level's budget, exactly."""
    budgets = query_budgets(budget, gamma)
    assert budgets["total_only"] == budget
    assert budgets["stage_1"] + budgets["stage_2"] == budget
    assert budgets["stage_1"] == gamma * budget
    assert min(budgets["stage_1"], budgets["stage_2"]) > 0


@given(budgets=st.lists(FRACTIONS, min_size=1, max_size=12), definition=st.sampled_from(["zcdp", "puredp"]))
@PROPERTY
def test_levels_compose_by_their_sum_and_a_replaced_record_costs_twice(budgets: list[Fraction], definition) -> None:
    total, whole = spend(definition, budgets), sum(budgets, Fraction(0))
    relations = {"added_or_removed": whole, "replaced": 2 * whole}
    assert {each.key: each.figure for each in total.relations} == relations
    assert (total.definition, total.unit, total.charged) == (definition, "person", whole)


def test_decimals_compose_exactly() -> None:
    """Ten times a tenth is one, as it is not in floats."""
    assert spend("zcdp", [Fraction("0.1")] * 10).charged == 1


@given(us=FRACTIONS, pr=FRACTIONS)
@PROPERTY
def test_disjoint_jurisdictions(us: Fraction, pr: Fraction) -> None:
    """A person is in one of them: added or removed, the larger is spent; moved, at most twice the larger."""
    both = disjoint([spend("zcdp", [us]), spend("zcdp", [pr])])
    assert both == spend("zcdp", [max(us, pr)])
    moved = both.figure("replaced")
    assert moved is not None
    assert moved >= us + pr


COVERED = Relation("together", "two things replaced", Fraction(4944, 1000))
UNCOVERED = Relation("added_or_removed", "a household added or removed", None)


def test_the_table_of_a_spend_has_every_relation_with_its_epsilon_rounded_up_or_not_covered() -> None:
    known = Spend("zcdp", "household", Fraction(4944, 1000), (COVERED, UNCOVERED))
    first, last = known.rows()
    assert first.words == "rho 4.944, epsilon 25.363 at delta 1e-10"  # 25.3628184
    assert first.cells == ("rho 4.944", "25.363")
    assert (last.words, last.cells) == ("not covered", ("not covered", ""))
    (pure, *_) = spend("puredp", [Fraction(1, 3)]).rows()
    assert (pure.words, pure.cells) == ("epsilon 0.333334", ("epsilon 0.333334", "0.334"))


@pytest.mark.parametrize(
    "of", [spend("puredp", [Fraction(1, 3)]), Spend("zcdp", "household", Fraction(2), (UNCOVERED, COVERED))]
)
def test_a_spend_is_read_as_it_was_written(of: Spend) -> None:
    assert read_spend(json.loads(json.dumps(of.as_json()))) == of


@pytest.mark.parametrize(
    "change",
    [
        {"definition": "none"},
        {"unit_of_privacy": "nobody"},
        {"charged": {"exact": "1e9"}},
        {"relations": [{"relation": "x", "sentence": "a\nb", "exact": "1"}]},
        {"relations": [{"relation": "x", "sentence": "y" * 301, "exact": "1"}]},
        {"relations": [{"relation": "x", "sentence": "y"}]},
        {"relations": 3},
    ],
    ids=str,
)
def test_no_other_spend_is_read(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        read_spend(spend("zcdp", [Fraction(1)]).as_json() | change)


@pytest.mark.parametrize("text", ["two\nlines", "a" * 301, "a bell \a", "a\ttab", None])
@pytest.mark.parametrize("field", ["key", "sentence"])
def test_a_relation_that_the_ledger_could_not_read_back_is_refused(text: object, field: str) -> None:
    with pytest.raises(ValueError, match="is not one line of at most 300 characters"):
        Relation(**{"key": "moved", "sentence": "a person moved", "figure": Fraction(1)} | {field: text})  # type: ignore[arg-type]
    written = Spend("zcdp", "person", Fraction(1), (Relation("a" * 300, "b" * 300, None),))
    assert read_spend(json.loads(json.dumps(written.as_json()))) == written


@PROPERTY
@given(st.fractions(min_value=0, max_value=10**9), st.booleans())
def test_no_spend_is_shown_smaller_and_nothing_left_larger(amount: Fraction, negative: bool) -> None:
    exact = -amount if negative else amount
    down, up = Fraction(rounded_down(exact)), Fraction(rounded_up(exact))
    assert down <= exact <= up
    assert up - down <= abs(exact) / 10**5
