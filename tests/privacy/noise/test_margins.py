import re
import tokenize
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from fixed_point_laws import pmf
from scipy.signal import fftconvolve
from scipy.stats import norm

from privacy.analyses.margin_budgets import RECIPE_Z
from privacy.noise.balls import working_precision
from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric, law
from privacy.noise.margins import Z90, Z95, _Sum, coverage, margin_of_error, margin_of_sum, suppression_threshold

CELLS = (1, 4, 8, 9, 18, 23, 46)
LAWS = [
    DiscreteGaussian(Fraction(1, 10)),
    DiscreteGaussian(Fraction(21, 10)),
    DiscreteGaussian(Fraction(5000, 159)),
    DiscreteGaussian(Fraction(625)),
    TwoSidedGeometric(Fraction(1, 4)),
    TwoSidedGeometric(Fraction(12)),
    TwoSidedGeometric(Fraction(170)),
]
by_law = pytest.mark.parametrize("law", [*LAWS[:-1], pytest.param(LAWS[-1], marks=pytest.mark.ci)], ids=str)
ERROR = 1e-11  # of the sums in floating point below, generously


@lru_cache
def convolved(law, cells):
    """P(|S| > m) for m = 0, 1, ... and -1 last: the distribution itself, convolved with itself."""
    _, single = pmf(law)
    step, total = np.array(single), np.ones(1)
    for _ in range(cells):
        total = fftconvolve(total, step)
    middle = len(total) // 2
    both = total[middle:] + total[middle::-1]
    both[0] /= 2
    return np.append(np.cumsum(both[::-1])[::-1][1:], [0.0, 1.0])


@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 10), Fraction(317, 1000), Fraction(1, 10**6)])
@by_law
def test_margin_against_convolution(law, alpha):
    for cells in CELLS:
        beyond = convolved(law, cells)
        margin = margin_of_error(law, cells, alpha)
        assert beyond[margin] + ERROR < alpha  # holds
        assert beyond[margin - 1] - ERROR > alpha  # and is the smallest


def together(cells):
    """P(|S| > m) for m = 0, 1, ...: the laws convolved with each other."""
    total = np.ones(1)
    for noise, number in cells.items():
        single = np.array(pmf(noise)[1])
        for _ in range(number):
            total = fftconvolve(total, single)
    middle = len(total) // 2
    return np.cumsum((total[middle:] + total[middle::-1])[::-1])[::-1][1:]


@pytest.mark.parametrize(
    "cells",
    [
        {LAWS[1]: 1, LAWS[2]: 1},
        {LAWS[1]: 46, LAWS[2]: 8, LAWS[3]: 1},
        {LAWS[4]: 1, LAWS[5]: 1},
        {LAWS[5]: 9, LAWS[6]: 2},
        {LAWS[0]: 3, LAWS[5]: 4},  # laws of two kinds never stand in one release; the proof does not mind
    ],
    ids=str,
)
@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 10**6)])
def test_margin_of_several_laws_against_convolution(cells, alpha):
    beyond = together(cells)
    margin = margin_of_sum(cells, alpha)
    assert beyond[margin] + ERROR < alpha
    assert beyond[margin - 1] - ERROR > alpha
    assert margin_of_sum(dict(reversed(cells.items())) | {LAWS[0]: cells.get(LAWS[0], 0)}, alpha) == margin


@pytest.mark.parametrize("narrow", [Fraction(1, 100), Fraction(1, 10**9)], ids=str)
def test_noise_too_narrow_to_be_seen_widens_no_margin(narrow):
    for wide, silent in (
        (DiscreteGaussian(Fraction(9)), DiscreteGaussian(narrow)),
        (TwoSidedGeometric(Fraction(9)), TwoSidedGeometric(narrow)),
    ):
        assert margin_of_sum({wide: 2, silent: 40}) == margin_of_error(wide, 2)
        assert margin_of_sum({silent: 40}) == margin_of_error(silent) == 0


def test_margin_of_one_law_is_that_of_its_cells():
    assert margin_of_sum({}) == margin_of_sum({LAWS[2]: 0}) == 0
    for cells in (1, 2, 46):
        assert margin_of_sum({LAWS[2]: cells, LAWS[3]: 0}) == margin_of_error(LAWS[2], cells)


@by_law
def test_coverage_against_convolution(law):
    for cells in CELLS:
        beyond = convolved(law, cells)
        for margin in {0, 1, margin_of_error(law, cells), 2 * margin_of_error(law, cells) + 3}:
            ball = coverage(law, margin, cells)
            assert float(ball.rad()) < 2**-60
            assert float(ball.mid()) == pytest.approx(1 - beyond[min(margin, len(beyond) - 2)], abs=ERROR)
    assert coverage(law, -1, 4) == 0
    assert coverage(law, 10**7, 4) > 1 - 2**-50


@pytest.mark.parametrize(
    "bits", [2, pytest.param(5, marks=pytest.mark.slow), pytest.param(10, marks=pytest.mark.slow), 20]
)
@pytest.mark.parametrize("law", [*LAWS[:-1], pytest.param(LAWS[-1], marks=pytest.mark.slow)], ids=str)
def test_a_coarse_ball_holds_the_truth(law, bits):
    """The bounds on folding and cutting, where they are large enough to be seen."""
    with working_precision(128):
        for cells in (1, 2, 4, 46):
            total = _Sum(((law, cells),), bits)
            for margin in {0, total.reach // 7, total.reach // 2, total.reach}:
                ball = total.within(margin)
                assert ball.rad() <= 2 * 2.0**-bits
                assert ball.overlaps(_Sum(((law, cells),), 56).within(margin))


def test_margins_of_wide_noise():
    """Production's widest: sigma 75, and the geometric law of that budget; against the normal approximation."""
    for wide in (DiscreteGaussian(Fraction(5625)), TwoSidedGeometric(Fraction(12000))):
        spread = (46 * wide.variance()) ** 0.5
        assert margin_of_error(wide, 46) == pytest.approx(1.96 * spread, rel=0.005)


def test_an_alpha_of_many_digits():
    alpha = Fraction(1, 20) + Fraction(1, 10**80)
    for cells in (1, 4):
        assert margin_of_error(LAWS[1], cells, alpha) == margin_of_error(LAWS[1], cells)


@pytest.mark.parametrize(
    ("definition", "budget", "margin"),
    [
        # smallest step-2 budgets that meet the target margin exactly, at stability 9, rounded up
        ("puredp", "4.1122", 6),
        ("puredp", "2.33791", 11),
        ("puredp", ".53382", 50),
        ("zcdp", ".40608", 6),
        ("zcdp", ".13040", 11),
        ("zcdp", ".00678", 50),
    ],
)
def test_smallest_budgets_for_a_margin(definition, budget, margin):
    budget = Fraction(budget)
    assert margin_of_error(law(definition, budget, 9)) == margin
    assert margin_of_error(law(definition, budget * Fraction(999, 1000), 9)) == margin + 1


def test_the_paper_s_budgets():
    """Corollary 2 of SafeTab-P (rho = 1.92/MOE^2) holds; that of the geometric comparison misses its target by one."""
    for target in (3, 6, 11, 50):
        assert margin_of_error(law("zcdp", 9 * Fraction("1.9208") / target**2, 9)) <= target
    for target, log20 in ((6, "2.9957323"), (11, "2.9957323"), (50, "2.9957323")):
        assert margin_of_error(law("puredp", 9 * Fraction(log20) / (target + 1), 9)) == target + 1


@pytest.mark.parametrize(("rho", "threshold"), [("0.008", 93), ("0.159", 21), ("0.543", 11)])
def test_suppression_thresholds_of_production(rho, threshold):
    """SafeTab-P Table 6: s = 9, gamma = .1, p = .9999."""
    noise = law("zcdp", Fraction(rho) * Fraction(9, 10), 9)
    assert suppression_threshold(noise, Fraction("0.9999")) == threshold


@pytest.mark.parametrize(
    ("rho", "threshold", "suppressed"),
    [
        (".159", 21, [".999938", ".979986", ".535571", ".030403", ".000126"]),
        (".008", 93, [".999908", ".971292", ".507979", ".031434", ".000108"]),
    ],
)
def test_probability_of_suppression(rho, threshold, suppressed):
    """P(n + X <= T) at true sizes n = 0, T/2, T, 3T/2, 2T."""
    noise = law("zcdp", Fraction(rho) * Fraction(9, 10), 9)
    for half_steps, probability in enumerate(suppressed):
        size = round(half_steps * threshold / 2)
        assert float(noise.cdf(threshold - size)) == pytest.approx(float(probability), abs=6e-7)


def test_arguments_are_checked():
    for alpha in (Fraction(0), Fraction(1)):
        with pytest.raises(ValueError, match="alpha"):
            margin_of_error(LAWS[0], 1, alpha)
    with pytest.raises(ValueError, match="at least one cell"):
        margin_of_error(LAWS[0], 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        suppression_threshold(LAWS[0], Fraction(0))


def test_a_normal_margin_has_one_width_for_each_confidence():
    """The quantiles of the normal law; the papers' rounded one is theirs, and no other number stands in the code."""
    assert pytest.approx([norm.ppf(0.95), norm.ppf(0.975)], abs=1e-12) == [Z90, Z95]
    assert Fraction("1.96") == RECIPE_Z
    root = Path(__file__).parents[3]
    found = []
    for path in [path for room in ("privacy", "spine", "tasks", "flows") for path in (root / room).rglob("*.py")]:
        if not re.search(r"1\.(9[56]|64)", path.read_text("utf-8")):  # tokens take their time
            continue
        with tokenize.open(path) as file:
            tokens = tokenize.generate_tokens(file.readline)
            numbers = [each.string for each in tokens if each.type == tokenize.NUMBER]
        found += [(path, each) for each in numbers if each in ("1.96", "1.645") or each[:6] in ("1.9599", "1.6448")]
    assert found == []
