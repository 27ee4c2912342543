"""Composition: what a run of SafeTab-P spends, and how a level's budget is split (SafeTab-P paper, section 4).

Every number is an exact integer or Fraction; no float touches a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from privacy.noise.exact import exact
from privacy.noise.laws import Definition


@dataclass(frozen=True)
class LevelBudget:
    """A population group level: its budget (rho or epsilon) and the most of its groups that a record is in."""

    budget: Fraction
    stability: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", exact(self.budget, "the budget of a level"))
        if self.budget <= 0:
            raise ValueError(f"the budget of a level must be positive, not {self.budget}")
        if self.stability < 1:
            raise ValueError(f"the stability of a level must be 1 or more, not {self.stability}")

    @property
    def of_a_group(self) -> float:
        """The budget of one group, b = rho_i / s."""
        return float(self.budget / self.stability)


def query_budgets(budget: Fraction, gamma: Fraction) -> dict[str, Fraction]:
    """Split a level's budget over the queries of one group of SafeTab-P (Algorithm 2).

    All of it is for `total_only` in a TotalOnly group; in any other, gamma of it for `stage_1`, the rest for `stage_2`.
    """
    budget, gamma = exact(budget, "the budget of a level"), exact(gamma, "gamma")
    return {"total_only": budget, "stage_1": gamma * budget, "stage_2": (1 - gamma) * budget}


@dataclass(frozen=True)
class Spend:
    """What a run spends, as rho or epsilon: by Theorem 1 for unbounded, by Theorem 2 for bounded neighbours."""

    definition: Definition
    unbounded: Fraction
    bounded: Fraction


def spend(definition: Definition, level_budgets: Iterable[Fraction]) -> Spend:
    """Compose the population group levels of one jurisdiction: their sum, and twice that for a replaced record."""
    total = sum((exact(budget, "the budget of a level") for budget in level_budgets), Fraction(0))
    return Spend(definition, total, 2 * total)


def disjoint(spends: Iterable[Spend]) -> Spend:
    """Compose runs over disjoint jurisdictions (US and Puerto Rico; a person is in one of them).

    Adding or removing a person touches one jurisdiction: the largest. Replacing one can move it from one to the other,
    which costs the unbounded spends of the two, at most twice the largest.
    """
    spends = list(spends)
    largest = max(spends, key=lambda run: run.unbounded)
    return Spend(largest.definition, largest.unbounded, 2 * largest.unbounded)
