"""Confidence sets of ratios: coverage by exact sums, membership by direct sums, Fieller and the delta method."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from statistics import NormalDist

import numpy as np
import pytest

from privacy.estimation.densities import LONGEST, Lattice, density, lattice
from privacy.estimation.ratio_sets import GRID, NoisyRatio
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric

ALPHA = Fraction(1, 10)
LAWS = (DiscreteGaussian(Fraction(4)), TwoSidedGeometric(Fraction(3, 2)))
RNG = np.random.default_rng(36)


def fieller(numerator: int, denominator: int, variances: tuple[float, float]) -> list[float]:
    """The ends of Fieller's set at 90% for normal errors, where it is an interval, within [1, 10].

    (D^2 - z^2 v_D) r^2 - 2 N D r + N^2 - z^2 v_N <= 0.
    """
    of_numerator, of_denominator = (NormalDist().inv_cdf(0.95) ** 2 * each for each in variances)
    a, c = denominator**2 - of_denominator, numerator**2 - of_numerator
    b = numerator * denominator
    return [min(max((b + sign * sqrt(b * b - a * c)) / a, 1), 10) for sign in (-1, 1)]


def noisy(law: Law, numerator: int, denominator: int, draws: int = 1) -> NoisyRatio:
    return NoisyRatio(numerator, denominator, lattice(law, draws), lattice(law), 0, 10)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("n", "d"),
    [(0, 0), (0, 5), (11, 5), *(pytest.param(*each, marks=pytest.mark.ci) for each in ((100, 40), (25_000, 10_000)))],
)
def test_coverage_by_exact_sums(law: Law, n: int, d: int) -> None:
    """P(the true ratio is in the set), summed over both noises; d = 0: it must be for every ratio."""
    x, y = lattice(law), lattice(law)
    ratio = Fraction(n, d) if d else Fraction(5, 2)
    covered = 0.0
    n = n if d else 0
    for noise_x, chance_x in zip(x.values.tolist(), x.chances.tolist(), strict=True):
        for noise_y, chance_y in zip(y.values.tolist(), y.chances.tolist(), strict=True):
            if chance_x * chance_y > 1e-9:
                found = noisy(law, n + noise_x, d + noise_y)
                covered += chance_x * chance_y * (found.chance(ratio) > float(ALPHA))
    assert covered >= 0.9 - 1e-6
    assert covered <= 0.98  # not by being trivial


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.ci
def test_the_interval_holds_every_ratio_of_the_set_and_little_more(law: Law) -> None:
    for numerator, denominator in RNG.integers(-10, 120, (10, 2)).tolist():
        found = noisy(law, numerator, denominator, draws=2)
        interval = found.interval(ALPHA)
        inside = [step for step in range(0, 10 * GRID + 1, 7) if found.chance(Fraction(step, GRID)) > 0.1]
        if inside:
            assert interval.low <= Fraction(min(inside), GRID)
            assert interval.high >= Fraction(max(inside), GRID)
        if interval.extent == "set":
            slack = Fraction(8 + 7, GRID) if denominator > 20 else Fraction(1, 4)
            assert inside
            assert Fraction(min(inside), GRID) - interval.low <= slack
            assert interval.high - Fraction(max(inside), GRID) <= slack


def test_said_in_words() -> None:
    law = DiscreteGaussian(Fraction(4))
    assert noisy(law, 3, 1).interval(ALPHA).extent == "all"
    none = noisy(law, 5000, 100).interval(ALPHA)
    assert (none.extent, none.low, none.high) == ("none", 10, 10)
    assert noisy(law, -5000, 100).interval(ALPHA).high == 0


@pytest.mark.parametrize("numerator", [-50, 0, 3, 900])
def test_one_possible_ratio_is_never_excluded(numerator: int) -> None:
    law = lattice(DiscreteGaussian(Fraction(4)))
    found = NoisyRatio(numerator, 20, law, law, 1, 1).interval(ALPHA)
    assert (found.low, found.high, found.extent) == (1, 1, "all")


def test_intervals_of_the_production_laws() -> None:
    """Delta method at D = 240,000, a state: +-.0023; at D = 5,000, a race of a state: +-.041."""
    for variance, units, denominator, half in ((14782, 14815, 240_000, 0.0023), (1709, 1709, 5000, 0.041)):
        x, y = lattice(DiscreteGaussian(Fraction(variance)), 2), lattice(DiscreteGaussian(Fraction(units)))
        numerator = int(2.549 * denominator)
        found = NoisyRatio(numerator, denominator, x, y, 1, 10).interval(ALPHA)
        assert float(found.high - found.low) / 2 == pytest.approx(half, abs=0.0015)
        ends = fieller(numerator, denominator, (2 * variance, units))
        assert [float(found.low), float(found.high)] == pytest.approx(ends, abs=0.002)


def test_fieller_at_weak_denominators() -> None:
    x, y = lattice(DiscreteGaussian(Fraction(1709)), 2), lattice(DiscreteGaussian(Fraction(1709)))
    for numerator, denominator in ((250, 150), (600, 260), (900, 130)):
        found = NoisyRatio(numerator, denominator, x, y, 1, 10).interval(ALPHA)
        ends = fieller(numerator, denominator, (2 * 1709, 1709))
        assert [float(found.low), float(found.high)] == pytest.approx(ends, abs=0.02)


@pytest.mark.ci
def test_coverage_by_simulation_where_the_delta_method_fails() -> None:
    """d = 40 with a deviation of 41: the delta method covers .85; the set its .9, its ends never false."""
    law = DiscreteGaussian(Fraction(1709))
    x, y = lattice(law), lattice(law)
    inside = 0
    for noise in RNG.choice(x.values, (300, 2), p=x.chances / x.chances.sum()).tolist():
        found = NoisyRatio(100 + noise[0], 40 + noise[1], x, y, 0, 10).interval(ALPHA)
        inside += found.low <= Fraction(5, 2) <= found.high
    assert inside / 300 >= 0.9 - 3 * sqrt(0.09 / 300)


@pytest.mark.parametrize(
    "law",
    [pytest.param(DiscreteGaussian(Fraction(900**2)), marks=pytest.mark.ci), TwoSidedGeometric(Fraction(300))],
)
def test_wide_noise_on_a_lattice_excludes_no_ratio_that_the_law_itself_does_not(law: Law) -> None:
    exact = [Lattice(density(law)), Lattice(np.convolve(density(law, 1e-15), density(law, 1e-15)))]
    deviation = int(law.variance() ** 0.5)
    for numerator, denominator in ((0, 0), (3 * deviation, deviation), (30 * deviation, 10 * deviation), (-9, 4)):
        coarse = NoisyRatio(numerator, denominator, lattice(law, 2), lattice(law), 0, 10)
        fine = NoisyRatio(numerator, denominator, exact[1], exact[0], 0, 10)
        for step in range(0, 10 * GRID, 500):
            chances = [each.chance(Fraction(step, GRID)) for each in (coarse, fine)]
            assert chances[1] - 1e-9 <= chances[0] <= chances[1] + 0.02
        one, other = coarse.interval(ALPHA), fine.interval(ALPHA)
        assert one.low <= other.low
        assert one.high >= other.high
        assert other.low - one.low + one.high - other.high <= Fraction(1, 20)


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(10) ** 10), TwoSidedGeometric(Fraction(40_000))])
@pytest.mark.parametrize("count", [*(pytest.param(few, marks=pytest.mark.ci) for few in (0, 10**6)), 10**12])
def test_sets_for_the_widest_noise_and_huge_counts(law: Law, count: int) -> None:
    """In tenths of a second: no law of noise is longer than a lattice, which has the law's variance."""
    laws = [lattice(law, draws) for draws in (1, 2, 3)]
    assert max(len(each.chances) for each in laws) <= 1.1 * LONGEST
    assert [each.variance for each in laws] == pytest.approx([draws * law.variance() for draws in (1, 2, 3)], 1e-4)
    interval = NoisyRatio(3 * count, count, lattice(law, 3), lattice(law, 2), 1, 100).interval(ALPHA)
    assert interval.low <= 3 <= interval.high or count == 0
    assert (interval.extent == "all") == (count == 0)
