"""The two noise laws of SafeTab-P on the integers, exact: discrete Gaussian (zCDP), two-sided geometric (pure DP).

Parameters are rational numbers and probabilities are balls (balls.py). So every quantile, table and margin derived
here is proved, not rounded. Sources: Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential
Privacy"; Ghosh, Roughgarden, Sundararajan (2012) for the geometric mechanism; SafeTab-P, section on noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import ClassVar, Literal, TypeAlias

from flint import acb, arb, ctx

from privacy.noise.balls import FIRST_PRECISION, at_least, ball, decide, working_precision
from privacy.noise.exact import Exact, exact, whole

Definition: TypeAlias = Literal["puredp", "zcdp"]
UNITS: dict[str, str] = {"puredp": "epsilon", "zcdp": "rho"}  # units of budget and privacy loss

FIRST_BLOCK, LARGEST_BLOCK = 64, 4096  # tails computed at once
WIDEST = 1 << 21  # counts: the largest standard deviation for which quantiles are searched term by term


class SymmetricLaw(ABC):
    """A law on the integers with P(X = -k) = P(X = k) > 0, falling in |k|.

    Methods with a `precision` argument compute balls with that many bits; the others use the working precision of
    their caller. Quantiles are exact. A law whose `parameter` is outside (narrowest, widest) cannot be drawn from: see
    `privacy.noise.sampler.check_law`.
    """

    name: ClassVar[str]
    parameter_name: ClassVar[str]
    narrowest: ClassVar[Fraction]
    widest: ClassVar[Fraction]

    def __post_init__(self) -> None:
        object.__setattr__(self, self.parameter_name, exact(self.parameter, self.parameter_name))
        if self.parameter <= 0:
            raise ValueError(f"{self.parameter_name} must be positive, not {self.parameter}")

    @property
    def parameter(self) -> Fraction:
        """The number that gives the law its width."""
        width: Fraction = getattr(self, self.parameter_name)
        return width

    def pmf(self, k: int, precision: int = FIRST_PRECISION) -> arb:
        """Return P(X = k), with a relative error near 2^-precision."""
        with working_precision(precision):
            return self._pmf(abs(k))

    def cdf(self, k: int, precision: int = FIRST_PRECISION) -> arb:
        """Return P(X <= k), with an absolute error near 2^-precision."""
        with working_precision(precision):
            return 1 - self._tail(k) if k >= 0 else self._tail(-k - 1)

    def tails(self, precision: int) -> Iterator[arb]:
        """Yield P(X > 0), P(X > 1), ..., each computed from the one before."""
        tails, block = self._tails(), FIRST_BLOCK
        while True:
            with working_precision(precision):
                computed = list(islice(tails, block))
            yield from computed
            block = min(2 * block, LARGEST_BLOCK)

    def quantile(self, p: Fraction) -> int:
        """Return the smallest k with P(X <= k) >= p, for 0 < p < 1. It is proved; precision grows as needed.

        A p equal to some P(X <= k) can never be decided (ArithmeticError). For the geometric law no rational p is
        equal to one: P(X <= k) is a rational function of exp(-1/scale) that is not constant, and exp of a rational
        other than zero is transcendental (Lindemann). For the discrete Gaussian no such p is known.
        """
        if not 0 < p < 1:
            raise ValueError(f"the probability {p} of a quantile must lie strictly between 0 and 1")
        if self.variance() > WIDEST**2:
            raise ValueError("the noise is too wide: its standard deviation is above 2^21 counts; raise the budget")
        return decide(lambda _: self.try_quantile(p))

    def try_quantile(self, p: Fraction) -> int | None:
        """Return a k with P(X <= k - 1) <= p <= P(X <= k), 0 < p < 1; None if this precision cannot prove it."""
        # P(X <= -k) >= p is P(X < k) <= 1 - p: for p below 1/2 the answer is minus that for 1 - p, ties apart.
        if p >= Fraction(1, 2):
            return self._upper_quantile(p)
        mirrored = self._upper_quantile(1 - p)
        return None if mirrored is None else -mirrored

    def variance(self) -> float:
        """Return Var X, to the last digits of a float."""
        return _variance(self)

    @abstractmethod
    def _compute_variance(self) -> float:
        """Return Var X."""

    @abstractmethod
    def _pmf(self, k: int) -> arb:
        """Return P(X = k), k >= 0."""

    @abstractmethod
    def _tail(self, k: int) -> arb:
        """Return P(X > k), k >= 0."""

    @abstractmethod
    def _tails(self) -> Iterator[arb]:
        """Return P(X > 0), P(X > 1), ..."""

    @abstractmethod
    def _upper_quantile(self, p: Fraction) -> int | None:
        """Return the smallest k >= 0 with P(X <= k) >= p, for 1/2 <= p < 1; None where the balls leave it open."""

    @abstractmethod
    def characteristic(self, t: arb) -> arb:
        """Return E cos(2 pi t X): positive, and falling in t from 0 to 1/2."""

    @abstractmethod
    def tail_of_sum(self, cells: int, y: int) -> arb:
        """Return a bound (Chernoff) on P(|S| >= y), S the sum of `cells` independent draws."""


@lru_cache(maxsize=4096)
def _variance(law: SymmetricLaw) -> float:
    return law._compute_variance()


@dataclass(frozen=True)
class DiscreteGaussian(SymmetricLaw):
    """P(k) proportional to exp(-k^2 / (2 sigma_squared)) on the integers; sigma_squared is in squared counts.

    With q = exp(-1/(2 sigma_squared)) the normalizing constant is Jacobi's theta_3(0, q) = sum over all k of q^(k^2).
    """

    sigma_squared: Fraction
    name: ClassVar[str] = "discrete Gaussian"
    parameter_name: ClassVar[str] = "sigma_squared"
    narrowest: ClassVar[Fraction] = Fraction(1, 1 << 15)  # P(X > 0) < exp(-2^14) = 2^-23637, which 2^15 bits still hold
    widest: ClassVar[Fraction] = Fraction(1 << 36)  # 2^21 boundaries would not reach 2^-64 at 8 standard deviations

    def _compute_variance(self) -> float:
        """Return Var X: a little below sigma_squared (Canonne et al., Proposition 21)."""
        with working_precision(FIRST_PRECISION):
            # sum of k^2 q^(k^2) = -theta_3''(0) / (4 pi^2), the derivative being in z of cos(2 pi k z)
            second = acb.modular_theta(acb(0), self._tau(), 2)[2].real
            return float(-second / (4 * arb.pi() ** 2 * self._theta(arb(0))))

    def _tau(self) -> acb:
        return acb(0, 1 / (2 * arb.pi() * ball(self.sigma_squared)))  # q = exp(i pi tau)

    def _theta(self, z: arb) -> arb:
        return acb.modular_theta(acb(z), self._tau())[2].real

    def _pmf(self, k: int) -> arb:
        return (-ball(k * k / (2 * self.sigma_squared))).exp() / self._theta(arb(0))

    def _tail(self, k: int) -> arb:
        bound = self.tail_of_sum(1, k + 1)
        if bound < arb(2) ** -(ctx.prec + 8):  # nothing but zeros at this precision: no need to add up k terms
            return bound.union(arb(0))
        return next(islice(self._tails(), k, None))

    def _tails(self) -> Iterator[arb]:
        """Yield P(X > 0), P(X > 1), ... from theta_3 and the partial sums of q^(k^2)."""
        scale = 1 / (2 * self._theta(arb(0)))
        ratio = (-ball(1 / (2 * self.sigma_squared))).exp()  # q^(2k+1)
        square = ratio * ratio
        term, inside = arb(1), arb(1)  # q^(k^2), and its sum over -k..k
        half = arb(0.5)
        while True:
            yield half - inside * scale
            term *= ratio
            ratio *= square
            inside += 2 * term

    def _upper_quantile(self, p: Fraction) -> int | None:
        beyond = ball(1 - p)
        steps = ((k, at_least(beyond, tail)) for k, tail in enumerate(self._tails()))
        k, reached = next(step for step in steps if step[1] is not False)
        return k if reached else None

    def characteristic(self, t: arb) -> arb:
        """Return E cos(2 pi t X) = theta_3(t) / theta_3(0)."""
        return self._theta(t) / self._theta(arb(0))

    def tail_of_sum(self, cells: int, y: int) -> arb:
        """Return Chernoff's bound with the law's sub-Gaussian moments."""
        # E exp(uX) <= exp(u^2 sigma^2 / 2): the sum over k of exp(-(k - c)^2 / (2 sigma^2)) is largest at c = 0, by
        # Poisson summation. At u = y / (cells sigma^2):
        return 2 * (-ball(y * y / (2 * cells * self.sigma_squared))).exp()


@dataclass(frozen=True)
class TwoSidedGeometric(SymmetricLaw):
    """P(k) proportional to exp(-|k| / scale) on the integers; scale is in counts. With x = exp(-1/scale)
    P(X > k) = x^(k+1) / (1 + x) for k >= 0.
    """

    scale: Fraction
    name: ClassVar[str] = "two-sided geometric"
    parameter_name: ClassVar[str] = "scale"
    narrowest: ClassVar[Fraction] = Fraction(1, 1 << 14)  # P(X > 0) < exp(-2^14)
    widest: ClassVar[Fraction] = Fraction(1 << 17)  # 2^21 boundaries would reach exp(-2^4) only

    def _compute_variance(self) -> float:
        """Return Var X = 2x / (1-x)^2."""
        with working_precision(FIRST_PRECISION):
            return float(1 / (2 * ball(1 / (2 * self.scale)).sinh() ** 2))

    def _power(self, exponent: Fraction | int) -> arb:
        return (-ball(exponent / self.scale)).exp()  # x^exponent

    def _pmf(self, k: int) -> arb:
        return self._power(k) * ball(1 / (2 * self.scale)).tanh()  # (1-x)/(1+x) without cancellation

    def _tail(self, k: int) -> arb:
        return self._power(k + 1) / (1 + self._power(1))

    def _tails(self) -> Iterator[arb]:
        """Yield x / (1 + x), then each x times the last."""
        x = self._power(1)
        tail = x / (1 + x)
        while True:
            yield tail
            tail *= x

    def _upper_quantile(self, p: Fraction) -> int | None:
        # x^(k+1) <= (1-p)(1+x)  <=>  k + 1 >= -scale ln((1-p)(1+x))
        reach = -ball(self.scale) * (ball(1 - p) * (1 + self._power(1))).log()
        least = reach.ceil().unique_fmpz()
        return None if least is None else int(least) - 1

    def characteristic(self, t: arb) -> arb:
        """Return (1-x)^2 / ((1-x)^2 + 4 x sin^2(pi t))."""
        x = self._power(1)
        gap = (1 - x) ** 2
        return gap / (gap + 4 * x * t.sin_pi() ** 2)

    def tail_of_sum(self, cells: int, y: int) -> arb:
        """Return Chernoff's bound at u = r / scale, with the r that is best for a Gaussian, or 1/2 if that is less."""
        # exp(-uy) E exp(uS) for any 0 < r < 1, where E exp(uX) = (1-x)^2 / ((1-x e^u)(1-x e^-u)), here as sinh
        r = min(Fraction(1, 2), Fraction(y) / (2 * cells * self.scale))
        whole, less, more = (ball(part / (2 * self.scale)).sinh() for part in (Fraction(1), 1 - r, 1 + r))
        return 2 * self._power(r * y) * (whole**2 / (less * more)) ** cells


Law: TypeAlias = DiscreteGaussian | TwoSidedGeometric


@lru_cache(maxsize=256, typed=True)
def law(definition: Definition, budget: Exact, stability: int) -> Law:
    """Return the noise law of a query with this budget, if a record changes at most `stability` counts, by one each.

    zcdp: budget is rho and sigma^2 = stability / (2 rho) (L2 sensitivity sqrt(stability)).
    puredp: budget is epsilon and scale = stability / epsilon (L1 sensitivity stability). SafeTab-P, Algorithm 1.
    """
    budget, reach = exact(budget, "the budget of a noise law"), whole(stability, "the stability of a noise law")
    if budget <= 0:
        raise ValueError(f"the budget of a noise law must be positive, not {budget}")
    if reach <= 0:
        raise ValueError(f"the stability of a noise law must be positive, not {reach}")
    if definition == "zcdp":
        return DiscreteGaussian(reach / (2 * budget))
    if definition == "puredp":
        return TwoSidedGeometric(reach / budget)
    raise ValueError(f"the privacy definition must be puredp or zcdp, not {definition!r}")
