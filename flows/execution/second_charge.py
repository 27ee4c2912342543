"""The question at a terminal before data is charged again.

A command that runs a flow answers it: at a terminal a person does, elsewhere the command prints what is charged, and
continues. A Prefect worker does not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flows.execution.runner import Ask
from flows.execution.settings import RunSettings
from tasks.errors import Refused
from tasks.lifecycle.reservation import Claim, ledger_errors, precheck

Answer = Callable[[str, str], bool]  # asked with what was charged before and what is charged now

_answers: list[Answer] = []


@contextmanager
def answered_by(answer: Answer) -> Iterator[None]:
    """Within this block, let a command answer whether data is charged again."""
    _answers.append(answer)
    try:
        yield
    finally:
        _answers.remove(answer)


def answer(charged: str, more: str) -> bool:
    """Return whether the command agrees to charge `more`; no without a command that answers."""
    return bool(_answers) and _answers[-1](charged, more)


def confirm_second_charges(asks: Sequence[Ask]) -> None:
    """Ask about each part of a run whose data was charged before, if a command answers.

    Nothing is asked if the ledger refuses a part: the reservation does so, and enters why in the journal. Raises
    Refused if the answer is no, and Failed as `precheck` does.
    """
    if not _answers:
        return
    try:
        each = [(f"{ask.part.settings.folder.upper()}: " if len(asks) > 1 else "", ask) for ask in asks]
        found = [(part, second_charge(ask.part.settings, ask.claim())) for part, ask in each]
        questions = [(f"{part}this data {words[0]}", words[1]) for part, words in found if words]
    except Refused:
        return
    if not all(_answers[-1](*question) for question in questions):
        raise Refused("this data was charged before, and a second charge was declined: nothing was charged")


def second_charge(settings: RunSettings, claim: Claim) -> tuple[str, str] | None:
    """Return what data was charged, and what it is now; None if it never was, or the run itself is.

    Raises Refused, Failed as `precheck` does.
    """
    amount, book = precheck(settings.charging, claim), settings.charging.book
    with ledger_errors("reserve budget"):
        earlier, accounts = book.charged_before(claim.request(settings.charging)), book.books().accounts
        charged = book.row(claim.run.id) is not None
    if charged or not earlier:
        return None
    charges = " and ".join(f"{accounts[row.account].amount(row.amount)} by run {row.run}" for row in earlier)
    return f"was charged {charges}", f"another {accounts[str(settings.account)].amount(amount)}"
