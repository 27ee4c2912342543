"""SafeTEx's functions: Figures 1 and 2 by the exact law, sizes, multiplicity, levels switched on and off."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privacy.accounting.composition import LevelBudget
from privacy.accounting.conversions import epsilon
from privacy.analyses.tuning import (
    level_laws,
    loss,
    margins,
    multiplicity_stability,
    published_bias,
    sizes_for_margin,
    sizes_for_relative_error,
    suppression_probability,
)
from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric, law
from privacy.noise.margins import margin_of_error, suppression_threshold
from tasks.safetab.persons.details import CELLS_OF

GAMMA = Fraction(1, 10)
FIGURES = {  # rho -> T, P(suppressed), bias / T and eq. (13) / T at n = 0, T/2, T, 3T/2, 2T
    ".159": (21, (".999938", ".979986", ".535571", ".030403", ".000126"),
             ("1.08891", ".64725", ".22877", ".01897", ".00013"), None),
    ".008": (93, (".999908", ".971292", ".507979", ".031434", ".000108"),
             ("1.06959", ".61430", ".21793", ".01963", ".00011"), ("1.06436", ".60951", ".21449", ".01889", ".0001")),
}  # fmt: skip


@pytest.mark.parametrize("rho", FIGURES, ids=lambda rho: f"B-Figures-1-2-rho-{rho}")
def test_suppression_and_bias_over_true_size(rho):
    threshold, suppressed, biases, printed = FIGURES[rho]
    noise = level_laws("zcdp", LevelBudget(Fraction(rho), 9), GAMMA)["stage_2"]
    assert suppression_threshold(noise, Fraction("0.9999")) == threshold
    for half, (chance, bias) in enumerate(zip(suppressed, biases, strict=True)):
        size = round(half * threshold / 2)
        assert suppression_probability(noise, threshold, size) == pytest.approx(float(chance), abs=6e-7)
        assert published_bias(noise, threshold, size) / threshold == pytest.approx(float(bias), abs=6e-6)
        if printed:  # eq. (13), of continuous noise: sigma phi(u) / (1 - Phi(u)) at u = (T - n) / sigma
            sigma = float(noise.sigma_squared) ** 0.5
            u = (threshold - size) / sigma
            continuous = sigma * norm.pdf(u) / norm.sf(u)
            assert continuous / threshold == pytest.approx(float(printed[half]), abs=1.1e-5)


@pytest.mark.parametrize("threshold", [-4, 0, 7])
@pytest.mark.parametrize("noise", [DiscreteGaussian(Fraction(13, 4)), TwoSidedGeometric(Fraction(7, 3))], ids=str)
def test_suppression_by_adding_up_the_law(noise, threshold):
    pmf = {k: float(noise.pmf(k)) for k in range(-150, 151)}
    for size in range(25):
        kept = {k: p for k, p in pmf.items() if size + k > threshold}
        bias = sum(k * p for k, p in kept.items()) / sum(kept.values())
        assert suppression_probability(noise, threshold, size) == pytest.approx(1 - sum(kept.values()), abs=1e-14)
        assert published_bias(noise, threshold, size) == pytest.approx(bias, abs=1e-12)


def test_a_group_far_below_the_threshold_is_published_just_above_it():
    """Where P(n + X > T) is no float any more, the bias still is one."""
    noise = DiscreteGaussian(Fraction(9))
    assert published_bias(noise, 1000, 0) == pytest.approx(1001, abs=0.03)
    assert published_bias(noise, 0, 1000) == 0.0


@pytest.mark.parametrize(
    ("rho", "threshold"), [(".008", 93), (".159", 21), (".543", 11)], ids=lambda value: f"B-Table-6-{value}"
)
def test_thresholds(rho, threshold):
    laws = level_laws("zcdp", LevelBudget(Fraction(rho), 9), GAMMA)
    assert suppression_threshold(laws["stage_2"], Fraction("0.9999")) == threshold


def test_race_multiplicity():
    assert [multiplicity_stability(codes) for codes in range(1, 9)] == [3, 3, 4, 5, 6, 7, 8, 9]
    for codes in (0, 9):
        with pytest.raises(ValueError, match="from 1 to 8"):
            multiplicity_stability(codes)


def test_three_codes_instead_of_eight_take_a_third_off_the_margin():
    """SafeTab-P, section 6.3.1: 33%."""
    wide, narrow = (
        margins(level_laws("zcdp", LevelBudget(Fraction("0.0001"), s), GAMMA), CELLS_OF).cell for s in (9, 4)
    )
    assert narrow / wide == pytest.approx(2 / 3, abs=0.002)


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_margins_are_those_of_the_queries(definition):
    level = LevelBudget(Fraction("0.3"), 9)
    computed = margins(level_laws(definition, level, GAMMA), CELLS_OF)
    assert computed.total_only == margin_of_error(law(definition, Fraction("0.3"), 9))
    assert computed.stage_1 == margin_of_error(law(definition, Fraction("0.03"), 9))
    assert computed.cell == margin_of_error(law(definition, Fraction("0.27"), 9)) == computed.totals["total"]
    for name, cells in CELLS_OF.items():
        assert computed.totals[name] == margin_of_error(law(definition, Fraction("0.27"), 9), cells)


@settings(max_examples=30, derandomize=True, deadline=None)
@given(margin=st.integers(0, 500), target=st.fractions(Fraction(1, 1000), 2))
def test_sizes_are_the_least_that_meet_a_relative_target(margin, target):
    sizes = sizes_for_relative_error(margin, target, CELLS_OF)
    for name, cells in CELLS_OF.items():
        assert cells * margin <= target * sizes[name]
        assert margin == 0 or cells * margin > target * (sizes[name] - 1)


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_where_cells_meet_a_relative_target_the_total_does(definition):
    for budget in ("0.008", "0.159", "2.134"):
        computed = margins(level_laws(definition, LevelBudget(Fraction(budget), 9), GAMMA), CELLS_OF)
        sizes = sizes_for_relative_error(computed.cell, Fraction(1, 10), CELLS_OF)
        assert all(10 * computed.totals[name] <= sizes[name] for name in CELLS_OF)


def test_sizes_for_a_target_in_counts():
    assert sizes_for_margin(11, 11, CELLS_OF) == dict.fromkeys(CELLS_OF, 0)
    assert sizes_for_margin(11, 10, CELLS_OF) == dict.fromkeys(CELLS_OF, None)


def test_the_loss_of_budgets():
    budgets, delta = [Fraction(2), Fraction(1, 4), Fraction(1, 8)], Fraction(1, 10**10)
    assert loss("puredp", budgets, delta) == (Fraction(19, 8), 2.375)
    assert loss("zcdp", budgets, delta) == (Fraction(19, 8), epsilon(Fraction(19, 8), delta))


def test_margins_over_budgets():
    curve = [
        margins(level_laws("zcdp", LevelBudget(Fraction(rho), 9), GAMMA), CELLS_OF).cell
        for rho in ("0.01", "0.159", "1")
    ]
    assert curve == [44, 11, 4]
