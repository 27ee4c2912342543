"""Noisy counts of an array, and floats at the doors of the package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import das_flows as das

NOISE = das.law("zcdp", Fraction(1, 8), stability=1)  # sigma 2
SECRET = das.RunSecret(bytes(range(32)))


def test_the_same_call_repeats_itself_and_anything_else_draws_anew() -> None:
    counts = np.arange(4000).reshape(40, 100)
    noise = das.measure(counts, NOISE, secret=SECRET, query="ages").counts - counts
    assert (das.measure(counts.astype(np.uint16), NOISE, secret=SECRET, query="ages").counts == noise + counts).all()
    others = [
        das.measure(counts, NOISE, secret=SECRET, query="sexes").counts - counts,
        das.measure(counts, das.law("zcdp", Fraction(1, 9), 1), secret=SECRET, query="ages").counts - counts,
        das.measure(counts, NOISE, secret=das.RunSecret(bytes(32)), query="ages").counts - counts,
        das.measure(counts + 1, NOISE, secret=SECRET, query="ages").counts - counts - 1,
        das.measure(counts.reshape(100, 40), NOISE, secret=SECRET, query="ages").counts.reshape(40, 100) - counts,
        das.measure(counts, NOISE).counts - counts,
        das.measure(counts, NOISE).counts - counts,
    ]
    for number, other in enumerate(others):  # 4,000 correlations of independent draws: sd 1 / sqrt(4000)
        for before in [noise, *others[:number]]:
            assert abs(np.corrcoef(before.ravel(), other.ravel())[0, 1]) < 6 / 4000**0.5


def test_the_noise_has_its_law_and_the_margins_are_its() -> None:
    """Of 100,000 draws: six standard errors, or once in 500 million tests, were the secret not fixed."""
    table = das.measure(np.zeros(100_000, int), NOISE, secret=SECRET, query="zeros")
    assert abs(table.counts.mean()) < 6 * 2 / 100_000**0.5
    assert abs(table.counts.var() / NOISE.variance() - 1) < 6 * (2 / 100_000) ** 0.5
    assert (table.margin(), table.margin(50)) == (das.margin_of_error(NOISE), das.margin_of_error(NOISE, 50))
    assert np.mean(np.abs(table.counts) <= table.margin()) > 0.95
    assert das.measure(7, NOISE).counts.shape == ()
    assert das.measure([], NOISE).counts.shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: das.measure([1.0], NOISE), "counts must be whole numbers .* not of type float64"),
        (lambda: das.measure([True], NOISE), "not of type bool"),
        (lambda: das.measure([[1], [1, 2]], NOISE), "not of type object"),
        (lambda: das.measure(np.array([1], object), NOISE), "not of type object"),
        (lambda: das.measure([1 << 63], NOISE), r"between -2\^62 and 2\^62"),
        (lambda: das.measure([1], NOISE, secret=SECRET), "needs a name"),
        (lambda: das.measure([1], 2), "the noise is a law"),
        (lambda: das.measure([1], [5555, 6666]), "not list$"),  # counts in the law's place are not told
        (lambda: das.measure(np.ma.array([1, 2], mask=[0, 1]), NOISE), "must not be masked"),
        (lambda: das.measure([1], das.law("zcdp", Fraction(1, 10**20), 1)), "raise the budget"),
        (lambda: das.law("zcdp", 0.159, 9), r'not the float 0\.159: write "0\.159"'),
        (lambda: das.law("zcdp", Fraction(1), 2.5), "the stability of a noise law"),
        (lambda: das.DiscreteGaussian(0.5), "sigma_squared must be an exact number"),  # type: ignore[arg-type]
        (lambda: das.TwoSidedGeometric(0.5), "scale must be an exact number"),  # type: ignore[arg-type]
        (lambda: das.query_budgets(0.5, Fraction(1, 10)), "the budget of a level must be an exact number"),
        (lambda: das.query_budgets(Fraction(1), 0.1), "gamma must be an exact number"),
        (lambda: das.spend("zcdp", [0.5]), "the budget of a level"),
        (lambda: das.suppression_threshold(NOISE, 0.99), "chance must be an exact number"),
        (lambda: das.margin_of_error(NOISE, alpha=0.05), "alpha must be an exact number"),
        (lambda: das.pure_to_rho(0.5), "epsilon must be an exact number"),
        (lambda: das.epsilon(0.5, 1e-10), "rho must be an exact number"),
        (lambda: das.Account("a", "zcdp", 4.9), "the total of an account must be an exact number"),
        (lambda: das.law("zcdp", "half", 1), "'half' is not a number"),
    ],
)
def test_what_is_not_exact_is_refused_in_one_sentence(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_a_stability_that_is_a_fraction_is_refused_and_not_rounded() -> None:
    with pytest.raises(ValueError, match="is a whole number"):
        das.law("zcdp", Fraction(1), Fraction(5, 2))  # type: ignore[arg-type]


def test_the_door_has_the_names_of_its_packages_and_imports_them_late() -> None:
    program = "import sys, das_flows as das; print('numpy' in sys.modules); das.law; print(len(dir(das)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert result[0] == "False"
    assert int(result[1]) > 50
    with pytest.raises(AttributeError, match=r"docs/api\.md lists"):
        _ = das.nothing
