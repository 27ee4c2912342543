from fractions import Fraction

import numpy as np
import pytest
from estimation_cases import DETAILS, answers, estimator, exact
from fixed_point_laws import pmf

from privacy.estimation.densities import density, density_of_sum, margin_of_sizes, moment
from privacy.estimation.pooling import AnswerLaws, nearest, pool
from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric
from privacy.noise.margins import margin_of_error

# docs/estimates.md: standard deviation of a total before and after, and the margins, at gamma = .1
TABLE = {
    ("zcdp", "nation/state"): [
        (1.531, 1.481, 3, 3),
        (4.329, 3.164, 8, 6),
        (6.494, 3.759, 13, 7),
        (10.382, 4.210, 20, 8),
    ],
    ("zcdp", "sub-state"): [
        (5.608, 5.328, 11, 10),
        (15.861, 11.544, 31, 23),
        (23.792, 13.739, 47, 27),
        (38.033, 15.388, 75, 30),
    ],
    ("zcdp", "L1"): [
        (25.000, 23.719, 49, 46),
        (70.711, 51.450, 139, 101),
        (106.066, 61.238, 208, 120),
        (169.558, 68.590, 332, 134),
    ],
    ("puredp", "nation/state"): [
        (1.845, 1.845, 4, 4),
        (5.220, 4.913, 10, 10),
        (7.830, 6.948, 15, 14),
        (12.517, 9.826, 25, 20),
    ],
    ("puredp", "sub-state"): [
        (6.035, 5.978, 13, 13),
        (17.070, 16.010, 34, 32),
        (25.605, 22.616, 50, 45),
        (40.932, 31.890, 80, 64),
    ],
}


@pytest.mark.parametrize(("definition", "level"), TABLE, ids=str)
def test_the_table_of_what_pooling_buys(definition, level):
    for cells, (before, after, margin_before, margin_after) in zip(DETAILS, TABLE[definition, level], strict=True):
        both = answers(definition, level, cells)
        pooled = pool(both)
        assert both.deviations[1] == pytest.approx(before, abs=5.1e-4)
        assert pooled.variance**0.5 == pytest.approx(after, abs=5.1e-4)
        assert margin_of_error(both.stage_2, cells) == margin_before
        assert pooled.margin == margin_after


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(7, 2)), TwoSidedGeometric(Fraction(2))], ids=str)
def test_posterior_means_by_enumeration(law):
    """Of the sum of two cells, and of each of them, given D: over all (B_1, B_2, A)."""
    pooled = pool(AnswerLaws(law, law, 2))
    reach, q = pmf(law)
    b, q = np.arange(-reach, reach + 1), np.array(q)
    b, q = b[np.abs(b) <= 40], q[np.abs(b) <= 40]
    b1, b2, a = np.meshgrid(b, b, b, indexing="ij")
    weight = (q[:, None, None] * q[:, None] * q).ravel()
    d, farthest = (b1 + b2 - a).ravel(), 3 * int(b[-1])
    total = np.bincount(d + farthest, weight)
    sums = np.bincount(d + farthest, (b1 + b2).ravel() * weight)
    cells = np.bincount(d + farthest, b1.ravel() * weight)
    for difference in range(-12, 13):
        expected = pooled.pull[difference + pooled.reach]
        place = difference + farthest
        assert sums[place] / total[place] == pytest.approx(expected, abs=2e-6)
        assert cells[place] / total[place] == pytest.approx(expected / 2, abs=2e-6)


def test_of_normal_noise_it_is_inverse_variance_weighting():
    for level in ("nation/state", "sub-state"):
        for cells in DETAILS:
            pooled = pool(answers("zcdp", level, cells))
            weight = cells * 0.1 / (0.9 + cells * 0.1)
            reach = int(6 * moment(pooled.difference) ** 0.5)
            d = np.arange(-reach, reach + 1)
            pull = pooled.pull[d + pooled.reach]
            assert np.abs(pull - weight * d).max() < 1e-4
            assert (pull == -pull[::-1]).all()


def test_a_sum_of_discrete_gaussians_is_one():
    """Where `density_of_sum` says so, against the convolution."""
    law = DiscreteGaussian(Fraction(4))
    single, power = density(law, 1e-30), np.ones(1)
    for _ in range(8):
        power = np.convolve(power, single)
    closed = density_of_sum(law, 8)
    half = len(power) // 2 - len(closed) // 2
    convolved = power[half : half + len(closed)]
    assert np.abs(convolved / closed - 1).max() < 1e-9


def test_nearest_takes_halves_away_from_zero():
    assert nearest(np.array([-2.5, -0.5, -0.4, 0.5, 1.49, 1.5])).tolist() == [-3, -1, 0, 1, 1, 2]


def test_a_coverage_that_floats_do_not_decide_is_said():
    with pytest.raises(ArithmeticError, match="ninth digit"):
        margin_of_sizes(np.array([0, 1]), np.array([0.95, 0.05]))


@pytest.mark.parametrize(("definition", "cells"), [("zcdp", 1), ("zcdp", 46), ("puredp", 18)])
def test_far_from_thresholds_an_estimate_has_the_law_of_the_table(definition, cells):
    pooled = estimator(definition, "nation/state", cells)
    law = exact(pooled, pooled.reach + 60 * int(pooled.answers.deviations[0]))
    assert law.bias == pytest.approx(0, abs=1e-9)
    assert law.rmse == pytest.approx(pooled.deviation, rel=1e-6)
    assert law.covered > 0.95
    assert (np.abs(law.errors) <= pooled.margin - 1) @ law.chances < 0.95
