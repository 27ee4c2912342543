"""Two groups of runs are told apart as often as is claimed, and no more; all draws are fixed."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from privacy.analyses.error_measures import Closeness
from privacy.analyses.replicates import (
    LEVEL,
    PERMUTATIONS,
    Sample,
    Spread,
    coverage,
    holm,
    intervals,
    labellings,
    least_chance,
    permutation_tests,
    ratio_of_rms,
)

COUNTS = 60


def runs(rng: np.random.Generator, number: int, scale: float = 1.0, bias: float = 0.0) -> np.ndarray:
    """Errors of runs whose counts depend on each other strongly: half of each is common to the run's neighbours."""
    own = rng.normal(0, scale, (number, COUNTS))
    return np.rint(4 * (own + np.roll(own, 1, axis=1) + rng.normal(0, scale, (number, 1))) + bias)


def differs(ours: np.ndarray, theirs: np.ndarray, permutations: int = 999) -> bool:
    sample = Sample.of(np.concatenate([ours, theirs]), COUNTS)
    chances = permutation_tests(sample, len(ours), permutations)
    return bool((holm(np.array([*chances.values()])) < 5 * LEVEL).any())  # at 5%, for fewer repetitions


def test_runs_of_one_law_are_said_to_differ_as_seldom_as_is_claimed() -> None:
    """At 5%: of 300 comparisons 15 are expected; more than 26 in one of 500 tests such as this."""
    rng = np.random.default_rng(7)
    assert sum(differs(runs(rng, 8), runs(rng, 12), 399) for _ in range(300)) <= 26


@pytest.mark.parametrize(("ours", "theirs"), [(18, 3), (20, 3), (22, 3), (24, 3), (7, 7), (12, 25)])
def test_the_least_chance_is_reached_by_groups_far_apart(ours: int, theirs: int) -> None:
    """Of two groups that overlap nowhere no labelling is as far apart as the observed one, except its mirror."""
    rng = np.random.default_rng(ours)
    apart = np.concatenate([runs(rng, ours), runs(rng, theirs, 1.0, 4000.0)])
    chances = permutation_tests(Sample.of(apart, COUNTS), ours)
    assert chances["means"] == chances["distance"] == least_chance(ours + theirs, ours)
    if comb(ours + theirs, ours) <= PERMUTATIONS:
        assert least_chance(ours + theirs, ours) == (1 + (ours == theirs)) / comb(ours + theirs, ours)


def test_few_labellings_are_all_there_once() -> None:
    for few in (3, 5):
        found = labellings(8, few)
        assert len(np.unique(found, axis=0)) == len(found) == comb(8, few)
        assert (found.sum(axis=1) == few).all()
        assert found[0].tolist() == [True] * few + [False] * (8 - few)


@pytest.mark.parametrize(("scale", "bias"), [(1.6, 0.0), (1.0, 10.0)], ids=["spread", "means"])
def test_another_spread_or_mean_is_found(scale: float, bias: float) -> None:
    rng = np.random.default_rng(8)
    assert all(differs(runs(rng, 10), runs(rng, 25, scale, bias)) for _ in range(10))


def test_chunks_of_counts_give_the_sample_of_all() -> None:
    errors = np.random.default_rng(1).integers(-3, 4, (6, 40)).astype(float)
    errors[:, 5] = 2  # the same in every run
    whole = Sample.of(errors, 1000)
    parts = Sample.of(errors[:, :17], 1000).joined(Sample.of(errors[:, 17:], 1000))
    assert whole.counts == parts.counts == 39
    np.testing.assert_allclose(whole.products, parts.products)
    assert permutation_tests(whole, 3, 99) == pytest.approx(permutation_tests(parts, 3, 99))
    # The statistic of means is what its words say: by hand, from the errors.
    scaled = np.delete(errors, 5, axis=1)
    scaled = (scaled - scaled.mean(axis=0)) / scaled.std(axis=0)
    weight = np.array([1, 1, 1, -1, -1, -1]) / 3
    expected = ((scaled[:3].mean(axis=0) - scaled[3:].mean(axis=0)) ** 2).mean()
    assert weight @ whole.products @ weight / whole.counts == pytest.approx(expected)


def test_intervals_are_those_of_the_rule() -> None:
    spread = Spread(np.array([0.0, -3.0, 3.0, 3.0, 3.0]), np.full(5, 2.0), np.full(5, 2.0))
    low, high = intervals(np.array([[10.0, 10.0, 10.0, 30.0, 5.0]]), spread)
    # 2.015 x 2 = 4.03; a bias is taken off where it is negative, or positive and the count 25 or more.
    assert low.tolist() == [[5, 8, 5, 22, 0]]
    assert high.tolist() == [[15, 18, 15, 32, 10]]


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(50, 1000, 2000).astype(float)
    ours, theirs = (rng.normal(0, 6, (number, 2000)) for number in (10, 40))
    assert 0.90 < coverage(truth, ours, Spread.of(theirs)) / ours.size < 0.97  # 2.015 deviations hold 95.6 per cent


def test_the_jackknife_is_the_spread_of_the_ratio() -> None:
    rng = np.random.default_rng(4)
    draws = [(rng.chisquare(20, 12), rng.chisquare(20, 30)) for _ in range(400)]
    found = np.array([ratio_of_rms(ours, theirs) for ours, theirs in draws])
    assert found[:, 0].mean() == pytest.approx(1, abs=0.01)
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.1)


def test_holm_multiplies_the_least_most() -> None:
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_counts_are_close_by_either_measure() -> None:
    true = np.array([0, 0, 10, 200, 200, 1000])
    error = np.array([3, 9, -5, 10, 11, -20])
    shares = Closeness.of(error, true).shares(len(true))
    assert shares == pytest.approx(
        {
            "mape": 100 * (0.5 + 0.05 + 0.055 + 0.02) / 4,
            "within_5_percent": 50.0,
            "within_5": 100 * 2 / 6,
            "outliers": 100 * 2 / 6,
        }
    )
