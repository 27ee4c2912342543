"""The stability of the S-DHC's queries, and the neighbour relations that their noise covers, each with its own figure.

Each cell (region, iteration, cell) of a query counts persons joined with their housing units, at most tau of a unit
(truncation), or units. A valid unit u adds a_u >= 0 to the vector of counts, with |a_u|_1 <= tau (units: 1): a row is
in at most one cell, and a_u depends on the unit's own rows only. So databases that differ in some units differ by the
sum of b_u - a_u over them. Proof of each bound below: docs/privacy.md#s-dhc.

All bounds hold for pairs of databases that both pass validation with the same public list of units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from privacy.accounting.composition import Relation, Spend
from privacy.noise.laws import Definition, Law, law

Stability = Literal["program", "unit"]  # the neighbours whose loss a query's budget bounds


@dataclass(frozen=True)
class Distance:
    """The largest distance of two neighbours' vectors of a query: in squared L2 norm and in L1 norm."""

    squared: int
    absolute: int

    def under(self, definition: Definition) -> int:
        """Return the distance that sets a definition's noise: squared L2 for zcdp, L1 for puredp."""
        return self.squared if definition == "zcdp" else self.absolute


@dataclass(frozen=True)
class NeighbourRelation:
    """A neighbour relation: how two databases differ, in words, and the distance of a query's answers.

    persons: the distance of a query of persons, by its tau. units: that of a query of units.
    """

    key: str
    sentence: str
    persons: Callable[[int], Distance]
    units: Distance

    def distance(self, tau: int | None) -> Distance:
        """Return the distance of a query of persons with this tau, or of a query of units if tau is None."""
        return self.units if tau is None else self.persons(tau)


HOUSEHOLD = NeighbourRelation(
    "household",
    "a household comes or goes whole: one housing unit becomes occupied or empty",
    lambda tau: Distance(tau**2, tau),
    Distance(1, 1),
)
ONE_UNIT = NeighbourRelation(
    "one_unit",
    "one housing unit is rewritten at will, persons and recodes; so a person comes or goes, with all that follows",
    lambda tau: Distance(2 * tau**2, 2 * tau),
    Distance(2, 2),
)
TWO_UNITS = NeighbourRelation(
    "two_units",
    "two housing units are rewritten at will; so a person moves, or is replaced by another anywhere",
    lambda tau: Distance(8 * tau**2, 4 * tau),
    Distance(8, 4),
)
CODED_VALID = NeighbourRelation(
    "coded_valid",
    "one unit's row is edited and one person's row more or less is in any unit, all other rows as they are",
    lambda tau: Distance(2 * (tau + 1) ** 2, 2 * tau + 2),
    Distance(2, 2),
)
CODED = NeighbourRelation(
    "coded",
    "as coded in the program of 2020: one person's row more or less and two rows of units, which may vanish alone",
    lambda tau: Distance((2 * tau + 1) ** 2 + 1, 2 * tau + 2),
    Distance(4, 2),
)
CHANGES = (ONE_UNIT, TWO_UNITS, HOUSEHOLD, CODED_VALID, CODED)


@dataclass(frozen=True)
class Query:
    """A query: one table over one type of region and one iteration level.

    tau: the most persons of a unit that it counts; None for a count of units. budget: rho or epsilon, positive.
    """

    name: str
    tau: int | None
    budget: Fraction

    def scale(self, definition: Definition, stability: Stability) -> int:
        """Return the distance at which the loss is `budget`.

        The program's distance is S = 2 tau + 2 (units: 2), which it takes for both an L2 and an L1 distance.
        """
        if stability == "unit":
            return ONE_UNIT.distance(self.tau).under(definition)
        reach = 2 if self.tau is None else 2 * self.tau + 2
        return reach**2 if definition == "zcdp" else reach

    def law(self, definition: Definition, stability: Stability) -> Law:
        """Return the law of its noise: sigma^2 = S^2 / (2 rho), or scale = S / epsilon."""
        return law(definition, self.budget, self.scale(definition, stability))

    def loss(self, change: NeighbourRelation, definition: Definition, stability: Stability) -> Fraction:
        """Return the rho or epsilon of this query for two databases that differ by a change."""
        return self.budget * change.distance(self.tau).under(definition) / self.scale(definition, stability)


def spend(definition: Definition, stability: Stability, queries: Sequence[Query]) -> Spend:
    """Return what a run spends: for each relation, the sum over the queries of their largest cost.

    The account of a person is charged so that its claims are upper bounds: the charge for a person who comes or goes,
    and twice the charge for one who moves or is replaced. With the program's stability it is charged the sum of the
    budgets; with stability by unit under zCDP, where a move costs four times the sum, it is charged twice the sum.
    """
    total = sum((query.budget for query in queries), Fraction(0))
    relations = tuple(
        Relation(
            change.key,
            change.sentence,
            sum((query.loss(change, definition, stability) for query in queries), Fraction(0)),
        )
        for change in CHANGES
    )
    charged = 2 * total if (stability, definition) == ("unit", "zcdp") else total
    return Spend(definition, "person", charged, relations)
