"""A person's consent to a charge: by the form that Resume shows in Prefect, at a terminal, or before a census began.

The form is public: it shows budgets, paths, the account and states. The ledger's journal records who approved, and why.

A command that runs a flow answers whether data is charged again: at a terminal a person does, elsewhere the command
prints what is charged, and continues. A Prefect worker does not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Literal

from prefect import get_run_logger, runtime, suspend_flow_run
from prefect.input import RunInput
from pydantic import Field, ValidationError

from flows.execution.run_status import ANSWER, ANSWER_IT, ASKED
from flows.execution.runner import Ask
from flows.execution.settings import RunSettings
from flows.execution.states import add_tags, best_effort
from privacy.accounting.composition import SpendRow, rounded_down
from privacy.accounting.ledger import LONGEST_REASON
from privacy.accounting.states import listed
from tasks.errors import Refused
from tasks.lifecycle.files import save_object
from tasks.lifecycle.reservation import Claim, ledger_errors, precheck

APPROVAL_SECONDS = 7 * 86_400  # a run that is not approved by then fails, and is charged nothing
Answer = Callable[[str, str], bool]  # asked with what was charged before and what is charged now
ONE_LINE = r"^[^\r\n]*\S[^\r\n]*$"


class Approval(RunInput):
    """A person's answer to whether a run may charge its account."""

    answer: Literal["approve", "refuse"] = Field(description="Whether the run may charge its account.")
    name: str = Field(pattern=ONE_LINE, max_length=LONGEST_REASON, description="Who answers.")
    reason: str = Field(
        pattern=ONE_LINE,
        max_length=LONGEST_REASON,
        description="Why. The ledger's journal keeps both of an approval.",
    )


def await_approval(asks: Sequence[Ask]) -> None:
    """Suspend the flow run until a person approves the charges of its parts, and enter the approvals in the journal.

    Its process ends meanwhile; when resumed, the flow returns here and continues, unless it would now charge something
    else (its directory was made again from other parameters): that was not approved. A Retry asks again, too.

    Raises Refused if the charge cannot be met or is not approved, if the run was resumed without an answer, or if it
    was not started from a deployment (only flow runs of deployments can be suspended). Raises Failed if the ledger
    cannot be read or written now.
    """
    if runtime.deployment.id is None:
        raise Refused(f"the run asks for a person's approval: {ANSWER_IT}")
    questions, waits, asked_for = [], [], sha256()
    for ask in asks:
        settings, claim = ask.part.settings, ask.claim()
        amount = precheck(settings.charging, claim)
        account = settings.charging.book.books().accounts[str(settings.account)]
        asked = f"{account.amount(amount)} of account {account.name}"  # suspend_flow_run takes no message
        get_run_logger().info("%s: waits for a person's approval of %s", settings.folder, asked)
        waits.append(f"asks {asked}")
        questions.append(question(settings, claim))
        own = settings.model_dump_json(exclude={*settings.MAY_CHANGE})
        asked_for.update(f"{charge_words(settings, claim)}\n{own}\n".encode())
    _note(asks, ASKED)
    of_earlier = {tag for tag in runtime.flow_run.tags if tag.startswith("asks ")}
    best_effort(add_tags)(*waits, without=of_earlier - {*waits})
    form = Approval.with_initial_data(description="\n\n".join(questions))
    key = f"approval-{runtime.flow_run.run_count}-{asked_for.hexdigest()[:16]}"  # an answer to one key is to no other
    try:
        answered = suspend_flow_run(wait_for_input=form, timeout=APPROVAL_SECONDS, key=key)
    except ValidationError:
        raise Refused("the run was resumed without an answer to whether it may charge its account") from None
    best_effort(add_tags)(without=waits)
    _note(asks, answered.answer)
    if answered.answer != "approve":
        raise Refused(f"the charge was not approved by {answered.name}: {answered.reason}")
    get_run_logger().info("approved by %s: %s", answered.name, answered.reason)
    with ledger_errors("approval"):
        for ask in asks:
            ask.part.settings.charging.book.note_approval(ask.part.directory.id, answered.name, answered.reason)


def _note(asks: Sequence[Ask], answer: str) -> None:
    """Note the answer, or that a person is asked, for `das runs`: nothing else reads it, and it approves nothing."""
    for ask in asks:
        save_object(ask.part.directory / ANSWER, answer)


def charge_words(settings: RunSettings, claim: Claim) -> str:
    """Return a charge exactly, as a line that settings can hold: amount, account and states."""
    amount = f"{claim.spend.measure} {claim.spend.charged}"
    return f"{amount} of account {settings.account} in {' '.join(sorted(claim.states))}"


def check_agreed(settings: RunSettings, claim: Claim) -> None:
    """Refuse a charge other than what was agreed to before the run began, if its charge had to be agreed to then."""
    if settings.agreed is None:
        return
    asked, agreed = charge_words(settings, claim), settings.agreed.get(str(settings.run_id), "nothing")
    if asked != agreed:
        raise Refused(f"run {settings.run_id} would charge {asked}, but what was agreed to is {agreed}")


def question(settings: RunSettings, claim: Claim) -> str:
    """Return the question to a person, in Markdown: the charge, the data, the account and its remaining budget.

    Raises Refused, Failed as `precheck` does.
    """
    amount = precheck(settings.charging, claim)
    books = settings.charging.book.books()
    account = books.accounts[str(settings.account)]
    fullest, remaining = books.remaining(account.name, claim.states)
    data = getattr(settings, settings.DATA[0])
    lines = {
        "charge to each state": f"{account.amount(amount)}, not refunded",
        **{row.sentence: _with_attacker(row) for row in claim.spend.rows()},
        "unit of privacy": f"a {claim.spend.unit}",
        "data": f"{data}, {settings.folder}",
        "states": listed(claim.states),
        f"account {account.name}": f"of {account.amount(account.total)} state {fullest}, charged most, has "
        f"{rounded_down(remaining)} left, and {rounded_down(remaining - amount)} after this run",
        "release": f"{settings.out}/{settings.folder}{settings.published()}",
    }
    return "\n".join(f"* {name}: {line}" for name, line in lines.items())


def _with_attacker(row: SpendRow) -> str:
    """Return what a run spends on a relation, and what an attacker then gets right; a note if it is not covered."""
    right, _ = row.attacker
    meaning = f"; an attacker who knows all else is right in at most {right} of 100, with 5 false alarms in 100"
    return f"{row.words}{meaning if right else ''}"


# -- at a terminal ----------------------------------------------------------------------------------------------------

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
