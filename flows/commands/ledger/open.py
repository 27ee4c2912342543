"""`das ledger open`: open an account of privacy-loss budget."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.options import LedgerFile
from flows.reports.terminal import Json, refusing, show


def open_account(
    name: Annotated[str, typer.Argument(help="The account's name: one confidential dataset.")],
    definition: Annotated[str, typer.Option(help="zcdp (rho) or puredp (epsilon).")],
    total: Annotated[
        str, typer.Option(help="The most that the charges of any state may sum to, exact: 4.944 or 618/125.")
    ],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Open an account. Its total can never be changed.

    **Example:** `das ledger open census-2020 --definition zcdp --total 4.944`
    """
    from privacy.accounting.ledger import Account, Ledger, format_amount
    from tasks.inputs.exact_numbers import exact_number
    from tasks.lifecycle.errors import Refused
    from tasks.lifecycle.run_directory import state_home

    try:
        amount = exact_number(total)
    except ValueError as error:
        raise Refused(f"--total {total} {error}") from None
    if definition not in ("zcdp", "puredp"):
        raise Refused(f"--definition {definition} is neither zcdp nor puredp")
    path = ledger or state_home() / "ledger.sqlite"
    with refusing():
        Ledger(path).open_account(Account(name, definition, amount))  # type: ignore[arg-type]
    unit = "rho" if definition == "zcdp" else "epsilon"
    facts = {"account": name, "definition": definition, "total": str(amount), "ledger": path}
    show(facts, lambda: f"account {name} is open with {unit} {format_amount(amount)} in {path}", as_json=as_json)
