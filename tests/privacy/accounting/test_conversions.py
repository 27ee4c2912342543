from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting import conversions

DELTA = Fraction(1, 10**10)


def at_order(alpha, rho, delta):
    """Canonne, Kamath, Steinke 2020, Corollary 13: epsilon by one order alpha > 1."""
    return alpha * rho + mpmath.log(1 - 1 / alpha) - mpmath.log(alpha * delta) / (alpha - 1)


def exact(x):
    return mpmath.mpf(x.numerator) / x.denominator


def least_epsilon(rho, delta):
    """The minimum over all orders, by its own condition (alpha-1)^2 rho = ln(1/(alpha delta)), to 40 digits or so."""
    r, d = exact(Fraction(rho)), exact(Fraction(delta))
    low, high = mpmath.mpf(1), 1 / d
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if (middle - 1) ** 2 * r > -mpmath.log(middle * d) else (middle, high)
    return max(mpmath.mpf(0), at_order(high, r, d))


def test_comparison_of_geometric_and_gaussian():
    """The seven levels at s = 9, gamma = .1: 12.166 at the optimum, alpha 4.9 (12.794 by the Bun-Steinke formula)."""
    rho = 9 * Fraction("1.9208") / Fraction(9, 10) * (Fraction(2, 36) + Fraction(2, 121) + Fraction(3, 2500))
    assert conversions.epsilon(rho, 1e-10) == pytest.approx(12.166, abs=5e-4)
    assert float(rho) + 2 * (float(rho) * 23.025850929940457) ** 0.5 == pytest.approx(12.794, abs=5e-4)


def test_total_of_production():
    assert conversions.epsilon(Fraction("4.944"), DELTA) == pytest.approx(25.3628184, abs=1e-7)
    assert conversions.epsilon(Fraction("9.888"), DELTA) == pytest.approx(38.9487391, abs=1e-7)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    rho=st.fractions(Fraction(1, 10**6), 100),
    digits=st.integers(1, 30),
    orders=st.lists(st.floats(1.0001, 1e6), min_size=5, max_size=5),
)
def test_epsilon_is_the_minimum_rounded_up(rho, digits, orders):
    delta = Fraction(1, 10**digits)
    rounded = conversions.epsilon(rho, delta)
    with mpmath.workdps(40):
        best = least_epsilon(rho, delta)
        assert best <= rounded <= best + abs(best) * mpmath.mpf(10) ** -13 + mpmath.mpf(10) ** -15
        for order in orders:
            assert (
                rounded
                <= max(0, at_order(mpmath.mpf(order), exact(rho), exact(delta))) * (1 + mpmath.mpf(10) ** -13) + 1e-15
            )


@settings(max_examples=25, derandomize=True, deadline=None)
@given(rho=st.fractions(Fraction(1, 1000), 100), delta=st.floats(1e-30, 0.1))
def test_rho_is_the_inverse_rounded_down(rho, delta):
    epsilon = conversions.epsilon(rho, delta)
    if epsilon > 0:
        back = conversions.rho(epsilon, delta)
        assert back == pytest.approx(float(rho), rel=1e-12)
        with mpmath.workdps(40):
            assert least_epsilon(back, delta) <= epsilon


def test_extremes():
    assert conversions.epsilon(Fraction(0), DELTA) == 0.0
    assert conversions.epsilon(Fraction(1, 1000), 0.5) == 0.0
    assert conversions.rho(0, DELTA) == 0.0
    assert 1e40 <= conversions.epsilon(Fraction(10**40), DELTA) <= 1.0001e40
    assert 0 < conversions.epsilon(Fraction(1, 10**30), Fraction(1, 10**400)) < 1e-12


def test_delta_as_a_float_is_taken_as_it_stands():
    assert conversions.epsilon(Fraction(1), 1e-10) == conversions.epsilon(Fraction(1), Fraction(1e-10))


def test_text_and_decimals_are_exact():
    assert conversions.epsilon("1", "1e-10") == conversions.epsilon(Decimal(1), Decimal("1e-10"))
    assert conversions.epsilon("1", "1e-10") == conversions.epsilon(Fraction(1), DELTA)
    assert conversions.rho("10", "1e-10") == conversions.rho(Fraction(10), DELTA)
    with pytest.raises(ValueError, match="delta: 'x' is not a number"):
        conversions.epsilon("1", "x")
    with pytest.raises(ValueError, match="is not a number"):
        conversions.epsilon(Decimal("nan"), DELTA)


def test_pure_to_rho_is_exact():
    assert conversions.pure_to_rho(Fraction(1, 3)) == Fraction(1, 18)
    assert conversions.pure_to_rho(3) == conversions.pure_to_rho(np.int8(3)) == Fraction(9, 2)
    assert conversions.pure_to_rho(np.int8(20)) == 200
    assert conversions.pure_to_rho(10**17 + 1) == Fraction((10**17 + 1) ** 2, 2)


def test_arguments_are_checked():
    for delta in (0, 1, -1e-10):
        with pytest.raises(ValueError, match="delta"):
            conversions.epsilon(Fraction(1), delta)
        with pytest.raises(ValueError, match="delta"):
            conversions.rho(Fraction(1), delta)
    for function in (lambda: conversions.epsilon(Fraction(-1), DELTA), lambda: conversions.pure_to_rho(Fraction(-1))):
        with pytest.raises(ValueError, match="must not be negative"):
            function()
    with pytest.raises(ValueError, match="must not be negative"):
        conversions.rho(-1.0, DELTA)
