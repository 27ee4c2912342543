"""Attribute losses as text: as rho or epsilon, or as the epsilon of (epsilon, delta)-DP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flows.reports.figures import delta_of
from tasks.lifecycle.errors import Refused


@dataclass(frozen=True)
class Scale:
    """The unit of the losses in one report, and the decimal places in its tables (rounded once, half up)."""

    definition: str
    delta: Fraction | None
    places: int

    @property
    def unit(self) -> str:
        """The unit, for a note under a table."""
        if self.delta is None:
            return {"zcdp": "bounded rho (zCDP)", "puredp": "bounded epsilon (pure DP)"}[self.definition]
        return f"epsilon of bounded (epsilon, delta)-DP at delta = {float(self.delta):g}"

    def number(self, loss: Fraction) -> Fraction:
        """Return the loss in this unit."""
        if self.delta is None:
            return loss
        from privacy.accounting.conversions import epsilon

        return Fraction(epsilon(loss, self.delta))

    def text(self, loss: Fraction) -> str:
        """Return the loss for a table."""
        tenths = 10**self.places
        return f"{int(self.number(loss) * tenths + Fraction(1, 2)) / tenths:.{self.places}f}"

    def json(self, loss: Fraction) -> dict[str, Any]:
        """Return the loss as a number, and exactly where it is rational."""
        exact = {} if self.delta else {"exact": str(loss)}
        return {"loss": float(self.number(loss)), **exact}


def scale(definition: str, delta: str | None, places: int) -> Scale:
    """Return the scale of losses under a privacy definition; `delta` as typed. Raises Refused for an invalid delta."""
    if delta is None:
        return Scale(definition, None, places)
    if definition == "puredp":
        raise Refused("pure DP has no delta: its losses are epsilons already")
    return Scale(definition, delta_of(delta), places)
