"""Budgets for a target margin of error at 95%: the papers' recipes, and the least that provably meets the target.

All budgets here are of step 2 of one population group level with stability s: s times the budget of one group's query.
Sources: "SafeTab[Geometric] vs SafeTab[Discrete Gaussian]" (A), eq. (35)-(38) and Corollaries 2 and 4; SafeTab-P (B),
section 6.1 and Corollary 2.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, floor, isqrt, log, log1p, log10

from privacy.noise.laws import Definition, DiscreteGaussian, Law, law
from privacy.noise.margins import margin_of_error

RECIPE_Z = Fraction("1.96")  # the papers' standard deviations of a margin at 95%
HALF_Z_SQUARED = RECIPE_Z**2 / 2  # A and B write 1.92, and computed their tables with this
LN_20 = Fraction(log(20))  # A prints 4.27, 2.49 and .59 for its totals, which takes ln 20 = 2.99
DIGITS = 6  # significant digits of a least budget
HALF = Fraction(1, 2)


def recipe_budget(definition: Definition, margin: int, stability: int) -> Fraction:
    """Return the papers' budget for a margin of at least 1 count.

    1.92 s / margin^2 (rho), s ln 20 / (margin + 1) (epsilon). That of the geometric law misses its target: it attains
    the margin margin + 1, because (35) rounds down where a margin must be rounded up.
    """
    if definition == "zcdp":
        return stability * HALF_Z_SQUARED / margin**2
    return stability * LN_20 / (margin + 1)


def recipe_margin(noise: Law) -> int:
    """Return the papers' margin of a noise law: floor(1.96 sigma), or floor(b ln(40 / (1 + exp(1/b)))) (A, eq. 35)."""
    if isinstance(noise, DiscreteGaussian):
        return isqrt(floor(RECIPE_Z**2 * noise.sigma_squared))
    scale = float(noise.scale)
    return max(0, floor(scale * (log(40) - log1p(exp(-1 / scale))) - 1))


@lru_cache(maxsize=1024)
def least_budget(
    definition: Definition, margin: int, stability: int, alpha: Fraction = Fraction(1, 20), cells: int = 1
) -> Fraction:
    """Return the least budget, rounded up at the sixth digit, whose exact margin is at most `margin` >= 0 counts.

    The margin is at 1 - alpha, of a count or of a sum of `cells` counts. Proved: this budget meets the target, and one
    less in the last digit does not.
    """
    if margin < 0:
        raise ValueError(f"a target margin of error must be a whole number of counts, 0 or more, not {margin}")

    def meets(budget: Fraction) -> bool:
        return margin_of_error(law(definition, budget, stability), cells, alpha) <= margin

    guess = stability * (HALF_Z_SQUARED / (margin + HALF) ** 2 if definition == "zcdp" else LN_20 / (margin + HALF))
    return least(meets, guess)


def least(meets: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """Return the least budget that meets a target, rounded up at the sixth digit; guess: where the search starts.

    `meets` must be monotone in the budget. Proved: one less in the last digit does not meet the target.
    """
    unit = Fraction(10) ** (floor(log10(guess)) + 1 - DIGITS)
    low = high = ceil(guess / unit)
    step = 1
    while not meets(high * unit):
        low, high, step = high, high + step, 2 * step
    while low > 0 and meets(low * unit):
        low, high, step = max(0, low - step), low, 2 * step
    between = range(low + 1, high)
    found = (low + 1 + bisect_left(between, True, key=lambda number: meets(number * unit))) * unit
    return found if floor(log10(found)) >= floor(log10(guess)) else least(meets, found)
