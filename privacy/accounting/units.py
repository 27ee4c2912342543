"""Accounts of persons and of households together: what both releases lose when people or households change.

The Detailed DHC-B takes its groups from the published Detailed DHC-A. Its loss is bounded whatever these are, so the
losses of both add up under any relation of pairs (persons, households). The proof is in docs/privacy.md#two-units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from privacy.accounting.conversions import pure_to_rho
from privacy.noise.laws import Definition

Factors = Mapping[Definition, int]


def _factors(zcdp: int, puredp: int) -> Factors:
    return {"zcdp": zcdp, "puredp": puredp}


@dataclass(frozen=True)
class Change:
    """A way in which people and households change, and how often it costs what a record added or removed does.

    person, household: by the unit of privacy of an account.
    """

    key: str
    sentence: str
    person: Factors
    household: Factors


PERSON = Change(
    "person_added_or_removed",
    "a person added or removed, and the household's record changed in any way, or added or removed with them",
    _factors(1, 1),
    _factors(2, 2),
)
MOVED = Change(
    "person_moved",
    "a person removed here and another added there, and the records of both households changed in any way",
    _factors(2, 2),
    _factors(8, 4),
)


def changes(size: int) -> tuple[Change, ...]:
    """Return all changes; size: of a household that is added or removed whole."""
    persons = "person" if size == 1 else "persons"
    whole = f"a household of {size} {persons} added or removed, with all of them"
    return (
        Change("household_alone", "a household's record alone added or removed", _factors(0, 0), _factors(1, 1)),
        Change("household_whole", whole, _factors(size**2, size), _factors(1, 1)),
        PERSON,
        Change(
            "person_replaced",
            "a person's record replaced in place, and the household's with it",
            _factors(2, 2),
            _factors(2, 2),
        ),
        MOVED,
    )


@dataclass(frozen=True)
class Charged:
    """What an account has charged for one state.

    unit, definition: of the account. amount: None where one of its runs does not bound what a record added or removed
    costs, or costs more than twice that where one is replaced.
    """

    unit: str
    definition: Definition
    amount: Fraction | None


def together(charged: Iterable[Charged], change: Change) -> tuple[Definition, Fraction] | None:
    """Return what these accounts lose together under a change: rho, or epsilon where all are kept in that.

    None where an account does not bound it. An epsilon costs epsilon^2 / 2 of rho.
    """
    losses: list[tuple[Definition, Fraction]] = []
    for each in charged:
        factor = (change.person if each.unit == "person" else change.household)[each.definition]
        if factor and each.amount is None:
            return None
        losses.append((each.definition, factor * (each.amount or Fraction(0))))
    if all(definition == "puredp" for definition, _ in losses):
        return "puredp", sum((loss for _, loss in losses), Fraction(0))
    return "zcdp", sum((loss if kept == "zcdp" else pure_to_rho(loss) for kept, loss in losses), Fraction(0))
