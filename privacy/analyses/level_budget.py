"""A population group level as the analyses see it: a budget and a stability."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class LevelBudget:
    """A population group level: its budget (rho or epsilon) and the most of its groups that a record is in."""

    budget: Fraction
    stability: int

    def __post_init__(self) -> None:
        if self.budget <= 0:
            raise ValueError("the privacy-loss budget of a level is positive")
        if self.stability < 1:
            raise ValueError("the stability of a level is 1 or more")

    @property
    def of_a_group(self) -> float:
        """The budget of one group, b = rho_i / s."""
        return float(self.budget / self.stability)
