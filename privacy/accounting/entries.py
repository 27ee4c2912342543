"""The ledger within one transaction: its journal, and the digests, which the journal must not contain.

ledger.py opens, compares and commits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from privacy.accounting.composition import Spend, rounded_down, rounded_up
from privacy.accounting.journal import (
    TOGETHER,
    Account,
    Books,
    LedgerError,
    LedgerUnusable,
    Row,
    Status,
    line_of,
    replay,
)
from privacy.accounting.signatures import Signer
from privacy.accounting.states import charged_alike, check_states
from privacy.noise.laws import UNITS

CHARGED_BEFORE = "this data was charged for as confidential before, so its mark as synthetic or public data is wrong"
FORGETS = "the ledger does not return what was just written to it: restore a backup with das ledger restore"
RAN_AS_MARKED = (
    "this data was run as synthetic or public before, when nothing was charged, so it cannot now be run as "
    "confidential; put its mark back"
)


@dataclass(frozen=True)
class Request:
    """A run's request to charge what it spends to each of its `states`.

    `states` are distinct FIPS codes; others raise LedgerError, because a state with two names would have two sums.
    `input_digest` covers everything that was read; `records_digests` are those of each file of records and of each
    state's records. Data that shares one of them counts as the same data, even under another geography, with other
    states' records or in another system. `second_account`: the curator intends to charge persons whom another account
    was charged for, although neither total then bounds their loss, only the sum.
    """

    run: str
    account: str
    states: tuple[str, ...]
    spend: Spend
    input_digest: str
    configuration_digest: str
    noise_scheme: int
    records_digests: tuple[str, ...]
    second_account: bool = False

    def __post_init__(self) -> None:
        try:
            check_states(self.states)
        except ValueError as error:
            raise LedgerError(str(error)) from None

    @property
    def digests(self) -> Set[str]:
        """The digests that identify the data."""
        return {self.input_digest, *self.records_digests}

    def has_data_of(self, other: Request) -> bool:
        """Return whether both read the same data of a state, as far as they have digests."""
        return bool(self.digests & other.digests - {""}) and not set(self.states).isdisjoint(other.states)


class Entries:
    """The journal and the digests of a ledger, within a transaction."""

    def __init__(self, database: sqlite3.Connection, code: Mapping[str, str], signer: Signer | None) -> None:
        self._database, self._code, self._signer = database, code, signer
        self.lines = [line for (line,) in database.execute("SELECT line FROM journal ORDER BY number")]

    @property
    def books(self) -> Books:
        """The accounts and charges that follow from the journal. Raises LedgerUnusable if its acts do not follow."""
        return replay(self.lines)

    def note(self, act: str, **facts: Any) -> None:
        """Enter an act in the journal.

        Raises LedgerUnusable for an act that could not be read again, LedgerError if the database does not keep it.
        """
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self.enter([line_of(act, when, facts, self._code, self.lines, self._signer)])

    def enter(self, lines: Sequence[str]) -> None:
        """Enter lines, new ones or lines of the journal's file. Raises as `note` does."""
        for line in lines:
            self.lines.append(line)
            self._database.execute("INSERT INTO journal VALUES (?, ?)", (len(self.lines), line))
        try:
            replay(self.lines)
        except LedgerUnusable as error:
            raise LedgerUnusable(f"the act cannot be entered in the ledger: {error}") from None
        if Entries(self._database, {}, None).lines != self.lines:
            raise LedgerError(FORGETS)

    def accounts(self) -> list[Account]:
        """Return all accounts, by name."""
        return sorted(self.books.accounts.values(), key=lambda account: account.name)

    def row(self, run: str) -> Row | None:
        """Return the row of a run; None for an unknown run."""
        row = self.books.runs.get(run)
        cursor = self._database.execute("SELECT * FROM run WHERE run = ?", (run,))
        names, digests = [name for name, *_ in cursor.description], cursor.fetchone()
        return replace(row, **dict(zip(names, digests, strict=True))) if row and digests else row

    def rows(self, account: str) -> list[Row]:
        """Return the rows of an account's runs, oldest first."""
        runs = [run for run, row in self.books.runs.items() if row.account == account]
        return [row for run in runs if (row := self.row(run))]

    def insert_run(self, request: Request, amount: Fraction, secret_digest: str, together: str | None = None) -> Row:
        """Enter a reserved run and its digests, and return its row. Raises LedgerError as `note` does.

        together: the run that the same transaction reserved just before.
        """
        facts = {"amount": str(amount), "states": sorted(request.states), "spend": request.spend.as_json()}
        joined = {TOGETHER: together} if together else {}
        self.note("reserved", run=request.run, account=request.account, **facts, **joined)
        digests = (request.input_digest, request.configuration_digest, request.noise_scheme, secret_digest)
        self._database.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?)", (request.run, *digests))
        self.insert_digests(request.run, request.digests)
        row = self.row(request.run)
        if row is None or row.secret_digest != secret_digest:
            raise LedgerError(FORGETS)
        return row

    def move(self, row: Row, status: Status, release_digest: str | None) -> None:
        """Set the status of a run and the digest of its release."""
        self.note(status, run=row.run, account=row.account, release=release_digest)

    def spent(self, account: str) -> dict[str, Fraction]:
        """Return the charge of each state in an account, abandoned runs included."""
        return self.books.spent(account)

    def insert_digests(self, run: str, digests: Set[str]) -> None:
        """Enter the digests of a run's data. Raises LedgerError if the database does not keep them."""
        values = [(run, digest) for digest in sorted(digests)]
        self._database.executemany("INSERT INTO data_digest VALUES (?, ?)", values)
        if self.digests(run) != digests:
            raise LedgerError(FORGETS)

    def digests(self, run: str) -> Set[str]:
        """Return the digests that identify a run's data; empty for an unknown run."""
        rows = self._database.execute("SELECT digest FROM data_digest WHERE run = ?", (run,))
        return {digest for (digest,) in rows}

    def _runs_with(self, digests: Set[str]) -> Set[str]:
        """Return the runs whose data has one of these digests."""
        marks = ", ".join("?" * len(digests))
        found = self._database.execute(f"SELECT run FROM data_digest WHERE digest IN ({marks})", tuple(digests))
        return {run for (run,) in found}

    def check_confidential(self, digests: Set[str]) -> None:
        """Raise LedgerError if a run under a mark had data with one of these digests."""
        if self._runs_with(digests) & self.books.marked.keys():
            raise LedgerError(RAN_AS_MARKED)

    def check_marked(self, digests: Set[str]) -> None:
        """Raise LedgerError if a run was charged for data with one of these digests."""
        if self._runs_with(digests) & self.books.runs.keys():
            raise LedgerError(CHARGED_BEFORE)

    def charged_before(self, request: Request) -> list[Row]:
        """Return the other runs that charged one of the request's states for its data, oldest first."""
        same = self._runs_with(request.digests) - {request.run}
        return [row for run, row in self.books.runs.items() if run in same and set(row.states) & set(request.states)]

    def admit(self, request: Request, before: Mapping[Request, Fraction]) -> Fraction:
        """Return what a request charges in the account's currency, once those `before` it are charged these amounts.

        Raises LedgerError if it must be refused.
        """
        self.check_confidential(request.digests)
        self.check_account(request, before)
        return self.price(request, before)

    def admit_all(self, requests: Sequence[Request]) -> tuple[list[Fraction], LedgerError | None]:
        """Return what requests charge one after the other, and None; where one is refused, enter that and return why.

        The caller raises the refusal once that is committed; it names the run where there are several.
        """
        amounts: dict[Request, Fraction] = {}
        for request in requests:
            try:
                amounts[request] = self.admit(request, amounts)
            except LedgerError as error:
                self.note("refused", run=request.run, account=request.account, why=str(error))
                return [], type(error)(f"run {request.run}: {error}") if len(requests) > 1 else error
        return list(amounts.values()), None

    def check_account(self, request: Request, before: Iterable[Request] = ()) -> None:
        """Raise LedgerError if the request's data was charged to another account, unless the request allows it.

        before: requests that are charged first.
        """
        charged = {row.account for row in self.charged_before(request)}
        charged |= {each.account for each in before if each.has_data_of(request)}
        others = charged - {request.account}
        if others and not request.second_account:
            raise LedgerError(
                f"this data was charged to another account before, {', '.join(sorted(others))}: neither total alone "
                "would bound the loss of its persons; add --second-account if this is intended"
            )

    def price(self, request: Request, before: Mapping[Request, Fraction]) -> Fraction:
        """Return what a request charges in the account's currency, once those `before` it are charged these amounts.

        Raises LedgerError if the account is missing, has another unit of privacy or currency, demands a signature or
        has too little budget remaining.
        """
        account, unit = self.books.account(request.account), request.spend.unit
        if account.unit != unit:
            raise LedgerError(
                f"account {account.name} is for {account.unit}s: a run whose unit of privacy is a {unit} cannot be "
                f"charged to it; name an account for {unit}s (das ledger open NAME --unit {unit} …)"
            )
        account.check_signer(self._signer)
        if request.spend.charged <= 0 or not request.states:
            raise LedgerError("a run charges a positive amount to at least one state")
        try:
            amount = request.spend.charged_in(account.definition)
        except ValueError:
            raise LedgerError(
                f"account {account.name} is kept in pure epsilon: a zcdp run cannot be charged to it"
            ) from None
        asked: dict[str, Fraction] = {}
        for each, its_amount in before.items():
            for state in each.states if each.account == account.name else ():
                asked[state] = asked.get(state, Fraction(0)) + its_amount
        fullest, remaining = self.books.remaining(account.name, request.states, asked)
        if amount > remaining:
            measure = UNITS[account.definition]
            of = "it" if charged_alike(self.spent(account.name)) and not asked else f"state {fullest}"
            after = " after the runs that are charged before it" if asked.get(fullest) else ""
            raise LedgerError(
                f"account {account.name} has too little budget left: the run needs {measure} {rounded_up(amount)}; "
                f"{of} has {rounded_down(remaining)} of {rounded_up(account.total)}{after}"
            )
        return amount
