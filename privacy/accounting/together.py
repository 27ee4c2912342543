"""The joint loss of accounts of persons and of households, by change (docs/privacy.md#two-units)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from privacy.accounting.composition import Change, UnitOfPrivacy
from privacy.accounting.conversions import pure_to_rho
from privacy.accounting.journal import Books
from privacy.accounting.ledger import Ledger
from privacy.noise.laws import Definition


@dataclass(frozen=True)
class Charged:
    """The charge of a run, in its own definition: an account in rho may have runs in epsilon.

    amount: it bounds a record added or removed, and twice it bounds one replaced; None if the run's relations do not
    bound these.
    """

    unit: UnitOfPrivacy
    definition: Definition
    amount: Fraction | None


def together(charged: Iterable[Charged], change: Change) -> tuple[Definition, Fraction] | None:
    """Return what runs lose together under a change: in epsilon if all are in epsilon, else in rho.

    Returns None if a run does not bound it. A run without an amount bounds no change: its unit alone does not say that
    its records stay the same, since persons may be counted by what their household's record says (S-DHC). An epsilon
    costs epsilon^2 / 2 of rho.
    """
    losses: list[tuple[Definition, Fraction]] = []
    for each in charged:
        if each.amount is None:
            return None
        factor = (change.person if each.unit == "person" else change.household)[each.definition]
        losses.append((each.definition, factor * each.amount))
    if all(definition == "puredp" for definition, _ in losses):
        return "puredp", sum((loss for _, loss in losses), Fraction(0))
    return "zcdp", sum((pure_to_rho(loss) if kept == "puredp" else loss for kept, loss in losses), Fraction(0))


def charged_together(ledger: Ledger, names: Sequence[str]) -> dict[str, tuple[Charged, ...]]:
    """Return by state the runs that charged it in these accounts.

    Raises LedgerError for an unknown account.
    """
    books = ledger.books()
    accounts = {books.account(name).name for name in names}
    found: dict[str, tuple[Charged, ...]] = {}
    for run, row in books.runs.items():
        if row.account in accounts:
            found |= {state: (*found.get(state, ()), _charged(books, run)) for state in row.states}
    return dict(sorted(found.items()))


def _charged(books: Books, run: str) -> Charged:
    """Return what a run was charged; without an amount if its neighbour relations are unknown."""
    if run not in books.spends:
        account = books.accounts[books.runs[run].account]
        return Charged(account.unit, account.definition, None)
    spend = books.spends[run]
    figures = {relation.key: relation.figure for relation in spend.relations}
    bounded = (figures.get("added_or_removed"), figures.get("replaced")) == (spend.charged, 2 * spend.charged)
    return Charged(spend.unit, spend.definition, spend.charged if bounded else None)
