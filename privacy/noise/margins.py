"""Margins of error of noisy counts and the threshold of suppression: proved, for single counts and sums of cells."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache, reduce
from math import isqrt
from operator import mul
from statistics import NormalDist

from flint import arb

from privacy.noise.balls import FIRST_PRECISION, at_least, ball, decide, working_precision
from privacy.noise.exact import Exact, exact
from privacy.noise.laws import Law

Parts = tuple[tuple[Law, int], ...]


def normal_margin(alpha: Fraction) -> float:
    """Return the z with P(|X| > z) = alpha, X of the standard normal law: the standard errors in a margin."""
    return NormalDist().inv_cdf(float(1 - alpha / 2))


Z90, Z95 = normal_margin(Fraction(1, 10)), normal_margin(Fraction(1, 20))  # for every margin by the normal law


def margin_of_error(law: Law, cells: int = 1, alpha: Exact = Fraction(1, 20)) -> int:
    """Return the smallest m with P(|S| > m) <= alpha, S the sum of `cells` independent draws; in counts.

    Proved by balls, so exact. Unlike floor(1.96 sigma) it never falls short, and unlike ceil it is never too wide.
    """
    return _margin(((law, cells),), exact(alpha, "alpha"))


def margin_of_sum(cells: Mapping[Law, int], alpha: Fraction = Fraction(1, 20)) -> int:
    """Return the margin of error of a sum of `cells[law]` independent draws of each law; 0 for an empty sum.

    It holds for differences too: every law is symmetric, so a draw and its negative have the same law.
    """
    parts = tuple(sorted(((law, number) for law, number in cells.items() if number), key=repr))
    return _margin(parts, exact(alpha, "alpha")) if parts else 0


@lru_cache(maxsize=65536)
def _margin(parts: Parts, alpha: Fraction) -> int:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, not {alpha}")
    ((law, cells), *others) = parts
    if cells < 1:
        raise ValueError(f"a sum has at least one cell, not {cells}")
    if cells == 1 and not others:  # P(X > m) <= alpha / 2
        return law.quantile(1 - alpha / 2)

    def attempt(bits: int) -> int | None:
        if bits // 3 < alpha.denominator.bit_length() + 8:
            return None
        total = _Sum(parts, bits // 3)
        low, high = -1, total.reach  # P(|S| > reach) is below alpha / 2^8
        while high - low > 1:
            middle = (low + high) // 2
            enough = at_least(total.within(middle), ball(1 - alpha))
            if enough is None:
                return None
            low, high = (low, middle) if enough else (middle, high)
        return high

    return decide(attempt)


def coverage(law: Law, margin: int, cells: int = 1) -> arb:
    """Return P(|S| <= margin), S the sum of `cells` independent draws: a ball of radius below 2^-60."""
    if margin < 0:
        return arb(0)
    with working_precision(FIRST_PRECISION):
        if cells == 1:
            return 2 * law.cdf(margin) - 1
        total = _Sum(((law, cells),), FIRST_PRECISION // 2)
        return total.within(margin) if margin < total.reach else (1 - total.beyond).union(arb(1))


def suppression_threshold(law: Law, chance: Exact) -> int:
    """Return the smallest t with P(X <= t) >= chance, for 0 < chance < 1.

    A count is kept if it is greater than t, so an empty group is kept with probability at most 1 - chance. SafeTab-P,
    eq. (12), zero_suppression_chance.
    """
    return law.quantile(exact(chance, "chance"))


def _reach(law: Law, cells: int, small: arb) -> tuple[int, arb]:
    """Return a number that |sum of draws| exceeds with probability below `small`, and a bound on that probability."""
    reach = isqrt(int(cells * law.variance())) + 1
    while not (beyond := law.tail_of_sum(cells, reach + 1)) <= small:
        reach += reach // 8 + 1
    return reach, beyond


class _Sum:
    """S, the sum of independent draws of one or more laws: P(|S| <= m) by Fourier inversion, every error in the ball.

    With phi(t) = E cos(2 pi t S), the product over the draws, and N odd, summing over the N-th roots of unity gives

        sum over |k| <= m of P(S = k mod N) = (1/N) sum_{j=0}^{N-1} phi(j/N) sin((2m+1) pi j/N) / sin(pi j/N).

    * Folding: for m <= reach and N = 2 reach + 1 the left side exceeds P(|S| <= m) by at most P(|S| > reach), which
      Chernoff's inequality bounds. With several laws, reach is the sum of each law's reach.
    * Cutting after j = J (and N - J): as sin(pi j/N) >= 2j/N, a pair of dropped terms is at most phi / j. phi falls,
      as each law's characteristic function does, so together they are at most phi((J+1)/N) ln(N / (2J)).

    Both are made smaller than 2^-bits. At any scale J is a few dozen (Gaussian) or hundred (geometric, few cells).
    Create and use an object at one working precision.
    """

    def __init__(self, parts: Parts, bits: int) -> None:
        small = arb(2) ** -bits
        self.reach, self.beyond = 0, arb(0)
        for law, cells in parts:
            reach, beyond = _reach(law, cells, small / len(parts))
            self.reach += reach
            self.beyond += beyond
        self.period = 2 * self.reach + 1
        self.weights: list[arb] = []
        self.cut = arb(0)
        for j in range(1, self.reach + 1):
            t = arb(j) / self.period
            power = reduce(mul, (law.characteristic(t) ** cells for law, cells in parts))  # phi(t)
            if j > 1:
                cut = power * (arb(self.period) / (2 * (j - 1))).log()
                if cut <= small:
                    self.cut = cut
                    break
            self.weights.append(2 * power / (self.period * self._sine(j)))

    def _sine(self, j: int) -> arb:
        return (arb(j) / self.period).sin_pi()

    def within(self, margin: int) -> arb:
        """Return P(|S| <= margin), for 0 <= margin <= reach."""
        width = 2 * margin + 1
        total = arb(width) / self.period
        for j, weight in enumerate(self.weights, 1):
            total += weight * self._sine(width * j % (2 * self.period))
        return total + self.cut * arb(0, 1) - self.beyond.union(arb(0))
