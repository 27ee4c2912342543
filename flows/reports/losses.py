"""Attribute losses as text: as rho or epsilon, or as the epsilon of (epsilon, delta)-DP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flows.reports.figures import delta_of
from privacy.noise.laws import Definition
from tasks.lifecycle.errors import Refused


@dataclass(frozen=True)
class Scale:
    """The unit of the losses in one report, and the decimal places in its tables (rounded once, half up).

    attacker: losses are shown as the most right answers in 100 of an attacker (`privacy/accounting/attacker.py`).
    """

    definition: Definition
    delta: Fraction | None
    places: int
    attacker: bool = False

    @property
    def unit(self) -> str:
        """The unit, for a note under a table."""
        if self.attacker:
            return "right answers in 100, at most, of an attacker who knows all else, with 5 false alarms in 100"
        if self.delta is None:
            return {"zcdp": "bounded rho (zCDP)", "puredp": "bounded epsilon (pure DP)"}[self.definition]
        return f"epsilon of bounded (epsilon, delta)-DP at delta = {float(self.delta):g}"

    def number(self, loss: Fraction) -> Fraction:
        """Return the loss in this unit."""
        if self.attacker:
            from privacy.accounting.attacker import detection

            return 100 * Fraction(detection(self.definition, float(loss)))
        if self.delta is None:
            return loss
        from privacy.accounting.conversions import epsilon

        return Fraction(epsilon(loss, self.delta))

    def text(self, loss: Fraction) -> str:
        """Return the loss for a table."""
        tenths = 10**self.places
        up = 1 - Fraction(1, 10**6) if self.attacker else Fraction(1, 2)  # a bound is rounded up
        return f"{int(self.number(loss) * tenths + up) / tenths:.{self.places}f}"

    def json(self, loss: Fraction) -> dict[str, Any]:
        """Return the loss as a number, and exactly where it is rational."""
        exact = {} if self.delta or self.attacker else {"exact": str(loss)}
        return {"loss": float(self.number(loss)), **exact}


def scale(definition: Definition, delta: str | None, places: int, *, attacker: bool) -> Scale:
    """Return the scale of losses under a privacy definition; `delta` as typed. Raises Refused for an invalid delta."""
    if attacker:
        if delta is not None:
            raise Refused("give --delta or --attacker: each is a unit of its own")
        return Scale(definition, None, 1, attacker=True)
    if delta is None:
        return Scale(definition, None, places)
    if definition == "puredp":
        raise Refused("pure DP has no delta: its losses are epsilons already")
    return Scale(definition, delta_of(delta), places)
