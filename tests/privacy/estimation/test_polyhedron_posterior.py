"""Posteriors by exact sums: equal to triple loops, to closed forms of the normal law, and with the stated bias."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from privacy.estimation.densities import LONGEST, Density, Lattice, density, lattice
from privacy.estimation.polyhedron_posterior import GRID, LEVELS, part_ratio, posterior, ratio, sum_of
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric

LAWS = (DiscreteGaussian(Fraction(3)), TwoSidedGeometric(Fraction(4, 5)))
STATE_BY_RACE = DiscreteGaussian(Fraction("1708.774"))  # the production budgets
RNG = np.random.default_rng(36)


def chance(noise: Density, value: int) -> float:
    reach = len(noise) // 2
    return float(noise[value + reach]) if abs(value) <= reach else 0.0


def of_ratios(weights: dict[Fraction, float]) -> list[float]:
    """The mean and the quantiles of LEVELS, rounded up to the grid, of a law that is written out."""
    total, reached, found = sum(weights.values()), 0.0, []
    for value in sorted(weights):
        reached += weights[value] / total
        while len(found) < len(LEVELS) and reached >= LEVELS[len(found)]:
            found.append(-(-value * GRID // 1) / GRID)
    return [sum(float(value) * weight for value, weight in weights.items()) / total, *map(float, found)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("noisy", [(0, 0, 0), (-4, 9, 3), (30, 2, 4), (1, 2, 12)])
@pytest.mark.parametrize(("least", "most"), [pytest.param(1, 10, marks=pytest.mark.slow), (2, 6)])
def test_a_ratio_is_the_triple_loop(law: Law, noisy: tuple[int, int, int], least: int, most: int) -> None:
    noise = density(law, 1e-9)
    reach, noises = len(noise) // 2, Lattice(noise)
    ranges = [range(max(first, z - reach), z + reach + 1) for z, first in zip(noisy, (0, 0, 1), strict=True)]
    totals: dict[Fraction, float] = defaultdict(float)
    parts: dict[Fraction, float] = defaultdict(float)
    means = np.zeros(4)
    for n2, n3, d in product(*ranges):
        if least * d <= n2 + n3 <= most * d:
            chances = [chance(noise, z - y) for z, y in zip(noisy, (n2, n3, d), strict=True)]
            weight = float(np.prod(chances))
            totals[Fraction(n2 + n3, d)] += weight
            parts[Fraction(n2, d)] += weight
            means += np.array([1, n2 + n3, n2, d]) * weight
    means /= means[0]
    minors, adults, units = posterior(noisy[0], noises), posterior(noisy[1], noises), posterior(noisy[2], noises, 1)
    total = ratio(sum_of([minors, adults]), units, least, most)
    assert [total.mean, total.low, total.high] == pytest.approx(of_ratios(totals), abs=1e-9)
    assert [total.numerator, total.denominator] == pytest.approx([means[1], means[3]])
    part = part_ratio(minors, adults, units, least, most)
    assert [part.mean, part.low, part.high] == pytest.approx(of_ratios(parts), abs=1e-9)
    assert [part.numerator, part.denominator] == pytest.approx([means[2], means[3]])


@pytest.mark.parametrize("law", LAWS)
def test_a_count_and_a_sum_are_direct_sums(law: Law) -> None:
    noise = density(law)
    reach, noises = len(noise) // 2, Lattice(noise)
    for noisy in (-6, 0, 2, 40):
        weights = {y: chance(noise, noisy - y) for y in range(noisy + reach + 1)}
        total = sum(weights.values())
        found = posterior(noisy, noises)
        assert found.mean == pytest.approx(sum(y * weight for y, weight in weights.items()) / total)
        for level in (*LEVELS, 0.5):
            below = [sum(weights[each] for each in range(y + 1)) / total for y in weights]
            assert found.quantile(level) == next(y for y in weights if below[y] >= level - 1e-12)
    each = [posterior(noisy, noises) for noisy in (-2, 1, 5)]
    direct: dict[int, float] = defaultdict(float)
    for ys in product(*(zip(one.values.tolist(), one.chances.tolist(), strict=True) for one in each)):
        direct[sum(y for y, _ in ys)] += float(np.prod([weight for _, weight in ys]))
    summed = sum_of(each)
    assert summed.mean == pytest.approx(sum(one.mean for one in each))
    assert [direct[y] for y in summed.values.tolist()] == pytest.approx(summed.chances.tolist(), abs=1e-13)


def test_a_wide_law_is_the_truncated_normal() -> None:
    """Mean Z + s phi(Z/s) / Phi(Z/s), as the published models have it; lattice and line differ by half a count."""
    noise, deviation = lattice(STATE_BY_RACE), sqrt(1708.774)
    for noisy in (-80, -20, 0, 30, 100, 5000):
        found, z = posterior(noisy, noise), noisy / deviation
        assert found.mean == pytest.approx(noisy + deviation * norm.pdf(z) / norm.cdf(z), abs=0.5)
        ends = truncnorm.ppf(LEVELS, -z, np.inf, noisy, deviation)
        assert [found.quantile(level) for level in LEVELS] == pytest.approx(ends, abs=1)


def test_the_bias_that_is_stated() -> None:
    """In standard deviations: +.90 of an empty cell, +.41, .14 and .03 at 1, 2, 3; +112 of an empty table of PH7."""
    noise, deviation = lattice(STATE_BY_RACE), sqrt(1708.774)
    biases = []
    for true in (0, 41, 83, 124):
        means = [posterior(true + each, noise).mean for each in noise.values.tolist()]
        biases.append((float(np.array(means) @ noise.chances) - true) / deviation)
    assert biases == pytest.approx([0.90, 0.41, 0.14, 0.03], abs=0.011)
    assert 3 * biases[0] * deviation == pytest.approx(112, abs=1.5)


def test_coverage_by_exact_sums_depends_on_the_count() -> None:
    """90% intervals cover a count far from 0 in 90 of 100 releases, an empty cell in none: its end is above 0."""
    noise = lattice(STATE_BY_RACE)
    covered = []
    for true in (0, 41, 1000):
        held = [
            found.quantile(LEVELS[0]) <= true <= found.quantile(LEVELS[1])
            for each in noise.values.tolist()
            for found in [posterior(true + each, noise)]
        ]
        covered.append(float(noise.chances @ np.array(held)))
    assert covered[0] < 0.05
    assert covered[2] == pytest.approx(0.9, abs=0.006)


def test_a_ratio_of_large_counts_is_the_delta_method() -> None:
    """A state: +-.0023 at 90%; parts without a bound nearby are as the joint sum has them."""
    noise, units = lattice(DiscreteGaussian(Fraction(14782))), lattice(DiscreteGaussian(Fraction(14815)))
    minors, adults, households = posterior(130_000, noise), posterior(480_000, noise), posterior(240_000, units, 1)
    found = ratio(sum_of([minors, adults]), households, 1, 10)
    assert found.mean == pytest.approx(610 / 240, abs=1e-4)
    assert (found.high - found.low) / 2 == pytest.approx(0.0023, abs=1e-4)
    assert ratio(posterior(610_000, lattice(DiscreteGaussian(Fraction(14782)), 2)), households, 1, 10).mean == (
        pytest.approx(found.mean, abs=1e-6)
    )
    near = posterior(1200, lattice(LAWS[0])), posterior(3300, lattice(LAWS[0])), posterior(1000, lattice(LAWS[0]), 1)
    apart = part_ratio(*near, 1, 10)
    joint = part_ratio(near[0], near[1], posterior(449, lattice(LAWS[0]), 1), 1, 10)  # the bound of 10 is within reach
    assert apart.mean == pytest.approx(1.2, abs=1e-3)
    assert joint.mean == pytest.approx(1200 / 451, abs=0.02)


def test_draws_of_the_models_definition() -> None:
    """A million draws of the normal model in its polyhedron: the same within a count over the denominator."""
    deviations, noisy = np.array([41.3, 41.3, 41.3]), np.array([60.0, 150.0, 90.0])
    draws = RNG.normal(noisy, deviations, (1_000_000, 3))
    total = draws[:, 0] + draws[:, 1]
    kept = (draws[:, :2] >= 0).all(axis=1) & (draws[:, 2] >= 1) & (draws[:, 2] <= total) & (total <= 10 * draws[:, 2])
    noise = lattice(DiscreteGaussian(Fraction("1705.69")))
    minors, adults, units = posterior(60, noise), posterior(150, noise), posterior(90, noise, 1)
    for found, drawn in (
        (ratio(sum_of([minors, adults]), units, 1, 10), (total / draws[:, 2])[kept]),
        (part_ratio(minors, adults, units, 1, 10), (draws[:, 0] / draws[:, 2])[kept]),
    ):
        assert found.mean == pytest.approx(drawn.mean(), abs=0.02)
        assert [found.low, found.high] == pytest.approx(np.quantile(drawn, LEVELS), abs=0.05)


def test_counts_that_contradict_the_polyhedron_beyond_any_noise_have_the_nearest_ratio() -> None:
    noise = lattice(LAWS[0])
    assert posterior(-10_000, noise).mean == 0
    one, ten = posterior(1, noise, 1), posterior(10_000, noise)
    assert repr(ratio(ten, one, 1, 10).high) == "10.0"  # a column of ratios is of floats
    assert part_ratio(ten, posterior(0, noise), one, 1, 10).low == 10


WIDE = (DiscreteGaussian(Fraction(1500**2)), TwoSidedGeometric(Fraction(300)))
WIDEST = (DiscreteGaussian(Fraction(10) ** 10), TwoSidedGeometric(Fraction(40_000)))  # of the sampler, nearly


@pytest.mark.parametrize(("law", "place"), [(WIDE[0], (0, 0, 0)), (WIDE[1], (-2, 40, 4))])
@pytest.mark.long
def test_wide_noise_is_rounded_to_a_lattice_with_the_accuracy_that_is_stated(law: Law, place: tuple[int, ...]) -> None:
    """A hundredth of a deviation; a ratio is off as if either count were."""
    deviation = law.variance() ** 0.5
    found = []
    for noise in (lattice(law), Lattice(density(law))):
        noisy = [int(each * deviation) for each in place]
        minors, adults, units = (posterior(n, noise, least) for n, least in zip(noisy, (0, 0, 1), strict=True))
        total = sum_of([minors, adults])
        found.append((minors, total, ratio(total, units, 1, 10), part_ratio(minors, adults, units, 1, 10)))
    assert found[0][0].step == 3
    assert found[1][0].step == 1
    for one, other in zip(found[0][:2], found[1][:2], strict=True):
        assert one.mean == pytest.approx(other.mean, abs=deviation / 100)
        ends = [[each.quantile(level) for level in LEVELS] for each in (one, other)]
        assert ends[0] == pytest.approx(ends[1], abs=deviation / 100)
    for one, other in zip(found[0][2:], found[1][2:], strict=True):
        assert [one.numerator, one.denominator] == pytest.approx([other.numerator, other.denominator], rel=0.01)
        assert [one.mean, one.low, one.high] == pytest.approx([other.mean, other.low, other.high], rel=0.02, abs=0.01)


@pytest.mark.parametrize("law", WIDEST)
@pytest.mark.parametrize("scale", [0, 10**12])
@pytest.mark.ci
def test_the_widest_noise_and_huge_counts_take_bounded_work(law: Law, scale: int) -> None:
    """The lengths bound time and memory; the largest joint sum there is takes a second."""
    noises = [lattice(law, draws) for draws in (1, 2, 3)]
    assert max(len(noise.chances) for noise in noises) <= 1.1 * LONGEST
    assert [noise.variance for noise in noises] == pytest.approx([draws * law.variance() for draws in (1, 2, 3)], 1e-4)
    reach = noises[0].step * LONGEST // 4
    minors, adults = (posterior(reach + each * scale, noises[0]) for each in (6, 13))
    units = posterior(reach // 2 + 5 * scale, noises[0], 1)
    total, part = ratio(sum_of([minors, adults]), units, 1, 10), part_ratio(minors, adults, units, 1, 10)
    assert 1 <= total.low <= total.mean + 1 / GRID <= total.high + 1 / GRID <= 10 + 1 / GRID
    assert 0 <= part.low <= part.mean + 1 / GRID <= part.high + 1 / GRID <= 10 + 1 / GRID
    if scale > 1:
        assert [total.mean, part.mean] == pytest.approx([19 / 5, 6 / 5], abs=1e-3)
