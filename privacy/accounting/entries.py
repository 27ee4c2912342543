"""The tables of the ledger within one transaction: accounts, runs and their charges, data and its digests, the journal.

What is entered here is entered in the journal by the same act; ledger.py opens, compares and commits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from privacy.accounting.composition import Spend, UnitOfPrivacy
from privacy.accounting.journal import Books, JournalAccount, JournalRun, MarkName, line_digest, line_of, replay
from privacy.accounting.signatures import Signer
from privacy.accounting.states import charged_alike, check_states
from privacy.noise.exact import exact
from privacy.noise.laws import UNITS, Definition

LOST = "lost"  # in place of the digests of a run that was entered from the journal
CHARGED_BEFORE = "this data was charged for as confidential before, so its mark as synthetic or public data is wrong"
RAN_AS_MARKED = (
    "this data was run as synthetic or public before, when nothing was charged, so it cannot now be run as "
    "confidential; put its mark back"
)
Status = Literal["reserved", "sealed", "released", "abandoned"]


class LedgerError(ValueError):
    """A request that the ledger refuses; nothing was written. The message is public."""


@dataclass(frozen=True)
class Account:
    """A total budget for one confidential dataset, opened by name. `total` is rho (zcdp) or epsilon (puredp).

    unit: the unit of privacy that its charges bound the loss of. publisher: the public key whose signature its charges
    need, in hexadecimal.
    """

    name: str
    definition: Definition
    total: Fraction
    unit: UnitOfPrivacy = "person"
    publisher: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _exact(self.total, "the total of an account"))

    def check_signer(self, signer: Signer | None) -> None:
        """Raise LedgerError where the account demands signatures, and not this signer's."""
        if self.publisher and (signer is None or signer.publisher != self.publisher):
            raise LedgerError(
                f"account {self.name} takes no charge without its publisher's signature: give --sign KEY, the private "
                "key that the account was opened with"
            )


@dataclass(frozen=True)
class Request:
    """What a run asks for: to charge what it spends to each of the `states` that it covers.

    `states` are distinct FIPS codes; others raise LedgerError, for a state of two names would have two sums.
    `input_digest` is of all that was read, `records_digests` are of each file of records alone and of each state's
    records: data that shares one of them is the same data, also under another geography, with other states' records
    or counted by another system. `second_account` says that the curator means to charge persons that another account
    was charged for: neither total bounds the two, only their sum.
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
        """The digests by which the data is known."""
        return {self.input_digest, *self.records_digests}


@dataclass(frozen=True)
class Row:
    """A run as the ledger knows it; `amount` is in the account's currency. Confidential: it holds digests of data."""

    run: str
    account: str
    states: tuple[str, ...]
    amount: Fraction
    input_digest: str
    configuration_digest: str
    noise_scheme: int
    secret_digest: str
    status: Status
    release_digest: str | None
    reserved: str
    journal: str  # the digest of the act that reserved it


@dataclass(frozen=True)
class Act:
    """An act in the journal: when it was entered, and the digest of its line."""

    when: str
    digest: str


class Entries:
    """The tables of the ledger, within a transaction."""

    def __init__(self, database: sqlite3.Connection, code: Mapping[str, str], signer: Signer | None) -> None:
        self._database, self._code, self._signer = database, code, signer
        self.lines = [line for (line,) in database.execute("SELECT line FROM journal ORDER BY number")]

    def note(self, act: str, **facts: Any) -> Act:
        """Enter an act in the journal."""
        when = _now()
        line = line_of(act, when, facts, self._code, self.lines, self._signer)
        self.lines.append(line)
        self._database.execute("INSERT INTO journal VALUES (?, ?)", (len(self.lines), line))
        return Act(when, line_digest(line))

    def enter(self, lines: Sequence[str]) -> list[str]:
        """Enter lines of the journal's file and what follows from them; return the runs whose digests are lost."""
        for line in lines:
            self.lines.append(line)
            self._database.execute("INSERT INTO journal VALUES (?, ?)", (len(self.lines), line))
        books, tables, lost = replay(self.lines), self.books(), list[str]()
        for name in books.accounts.keys() - tables.accounts.keys():
            self._insert_account(name, books.accounts[name])
        for run, row in books.runs.items():
            if run not in tables.runs:
                lost.append(run)
                self._insert_run(run, row, (LOST, LOST, 0, LOST))
                self._database.execute("INSERT INTO data VALUES (?, 0, ?)", (run, row.reserved))
            elif tables.runs[run].status != row.status:
                if tables.runs[run].status == "reserved" and row.release_digest:
                    self._update(run, "sealed", row.release_digest)
                self._update(run, row.status, row.release_digest)
        for run in books.marked.keys() - tables.marked.keys():
            self._database.execute("INSERT INTO data VALUES (?, 1, ?)", (run, books.marked[run]))
        return lost

    def refuse(self, request: Request, refusal: LedgerError) -> None:
        """Enter that a request was refused, and why."""
        self.note("refused", run=request.run, account=request.account, why=str(refusal))

    def books(self) -> Books:
        """Return what the tables hold, to be compared with what follows from the journal."""
        states: dict[str, list[str]] = {}
        for run, state in self._database.execute("SELECT run, us_state FROM charge ORDER BY us_state"):
            states.setdefault(run, []).append(state)
        runs = self._database.execute("SELECT id, account, amount, status, release_digest, reserved, journal FROM run")
        return Books(
            {name: JournalAccount(*account) for name, *account in self._database.execute("SELECT * FROM account")},
            {
                run: JournalRun(account, amount, tuple(states.pop(run, ())), *rest)
                for run, account, amount, *rest in runs
            },
            dict(self._database.execute("SELECT run, entered FROM data WHERE synthetic")),
        )

    def accounts(self) -> list[Account]:
        """Return all accounts, by name."""
        rows = self._database.execute("SELECT name, definition, total, unit, publisher FROM account ORDER BY name")
        return [Account(name, definition, Fraction(total), *rest) for name, definition, total, *rest in rows]

    def account(self, name: str) -> Account | None:
        """Return an account, None where there is none."""
        return next((account for account in self.accounts() if account.name == name), None)

    def open_account(self, account: Account) -> None:
        """Enter an account."""
        facts = {"definition": account.definition, "total": str(account.total), "unit": account.unit}
        demand = {"publisher": account.publisher} if account.publisher else {}
        act = self.note("opened", account=account.name, **facts, **demand)
        self._insert_account(account.name, JournalAccount(opened=act.when, **facts, **demand))

    def _insert_account(self, name: str, account: JournalAccount) -> None:
        self._database.execute("INSERT INTO account VALUES (?, ?, ?, ?, ?, ?)", (name, *astuple(account)))

    def row(self, run: str) -> Row | None:
        """Return the row of a run, None where there is none."""
        columns = self._database.execute("SELECT * FROM run WHERE id = ?", (run,)).fetchone()
        if not columns:
            return None
        charges = self._database.execute("SELECT us_state FROM charge WHERE run = ? ORDER BY us_state", (run,))
        states = tuple(state for (state,) in charges)
        return Row(columns[0], columns[1], states, Fraction(columns[2]), *columns[3:])

    def rows(self, account: str) -> list[Row]:
        """Return the rows of an account's runs, oldest first."""
        runs = self._database.execute("SELECT id FROM run WHERE account = ? ORDER BY rowid", (account,)).fetchall()
        return [row for (run,) in runs if (row := self.row(run))]

    def insert_run(self, request: Request, amount: Fraction, secret_digest: str) -> None:
        """Enter a reserved run, its charges and its data."""
        states = sorted(request.states)
        facts = {"amount": str(amount), "states": states, "spend": request.spend.as_json()}
        act = self.note("reserved", run=request.run, account=request.account, **facts)
        row = JournalRun(request.account, str(amount), tuple(states), "reserved", None, act.when, act.digest)
        digests = (request.input_digest, request.configuration_digest, request.noise_scheme, secret_digest)
        self._insert_run(request.run, row, digests)
        self._insert_data(request.run, request.digests, act, marked=False)

    def _insert_run(self, run: str, row: JournalRun, digests: tuple[str, str, int, str]) -> None:
        """Insert a run and its charges; digests: of input and configuration, the noise scheme, the secret's digest."""
        values = (run, row.account, row.amount, *digests, row.status, row.release_digest, row.reserved, row.journal)
        self._database.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        self._database.executemany("INSERT INTO charge VALUES (?, ?)", [(run, state) for state in row.states])

    def move(self, row: Row, status: Status, release_digest: str | None) -> None:
        """Set the status of a run and the digest of its release."""
        self.note(status, run=row.run, account=row.account, release=release_digest)
        self._update(row.run, status, release_digest)

    def _update(self, run: str, status: str, release_digest: str | None) -> None:
        values = (status, release_digest, run)
        self._database.execute("UPDATE run SET status = ?, release_digest = ? WHERE id = ?", values)

    def spent(self, account: str) -> dict[str, Fraction]:
        """Return what is charged to each state in an account, abandoned runs included."""
        charges = self._database.execute(
            "SELECT us_state, amount FROM charge JOIN run ON run.id = charge.run WHERE account = ? ORDER BY us_state",
            (account,),
        )
        spent: dict[str, Fraction] = {}
        for state, amount in charges:
            spent[state] = spent.get(state, Fraction(0)) + Fraction(amount)
        return spent

    def enter_marked(self, run: str, digests: Set[str], mark: MarkName) -> None:
        """Enter a run on marked data, and the digests of its data."""
        self._insert_data(run, digests, self.note(mark.lower(), run=run), marked=True)

    def _insert_data(self, run: str, digests: Set[str], act: Act, *, marked: bool) -> None:
        self._database.execute("INSERT INTO data VALUES (?, ?, ?)", (run, int(marked), act.when))
        values = [(run, digest) for digest in sorted(digests)]
        self._database.executemany("INSERT INTO data_digest VALUES (?, ?)", values)

    def digests(self, run: str) -> Set[str]:
        """Return the digests by which a run's data is known; none for a run that was not entered."""
        rows = self._database.execute("SELECT digest FROM data_digest WHERE run = ?", (run,))
        return {digest for (digest,) in rows}

    def marked_runs(self) -> dict[str, tuple[str, MarkName]]:
        """Return the runs on marked data, which were not charged: when each was entered, and the mark; oldest first."""
        marks = replay(self.lines).marks
        rows = self._database.execute("SELECT run, entered FROM data WHERE synthetic ORDER BY rowid")
        return {run: (entered, marks[run]) for run, entered in rows}

    def has_data(self, digests: Set[str], *, marked: bool) -> bool:
        """Return whether a run had data with one of these digests, and took it for marked or not as asked."""
        found = self._database.execute(
            f"SELECT 1 FROM data JOIN data_digest USING (run) WHERE synthetic = ? AND digest IN ({_marks(digests)})",
            (int(marked), *digests),
        )
        return found.fetchone() is not None

    def check_confidential(self, digests: Set[str]) -> None:
        """Raise LedgerError where a run had data with one of these digests under a mark."""
        if self.has_data(digests, marked=True):
            raise LedgerError(RAN_AS_MARKED)

    def check_marked(self, digests: Set[str]) -> None:
        """Raise LedgerError where a run was charged for data with one of these digests."""
        if self.has_data(digests, marked=False):
            raise LedgerError(CHARGED_BEFORE)

    def admit(self, request: Request) -> Fraction:
        """Return what a request charges in the account's currency. Raises LedgerError where it cannot be met."""
        self.check_confidential(request.digests)
        self.check_account(request)
        return self.price(request)

    def accounts_charged(self, digests: Set[str], states: Sequence[str]) -> set[str]:
        """Return the accounts in which one of these states was charged for data with one of these digests."""
        charged = self._database.execute(
            "SELECT DISTINCT account, us_state FROM run JOIN charge ON charge.run = run.id "
            f"JOIN data_digest ON data_digest.run = run.id WHERE digest IN ({_marks(digests)})",
            tuple(digests),
        )
        return {account for account, state in charged if state in states}

    def check_account(self, request: Request) -> None:
        """Raise LedgerError where the request's data was charged to another account, unless the request allows it."""
        others = self.accounts_charged(request.digests, request.states) - {request.account}
        if others and not request.second_account:
            raise LedgerError(
                f"this data was charged to another account before, {', '.join(sorted(others))}: neither total alone "
                "would bound the loss of its persons; add --second-account if this is intended"
            )

    def price(self, request: Request) -> Fraction:
        """Return what a request charges in the account's currency.

        Raises LedgerError where the account is missing, has another unit of privacy or currency, demands a signature or
        has too little budget left.
        """
        account = self.account(request.account)
        if account is None:
            name = request.account
            raise LedgerError(f"there is no account {name}: open it first (das ledger open {name} …)")
        unit = request.spend.unit
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
        spent = self.spent(request.account)
        fullest = max(request.states, key=lambda state: spent.get(state, Fraction(0)))
        left = account.total - spent.get(fullest, Fraction(0))
        if amount > left:
            measure = UNITS[account.definition]
            of = "it" if charged_alike(spent) else f"state {fullest}"
            raise LedgerError(
                f"account {account.name} has too little budget left: the run needs {measure} {format_amount(amount)}; "
                f"{of} has {format_amount(left)} of {format_amount(account.total)}"
            )
        return amount


def format_amount(amount: Fraction) -> str:
    """Return an amount in decimals, to six digits, for a person to read; also one that passes every float."""
    try:
        return f"{float(amount):g}"
    except OverflowError:
        return f"{Decimal(amount.numerator) / amount.denominator:.5e}"


def _exact(amount: Fraction, name: str) -> Fraction:
    """Return an amount as a fraction. Raises LedgerError for what is no exact number."""
    try:
        return exact(amount, name)
    except ValueError as error:
        raise LedgerError(str(error)) from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _marks(values: Set[str]) -> str:
    """Return as many question marks, for values of a query."""
    return ", ".join("?" * len(values))
