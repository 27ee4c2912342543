"""The epsilon at a delta of a set of level budgets, by every analysis of the comparison paper and by exact ones.

Source: "SafeTab[Geometric] vs SafeTab[Discrete Gaussian]", Table 2, Lemma 8, Corollary 1, eq. (39), (40). Unbounded
neighbours differ by one record added or removed. A replaced record (bounded) changes at most twice as many counts, each
by one, so every analysis is done with twice the stability and the same noise. Orders alpha > 1 and divergences are
arrays of floats, which keep 1e-9 of a divergence down to budgets of 1e-4.

Privacy-loss distributions are those of Google's `dp-accounting`.
A record is in at most s groups of each level and changes each of their counts by one, so the release is the (adaptive)
composition, over levels, of s times one query with the whole budget of a group (TotalOnly), or of s times the two
queries of steps 1 and 2. A replaced record is one removed and one added: twice as many.

The geometric law moved by one has the privacy loss of randomized response, which dominates every epsilon-DP mechanism
(Kairouz, Oh, Viswanath 2015), so all groups TotalOnly is the worst case of any mixture. No such theorem is known for
the discrete Gaussian, whose two readings differ in the fifth digit at the paper's levels, and by more at others.

Losses are put on a grid by "connect the dots" (Doroshenko et al. 2022), pessimistically: epsilon comes out too high, by
about 1e-5 of it, never too low. The convolutions have a floating-point error of about 1e-15 in delta; 1e-14 is reserved
for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.composition import LevelBudget
from privacy.accounting.conversions import epsilon
from privacy.noise.laws import Definition

Floats = NDArray[np.float64]
Divergence = Callable[[Floats, float], Floats]
Standing = Literal["budget", "bound", "reading", "paper"]
"""A figure is the budget itself, a bound, a bound only if all groups are of one kind, or the paper's recipe."""

PAPER_ORDERS: Floats = np.arange(101, 1001) / 100  # {1.01, 1.02, ..., 10.00}
ORDERS: Floats = 1 + np.geomspace(1e-4, 1e6, 40_001)  # neighbours differ by 0.06%, so the best one by 1e-7 of epsilon
LEAST_DELTA = 1e-12  # below it the probability that dp-accounting cuts off matters
SET_ASIDE = 1e-14
LARGEST_EPSILON = 300  # for unbounded neighbours: exp(loss) must be a float, also for twice the loss


@dataclass(frozen=True)
class Analysis:
    """One row of Table 2: the epsilon of both neighbour relations (rho for the total of zCDP).

    `order` is the Rényi order of the unbounded figure, or None.
    """

    definition: Definition
    name: str
    label: str
    standing: Standing
    unbounded: float
    bounded: float
    order: float | None = None

    @property
    def is_epsilon_bound(self) -> bool:
        """Whether the mechanism is proved to guarantee this epsilon, whichever groups are TotalOnly."""
        return self.standing == "bound" or self.name == "puredp"


def analyses(definition: Definition, levels: Sequence[LevelBudget], gamma: Fraction, delta: Fraction) -> list[Analysis]:
    """Return every analysis of one mechanism; privacy-loss distributions only within the range of floats."""
    rows = _geometric(levels, gamma, delta) if definition == "puredp" else _gaussian(levels, delta)
    scale = next(row.unbounded for row in rows if row.name in ("puredp", "zcdp_analytic"))
    if delta >= LEAST_DELTA and scale <= LARGEST_EPSILON:
        rows += _by_distributions(definition, levels, gamma, float(delta), scale)
    return rows


def total(levels: Sequence[LevelBudget]) -> Fraction:
    """Return the sum of the budgets, rho or epsilon, for unbounded neighbours; for bounded ones it is twice that."""
    return sum((level.budget for level in levels), Fraction(0))


def _geometric(levels: Sequence[LevelBudget], gamma: Fraction, delta: Fraction) -> list[Analysis]:
    spent = float(total(levels))

    def renyi(name: str, label: str, standing: Standing, divergence: Divergence, orders: Floats) -> Analysis:
        f = composed(divergence, orders, levels, gamma)
        unbounded, order = epsilon_of(orders, f, float(delta))
        bounded, _ = epsilon_of(orders, 2 * f, float(delta))
        return Analysis("puredp", name, label, standing, unbounded, bounded, order)

    return [
        Analysis("puredp", "puredp", "pure DP, delta = 0", "budget", spent, 2 * spent),
        renyi("rdp_printed", "RDP, eq. (39) with Lemma 8 as printed", "paper", lemma_8, PAPER_ORDERS),
        renyi("rdp_exact", "RDP, eq. (39), exact discrete law", "bound", two_sided_geometric, ORDERS),
    ]


def _gaussian(levels: Sequence[LevelBudget], delta: Fraction) -> list[Analysis]:
    rho, at = total(levels), float(delta)
    grid, order = epsilon_of(PAPER_ORDERS, PAPER_ORDERS * float(rho), at)
    grid_bounded, _ = epsilon_of(PAPER_ORDERS, 2 * PAPER_ORDERS * float(rho), at)
    best, bounded = epsilon(rho, delta), epsilon(2 * rho, delta)
    _, best_order = epsilon_of(ORDERS, ORDERS * float(rho), at)

    def row(name: str, label: str, standing: Standing, *figures: float) -> Analysis:
        return Analysis("zcdp", name, label, standing, *figures)

    analytic = [spent + 2 * sqrt(spent * log(1 / at)) for spent in (float(rho), float(2 * rho))]  # Bun, Steinke (2016)
    return [
        row("rho", "zCDP, rho", "budget", float(rho), float(2 * rho)),
        row("zcdp_analytic", "zCDP, analytic: eq. (8)", "bound", *analytic),
        row("zcdp_numeric", "zCDP, numeric: eq. (7) over the paper's orders", "bound", grid, grid_bounded, order),
        row("zcdp_best", "zCDP, numeric: eq. (7), any order, rounded up", "bound", best, bounded, best_order),
    ]


def _by_distributions(
    definition: Definition, levels: Sequence[LevelBudget], gamma: Fraction, delta: float, scale: float
) -> list[Analysis]:
    rows = []
    for name, label, total_only in (
        ("pld_two_stage", "PLD, every group in two stages", False),
        ("pld_total_only", "PLD, every group TotalOnly", True),
    ):
        unbounded, bounded = (
            pld_epsilon(definition, levels, gamma, delta, total_only=total_only, bounded=twice, interval=scale / 20_000)
            for twice in (False, True)
        )
        is_worst = definition == "puredp" and total_only
        rows.append(Analysis(definition, name, label, "bound" if is_worst else "reading", unbounded, bounded))
    return rows


def lemma_8(alpha: Floats, epsilon: float) -> Floats:
    """Return the divergence of the geometric mechanism as printed in Corollary 1. It is not a bound.

    Its proof integrates the density over the real line, but the law is on the integers, so it understates the loss.
    """
    before = np.log(2 * alpha / (epsilon * (2 * alpha - 1))) + (alpha - 1) * epsilon
    after = np.log(2 * (alpha - 1) / (epsilon * (2 * alpha - 1))) - alpha * epsilon
    power: Floats = np.log(np.tanh(epsilon / 2)) + np.logaddexp(before, after)
    return power / (alpha - 1)


def two_sided_geometric(alpha: Floats, epsilon: float) -> Floats:
    """Return the divergence of the two-sided geometric law, P(k) ~ exp(-epsilon |k|), from itself moved by one; exact.

    D_alpha = ln[(e^(alpha epsilon) + e^((1-alpha) epsilon)) / (1 + e^epsilon)] / (alpha - 1): as in randomized
    response, its privacy loss is +epsilon with probability e^epsilon / (1 + e^epsilon) and -epsilon otherwise.
    """
    power: Floats = np.logaddexp(alpha * epsilon, (1 - alpha) * epsilon) - np.logaddexp(0, epsilon)
    return power / (alpha - 1)


def composed(divergence: Divergence, alpha: Floats, levels: Iterable[LevelBudget], gamma: Fraction) -> Floats:
    """Return f(alpha) of eq. (39): per level, s times the larger divergence of a two-stage and a TotalOnly group."""
    total = np.zeros_like(alpha)
    for level in levels:
        b, share = level.per_group, float(gamma)
        two_stage = divergence(alpha, share * b) + divergence(alpha, (1 - share) * b)
        total += level.stability * np.maximum(two_stage, divergence(alpha, b))
    return total


def epsilon_of(alpha: Floats, divergence: Floats, delta: float) -> tuple[float, float]:
    """Return the least epsilon of eq. (40) over these orders, and its order. Each order gives a true statement."""
    epsilons = divergence + (log(1 / delta) + (alpha - 1) * np.log1p(-1 / alpha) - np.log(alpha)) / (alpha - 1)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(alpha[best])


def pld_epsilon(
    definition: Definition,
    levels: Iterable[LevelBudget],
    gamma: Fraction,
    delta: float,
    *,
    total_only: bool,
    bounded: bool,
    interval: float,
) -> float:
    """Return an upper bound on epsilon at `delta` >= 1e-12, with all groups TotalOnly or all in two stages.

    `interval` is the width of the grid of privacy losses: 1/20 000 of the epsilon expected gives the accuracy above.
    """
    queries: Counter[float] = Counter()
    for level in levels:
        for share in (1.0,) if total_only else (float(gamma), float(1 - gamma)):
            queries[level.per_group * share] += level.stability * (2 if bounded else 1)
    parts = [_distribution(definition, budget, interval).self_compose(times) for budget, times in queries.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    epsilon = float(whole.get_epsilon_for_delta(delta - SET_ASIDE))
    if epsilon == inf:
        raise ArithmeticError("the privacy-loss distribution has more mass beyond its grid than delta")
    return epsilon


def _distribution(definition: Definition, budget: float, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld  # half a second, for those who need it

    options = {"sensitivity": 1, "value_discretization_interval": interval, "use_connect_dots": True}
    if definition == "puredp":
        return pld.from_discrete_laplace_mechanism(budget, **options)
    return pld.from_discrete_gaussian_mechanism(sqrt(1 / (2 * budget)), **options)
