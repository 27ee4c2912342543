"""Composition: how a level's budget is split, what a run spends, and which neighbouring databases that covers
(SafeTab-P paper, section 4).

Every budget is an exact integer or Fraction; floats are only shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Decimal, Inexact, localcontext
from fractions import Fraction
from math import ceil
from typing import Any, Literal, get_args

from privacy.accounting.conversions import epsilon, pure_to_rho
from privacy.noise.exact import exact, parse_exact
from privacy.noise.laws import UNITS, Definition

DELTA = 1e-10  # the delta at which a spend in rho is shown as epsilon
UnitOfPrivacy = Literal["person", "household"]
UNITS_OF_PRIVACY: tuple[UnitOfPrivacy, ...] = get_args(UnitOfPrivacy)
NOT_COVERED = "not covered"
LONGEST_EXACT = 10  # significant digits of a figure that is shown exactly
LONGEST_TEXT = 300  # characters of a relation's key or sentence
Factors = Mapping[Definition, int]


def _factors(zcdp: int, puredp: int) -> Factors:
    return {"zcdp": zcdp, "puredp": puredp}


@dataclass(frozen=True)
class Change:
    """A way in which people and households change, and what it costs a run.

    person, household: a multiple of the cost of a record added or removed, by the unit of privacy of a run that bounds
    this and twice as much for one replaced. relations: the keys, the first that a run has, of other runs' relations
    that contain the change. The loss of the Detailed DHC-B, which takes its groups from the published Detailed DHC-A,
    is bounded whatever these groups are. So the losses of both add up under any relation of pairs (persons,
    households). The proof is in docs/privacy.md#two-units.
    """

    key: str
    sentence: str
    person: Factors
    household: Factors
    relations: tuple[str, ...] = ()

    def loss(self, spend: Spend) -> Fraction | None:
        """Return what a run with this spend loses under the change; None if no relation bounds it."""
        figures = {relation.key: relation.figure for relation in spend.relations}
        if (figures.get("added_or_removed"), figures.get("replaced")) == (spend.charged, 2 * spend.charged):
            factors = self.person if spend.unit == "person" else self.household
            return factors[spend.definition] * spend.charged
        return next((figures[key] for key in self.relations if key in figures), None)


REPLACED = "a person's record replaced in place, and the household's with it"
PERSON = Change(
    "person_added_or_removed",
    "a person added or removed, and the household's record changed in any way, or added or removed with them",
    _factors(1, 1),
    _factors(2, 2),
    ("one_unit",),
)
MOVED = Change(
    "person_moved",
    "a person removed here and another added there, and the records of both households changed in any way",
    _factors(2, 2),
    _factors(8, 4),
    ("two_units",),
)


def changes(size: int) -> tuple[Change, ...]:
    """Return all changes; size: persons of a household that is added or removed whole."""
    persons = "person" if size == 1 else "persons"
    whole = f"a household of {size} {persons} added or removed, with all of them"
    return (
        Change("household_alone", "a household's record alone added or removed", _factors(0, 0), _factors(1, 1)),
        Change("household_whole", whole, _factors(size**2, size), _factors(1, 1), ("household",)),
        PERSON,
        Change("person_replaced", REPLACED, _factors(2, 2), _factors(2, 2), ("one_unit",)),
        Change(
            "replaced_declared_unchanged",
            f"{REPLACED}, all other records and declared figures unchanged",
            _factors(2, 2),
            _factors(2, 2),
            ("one_unit", "both_replaced", "persons_replaced", "units_replaced", "replaced_within", "replaced"),
        ),
        MOVED,
    )


@dataclass(frozen=True)
class LevelBudget:
    """A population group level: its budget (rho or epsilon) and the most of its groups that one record can be in."""

    budget: Fraction
    stability: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", exact(self.budget, "the budget of a level"))
        if self.budget <= 0:
            raise ValueError(f"the budget of a level must be positive, not {self.budget}")
        if self.stability < 1:
            raise ValueError(f"the stability of a level must be 1 or more, not {self.stability}")

    @property
    def per_group(self) -> float:
        """The budget of one group, b = rho_i / s."""
        return float(self.budget / self.stability)


def query_budgets(budget: Fraction, gamma: Fraction) -> dict[str, Fraction]:
    """Split a level's budget over the queries of one group of SafeTab-P (Algorithm 2).

    A TotalOnly group spends all of it on `total_only`; any other group spends gamma of it on `stage_1` and the rest on
    `stage_2`.
    """
    budget, gamma = exact(budget, "the budget of a level"), exact(gamma, "gamma")
    return {"total_only": budget, "stage_1": gamma * budget, "stage_2": (1 - gamma) * budget}


@dataclass(frozen=True)
class Relation:
    """A neighbour relation, that is a way in which two databases differ, and what a run spends on hiding it.

    key: its name in programs. sentence: its name for readers, such as "a person added or removed". figure: rho or
    epsilon; None if the run's guarantee does not cover the relation.
    """

    key: str
    sentence: str
    figure: Fraction | None

    def __post_init__(self) -> None:
        _line(self.key), _line(self.sentence)  # refuse before the charge what `read_spend` would refuse later
        if self.figure is not None:
            object.__setattr__(self, "figure", exact(self.figure, f"the figure of {self.key}"))


@dataclass(frozen=True)
class SpendRow:
    """A relation as every page, table, form and file shows it; its figures are None if it is not covered.

    figure is exact, in `measure`; epsilon is its value at delta, which under pure DP is the figure itself.
    """

    relation: str
    sentence: str
    measure: str
    figure: Fraction | None
    epsilon: float | None
    delta: float

    @property
    def cells(self) -> tuple[str, str]:
        """The figure, and its epsilon rounded up; or a note that it is not covered."""
        if self.figure is None or self.epsilon is None:
            return NOT_COVERED, ""
        return f"{self.measure} {rounded_up(self.figure)}", f"{ceil(self.epsilon * 1000) / 1000:.3f}"

    @property
    def attacker(self) -> tuple[str, str]:
        """The bounds of `privacy.accounting.attacker`, rounded up: detections of 100, and a belief of 1% after it."""
        from privacy.accounting.attacker import belief, detection  # scipy, for those who need it

        if self.figure is None:
            return "", ""
        definition: Definition = "zcdp" if self.measure == "rho" else "puredp"
        figure = float(self.figure)
        return _per_100(detection(definition, figure)), _per_100(belief(definition, figure)) + "%"

    @property
    def words(self) -> str:
        """The figure and its epsilon on one line."""
        figure, at_delta = self.cells
        return f"{figure}, epsilon {at_delta} at delta {self.delta:g}" if at_delta and self.measure == "rho" else figure


def spend_row(relation: Relation, definition: Definition, delta: float | Fraction = DELTA) -> SpendRow:
    """Return a relation as a row; its figure is in the measure of the definition."""
    figure, at_delta = relation.figure, None
    if figure is not None:
        at_delta = epsilon(figure, delta) if definition == "zcdp" else float(figure)
    return SpendRow(relation.key, relation.sentence, UNITS[definition], figure, at_delta, float(delta))


def rounded_up(figure: Fraction, digits: int = 6) -> str:
    """Return a figure of rho or epsilon as a decimal: exact if short, else rounded up to this many digits."""
    return _rounded(figure, digits, ROUND_CEILING)


def rounded_down(figure: Fraction, digits: int = 6) -> str:
    """Return a remaining budget as a decimal: exact if short, else rounded down to this many digits."""
    return _rounded(figure, digits, ROUND_FLOOR)


def _rounded(figure: Fraction, digits: int, rounding: str) -> str:
    for precision in (LONGEST_EXACT, digits):
        with localcontext(prec=precision, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN) as context:
            context.clear_flags()
            rounded = (Decimal(figure.numerator) / figure.denominator).normalize()
            if not context.flags[Inexact]:
                break
    return f"{rounded:f}" if 1e-6 < abs(rounded) < 1e16 else f"{rounded:g}"


def _per_100(share: float) -> str:
    """Return a bound in hundredths, rounded up, at most 100."""
    return f"{min(100.0, ceil(share * 1000) / 10):g}"


@dataclass(frozen=True)
class Spend:
    """The spend of a run, for each neighbour relation.

    unit: the unit of privacy; only accounts with this unit may be charged. charged: the rho or epsilon that the ledger
    charges. relations: all that the run claims; whatever shows a spend shows exactly these. The first covered relation
    costs at most what is charged; a report opens with it.
    """

    definition: Definition
    unit: UnitOfPrivacy
    charged: Fraction
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "charged", exact(self.charged, "what a run is charged"))

    @property
    def measure(self) -> str:
        """The name of its measure: rho or epsilon."""
        return UNITS[self.definition]

    def charged_in(self, definition: Definition) -> Fraction:
        """Return what is charged to an account that is kept in a definition: epsilon costs epsilon^2 / 2 of rho.

        Raises ValueError for a spend in rho and an account in epsilon: no finite epsilon covers rho.
        """
        if definition == self.definition:
            return self.charged
        if definition == "puredp":
            raise ValueError("a spend in rho cannot be charged in pure epsilon")
        return pure_to_rho(self.charged)

    def figure(self, key: str) -> Fraction | None:
        """Return the figure of a relation; None if it is not covered. Raises KeyError for an unknown key."""
        return {relation.key: relation.figure for relation in self.relations}[key]

    def rows(self, delta: float | Fraction = DELTA) -> list[SpendRow]:
        """Return the table of a spend, one row for each relation."""
        return [self._row(relation, delta) for relation in self.relations]

    def charged_row(self) -> SpendRow:
        """Return the charge as a row."""
        return self._row(Relation("charged", "charged", self.charged), DELTA)

    def _row(self, relation: Relation, delta: float | Fraction) -> SpendRow:
        return spend_row(relation, self.definition, delta)

    def as_json(self, delta: float | Fraction = DELTA) -> dict[str, Any]:
        """Return the form of manifests, of the ledger's journal and of --json; `read_spend` reads it."""
        return {
            "definition": self.definition,
            "unit_of_privacy": self.unit,
            "charged": {"exact": str(self.charged), "decimal": float(self.charged)},
            "delta": float(delta),
            "relations": [
                {"relation": row.relation, "sentence": row.sentence}
                | (
                    {"covered": False}
                    if row.figure is None
                    else {"exact": str(row.figure), "decimal": float(row.figure), "epsilon_at_delta": row.epsilon}
                )
                for row in self.rows(delta)
            ],
        }


def read_spend(facts: Mapping[str, Any]) -> Spend:
    """Return the spend that `as_json` wrote. The source may be untrusted: only the exact figures are read.

    Raises ValueError, TypeError or KeyError for anything else.
    """
    definition, unit = facts["definition"], facts["unit_of_privacy"]
    if definition not in UNITS or unit not in UNITS_OF_PRIVACY:
        raise ValueError(f"there is no spend under {definition!r:.40} for a {unit!r:.40}")
    relations = tuple(
        Relation(
            _line(each["relation"]),
            _line(each["sentence"]),
            None if each.get("covered") is False else parse_exact(each["exact"]),
        )
        for each in facts["relations"]
    )
    return Spend(definition, unit, parse_exact(facts["charged"]["exact"]), relations)


def _line(text: object) -> str:
    """Return a text that fits on one line. Raises ValueError for any other value."""
    if not isinstance(text, str) or not text.isprintable() or len(text) > LONGEST_TEXT:
        raise ValueError(f"{text!r:.40} is not one line of at most {LONGEST_TEXT} characters")
    return text


def spend(
    definition: Definition, budgets: Iterable[Fraction], unit: UnitOfPrivacy = "person", record: str = ""
) -> Spend:
    """Compose queries, or population group levels, whose budgets bound the effect of adding or removing a record.

    They cost their sum (Theorem 1), and twice that if a record is replaced (Theorem 2). A person changes at most two
    records of households (docs/privacy.md#two-units). record: what a record is; the account's unit by default.
    """
    record = record or unit
    total = sum((exact(budget, "the budget of a level") for budget in budgets), Fraction(0))
    added_or_removed = Relation("added_or_removed", f"a {record} added or removed", total)
    replaced = Relation("replaced", f"a {record} replaced", 2 * total)
    of_persons = (PERSON, MOVED) if unit == "household" else ()
    more = (Relation(each.key, each.sentence, each.household[definition] * total) for each in of_persons)
    return Spend(definition, unit, total, (added_or_removed, replaced, *more))


def disjoint(spends: Iterable[Spend]) -> Spend:
    """Compose runs over disjoint jurisdictions (the US and Puerto Rico; a person is in one of them): the largest.

    Adding or removing a person changes one jurisdiction. Replacing one can move it to the other, which costs as much as
    adding or removing it in both: at most twice the largest, as replacing it there costs.
    """
    return max(spends, key=lambda run: run.charged)
