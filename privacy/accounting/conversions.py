"""Between privacy definitions: pure DP and zCDP to approximate DP, as reported with a run's budget.

zCDP -> (epsilon, delta) is the optimal conversion of Canonne, Kamath, Steinke (2020), Corollary 13: for every alpha > 1

    epsilon = alpha rho + ln(1 - 1/alpha) + ln(1/(alpha delta)) / (alpha - 1).

Every alpha gives a true statement. So the search for the best alpha uses floats; the statement at that alpha is then
bounded in ball arithmetic and rounded up.
"""

from collections.abc import Callable
from fractions import Fraction
from math import inf, log, log1p, nextafter

from flint import arb

from privacy.noise.balls import FIRST_PRECISION, ball, working_precision
from privacy.noise.exact import Exact, exact


def pure_to_rho(epsilon: Fraction) -> Fraction:
    """Return the rho of zCDP that epsilon-DP implies: epsilon^2 / 2 (Bun, Steinke 2016, Proposition 1.4). Exact."""
    bound = exact(epsilon, "epsilon")
    if bound < 0:
        raise ValueError(f"epsilon must not be negative; it is {epsilon}")
    return bound * bound / 2


def epsilon(rho: Exact, delta: Exact | float) -> float:
    """Return the least epsilon for which rho-zCDP gives (epsilon, delta)-DP by the optimal conversion; rounded up."""
    delta, rho = _number(delta, "delta"), exact(rho, "rho")
    logarithm = _log(delta)
    if rho < 0:
        raise ValueError(f"rho must not be negative; it is {rho}")
    if rho == 0:
        return 0.0
    # d epsilon / d alpha = rho - ln(1/(alpha delta)) / (alpha-1)^2 changes sign once; excess = alpha - 1.
    excess = _root(lambda x: float(rho) * x * x + log1p(x) + logarithm)
    with working_precision(FIRST_PRECISION):
        alpha = 1 + ball(Fraction(excess))
        return max(0.0, _rounded(alpha * ball(rho) + _offset(alpha, delta), up=True))


def rho(epsilon: Exact | float, delta: Exact | float) -> float:
    """Return the largest rho for which rho-zCDP gives (epsilon, delta)-DP by the optimal conversion; rounded down."""
    epsilon, delta = _number(epsilon, "epsilon"), _number(delta, "delta")
    logarithm = _log(delta)
    if epsilon < 0:
        raise ValueError(f"epsilon must not be negative; it is {epsilon}")
    # At the best alpha rho = ln(1/(alpha delta)) / (alpha-1)^2, with which epsilon falls in alpha.
    excess = _root(lambda x: float(epsilon) + (2 * x + 1) * (log1p(x) + logarithm) / x / x - log(x) + log1p(x))
    with working_precision(FIRST_PRECISION):
        alpha = 1 + ball(Fraction(excess))
        return max(0.0, _rounded((ball(Fraction(epsilon)) - _offset(alpha, delta)) / alpha, up=False))


def _number(value: Exact | float, name: str) -> Fraction | float:
    """Return the argument of a bound, which, unlike a budget, may be a float. Raises ValueError."""
    return value if isinstance(value, float) else exact(value, name)


def _log(delta: Fraction | float) -> float:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    numerator, denominator = Fraction(delta).as_integer_ratio()
    return log(numerator) - log(denominator)


def _offset(alpha: arb, delta: Fraction | float) -> arb:
    """Return epsilon - alpha rho."""
    return (1 - 1 / alpha).log() - (alpha * ball(Fraction(delta))).log() / (alpha - 1)


def _root(rising: Callable[[float], float]) -> float:
    """Return the x > 0 at which a function changes sign from - to +, to the last digits of a float."""
    low, high = 2.0**-500, 2.0**500
    while high / low > 1 + 2.0**-50:
        middle = low**0.5 * high**0.5
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


def _rounded(x: arb, *, up: bool) -> float:
    """Return a float next to the ball x that is provably above it, or below."""
    candidate = float(x.upper() if up else x.lower())
    while not (ball(Fraction(candidate)) >= x if up else ball(Fraction(candidate)) <= x):
        candidate = nextafter(candidate, inf if up else -inf)
    return candidate
