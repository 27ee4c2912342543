"""The figures that the slides on S-DHC print: budgets, persons and losses, and whether the rule gives them.

Source: as in attribute_loss_s_dhc.py, whose rule gives 35 of the 40 figures of the Results table and all 16 of
the two {Relation} tables. `READINGS` explains the other five.
"""

from __future__ import annotations

from fractions import Fraction

from privacy.analyses.attribute_loss_s_dhc import SECRETS, Person, Table

F = Fraction

DECK = (
    Table("PH1", join=F("0.364"), unit=F("0.002"), tau=10),  # printed together, .366: only the person counts scale
    Table("PH2", join=F("0.038"), tau=10),
    Table("PH3", join=F("1.358"), tau=6),
    Table("PH4", join=F("0.364"), tau=10),
    Table("PH5", unit=F("0.002")),
    Table("PH6", join=F("0.028"), tau=6),
    Table("PH7", join=F("0.661"), tau=10),
    Table("PH8", unit=F("0.002")),
)
"""Bounded rho as printed, total 2.819; tau from PHSafe's configuration."""

NMFV8_US = (
    Table("PH1", join=F("0.364442"), unit=F("0.001506"), tau=10),
    Table("PH2", join=F("0.03798"), tau=10),
    Table("PH3", join=F("1.358838"), tau=6),
    Table("PH4", join=F("0.364442"), tau=10),
    Table("PH5", unit=F("0.001506")),
    Table("PH6", join=F("0.015382"), tau=6),
    Table("PH7", join=F("0.364442"), tau=10),
    Table("PH8", unit=F("0.001506")),
)
"""Bounded rho of PHSafe's published production configuration for the United States (NMFv8), total 2.510.

Every table but PH6 and PH7 rounds to the slides' figure (PH3 is printed as twice a rounded .679); those two are 1.8
times smaller here than there, for which no explanation is known: the slides probably precede NMFv8.
"""

PEOPLE = (
    Person("Alice", 20, "biological child", 3, family=True, own_children=False),
    Person("Bob", 16, "biological child", 3, family=True, own_children=True),
    Person("Carol", 20, "householder", 1, family=False, own_children=False),
    Person("Dave", 16, "householder", 3, family=True, own_children=True),
    Person("Elise", 60, "householder", 10, family=True, own_children=True),
)
"""The "Example Individuals"."""

_RESULTS = {
    "Alice": "0.055 0.558 0     0.055 0.055 0.055 1.433 1.433",
    "Bob":   "0.508 0.558 0.443 0.508 0.508 0.508 2.819 2.819",
    "Carol": "0.126 0.126 0.038 0.126 0     0.039 1.067 1.067",
    "Dave":  "0.508 0.558 0.633 0.508 0.508 0.647 2.819 2.819",
    "Elise": "0.404 2.156 1.395 0.404 1.79  2.819 1.433 1.433",
}  # fmt: skip
RESULTS = {
    (name, secret): Fraction(figure)
    for name, row in _RESULTS.items()
    for secret, figure in zip(SECRETS, row.split(), strict=True)
}
"""The Results table: (person, secret) -> printed loss."""

_RELATION = {
    "Alice": "0 0.005 0     0.048 0.002 0     0 0",
    "Bob":   "0 0.005 0.443 0.048 0.002 0.009 0 0",
}  # fmt: skip
RELATION = {
    (name, table.name): Fraction(figure)
    for name, row in _RELATION.items()
    for table, figure in zip(DECK, row.split(), strict=True)
}
"""The two {Relation} tables: (person, table) -> printed loss. Their totals, .055 and .507, add rounded entries."""

_CAROL = (
    "PH2+PH3+PH4+PH5, her Age figure: but she is 20 and lives alone, so PH3, PH4 and PH5 cannot move; "
    "a bound that holds, and a loose one"
)
_ELISE = (
    "PH2+PH4+PH5, an adult without PH3 and PH6, which her Unmarried Partner figure has; "
    "less than her loss for {Relation} alone, which no A-attribute loss can be"
)
READINGS = {
    ("Carol", "Sex"): _CAROL,
    ("Carol", "Same-Sex Relationship"): _CAROL,
    ("Carol", "Unmarried Partner"): "zero, though PH2 is charged in her Multi-racial Family: alone, so without partner",
    ("Elise", "Sex"): _ELISE,
    ("Elise", "Same-Sex Relationship"): _ELISE,
}
"""The five printed figures that the rule does not give, and what they are."""


def printed(value: Fraction, places: int = 3) -> Fraction:
    """Return `value` >= 0 as the slides print it: rounded once, half up, to three places."""
    unit = 10**places
    return Fraction(int(value * unit + Fraction(1, 2)), unit)
