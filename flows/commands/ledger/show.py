"""`das ledger show`: accounts, what they have left, and the runs that were charged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from flows.commands.options import LedgerFile
from flows.reports.terminal import Json, refusing, show

if TYPE_CHECKING:
    from privacy.accounting.ledger import Ledger, Row


def show_ledger(ledger: LedgerFile = None, as_json: Json = False) -> None:
    """Show every account, what its states have left, and every run that was charged to it.

    Runs with the same number under `data` had the same data, to the byte; `changed` marks a run whose states an earlier
    run had charged for other data. Runs on synthetic data, which are charged to no account, have a table of their own
    (in --json they are those of the account null).

    **Example:** `das ledger show`
    """
    from privacy.accounting.ledger import Ledger
    from tasks.lifecycle.run_directory import state_home

    path = ledger or state_home() / "ledger.sqlite"
    with refusing():
        book = Ledger(path)
        facts = [
            {
                "account": account.name,
                "definition": account.definition,
                "total": account.total,
                "spent": (spent := book.spent(account.name)),
                "left": {state: account.total - amount for state, amount in spent.items()},
                "runs": _runs(book, book.rows(account.name)),
            }
            for account in book.accounts()
        ]
        if synthetic := [{"run": run, "at": entered} for run, entered in book.synthetic_runs()]:
            facts.append({"account": None, "runs": synthetic})
    show(facts, lambda: _tables(facts), as_json=as_json)


def _runs(book: Ledger, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the runs of an account. Data is numbered in order of first use; no digest is shown."""
    from flows.reports.curator import together
    from privacy.accounting.ledger import on_other_data

    data = list(dict.fromkeys(row.input_digest for row in rows))
    return [
        {
            "run": row.run,
            "amount": row.amount,
            "states": row.states,
            "state": row.status,
            "at": row.reserved,
            "data": data.index(row.input_digest) + 1,
            "other_data": on_other_data(row, rows),
            "accounts_together": together(book.path, row.run),
        }
        for row in rows
    ]


def _tables(facts: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table

    from flows.reports.curator import together_warning
    from privacy.accounting.ledger import format_amount

    tables: list[RenderableType] = []
    for account in facts:
        if account["account"] is None:
            table = Table("run", "entered")
            for run in account["runs"]:
                table.add_row(run["run"], run["at"])
            tables += ["Runs on synthetic data, not charged", table]
            continue
        unit = "rho" if account["definition"] == "zcdp" else "epsilon"
        table = Table("run", unit, "states", "data", "status", "reserved")
        for run in account["runs"]:
            states = run["states"]
            listed = " ".join(states) if len(states) < 6 else f"{len(states)} states"
            data = f"{run['data']}{' changed' * bool(run['other_data'])}"
            table.add_row(run["run"], format_amount(run["amount"]), listed, data, run["state"], run["at"])
        tables.append(_left(account, unit))
        if account["runs"]:
            tables += [f"Runs charged to {account['account']}", table]
        sums = {each["accounts"]: each for run in account["runs"] if (each := run["accounts_together"])}
        tables += [together_warning(each) for each in sums.values()]
    return Group(*tables) if tables else "no account is open"


def _left(account: dict[str, Any], unit: str) -> RenderableType:
    """What each state has left, states with the same sums together; a state that nothing was charged to has it all."""
    from rich.table import Table

    from privacy.accounting.ledger import format_amount

    total = format_amount(account["total"])
    title = f"Account {account['account']}: {account['definition']}, {unit} {total} for every state"
    table = Table("states", f"spent {unit}", f"left {unit}")
    together: dict[Any, list[str]] = {}
    for state, amount in account["spent"].items():
        together.setdefault(amount, []).append(state)
    for amount, states in sorted(together.items(), reverse=True):
        table.add_row(" ".join(states), format_amount(amount), format_amount(account["total"] - amount))
    table.add_row("all others" if together else "all", "0", total)
    return Group(title, table)
