"""Given the detail an estimate is unbiased, and its margin covers: by exact sums over both answers."""

from functools import partial

import numpy as np
import pytest
from estimation_cases import answers, estimator, exact, sizes
from scipy.stats import norm

from privacy.estimation.estimator import BIAS, PRICE, make_estimator
from privacy.estimation.pooling import pool
from privacy.estimation.selection import correct

NATION = "nation/state"
ci = partial(pytest.param, marks=pytest.mark.ci)
CASES = [("zcdp", NATION, 46), ("puredp", NATION, 8)]
CASES += [ci(*case) for case in (("zcdp", NATION, 1), ("zcdp", NATION, 8), ("puredp", NATION, 46))]
GAMMAS = [
    ("puredp", ".9"),
    ("zcdp", ".02"),
    *(ci(*case) for case in (("puredp", ".2"), ("puredp", ".5"), ("zcdp", ".9"))),
]


@pytest.mark.parametrize(
    ("definition", "level", "cells"), [*CASES, pytest.param("zcdp", "sub-state", 46, marks=pytest.mark.slow)]
)
def test_above_a_threshold(definition, level, cells):
    pooled = estimator(definition, level, cells)
    second = pooled.answers.deviations[1]
    assert pooled.weight == 1
    for size in sizes(pooled, 0.001, 8):
        law = exact(pooled, size)
        assert abs(law.bias) <= (BIAS if definition == "puredp" else 1e-4) * second
        assert law.covered >= 0.95
        assert law.rmse <= PRICE * second


def test_the_figures_at_the_threshold():
    """docs/estimates.md: sub-state Detailed, N at the threshold, one sd(A) below and above; and plain pooling's."""
    plain = {1: (1.35, 5.3), 8: (6.17, 11.5), 18: (8.74, 13.6), 46: (10.96, 15.2)}
    result = {1: (5.57, 5.52, 5.45), 8: (14.64, 13.82, 12.72), 18: (20.29, 18.38, 16.03), 46: (28.05, 24.03, 19.51)}
    for cells in result:
        pooled = estimator("zcdp", "sub-state", cells)
        away = round(pooled.answers.deviations[0])
        for size, rmse in zip((-away, 0, away), result[cells], strict=True):
            assert exact(pooled, size).rmse == pytest.approx(rmse, abs=0.006)
        uncorrected = make_estimator(pooled.answers, None, None)
        assert uncorrected.edge is None
        pulled = pool(pooled.answers)
        a = np.arange(len(pulled.first) // 2 + 1)
        law = exact_of_plain(pooled, uncorrected, a)
        assert law == pytest.approx(plain[cells], abs=0.06)


def exact_of_plain(corrected, uncorrected, a):
    """Bias and RMSE at the threshold without the correction."""
    pooled = uncorrected.pooling
    b = np.arange(len(pooled.second)) - len(pooled.second) // 2
    p = pooled.first[len(pooled.first) // 2 :][a]
    total, measured = (x.ravel() for x in np.meshgrid(a, b, indexing="ij"))
    weights = np.outer(p, pooled.second).ravel() / p.sum()
    errors = measured + uncorrected.change(total, measured, np.zeros(len(total)))
    return (errors * weights).sum(), (errors**2 * weights).sum() ** 0.5


@pytest.mark.parametrize("cells", [1, 8, 46])
def test_against_the_estimate_for_normal_laws(cells):
    """Cohen and Sackrowitz's E[S | W, T >= a - 1/2]: W is the pooled total, S - W a multiple of T - W."""
    corrected = estimator("zcdp", "sub-state", cells)
    first, second = (deviation**2 for deviation in corrected.answers.deviations)
    t, s = (x.ravel() for x in np.meshgrid(np.arange(0, 60, 5), np.arange(-80, 120, 8), indexing="ij"))
    pooled = s - (s - t) * second / (first + second)
    spread = first / (first + second) ** 0.5  # of T given W
    z = (pooled + 0.5) / spread
    closed = pooled - second / first * spread * np.exp(norm.logpdf(z) - norm.logcdf(z))
    pull = corrected.pooling.pull[s - t + corrected.pooling.reach]
    likely = np.abs(s - t) < 2.5 * (first + second) ** 0.5
    assert np.abs(s - pull + corrected.correction(t, s) - closed)[likely].max() < 0.05 * second**0.5


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("width", [2, 3, 40])
def test_between_thresholds_that_are_near(definition, width):
    pooled = estimator(definition, NATION, 8, 100, 100 + width)
    second = pooled.answers.deviations[1]
    for size in range(100 - 8, 100 + width + 8, 1 + width // 8):
        law = exact(pooled, size)
        if law.chance >= 0.001:
            assert abs(law.bias) <= BIAS * second
            assert law.covered >= 0.95
            assert law.rmse <= PRICE * second


def test_of_one_total_nothing_is_learned():
    pooled = make_estimator(answers("zcdp", NATION, 8), 100, 101)
    assert pooled.weight == 0
    assert pooled.margin == 8
    assert (pooled.change(np.array([100]), np.array([130]), np.array([0.9])) == 0).all()


def test_between_thresholds_that_are_far():
    """The corrections of both ends are added where the window is twice as wide as they reach, and mirror each other."""
    above = estimator("zcdp", NATION, 8)
    width = 2 * above.reach
    both, below = estimator("zcdp", NATION, 8, 0, width), estimator("zcdp", NATION, 8, None, width)
    t, d = (x.ravel() for x in np.meshgrid(np.arange(width), np.arange(-20, 21), indexing="ij"))
    s = t + d
    assert np.array_equal(both.correction(t, s), above.correction(t, s) + below.correction(t, s))
    assert np.array_equal(below.correction(width - 1 - t, width - 1 - s), -above.correction(t, s))
    assert np.array_equal(both.margins(s), np.maximum(above.margins(s), below.margins(s)))
    assert np.array_equal(below.margins(width - 1 - s), above.margins(s))
    for size in (width - 6, width - 1, width + 5):
        law = exact(both, size)
        assert abs(law.bias) <= 1e-4 * both.answers.deviations[1]
        assert law.covered >= 0.95


def test_a_window_of_any_width_is_solved_alike():
    """Twice the reach as one window, and as two edges: the same estimate, up to what the shortest l leaves open."""
    both = answers("zcdp", NATION, 8)
    edge = correct(both)
    whole = correct(both, width=2 * edge.reach)
    t, d = (x.ravel() for x in np.meshgrid(np.arange(edge.reach), np.arange(-12, 13), indexing="ij"))
    assert np.abs(whole.at(t, d) - edge.at(t, d)).max() < 0.01 * both.deviations[1]


@pytest.mark.parametrize(("definition", "gamma"), GAMMAS)
@pytest.mark.parametrize("cells", [pytest.param(1, marks=pytest.mark.slow), 46])
def test_whatever_gamma_is(definition, gamma, cells):
    """The margins cover, the bias is small and no size pays more than PRICE."""
    pooled = estimator(definition, NATION, cells, gamma=gamma)
    second = pooled.answers.deviations[1]
    assert pooled.deviation <= second * (1 + 1e-9)
    for size in sizes(pooled, 0.001, 6):
        law = exact(pooled, size)
        assert abs(law.bias) <= BIAS * second + 1e-9
        assert law.covered >= 0.95
        if law.chance >= 0.01:
            assert law.rmse <= PRICE * second + 1e-9


def test_where_the_margin_far_away_would_not_do():
    """Pure differential privacy at gamma = .5: near the threshold the far margin covers far too little."""
    pooled = estimator("puredp", NATION, 46, gamma=".5")
    assert 0 < pooled.weight < 1
    law = exact(pooled, 0)
    assert (np.abs(law.errors) <= pooled.margin) @ law.chances < 0.6
    assert law.covered >= 0.95


@pytest.mark.ci
def test_wide_noise_is_solved_in_coarser_units():
    """Regional levels: the table is of half the noise, and read between its entries."""
    pooled = estimator("zcdp", "L1", 46)
    assert pooled.edge.correction.scale == 2
    for size in (-75, 0, 150):
        law = exact(pooled, size)
        assert abs(law.bias) <= 0.0005 * pooled.answers.deviations[1]
        assert law.covered >= 0.95


@pytest.mark.ci
def test_in_coarser_units_the_bias_of_counts_is_above_the_bound_of_the_table():
    """docs/estimates.md: under pure DP below states, and the size at which it is largest."""
    pooled = estimator("puredp", "sub-state", 8)
    assert pooled.edge.correction.scale == 2
    bias = abs(exact(pooled, -125).bias) / pooled.answers.deviations[1]
    assert BIAS < 0.0255 < bias < 0.026


@pytest.mark.parametrize(
    ("definition", "width", "weight"),
    [("puredp", 2, 0), ("puredp", 301, 0), ci("zcdp", 301, 1)],
)
def test_a_narrow_window_under_wide_noise(definition, width, weight):
    """Regional levels: where T tells nothing within the window, or its table would be too large, the count stands."""
    pooled = make_estimator(answers(definition, "L1", 8), 0, width)
    assert pooled.weight == weight
    for size in (-40, 0, width // 2, width) if weight else ():
        law = exact(pooled, size)
        assert abs(law.bias) <= BIAS * pooled.answers.deviations[1]
        assert law.covered >= 0.95


def test_the_ends():
    narrow = make_estimator(answers("zcdp", NATION, 1), 0, None)
    assert narrow.weight == 1
    assert make_estimator(answers("zcdp", NATION, 1, ".001"), 0, None).weight == 0  # next to no first answer
    assert make_estimator(answers("puredp", NATION, 46, ".999999"), 0, None).weight in (0, 1)
    next_to_none = make_estimator(answers("zcdp", NATION, 8, ".00000001"), None, None)
    assert (next_to_none.weight, next_to_none.margin) == (0, 8)  # the count's, however coarse a sum over A would be
    everywhere = make_estimator(answers("zcdp", NATION, 8), None, None)
    assert everywhere.edge is None
    assert everywhere.deviation < everywhere.answers.deviations[1]
    with pytest.raises(ValueError, match="empty window"):
        make_estimator(answers("zcdp", NATION, 8), 5, 5)
