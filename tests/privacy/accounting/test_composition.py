"""Stability, the split of a level's budget, and composition: SafeTab-P section 4, with exact numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.composition import Spend, disjoint, query_budgets, spend
from privacy.accounting.stability import IterationCounts, record_reach, stability

PROPERTY = settings(derandomize=True, database=None, deadline=None, max_examples=100)
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
    total = spend(definition, budgets)
    assert total == Spend(definition, sum(budgets, Fraction(0)), 2 * sum(budgets, Fraction(0)))


def test_decimals_compose_exactly() -> None:
    """Ten times a tenth is one, as it is not in floats."""
    assert spend("zcdp", [Fraction("0.1")] * 10).unbounded == 1


@given(us=FRACTIONS, pr=FRACTIONS)
@PROPERTY
def test_disjoint_jurisdictions(us: Fraction, pr: Fraction) -> None:
    """A person is in one of them: added or removed, the larger is spent; moved, at most twice the larger."""
    both = disjoint([spend("zcdp", [us]), spend("zcdp", [pr])])
    assert both == Spend("zcdp", max(us, pr), 2 * max(us, pr))
    assert both.bounded >= us + pr
