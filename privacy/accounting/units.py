"""Accounts of persons and of households together: what both releases lose when people or households change.

The Detailed DHC-B takes its groups from the published Detailed DHC-A. Its loss is bounded whatever these are, so the
losses of both add up under any relation of pairs (persons, households). The proof is in docs/privacy.md#two-units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privacy.noise.laws import Definition

Factors = Mapping[Definition, int]


def _factors(zcdp: int, puredp: int) -> Factors:
    return {"zcdp": zcdp, "puredp": puredp}


@dataclass(frozen=True)
class Change:
    """A way in which people and households change, and how often it costs what a record added or removed does.

    person, household: by the unit of privacy of a run.
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
