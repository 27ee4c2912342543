from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import pytest
from fixed_point_laws import cdf
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.noise.balls import decide, working_precision
from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric, law

LAWS = [
    DiscreteGaussian(Fraction(1, 20)),
    DiscreteGaussian(Fraction(21, 10)),
    DiscreteGaussian(Fraction(5000, 159)),
    DiscreteGaussian(Fraction(5625)),
    TwoSidedGeometric(Fraction(1, 10)),
    TwoSidedGeometric(Fraction(7, 3)),
    TwoSidedGeometric(Fraction(600)),
]


def test_parameters_of_production():
    """SafeTab-P section 6: s = 9, budgets .159 and .008, gamma = .1."""
    assert law("zcdp", Fraction("0.159") / 10, 9) == DiscreteGaussian(Fraction(45000, 159))
    assert law("zcdp", Fraction("0.008") * Fraction(9, 10), 9) == DiscreteGaussian(Fraction(625))
    assert law("zcdp", Fraction("0.008") / 10, 9) == DiscreteGaussian(Fraction(5625))
    assert law("puredp", Fraction(3, 4), 9) == TwoSidedGeometric(Fraction(12))


@pytest.mark.parametrize("budget", [Fraction(0), Fraction(-1)])
@pytest.mark.parametrize("definition", ["puredp", "zcdp"])
def test_no_law_without_budget(definition, budget):
    with pytest.raises(ValueError, match="budget of a noise law must be positive"):
        law(definition, budget, 9)


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="stability of a noise law must be positive"):
        law("zcdp", Fraction(1), 0)
    with pytest.raises(ValueError, match="must be puredp or zcdp"):
        law("approxdp", Fraction(1), 9)
    with pytest.raises(ValueError, match="sigma_squared"):
        DiscreteGaussian(Fraction(0))
    with pytest.raises(ValueError, match="scale"):
        TwoSidedGeometric(Fraction(-1))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cdf_holds_the_value_of_integer_arithmetic(law):
    bits = 200
    outermost, table = cdf(law, bits)
    with working_precision(256):
        for k in {-outermost, -outermost // 2, -3, -2, -1, 0, 1, 2, outermost // 3, outermost - 1}:
            if not -outermost <= k < outermost:
                continue
            ball = law.cdf(k, 256) * arb(2) ** bits
            assert ball.rad() < 1 << 20  # an absolute error below 2^-180
            assert abs(ball - table[k + outermost]) < 1 << 24


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_pmf_and_cdf_agree_and_are_symmetric(law):
    with working_precision(128):
        for k in range(-6, 7):
            assert law.pmf(k).overlaps(law.cdf(k) - law.cdf(k - 1))
            assert law.pmf(k).overlaps(law.pmf(-k))
            assert (law.cdf(k) + law.cdf(-k - 1)).overlaps(arb(1))


@pytest.mark.parametrize("law", [*LAWS[:-1], pytest.param(LAWS[-1], marks=pytest.mark.slow)], ids=str)
def test_pmf_and_variance_against_mpmath(law):
    with mpmath.workdps(40):

        def weight(k):
            r = Fraction(k * k) / (2 * law.sigma_squared) if isinstance(law, DiscreteGaussian) else k / law.scale
            return mpmath.exp(-mpmath.mpf(r.numerator) / r.denominator)

        reach = range(1, int(60 * law.variance() ** 0.5) + 40)
        total = 1 + 2 * mpmath.fsum(weight(k) for k in reach)
        second = 2 * mpmath.fsum(k * k * weight(k) for k in reach)
        for k in (0, 1, 5, 40):
            ratio = mpmath.mpf(law.pmf(k).mid().str(30, radius=False)) / (weight(k) / total)
            assert abs(ratio - 1) < 1e-25
        assert law.variance() == pytest.approx(float(second / total), rel=1e-14)


def test_variance_of_a_narrow_gaussian_is_below_its_parameter():
    """Canonne et al. 2020, Proposition 21: Var <= sigma^2, and far below it where sigma is small."""
    assert DiscreteGaussian(Fraction(1, 20)).variance() < 1e-3
    assert DiscreteGaussian(Fraction(1, 2)).variance() < 0.5
    assert DiscreteGaussian(Fraction(5625)).variance() == 5625


@pytest.mark.parametrize("law", LAWS, ids=str)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(p=st.fractions(Fraction(1, 10**9), 1 - Fraction(1, 10**9)))
def test_quantile_is_the_smallest(law, p):
    k = law.quantile(p)
    outermost, table = cdf(law, 128)
    scaled = p * (1 << 128)
    assert table[k + outermost] >= scaled > table[k - 1 + outermost]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_quantile_at_one_half_and_far_out(law):
    assert law.quantile(Fraction(1, 2)) == 0
    tiny = Fraction(1, 1 << 130)
    k = law.quantile(1 - tiny)
    assert law.quantile(tiny) == -k
    with working_precision(400):
        below, above = law.cdf(k - 1, 400), law.cdf(k, 400)
        assert below < 1 - arb(2) ** -130 < above


def test_cdf_far_out_is_an_honest_ball():
    gaussian = DiscreteGaussian(Fraction(5625))
    with working_precision(128):
        for k in (990, 10**9):  # 13 sigma out, added up term by term; and far beyond
            assert abs(gaussian.cdf(k) - 1) < arb(2) ** -110
            assert abs(gaussian.cdf(-k)) < arb(2) ** -110


def test_threads_do_not_disturb_each_other():
    """The precision of python-flint is global: computations at different precisions, at the same time."""
    tiny = [Fraction(1, 1 << bits) for bits in (8, 40, 90, 200) * 6]
    alone = [LAWS[3].quantile(p) for p in tiny]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(LAWS[3].quantile, tiny)) == alone


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(3, 2)])
def test_quantile_needs_a_probability(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        LAWS[1].quantile(p)


def test_quantile_of_endless_noise_is_refused():
    with pytest.raises(ValueError, match="too wide"):
        DiscreteGaussian(Fraction(10) ** 30).quantile(Fraction(9999, 10000))


def test_equal_numbers_are_never_decided():
    with pytest.raises(ArithmeticError, match="equal"):
        decide(lambda _: True if arb(2).sqrt() ** 2 > 2 else None)


def test_precision_is_given_back():
    before = ctx.prec
    with pytest.raises(RuntimeError), working_precision(999):
        raise RuntimeError
    assert ctx.prec == before
