"""The joint loss of runs, of accounts of persons and of households alike, by change (docs/privacy.md#two-units)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from privacy.accounting.composition import Change, Relation, Spend, SpendRow, changes, spend_row
from privacy.accounting.conversions import pure_to_rho
from privacy.accounting.ledger import Ledger
from privacy.noise.laws import Definition

Spends = tuple[Spend | None, ...]  # one per run; None if the ledger does not know its relations
HOUSEHOLD_SIZE = 4  # persons of a household that is added or removed whole


def together(spends: Iterable[Spend | None], change: Change) -> tuple[Definition, Fraction] | None:
    """Return what runs lose together under a change: in epsilon if all are in epsilon, else in rho.

    Returns None if a run does not bound it. A run whose relations are unknown bounds no change: its unit alone does not
    say that its records stay the same, since persons may be counted by what their household's record says (S-DHC). An
    epsilon costs epsilon^2 / 2 of rho.
    """
    losses: list[tuple[Definition, Fraction]] = []
    for spend in spends:
        loss = change.loss(spend) if spend else None
        if spend is None or loss is None:
            return None
        losses.append((spend.definition, loss))
    if all(definition == "puredp" for definition, _ in losses):
        return "puredp", sum((loss for _, loss in losses), Fraction(0))
    return "zcdp", sum((pure_to_rho(loss) if kept == "puredp" else loss for kept, loss in losses), Fraction(0))


def joint_rows(spends: Spends, size: int = HOUSEHOLD_SIZE) -> list[SpendRow]:
    """Return what runs lose together under each change, as the rows of a spend; size: see HOUSEHOLD_SIZE."""
    pure = all(spend is not None and spend.definition == "puredp" for spend in spends)
    rows = []
    for change in changes(size):
        _, loss = together(spends, change) or ("", None)
        rows.append(spend_row(Relation(change.key, change.sentence, loss), "puredp" if pure else "zcdp"))
    return rows


def charged_together(ledger: Ledger, names: Sequence[str]) -> dict[str, Spends]:
    """Return by state the spends of the runs that charged it in these accounts.

    Raises LedgerError for an unknown account.
    """
    books = ledger.books()
    accounts = {books.account(name).name for name in names}
    charged = [(books.spends.get(run), row.states) for run, row in books.runs.items() if row.account in accounts]
    return by_state(charged)


def by_state(charged: Iterable[tuple[Spend | None, Sequence[str]]]) -> dict[str, Spends]:
    """Return the spends of each state, given those of runs with the states that each charges."""
    found: dict[str, Spends] = {}
    for spend, states in charged:
        found |= {state: (*found.get(state, ()), spend) for state in states}
    return dict(sorted(found.items()))
