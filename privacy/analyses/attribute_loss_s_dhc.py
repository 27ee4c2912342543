"""A-attribute privacy loss of the S-DHC tables: the loss of a change that touches only the attributes in A.

Source: Pujol, Machanavajjhala, Sexton, "Per-Attribute Privacy Semantics for the Supplemental Demographic and Housing
Characteristics File". A mechanism has A-attribute loss rho if D_alpha(M(D) || M(D')) <= rho alpha for every alpha > 1
and every D, D' that differ in one record, in attributes of A only. The figures here fix the person's present values and
are the maximum over new values of A, as in the authors' tables. A person's figure thus depends on confidential values:
it is an analyst's figure and not for release.

Households are valid before and after the change: one householder, at most one spouse or partner. (Every household
recode depends on the householder. An edit that removes a household's only householder is charged as a move, which it
is.)

The tables are those of PHSafe, the program behind the S-DHC. Counts of persons ("join": persons, at most tau a
household, joined to their housing unit) and counts of units ("unit") are measured by the discrete Gaussian; a table's
loss is sum_q ||dq||^2 / (2 sigma_q^2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Literal

AGE, SEX, RACE, ETHNICITY = "Age", "Sex", "Race", "Ethnicity"
RELATION, HOUSEHOLD, TENURE = "Relation", "HouseholdID", "Tenure"
ATTRIBUTES = (AGE, SEX, RACE, ETHNICITY, RELATION, HOUSEHOLD, TENURE)
TABLES = tuple(f"PH{number}" for number in range(1, 9))

SECRETS: dict[str, frozenset[str]] = {
    "Sex": frozenset({SEX, RELATION}),
    "Age": frozenset({AGE, RELATION}),
    "Race-Ethnicity": frozenset({RACE, ETHNICITY}),
    "Same-Sex Relationship": frozenset({SEX, RELATION}),
    "Unmarried Partner": frozenset({RELATION}),
    "Multi-racial Family": frozenset({RACE, ETHNICITY, RELATION}),
    "Over Rental Capacity": frozenset({HOUSEHOLD, TENURE}),
    "Exact Household": frozenset({HOUSEHOLD}),
}
"""The slides' "Measured Secrets": what a person may want to keep secret, and the attributes that reveal it."""

HOUSEHOLDER = "householder"
COUPLE = frozenset({"spouse", "unmarried partner"})
OWN_CHILD = frozenset({"biological child", "adopted child", "stepchild"})
RELATIVES = OWN_CHILD | {
    "spouse", "sibling", "parent", "grandchild", "parent-in-law", "child-in-law", "other relative"
}  # fmt: skip
RELATIONS = RELATIVES | {HOUSEHOLDER, "unmarried partner", "roommate", "foster child", "other nonrelative"}

Method = Literal["deck", "tight"]


@dataclass(frozen=True)
class Person:
    """One person, described as on the slides.

    `size` is the number of the household's members, `family` whether it is a family household (HHT 1-3), and
    `own_children` whether an own child under 18 of the householder lives in it. Raises ValueError for contradictions.
    """

    name: str
    age: int
    relation: str
    size: int
    family: bool
    own_children: bool

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(
                f"{self.name}: there is no relation {self.relation!r}: choose from {', '.join(sorted(RELATIONS))}"
            )
        if not 0 <= self.age <= 115:
            raise ValueError(f"{self.name}: the age must be from 0 to 115, not {self.age}")
        if self.size < 1:
            raise ValueError(f"{self.name}: a household must have at least one member, not {self.size}")
        if self.size == 1 and (self.relation != HOUSEHOLDER or self.family or self.own_children):
            raise ValueError(f"{self.name}: a person who lives alone is the householder, without family or children")
        if (self.relation in RELATIVES or self.own_children) and not self.family:
            raise ValueError(f"{self.name}: a relative or an own child makes the household a family household")
        if self.relation in OWN_CHILD and self.minor and not self.own_children:
            raise ValueError(f"{self.name}: an own child under 18 is one of the household's own children")

    @property
    def minor(self) -> bool:
        """Under 18."""
        return self.age < 18

    @property
    def householder(self) -> bool:
        """The person whose race, ethnicity and relations determine the household's recodes."""
        return self.relation == HOUSEHOLDER


@dataclass(frozen=True)
class TableSpend:
    """The spend of one S-DHC table: bounded rho of its person counts (`join`, with `tau`) and of its unit counts."""

    name: str
    join: Fraction = Fraction(0)
    unit: Fraction = Fraction(0)
    tau: int | None = None

    @property
    def total(self) -> Fraction:
        """The table's bounded rho."""
        return self.join + self.unit


class Effect(IntEnum):
    """The largest effect of a change of A on the rows that a table counts, from least to worst."""

    NONE = 0
    SWAP = 1
    """The household is larger than tau: editing the row may change which rows the truncation keeps."""
    OWN_ROW = 2
    RELABEL = 3
    """All rows of the household change their cell."""
    MOVE = 4
    """The person leaves one household for another; both may be relabelled."""


def affected(person: Person, attributes: frozenset[str]) -> dict[str, Effect]:
    """Return the effect of a change of `attributes` on each table.

    The rule reproduces the slides. Three lines go beyond them without changing their figures. Without these lines some
    zero would be too low for households that are not on the slides, as enumeration shows: a spouse or partner who moves
    relabels the children of both households; a move with a change of relation can make a couple or a family of the new
    household; the sex of an unpartnered householder names the cells of own children.
    """
    a = attributes
    moves, relation = HOUSEHOLD in a, RELATION in a
    householder_race = person.householder and bool(a & {RACE, ETHNICITY})
    relabels_children = (
        (relation and (person.minor or person.own_children))
        or (SEX in a and person.householder and person.own_children)  # beyond the slides
    )  # fmt: skip
    moves_partner = moves and (person.relation in COUPLE or relation)  # beyond the slides
    family = person.family or (relation and (person.size > 1 or moves))
    own_age = Effect.OWN_ROW * (AGE in a)
    effects = {
        "PH1": max(Effect.MOVE * moves, Effect.RELABEL * householder_race, own_age),
        "PH2": max(Effect.MOVE * moves, Effect.RELABEL * (relation or SEX in a)),
        "PH3": max(
            Effect.MOVE * (moves_partner or (moves and person.minor)),
            Effect.RELABEL * relabels_children,
            own_age,
            Effect.OWN_ROW * (person.minor and bool(a & {RACE, ETHNICITY})),
        ),
        "PH4": family * max(Effect.MOVE * moves, Effect.RELABEL * (relation or householder_race), own_age),
        "PH6": max(
            Effect.MOVE * (moves_partner or (family and moves and person.minor)),
            family * max(Effect.RELABEL * relabels_children, own_age),
        ),
        "PH7": max(Effect.MOVE * moves, Effect.RELABEL * (TENURE in a or householder_race)),
    }
    effects |= {"PH5": effects["PH4"], "PH8": effects["PH7"]}
    return {table: Effect(effects[table]) for table in TABLES}


def loss_by_table(
    person: Person, attributes: frozenset[str], tables: Iterable[TableSpend], method: Method = "deck"
) -> dict[str, Fraction]:
    """Return the A-attribute loss of each table, bounded rho, exact.

    `deck` scales the bounded rho of the person counts by ((m+1)/(tau+1))^2, m = min(size, tau): the squared ratio of
    the household's own stability 2m+2 to the stability 2tau+2 that the noise is set for; a move is charged in full, as
    the new household may be full. Unit counts are always charged in full.
    `tight` uses ||dq||^2 itself: 2 for a row, 2m^2 for a household relabelled, 2(m+tau)^2 for a move.
    """
    compute = {"deck": _deck, "tight": _tight}[method]
    effects = affected(person, attributes)
    losses = {}
    for table in tables:
        effect = max(effects[table.name], _swap(person, attributes, table))
        losses[table.name] = compute(person, attributes, table, effect) if effect else Fraction(0)
    return losses


def loss(person: Person, attributes: frozenset[str], tables: Iterable[TableSpend], method: Method = "deck") -> Fraction:
    """Return the A-attribute loss of all tables together (composition: losses add over tables), bounded rho, exact."""
    return sum(loss_by_table(person, attributes, tables, method).values(), Fraction(0))


def _swap(person: Person, attributes: frozenset[str], table: TableSpend) -> Effect:
    # PHSafe truncates by a hash of the row's content, without sex. Members of one household differ in cell only in the
    # tables by age; in PH3 and PH6 only the rows of minors are candidates.
    edited = bool(attributes & {AGE, RACE, ETHNICITY, RELATION})
    counted = (
        table.name == "PH1"
        or (table.name == "PH4" and person.family)
        or (table.name in ("PH3", "PH6") and person.minor)
    )
    larger = table.tau is not None and person.size > table.tau
    return Effect.SWAP if edited and counted and larger else Effect.NONE


def _deck(person: Person, attributes: frozenset[str], table: TableSpend, effect: Effect) -> Fraction:
    if table.tau is None:
        return table.unit
    if effect is Effect.SWAP:  # beyond the slides: one row out, one row in
        return table.join / Fraction(2 * table.tau + 2) ** 2
    m = min(person.size, table.tau)
    scale = Fraction(1) if HOUSEHOLD in attributes else Fraction(m + 1, table.tau + 1) ** 2
    return table.join * scale + table.unit


def _tight(person: Person, attributes: frozenset[str], table: TableSpend, effect: Effect) -> Fraction:
    # Unit counts: stability 2, because one unit's cell or two units' universes change (||dq||^2 <= 2). Unlike `join`,
    # `unit` is not doubled from the unbounded rho. Ages do not affect units.
    unit = table.unit / 2 if effect > Effect.OWN_ROW else Fraction(0)
    if table.tau is None:
        return unit
    m = min(person.size, table.tau)
    squared_distance = {
        Effect.SWAP: 2,
        Effect.OWN_ROW: 2,
        Effect.RELABEL: 2 * m**2,
        Effect.MOVE: 2 * (m + table.tau) ** 2,
    }[effect]
    return table.join / 2 * squared_distance / (2 * table.tau + 2) ** 2 + unit


F = Fraction
DECK = (
    TableSpend("PH1", join=F("0.364"), unit=F("0.002"), tau=10),  # printed together, .366: only the person counts scale
    TableSpend("PH2", join=F("0.038"), tau=10),
    TableSpend("PH3", join=F("1.358"), tau=6),
    TableSpend("PH4", join=F("0.364"), tau=10),
    TableSpend("PH5", unit=F("0.002")),
    TableSpend("PH6", join=F("0.028"), tau=6),
    TableSpend("PH7", join=F("0.661"), tau=10),
    TableSpend("PH8", unit=F("0.002")),
)
"""Bounded rho as printed, total 2.819; tau from PHSafe's configuration."""

PEOPLE = (
    Person("Alice", 20, "biological child", 3, family=True, own_children=False),
    Person("Bob", 16, "biological child", 3, family=True, own_children=True),
    Person("Carol", 20, "householder", 1, family=False, own_children=False),
    Person("Dave", 16, "householder", 3, family=True, own_children=True),
    Person("Elise", 60, "householder", 10, family=True, own_children=True),
)
"""The "Example Individuals"."""
