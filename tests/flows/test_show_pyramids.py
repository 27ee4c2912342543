"""Pyramids: areas are persons; sex ratio and shares keep their intervals under the noise."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from flows.reports.show.group import sex_ratio
from flows.reports.show.view import RELEASED
from privacy.noise.laws import DiscreteGaussian
from privacy.noise.margins import margin_of_error
from tasks.releases.pages import end_of_axis
from tasks.safetab.persons.details import AGE4, AGE9, AGE23, AGES, LAST_AGE
from tasks.safetab.persons.pyramid import BOTTOM, YEAR, Pyramid, PyramidCell, pyramid


def table(counts: np.ndarray, ages: tuple[int, ...], margin: int = 0, of_sex: int = 0) -> Pyramid:
    """The pyramid of counts by sex and age group, with margins of a cell and of a sex's sum."""
    ends = [*(one - 1 for one in ages[1:]), LAST_AGE]
    cells = [
        PyramidCell(start, end, sex + 1, int(counts[sex, at]), margin)
        for at, (start, end) in enumerate(zip(ages, ends, strict=True))
        for sex in (0, 1)
    ]
    return pyramid([*cells, *(PyramidCell(None, None, sex + 1, int(counts[sex].sum()), of_sex) for sex in (0, 1))])


def even(ages: tuple[int, ...], a_year: int) -> np.ndarray:
    """Counts of equally many persons in every year of age up to 99."""
    return np.array([[a_year * (b - a) for a, b in pairwise([*ages, 100])]] * 2)


@pytest.mark.parametrize("detail", [AGE4, AGE9, AGE23])
def test_areas_are_persons_and_single_years_make_no_waist(detail):
    drawn = table(even(AGES[detail], 30), AGES[detail], 7, 20).by_persons()
    assert len({bar.width for bar in drawn.bars}) == 1  # the same number in every year: bars of one length
    assert [bar.is_open for bar in drawn.bars] == [False] * (len(drawn.bars) - 2) + [True] * 2
    assert min(bar.y for bar in drawn.bars) == pytest.approx(BOTTOM - 100 * YEAR, abs=0.5)
    counts = even(AGES[detail], 30) * np.arange(1, len(AGES[detail]) + 1)
    pairs = zip(table(counts, AGES[detail]).by_persons().bars, counts.T.ravel(), strict=True)
    scale = {round((bar.height + 0.8) * bar.width / count, 2) for bar, count in pairs}
    assert max(scale) - min(scale) < 0.03 * max(scale)
    assert {text for text, _ in drawn.labels} <= {str(age) for age in range(100)} | {f"{AGES[detail][-1]}+"}


@pytest.mark.parametrize("most", [0.013, 0.6, 0.61, 1, 3, 9, 81, 12_345])
def test_an_axis_ends_at_a_round_number_that_is_enough(most):
    end = end_of_axis(most)
    assert most <= end <= 2 * most
    assert f"{end:.12g}".strip("0.") in {"1", "2", "4", "6", "8"}


@pytest.mark.parametrize(("a_year", "sigma_squared"), [pytest.param(40, 100, marks=pytest.mark.slow), (3, 60)])
@pytest.mark.ci
def test_intervals_and_margins_cover_what_noise_hides(a_year, sigma_squared):
    """2,000 runs of noise: each covers 95%, less 5 standard deviations of the share (false alarm < 1e-6 each)."""
    law = DiscreteGaussian(Fraction(sigma_squared))
    ages = AGES[AGE23]
    reach = np.arange(-200, 201)
    chance = np.exp(-(reach.astype(float) ** 2) / (2 * sigma_squared))
    true = even(ages, a_year) * np.linspace(3, 0.3, len(ages)) * np.array([[1.1], [0.9]])
    true = true.round().astype(int)
    ratio, margins = sex_ratio(table(true, ages), RELEASED), [margin_of_error(law, n) for n in (1, 23)]
    share = true[0, 3] / true.sum()
    draw, covered, runs = np.random.default_rng(20), np.zeros(2), 2000
    for _ in range(runs):
        noisy = table(true + draw.choice(reach, true.shape, p=chance / chance.sum()), ages, *margins)
        of_sex = sex_ratio(noisy, RELEASED)
        drawn = noisy.share(noisy.ages[3].male)
        covered += [
            of_sex.low is None or (of_sex.low <= ratio.value and (of_sex.high is None or ratio.value <= of_sex.high)),
            drawn is None or abs(drawn.value - share) <= drawn.margin,
        ]
    assert (covered / runs > 0.95 - 5 * np.sqrt(0.05 * 0.95 / runs)).all(), covered / runs
    assert (covered / runs < 0.99).all(), covered / runs


@pytest.mark.parametrize(("sigma_squared", "cells"), [(0.25, 4), (0.5, 1), (1, 4)])
@pytest.mark.parametrize(("male", "female"), [(100, 100), (57, 101), (40, 1), (3, 1), (1000, 7)])
def test_a_sex_ratio_is_right_in_at_least_95_of_100_releases(sigma_squared, cells, male, female):
    """Exact: the law of both sums, over all releases, those without an upper end and without any included."""
    reach = np.arange(-40, 41)
    chance = np.exp(-(reach.astype(float) ** 2) / (2 * sigma_squared))
    law = np.ones(1)
    for _ in range(cells):
        law = np.convolve(law, chance / chance.sum())
    noise = np.arange(len(law)) - len(law) // 2
    margin = next(m for m in range(99) if law[abs(noise) > m].sum() <= 0.05)
    likely = abs(noise) <= 5 * np.sqrt(cells * sigma_squared) + 1
    right, true = 0.0, 100 * male / female
    for of_male, p in zip(noise[likely], law[likely], strict=True):
        for of_female, q in zip(noise[likely], law[likely], strict=True):
            counts = np.array([[male + of_male, 0, 0, 0], [female + of_female, 0, 0, 0]])
            found = sex_ratio(table(counts, AGES[AGE4], margin, margin), RELEASED)
            low, high = (end if end is not None else edge for end, edge in ((found.low, -1), (found.high, np.inf)))
            right += p * q * (low - 1e-9 <= true <= high + 1e-9)
    assert right >= 0.95
