"""The sampler against integer arithmetic: its boundaries, its draws, and the path of ambiguous words."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from fixed_point_laws import cdf, inverse_cdf, pmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric
from privacy.noise.margins import margin_of_error, suppression_threshold
from privacy.noise.randomness import Keystream
from privacy.noise.sampler import BLOCK, LONGEST_TABLE, Sampler, check_law, settle
from privacy.noise.sampler import boundaries as make_boundaries

SMALL = [DiscreteGaussian(Fraction(1, 20)), DiscreteGaussian(Fraction(21, 10)), TwoSidedGeometric(Fraction(1, 3))]
MEDIUM = [DiscreteGaussian(Fraction(5000, 159)), TwoSidedGeometric(Fraction(12))]
LARGE = [DiscreteGaussian(Fraction(5625)), TwoSidedGeometric(Fraction(12000))]
LAWS = [*SMALL, *MEDIUM, *LARGE]
FULL = (1 << 64) - 1
boundaries = lru_cache(make_boundaries)

by_name = pytest.mark.parametrize("law", [*LAWS[:-1], pytest.param(LARGE[1], marks=pytest.mark.slow)], ids=str)
small_ones = pytest.mark.parametrize("law", [*SMALL, *MEDIUM, pytest.param(LARGE[0], marks=pytest.mark.ci)], ids=str)


def no_refinement(position, round):
    raise AssertionError("no word here is ambiguous")


@by_name
def test_every_boundary_against_integer_arithmetic(law):
    bits, slack = 224, 1 << 64  # the last 64 bits hold the errors of at most some 10^6 operations
    outermost, table = cdf(law, bits)
    ours = boundaries(law).tolist()
    half = len(ours) // 2
    for k, boundary in zip(range(-half, half), ours, strict=True):
        value = table[k + outermost]
        assert (value - slack) >> (bits - 64) == (value + slack) >> (bits - 64) == boundary
    assert ours[0] == 0 < ours[1]
    assert ours[-1] == FULL > ours[-2]


@by_name
def test_words_away_from_boundaries(law):
    """Uniform words, and words next to every boundary (a thousand of them), through guide table and search alike."""
    table = boundaries(law)
    some = table[:: max(1, len(table) // 1000)]
    words = np.concatenate(
        [Keystream(bytes(32)).words(0, 3 * BLOCK + 7), some[some > 1] - 1, some[some < FULL - 1] + 1]
    )
    words = words[~np.isin(words, table)]
    expected = np.searchsorted(table, words) - len(table) // 2  # the first c_k > w, no word being equal to one
    draws = Sampler(law).sample(words, no_refinement)
    assert draws.dtype == np.int64
    np.testing.assert_array_equal(draws, expected)
    if law != LARGE[1]:  # half a million tails of 128 bits: compared above, in the test of the boundaries
        for word, draw in zip(words[-200:].tolist(), draws[-200:].tolist(), strict=True):
            assert inverse_cdf(law, word, 64) == draw


def test_no_words():
    assert Sampler(SMALL[1]).sample(np.empty(0, np.uint64), no_refinement).shape == (0,)


class Script:
    """`refine` that hands out written words and keeps what it was asked."""

    def __init__(self, *words):
        self.words, self.asked = words, []

    def __call__(self, position, round):
        self.asked.append((position, round))
        return self.words[round]


@small_ones
def test_a_word_equal_to_a_boundary_is_refined(law):
    """All boundaries of a small table, some of a large one: the next word decides, before or after their own bits."""
    outermost, table = cdf(law, 512)
    half = len(boundaries(law)) // 2
    for k in range(-half + 1, half - 1, half // 250 + 1):
        value = table[k + outermost]
        word, following = value >> 448, value >> 384 & FULL
        for further in (0, following - 1, following + 1, FULL):
            script = Script(further)
            draws = Sampler(law).sample(np.array([word], np.uint64), script)
            assert draws[0] == inverse_cdf(law, word << 64 | further, 128)
            if abs(further - following) == 1:
                assert draws[0] == (k if further < following else k + 1)
            assert script.asked == [(0, 0)]


@small_ones
def test_refinement_of_several_rounds(law):
    """Words that follow a boundary for 2, 3, 4 rounds and leave it in the last bit of the next."""
    outermost, table = cdf(law, 640)
    half = len(boundaries(law)) // 2
    for k in (-half + 1, -2, -1, 0, 1, half - 2):
        if not -half < k < half - 1:
            continue
        value = table[k + outermost]
        for rounds in (2, 3, 4):
            bits = 64 * (rounds + 1)
            prefix = value >> (640 - bits)
            for step, expected in ((-1, k), (1, k + 1)):
                words = [(prefix + step) >> (bits - 64 - 64 * i) & FULL for i in range(rounds + 1)]
                script = Script(*words[1:])
                assert settle(law, words[0], lambda round, script=script: script(0, round)) == expected
                assert inverse_cdf(law, prefix + step, bits) == expected
                assert script.asked == [(0, round) for round in range(rounds)]


@small_ones
@settings(max_examples=25, derandomize=True, deadline=None)
@given(zeros=st.integers(0, 3), further=st.integers(1, FULL - 1), below=st.booleans())
def test_first_and_last_cell(law, zeros, further, below):
    """The first words of a U as near to 0 or 1 as one likes: never decided, and no bound on the tail."""
    outer = 0 if below else FULL
    script = Script(*[outer] * zeros, further, 12345, 67890)
    draw = int(Sampler(law).sample(np.array([outer], np.uint64), script)[0])
    rounds = len(script.asked)
    assert rounds > zeros
    uniform = outer
    for word in script.words[:rounds]:
        uniform = uniform << 64 | word
    assert draw == inverse_cdf(law, uniform, 64 * (rounds + 1))
    half = len(boundaries(law)) // 2
    assert draw <= -half + 1 if below else draw >= half - 1


def test_positions_of_ambiguous_words_in_later_blocks():
    law = SMALL[1]
    words = Keystream(bytes(32)).words(0, 2 * BLOCK + 100).copy()
    plain = Sampler(law).sample(words, no_refinement)
    places = [0, 5, BLOCK - 1, BLOCK, 2 * BLOCK + 99]
    words[places] = boundaries(law)[[3, 0, 9, -1, 12]]
    script = Script(1 << 63, 7)
    draws = Sampler(law).sample(words, script)
    assert sorted({position for position, _ in script.asked}) == places
    assert [round for position, round in script.asked if position == 0] == [0]
    for place in places:
        uniform = int(words[place]) << 64 | 1 << 63
        assert draws[place] == inverse_cdf(law, uniform, 128)
    np.testing.assert_array_equal(np.delete(draws, places), np.delete(plain, places))


@by_name
def test_draws_follow_the_law(law):
    """Chi-square of 2 million draws in cells of at least 50 expected ones; false alarm 10^-6 a law (fixed words)."""
    n = 2_000_000
    draws = Sampler(law).sample(Keystream(b"chi-square of the sampler: words").words(0, n), no_refinement)
    outermost, probability = pmf(law)
    ends, expected, so_far = [], [], 0.0
    for k, p in enumerate(probability, -outermost):
        so_far += n * p
        if so_far >= (n / 400 if len(probability) > 1000 else 50):
            ends.append(k)
            expected.append(so_far)
            so_far = 0.0
    expected[-1] += so_far
    counted = np.bincount(np.minimum(np.searchsorted(ends, draws), len(ends) - 1), minlength=len(ends))
    assert len(expected) >= 3
    assert chi2.sf(((counted - expected) ** 2 / expected).sum(), len(expected) - 1) > 1e-6


@pytest.mark.parametrize("law", [TwoSidedGeometric(Fraction(10**6)), DiscreteGaussian(Fraction(10**13))], ids=str)
def test_a_table_too_long_is_refused(law):
    with pytest.raises(ValueError, match=r"2\^22 boundaries"):
        Sampler(law)


def test_tables_are_made_once_and_cannot_be_changed():
    first, second = Sampler(DiscreteGaussian(Fraction(3))), Sampler(DiscreteGaussian(Fraction(6, 2)))
    assert first._boundaries is second._boundaries
    with pytest.raises(ValueError, match="read-only"):
        first._boundaries[0] = 1


@pytest.mark.parametrize("exponent", [-90, -30, -9, -6, -5, 5, 6, pytest.param(9, marks=pytest.mark.ci), 90])
@pytest.mark.parametrize("kind", [DiscreteGaussian, TwoSidedGeometric])
def test_a_law_is_refused_at_once_or_can_be_drawn_from(kind, exponent):
    """Whatever the budget: no long arithmetic, and no law that passes here and fails when the noise is drawn."""
    law = kind(Fraction(10) ** exponent)
    if kind is TwoSidedGeometric or exponent not in (5, 6, 9):
        with pytest.raises(ValueError, match="the noise is too " + ("wide" if exponent > 0 else "narrow")):
            check_law(law)
        return
    check_law(law)
    assert len(boundaries(law)) <= LONGEST_TABLE
    assert margin_of_error(law) > 0


@pytest.mark.parametrize(
    "law", [DiscreteGaussian(Fraction(1, (1 << 15) - 1)), TwoSidedGeometric(Fraction(1, (1 << 14) - 1))]
)
def test_the_narrowest_laws_can_be_drawn_from(law):
    check_law(law)
    draws = Sampler(law).sample(np.array([0, 1, 1 << 63, FULL], np.uint64), lambda position, round: 1 << 63)
    assert draws[1:3].tolist() == [0, 0]
    assert [margin_of_error(law, cells) for cells in (1, 2, 1000)] == [0, 0, 0]
    assert suppression_threshold(law, Fraction(99, 100)) == 0
