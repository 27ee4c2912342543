"""What Prefect's pages show of a run's charge: the form by which a person approves it, and artifacts of what it was.

All of it is public: budgets, paths, the account, states, the manifest's content. The ledger's journal keeps who
approved, and why. Artifacts are best effort: a run neither waits for them nor fails because of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import runtime, suspend_flow_run
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.input import RunInput
from pydantic import Field, ValidationError

from flows.execution.settings import RunSettings
from flows.execution.standing import ANSWER_IT
from flows.execution.states import add_tags, best_effort
from privacy.accounting.composition import DELTA, Spend, read_spend, rounded_down, rounded_up
from privacy.accounting.ledger import LONGEST_REASON, Ledger, LedgerError
from privacy.accounting.states import listed
from privacy.noise.laws import UNITS
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import read_manifest, release_digest, shown_marks
from tasks.lifecycle.reservation import Input, ledger_errors, precheck

APPROVAL_SECONDS = 7 * 86_400  # then a run that is not approved fails, charged nothing
ONE_LINE = r"^[^\r\n]*\S[^\r\n]*$"


class Approval(RunInput):
    """A person's answer to whether a run may charge its account."""

    approve: bool
    name: str = Field(pattern=ONE_LINE, max_length=LONGEST_REASON, description="Who answers.")
    reason: str = Field(
        pattern=ONE_LINE, max_length=LONGEST_REASON, description="Why; the ledger's journal keeps both."
    )


def await_approval(settings: RunSettings, given: Input, spend: Spend, states: Sequence[str]) -> None:
    """Suspend the flow run until a person approves its charge, and enter the approval in the ledger's journal.

    Its process ends meanwhile; when resumed, the flow comes here again and continues. A Retry asks anew.

    Raises Refused where the charge cannot be met, is not approved, or the run was resumed without an answer, or not by
    a deployment, whose flow runs alone can be suspended; Failed where the ledger cannot be read or written now.
    """
    if runtime.deployment.id is None:
        raise Refused(f"the run asks for a person's approval: {ANSWER_IT}")
    amount = precheck(settings.directory, settings.charging, tuple(states), spend, given)
    unit = UNITS[settings.charging.book.books().accounts[str(settings.account)].definition]
    asks = f"asks {unit} {rounded_up(amount)} of account {settings.account}"
    best_effort(add_tags)(asks)  # Suspended takes no message of ours
    form = Approval.with_initial_data(description=question(settings, given, spend, states), approve=False)
    try:
        answer = suspend_flow_run(
            wait_for_input=form, timeout=APPROVAL_SECONDS, key=f"approval-{runtime.flow_run.run_count}"
        )
    except ValidationError:
        raise Refused("the run was resumed without an answer to whether it may charge its account") from None
    if not answer.approve:
        raise Refused(f"the charge was not approved by {answer.name}: {answer.reason}")
    with ledger_errors("approval"):
        settings.charging.book.note_approval(str(settings.run_id), answer.name, answer.reason)


def question(settings: RunSettings, given: Input, spend: Spend, states: Sequence[str]) -> str:
    """Return what a person is asked, in Markdown: the charge, the data, the account and what it has left.

    Raises Refused, Failed as `precheck` does.
    """
    amount = precheck(settings.directory, settings.charging, tuple(states), spend, given)
    books = settings.charging.book.books()
    account = books.accounts[str(settings.account)]
    fullest, left = books.left(account.name, states)
    unit, total = UNITS[account.definition], rounded_up(account.total)
    data = getattr(settings, settings.DATA[0])
    lines = {
        "charge to each state": f"{unit} {rounded_up(amount)}, not refunded",
        **{row.sentence: row.words for row in spend.rows()},
        "unit of privacy": f"a {spend.unit}",
        "data": f"{data}, {settings.folder}",
        "states": listed(states),
        f"account {account.name}": f"of {unit} {total} state {fullest}, charged most, has {rounded_down(left)} left, "
        f"and {rounded_down(left - amount)} after this run",
        "release": f"{settings.out}/{settings.folder}",
    }
    return "\n".join(f"* {name}: {line}" for name, line in lines.items())


@best_effort
def publish_reserved(settings: RunSettings) -> None:
    """Publish what was reserved and what is left of the account; tag the run as charged, or by the mark of its data."""
    rows, run = _account_lines(settings), str(settings.run_id)
    tag, charged = "charged", "once, however it ends and however often it is resumed"
    if not rows:
        tag = Ledger(Path(settings.ledger)).books().marked[run][1].lower()
        charged = f"nothing: its data is {tag}"
    create_table_artifact(
        rows or [{"charged": "nothing"}], key=_key(settings, "budget"), description=f"Run {run} is charged {charged}"
    )
    add_tags(tag)


@best_effort
def publish_released(settings: RunSettings, place: Path) -> None:
    """Publish a page of what was released and spent."""
    text = page(read_manifest(place), place, release_digest(place), _account_lines(settings))
    key, description = _key(settings, "release"), f"Released by run {settings.run_id}"
    create_markdown_artifact(text, key=key, description=description)


def page(manifest: Mapping[str, Any], place: Path, digest: str, account: list[dict[str, str]]) -> str:
    """Return the page of a release, in Markdown; all but the account is in the manifest."""
    lines = [f"# {manifest['release']}", "", *(f"**{mark}**" for mark in shown_marks(manifest)), ""]
    lines += [f"| what changes | spent | epsilon at delta {DELTA:g} |", "|---|---:|---:|"]
    lines += [f"| {' | '.join((row.sentence, *row.cells))} |" for row in read_spend(manifest["spent"]).rows()]
    for row in account:
        lines += ["", *(f"* {name}: {value}" for name, value in row.items())]
    if "levels" in manifest and all("groups_published" in level for level in manifest["levels"].values()):
        lines += ["", "| population group level | groups published | of |", "|---|---:|---:|"]
        for name, level in manifest["levels"].items():
            lines.append(f"| {name} | {sum(level['groups_published'].values()):,} | {level['groups']:,} |")
    report = [f"* report: `{place / 'report.html'}`"] if (place / "report.html").exists() else []
    return "\n".join([*lines, "", f"* release: `{place}`", *report, f"* digest of manifest.json: `{digest}`"])


def _account_lines(settings: RunSettings) -> list[dict[str, str]]:
    """Return one row of what the run was charged and its account has left; none for a run that was charged nothing."""
    try:
        books = Ledger(Path(settings.ledger)).books()
    except LedgerError:  # the page of a release has the rest
        return []
    row = books.runs.get(str(settings.run_id))
    if row is None:
        return []
    account = books.accounts[row.account]
    unit, (_, left) = UNITS[account.definition], books.left(account.name, row.states)
    return [
        {
            "account": account.name,
            "charged to each state": f"{unit} {rounded_up(row.amount)}",
            "least left in a state": f"{unit} {rounded_down(left)} of {rounded_up(account.total)}",
            "states": listed(row.states),
        }
    ]


def _key(settings: RunSettings, what: str) -> str:
    return re.sub("[^a-z0-9]+", "-", f"{settings.SYSTEM}-{settings.folder}-{what}".lower())
