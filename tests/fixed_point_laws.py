"""The noise laws in plain integer arithmetic and by other formulas: the reference of the tests of `privacy`.

A number x is held as the integer nearest to x 2^bits, up to a few units for every operation done.
"""

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache

from privacy.noise.laws import DiscreteGaussian, Law

GUARD = 64


def exp_minus(r: Fraction, bits: int) -> int:
    """2^bits exp(-r), r >= 0, by the Taylor series of exp(r / 2^h), squared h times, and one division."""
    halvings = max(0, r.numerator.bit_length() - r.denominator.bit_length() + 8)
    inner = bits + GUARD + 2 * halvings
    small = r / 2**halvings
    total, term, n = 0, 1 << inner, 0
    while term:
        total += term
        n += 1
        term = term * small.numerator // (small.denominator * n)
    power = Fraction(total, 1 << inner)
    for _ in range(halvings):
        power = Fraction((power.numerator**2 << inner) // power.denominator**2, 1 << inner)
    return (power.denominator << bits) // power.numerator


@lru_cache(maxsize=64)
def upper_weights(law: Law, bits: int) -> list[int]:
    """P(X = k) up to a factor, k = 0, 1, ... until it is below 2^-bits."""
    if isinstance(law, DiscreteGaussian):  # each from its own exponential
        weights = [1 << bits]
        while weights[-1]:
            weights.append(exp_minus(Fraction(len(weights) ** 2) / (2 * law.sigma_squared), bits))
        return weights
    x = exp_minus(1 / law.scale, bits)
    weights = [1 << bits]
    while weights[-1] > 1:
        weights.append(weights[-1] * x >> bits)
    return weights


@lru_cache(maxsize=64)
def upper_tails(law: Law, bits: int) -> list[int]:
    """2^bits P(X > k) for k = 0, 1, ...: summed from the far end."""
    inner = bits + GUARD
    weights = upper_weights(law, inner)
    total = weights[0] + 2 * sum(weights[1:])
    tails, beyond = [], 0
    for weight in reversed(weights[1:]):
        beyond += weight
        tails.append((beyond << bits) // total)
    return tails[::-1]


@lru_cache(maxsize=64)
def cdf(law: Law, bits: int) -> tuple[int, list[int]]:
    """(K, [2^bits P(X <= k) for k = -K, ..., K - 1])."""
    tails = upper_tails(law, bits)
    return len(tails), [*reversed(tails), *((1 << bits) - tail for tail in tails)]


def pmf(law: Law) -> tuple[int, list[float]]:
    """(K, [P(X = k) for k = -K, ..., K])."""
    weights = upper_weights(law, 128)
    total = weights[0] + 2 * sum(weights[1:])
    upper = [weight / total for weight in weights]
    return len(upper) - 1, upper[:0:-1] + upper


def inverse_cdf(law: Law, uniform: int, bits: int) -> int:
    """The k with P(X < k) < U <= P(X <= k) for all U with these first bits; AssertionError if more bits are needed."""
    outermost, table = cdf(law, bits + GUARD)
    low, high = uniform << GUARD, (uniform + 1) << GUARD
    index = bisect_right(table, low)
    slack = 1 << GUARD // 2  # far above the errors of the table
    assert 0 < index < len(table)
    assert table[index - 1] + slack < low
    assert high < table[index] - slack
    return index - outermost
