"""The budget ledger: accounts that curators open, one row a run that is never deleted or refunded
(docs/decisions.md#spending).

SQLite on a local disk with a rollback journal and `synchronous=EXTRA` (FULL, and the journal's removal too): a
committed row survives a crash. The ledger holds digests of confidential data and is confidential itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal

from privacy.accounting.conversions import pure_to_rho
from privacy.accounting.states import check_states
from privacy.noise.laws import Definition

CHARGED_BEFORE = "this data was charged for as confidential before, so its mark as synthetic data is wrong"
RAN_AS_SYNTHETIC = (
    "this data was run as synthetic before, when nothing was charged, so it cannot now be run as confidential; "
    "put its mark back"
)
LONGEST_NAME = 100  # of an account: tables and messages show it
Status = Literal["reserved", "sealed", "released", "abandoned"]
# An amount as a Fraction writes it, `5` or `1/3`: digits that begin with no 0, perhaps a slash and such digits again.
_POSITIVE = "{0} GLOB '[1-9]*' AND {0} NOT GLOB '*[^0-9/]*' AND {0} NOT GLOB '*/[0/]*' AND {0} NOT GLOB '*/*/*' AND "
_POSITIVE += "{0} NOT GLOB '*/'"
_EARLIER_TRIGGERS = (
    *("run_is_for_ever", "charge_is_for_ever", "account_is_for_ever", "run_is_once", "spent_is_spent"),
    *("charged_is_charged", "total_is_fixed"),
)
_VERSION = 2  # of the schema: a ledger of an earlier one gets what it lacks when it is opened
_SCHEMA = """
CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY, definition TEXT NOT NULL, total TEXT NOT NULL, opened TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS run (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES account (name), amount TEXT NOT NULL,
    input_digest TEXT NOT NULL, configuration_digest TEXT NOT NULL, noise_scheme INTEGER NOT NULL,
    secret_digest TEXT NOT NULL, state TEXT NOT NULL, release_digest TEXT, reserved TEXT NOT NULL,
    CHECK (state IN ('reserved', 'sealed', 'released', 'abandoned'))) STRICT;
CREATE TABLE IF NOT EXISTS charge (
    run TEXT NOT NULL REFERENCES run (id), us_state TEXT NOT NULL, PRIMARY KEY (run, us_state)) STRICT;
CREATE TABLE IF NOT EXISTS data (
    run TEXT PRIMARY KEY, input_digest TEXT NOT NULL, records_digest TEXT NOT NULL,
    synthetic INTEGER NOT NULL CHECK (synthetic IN (0, 1)), entered TEXT NOT NULL) STRICT;
"""
_SPENT = "id, account, amount, input_digest, configuration_digest, noise_scheme, secret_digest, reserved"
_WAYS = "'reserved sealed', 'reserved abandoned', 'sealed released', 'sealed abandoned'"
_TWICE = "EXISTS (SELECT 1 FROM {0} WHERE rowid = NEW.rowid OR {1})"  # a row put in another's place deletes it unseen
_NEVER = (  # what the file itself refuses: event, condition, what is said
    ("DELETE ON account", "1", "nothing is deleted"),
    ("DELETE ON run", "1", "nothing is deleted"),
    ("DELETE ON charge", "1", "nothing is deleted"),
    ("DELETE ON data", "1", "nothing is deleted"),
    ("INSERT ON account", _TWICE.format("account", "name = NEW.name"), "a total is never changed"),
    ("INSERT ON run", _TWICE.format("run", "id = NEW.id"), "a run has one row"),
    ("INSERT ON charge", _TWICE.format("charge", "run = NEW.run AND us_state = NEW.us_state"), "nothing is refunded"),
    ("INSERT ON data", _TWICE.format("data", "run = NEW.run"), "a run has one row"),
    ("INSERT ON account", f"NOT ({_POSITIVE.format('NEW.total')})", "a total is a positive fraction"),
    ("INSERT ON account", "NEW.definition NOT IN ('zcdp', 'puredp')", "a total is of zcdp or puredp"),
    ("INSERT ON run", f"NOT ({_POSITIVE.format('NEW.amount')})", "nothing is refunded"),
    ("INSERT ON run", "NEW.state != 'reserved' OR NEW.release_digest IS NOT NULL", "a run is reserved first"),
    ("INSERT ON charge", "NOT EXISTS (SELECT 1 FROM run WHERE id = NEW.run)", "a charge is of a run"),
    ("UPDATE ON account", "1", "a total is never changed"),
    ("UPDATE ON charge", "1", "nothing is refunded"),
    ("UPDATE ON data", "1", "the data of a run is never changed"),
    (f"UPDATE OF {_SPENT} ON run", "1", "nothing is refunded"),
    ("UPDATE ON run", "NEW.rowid != OLD.rowid", "nothing is refunded"),
    (
        "UPDATE ON run",
        f"NEW.state != OLD.state AND OLD.state || ' ' || NEW.state NOT IN ({_WAYS})",
        "a run goes one way",
    ),
    ("UPDATE ON run", "NEW.state = 'sealed' AND NEW.release_digest IS NULL", "a run is sealed with its release"),
    (
        "UPDATE ON run",
        "NEW.release_digest IS NOT OLD.release_digest AND (OLD.state != 'reserved' OR NEW.state != 'sealed')",
        "a run has one release",
    ),
)
_SCHEMA += "".join(f"DROP TRIGGER IF EXISTS {name};\n" for name in _EARLIER_TRIGGERS) + "".join(
    f"CREATE TRIGGER IF NOT EXISTS never_{number} BEFORE {event} WHEN {condition} "
    f"BEGIN SELECT RAISE (ABORT, '{said}'); END;\n"
    for number, (event, condition, said) in enumerate(_NEVER)
)


class LedgerError(ValueError):
    """A request that the ledger refuses; nothing was written. The message is public."""


class LedgerUnusable(LedgerError):
    """The ledger's file cannot be read or written now, so nothing is known of what it holds."""


@dataclass(frozen=True)
class Account:
    """A total budget for one confidential dataset, opened by name. `total` is rho (zcdp) or epsilon (puredp)."""

    name: str
    definition: Definition
    total: Fraction


@dataclass(frozen=True)
class Request:
    """What a run asks for: `amount` in its own definition, charged to each of the `states` that it covers.

    `states` are distinct FIPS codes; others raise LedgerError, for a state of two names would have two sums.
    `input_digest` is of all that was read, `records_digest` of the file of records alone: the same persons under
    another geography, or counted by another system, are the same persons. Of several such files it holds the digest of
    each, with a space between; data that has one of them is the same data. `second_account` says that the curator means
    to charge persons that another account was charged for: neither total bounds the two, only their sum does.
    """

    run: str
    account: str
    states: tuple[str, ...]
    definition: Definition
    amount: Fraction
    input_digest: str
    configuration_digest: str
    noise_scheme: int
    records_digest: str
    second_account: bool = False

    def __post_init__(self) -> None:
        try:
            check_states(self.states)
        except ValueError as error:
            raise LedgerError(str(error)) from None


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


@dataclass(frozen=True)
class Together:
    """Accounts that were charged for the same persons, and what they have spent together in the state charged most.

    Runs compose, whatever account they are charged to: epsilon where all accounts are kept in it, else rho.
    """

    accounts: tuple[str, ...]
    definition: Definition
    amount: Fraction


class Ledger:
    """The ledger in one SQLite file; every method is one transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_account(self, account: Account) -> None:
        """Open an account. Raises LedgerError where the name is taken or cannot be shown, or the total not positive."""
        name = account.name
        if not (name.isprintable() and name == name.strip() and 0 < len(name) <= LONGEST_NAME):
            raise LedgerError(f"{name[:50]!r} is not an account's name: use 1 to {LONGEST_NAME} printable characters")
        if account.total <= 0:
            raise LedgerError(f"the total of an account must be positive, not {shown(account.total)}")
        with self._transaction(create=True) as database:
            if _account(database, account.name):
                raise LedgerError(f"account {account.name} is open already; a total is never changed")
            values = (account.name, account.definition, str(account.total), _now())
            database.execute("INSERT INTO account VALUES (?, ?, ?, ?)", values)

    def accounts(self) -> list[Account]:
        """All accounts."""
        with self._transaction() as database:
            names = [name for (name,) in database.execute("SELECT name FROM account ORDER BY name")]
            return [account for name in names if (account := _account(database, name))]

    def spent(self, account: str) -> dict[str, Fraction]:
        """Return what is charged to each state in an account, abandoned runs included."""
        with self._transaction() as database:
            return _spent(database, account)

    def check(self, request: Request) -> Fraction:
        """Return what a request would charge, in the account's currency. Raises LedgerError where it cannot be met."""
        with self._transaction() as database:
            return _charge(database, request)

    def reserve(self, request: Request, make_secret: Callable[[], str]) -> Row:
        """Charge a run and make its secret in one act: all levels at once, before any noise.

        `make_secret` writes the secret to disk and returns its digest. It is called only where no row of this run
        exists, and before the row is committed: a secret without a row has authorized nothing, and a row never gets
        a second secret.

        Raises
        ------
        LedgerError
            where the account is missing, has too little budget left or another currency; where the run has a row
            already; where the data was run as synthetic, or charged to another account and the request does not say
            that it is meant.
        """
        with self._transaction() as database:
            if _row(database, request.run):
                raise LedgerError(f"run {request.run} is reserved already")
            _check_confidential(database, request.input_digest, request.records_digest)
            _check_account(database, request)
            amount = _charge(database, request)
            values = (
                request.run,
                request.account,
                str(amount),
                request.input_digest,
                request.configuration_digest,
                request.noise_scheme,
                make_secret(),
                "reserved",
                None,
                _now(),
            )
            database.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            database.executemany("INSERT INTO charge VALUES (?, ?)", [(request.run, state) for state in request.states])
            _enter(database, request.run, request.input_digest, request.records_digest, synthetic=False)
            row = _row(database, request.run)
            if row is None or row.amount != amount or set(row.states) != set(request.states):
                raise LedgerError(f"the ledger {self.path} does not keep what it is told: somebody has changed it")
            return row

    def row(self, run: str) -> Row | None:
        """Return the row of a run, None where there is none."""
        with self._transaction() as database:
            return _row(database, run)

    def enter_synthetic(self, run: str, input_digest: str, records_digest: str) -> None:
        """Enter what a run on synthetic data read, uncharged; make the ledger where there is none.

        Raises
        ------
        LedgerError
            where a run was charged for this data, or this run has other data.
        """
        with self._transaction(create=True) as database:
            if _seen(database, input_digest, records_digest, synthetic=False):
                raise LedgerError(CHARGED_BEFORE)
            columns = "input_digest, records_digest, synthetic"
            entered = database.execute(f"SELECT {columns} FROM data WHERE run = ?", (run,)).fetchone()
            if entered is None:
                _enter(database, run, input_digest, records_digest, synthetic=True)
            elif entered != (input_digest, records_digest, 1):
                raise LedgerError(f"run {run} began with other inputs; start a new run")

    def check_confidential(self, input_digest: str, records_digest: str) -> None:
        """Raise LedgerError where some run took this data, or the same records, for synthetic."""
        with self._transaction() as database:
            _check_confidential(database, input_digest, records_digest)

    def synthetic_runs(self) -> list[tuple[str, str]]:
        """Return the runs on synthetic data, which were not charged, and when each was entered; oldest first."""
        with self._transaction() as database:
            return list(database.execute("SELECT run, entered FROM data WHERE synthetic ORDER BY rowid"))

    def rows(self, account: str) -> list[Row]:
        """All runs of an account, the oldest first."""
        with self._transaction() as database:
            ids = [
                run for (run,) in database.execute("SELECT id FROM run WHERE account = ? ORDER BY rowid", (account,))
            ]
            return [row for run in ids if (row := _row(database, run))]

    def runs_on_other_data(self, run: str) -> list[str]:
        """Return the earlier runs of a run's account that covered some of its states with data of another digest."""
        row = self.row(run)
        return on_other_data(row, self.rows(row.account)) if row else []

    def together(self, run: str) -> Together | None:
        """Return what all accounts charged for a run's data have spent on it; None if only its own account was."""
        with self._transaction() as database:
            row = _row(database, run)
            names = _accounts_of(database, row.input_digest, _records(database, run), row.states) if row else set()
            accounts = [account for name in sorted(names) if (account := _account(database, name))]
            if row is None or len(accounts) < 2:
                return None
            pure = all(account.definition == "puredp" for account in accounts)
            sums = dict.fromkeys(row.states, Fraction(0))
            for account in accounts:
                for state, amount in _spent(database, account.name).items():
                    if state in sums:
                        as_rho = account.definition == "puredp" and not pure
                        sums[state] += pure_to_rho(amount) if as_rho else amount
            return Together(
                tuple(account.name for account in accounts), "puredp" if pure else "zcdp", max(sums.values())
            )

    def seal(self, run: str, release_digest: str) -> None:
        """Note the digest of the release that a run will give, and no other from now on."""
        self._move(run, ("reserved", "sealed"), "sealed", release_digest)

    def release(self, run: str, release_digest: str) -> None:
        """Note that the sealed release stands at its place."""
        self._move(run, ("sealed", "released"), "released", release_digest)

    def abandon(self, run: str) -> None:
        """Note that a run will give no release; its charge stays."""
        with self._transaction() as database:
            database.execute("UPDATE run SET state = 'abandoned' WHERE id = ? AND state != 'released'", (run,))

    def _move(self, run: str, sources: Sequence[Status], target: Status, release_digest: str) -> None:
        with self._transaction() as database:
            row = _row(database, run)
            if row is None or row.status not in sources:
                raise LedgerError(f"run {run} is {row.status if row else 'not in the ledger'}: it cannot be {target}")
            if row.release_digest not in (None, release_digest):
                raise LedgerError(f"run {run} was sealed with another release")
            values = (target, release_digest, run)
            database.execute("UPDATE run SET state = ?, release_digest = ? WHERE id = ?", values)

    @contextmanager
    def _transaction(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        if not create and not self.path.exists():
            raise LedgerError(f"there is no ledger {self.path}: open an account first (das ledger open)")
        try:
            if create:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.touch(mode=0o600)
        except OSError as error:
            raise LedgerUnusable(f"the ledger {self.path} cannot be made: {error.strerror}") from error
        try:
            with self._connected(create) as database:
                yield database
        except sqlite3.Error as error:
            raise LedgerUnusable(f"the ledger {self.path} cannot be used: {error}") from error

    @contextmanager
    def _connected(self, create: bool) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("PRAGMA synchronous = EXTRA")
            database.execute("PRAGMA foreign_keys = ON")
            if _is_old(database, new=create):
                database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
        finally:
            database.close()


def on_other_data(row: Row, rows: Sequence[Row]) -> list[str]:
    """Return the runs before `row` (rows are oldest first) that charged one of its states for other data."""
    earlier = rows[: rows.index(row)]
    return [
        other.run
        for other in earlier
        if other.input_digest != row.input_digest and not set(other.states).isdisjoint(row.states)
    ]


def shown(amount: Fraction) -> str:
    """Return an amount in decimals, to six digits, for a person to read; also one that passes every float."""
    try:
        return f"{float(amount):g}"
    except OverflowError:
        return f"{Decimal(amount.numerator) / amount.denominator:.5e}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _is_old(database: sqlite3.Connection, *, new: bool) -> bool:
    """True for a ledger that an earlier das-flows made, and where one may be `new` for an empty file.

    A file that is no ledger is left as it is. So is a ledger that has lost a table: an empty one in its place would
    forget what was spent.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return version < _VERSION and (new or _has_runs(database))


def _has_runs(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'run'").fetchone() is not None


def _enter(database: sqlite3.Connection, run: str, input_digest: str, records_digest: str, *, synthetic: bool) -> None:
    values = (run, input_digest, records_digest, int(synthetic), _now())
    database.execute("INSERT INTO data VALUES (?, ?, ?, ?, ?)", values)


def _same(column: str, input_digest: str, records_digest: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition on rows with `data` for this input in a column, or one of these records; and its values."""
    records = records_digest.split()
    of_records = ["instr(' ' || data.records_digest || ' ', ?) > 0"] * len(records)
    return " OR ".join([f"{column} = ?", *of_records]), (input_digest, *(f" {each} " for each in records))


def _seen(database: sqlite3.Connection, input_digest: str, records_digest: str, *, synthetic: bool) -> bool:
    """True where a run had this input or these records, and took them for synthetic or confidential as asked."""
    same, values = _same("input_digest", input_digest, records_digest)
    row = database.execute(f"SELECT 1 FROM data WHERE ({same}) AND synthetic = ?", (*values, int(synthetic))).fetchone()
    if row is None and not synthetic:  # of a das-flows that entered no digest of the records alone
        row = database.execute("SELECT 1 FROM run WHERE input_digest = ?", (input_digest,)).fetchone()
    return row is not None


def _records(database: sqlite3.Connection, run: str) -> str:
    """Return the digest of a run's records, empty for one of a das-flows that entered none."""
    row = database.execute("SELECT records_digest FROM data WHERE run = ?", (run,)).fetchone()
    return str(row[0]) if row else ""


def _accounts_of(
    database: sqlite3.Connection, input_digest: str, records_digest: str, states: Sequence[str]
) -> set[str]:
    """Return the accounts in which one of these states was charged for this input or these records."""
    same, values = _same("run.input_digest", input_digest, records_digest)
    charged = database.execute(
        "SELECT DISTINCT account, us_state FROM run JOIN charge ON charge.run = run.id "
        f"LEFT JOIN data ON data.run = run.id WHERE {same}",
        values,
    )
    return {account for account, state in charged if state in states}


def _check_account(database: sqlite3.Connection, request: Request) -> None:
    if request.second_account:
        return
    others = _accounts_of(database, request.input_digest, request.records_digest, request.states) - {request.account}
    if others:
        raise LedgerError(
            f"this data was charged to another account before, {', '.join(sorted(others))}: neither total alone "
            "would bound the loss of its persons; add --second-account if this is intended"
        )


def _check_confidential(database: sqlite3.Connection, input_digest: str, records_digest: str) -> None:
    if _seen(database, input_digest, records_digest, synthetic=True):
        raise LedgerError(RAN_AS_SYNTHETIC)


def _account(database: sqlite3.Connection, name: str) -> Account | None:
    row = database.execute("SELECT name, definition, total FROM account WHERE name = ?", (name,)).fetchone()
    return Account(row[0], row[1], Fraction(row[2])) if row else None


def _row(database: sqlite3.Connection, run: str) -> Row | None:
    columns = database.execute("SELECT * FROM run WHERE id = ?", (run,)).fetchone()
    if not columns:
        return None
    states = database.execute("SELECT us_state FROM charge WHERE run = ? ORDER BY us_state", (run,)).fetchall()
    return Row(columns[0], columns[1], tuple(state for (state,) in states), Fraction(columns[2]), *columns[3:])


def _spent(database: sqlite3.Connection, account: str) -> dict[str, Fraction]:
    charges = database.execute(
        "SELECT us_state, amount FROM charge JOIN run ON run.id = charge.run WHERE account = ? ORDER BY us_state",
        (account,),
    )
    spent: dict[str, Fraction] = {}
    for state, amount in charges:
        spent[state] = spent.get(state, Fraction(0)) + Fraction(amount)
    return spent


def _charge(database: sqlite3.Connection, request: Request) -> Fraction:
    """Return the amount in the account's currency: epsilon costs epsilon^2 / 2 of rho; rho is never epsilon."""
    account = _account(database, request.account)
    if account is None:
        raise LedgerError(f"there is no account {request.account}: open it first (das ledger open {request.account} …)")
    if request.amount <= 0 or not request.states:
        raise LedgerError("a run charges a positive amount to at least one state")
    if account.definition == request.definition:
        amount = request.amount
    elif account.definition == "zcdp":
        amount = pure_to_rho(request.amount)
    else:
        raise LedgerError(f"account {account.name} is kept in pure epsilon: a zcdp run cannot be charged to it")
    spent = _spent(database, request.account)
    fullest = max(request.states, key=lambda state: spent.get(state, Fraction(0)))
    left = account.total - spent.get(fullest, Fraction(0))
    if amount > left:
        unit = "rho" if account.definition == "zcdp" else "epsilon"
        raise LedgerError(
            f"account {account.name} has too little budget left: the run needs {unit} {shown(amount)}; "
            f"state {fullest} has {shown(left)} of {shown(account.total)}"
        )
    return amount
