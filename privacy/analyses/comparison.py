"""The epsilon at a delta of a set of level budgets, by every analysis of the comparison paper and by exact ones.

Source: "SafeTab[Geometric] vs SafeTab[Discrete Gaussian]", Table 2 and appendix F. Unbounded neighbours differ by one
record added or removed. A replaced record (bounded) changes at most twice as many counts, each by one, so that every
analysis is done with twice the stability at the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from privacy.accounting.composition import LevelBudget
from privacy.accounting.conversions import epsilon
from privacy.analyses.gaussian_tradeoff import gaussian_epsilon, zcdp_analytic
from privacy.analyses.loss_distributions import LARGEST_EPSILON, LEAST_DELTA, pld_epsilon
from privacy.analyses.renyi import (
    ORDERS,
    PAPER_ORDERS,
    Divergence,
    Floats,
    composed,
    epsilon_of,
    lemma_8,
    two_sided_geometric,
)
from privacy.noise.laws import Definition

Standing = Literal["budget", "bound", "paper", "continuous"]
"""Of a figure: the budget itself; a bound; the paper's recipe, no bound; exact for a continuous Gaussian, no bound."""


@dataclass(frozen=True)
class Analysis:
    """One row of Table 2: the epsilon of both neighbour relations (rho for the total of zCDP).

    `order` is the Rényi order of the unbounded figure, where there is one.
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
        """True for an epsilon that the mechanism is proved to guarantee."""
        return self.standing == "bound" or self.name == "pure"


def analyses(definition: Definition, levels: Sequence[LevelBudget], gamma: Fraction, delta: Fraction) -> list[Analysis]:
    """Return every analysis of one mechanism; privacy-loss distributions only within the range of floats."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    if not 0 < gamma < 1:
        raise ValueError(f"gamma must lie strictly between 0 and 1, not {gamma}")
    if not levels:
        raise ValueError("no population group level has a budget")
    rows = _geometric(levels, gamma, delta) if definition == "puredp" else _gaussian(levels, delta)
    scale = next(row.unbounded for row in rows if row.name in ("pure", "zcdp_analytic"))
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
        Analysis("puredp", "pure", "pure DP, delta = 0", "budget", spent, 2 * spent),
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

    analytic = [zcdp_analytic(float(times * rho), at) for times in (1, 2)]
    continuous = [gaussian_epsilon(float(times * rho), at) for times in (1, 2)]
    return [
        row("rho", "zCDP, rho", "budget", float(rho), float(2 * rho)),
        row("zcdp_analytic", "zCDP, analytic: eq. (8)", "bound", *analytic),
        row("zcdp_numeric", "zCDP, numeric: eq. (7) over the paper's orders", "bound", grid, grid_bounded, order),
        row("zcdp_best", "zCDP, numeric: eq. (7), any order, rounded up", "bound", best, bounded, best_order),
        row("continuous", "tight, as if the Gaussian were continuous", "continuous", *continuous),
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
        rows.append(Analysis(definition, name, label, "bound", unbounded, bounded))
    return rows
