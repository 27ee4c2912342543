"""The budget ledger: accounts that curators open, and runs. No run is ever deleted or refunded

SQLite on a local disk with a rollback journal and `synchronous=EXTRA` (FULL, and the journal's removal too): a
committed act survives a crash. Every opening compares the acts with those in the file next to it (journal.py) and
refuses an older copy, an empty file in the ledger's place, and acts changed by hand. The ledger holds digests of
confidential data and is confidential itself.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Concatenate, ParamSpec, TypeVar

from privacy.accounting.composition import rounded_up
from privacy.accounting.entries import Entries
from privacy.accounting.entries import Request as Request
from privacy.accounting.journal import Account as Account
from privacy.accounting.journal import (
    Books,
    MarkName,
    Status,
    append,
    catch_up,
    flush,
    journal_path,
    last_transaction,
    make_file,
    read_file,
    write_file,
)
from privacy.accounting.journal import LedgerError as LedgerError
from privacy.accounting.journal import LedgerUnusable as LedgerUnusable
from privacy.accounting.journal import Row as Row
from privacy.accounting.signatures import Signer
from privacy.accounting.states import charged_alike
from privacy.noise.laws import UNITS

P = ParamSpec("P")
T = TypeVar("T")
LONGEST_NAME = 100  # characters of an account's name: tables and messages show it
LONGEST_REASON = 1000  # characters of an approval's reason
SCHEMA = 6  # kept as the file's user_version


@dataclass(frozen=True)
class Examined:
    """The result of examining a ledger.

    found: what was compared, its extent, and the faults. books: what follows from the journal, whose lines are `lines`.
    """

    found: tuple[tuple[str, str, list[str]], ...]
    rows: Mapping[str, Row]
    books: Books
    lines: Sequence[str]


def _within(method: Callable[Concatenate[Entries, P], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Turn a method of the entries into a method of the ledger, in a transaction of its own."""

    @wraps(method)
    def within(ledger: Ledger, /, *arguments: P.args, **named: P.kwargs) -> T:
        with ledger._transaction() as entries:
            return method(entries, *arguments, **named)

    return within


class Ledger:
    """The ledger in one SQLite file, and its journal next to it; every method is one transaction.

    code: the description of the running code in the journal; by default the version of das-flows. signer: the
    publisher, who signs every act.
    """

    accounts = _within(Entries.accounts)
    spent = _within(Entries.spent)
    row = _within(Entries.row)
    rows = _within(Entries.rows)
    check_confidential = _within(Entries.check_confidential)
    check_marked = _within(Entries.check_marked)
    charged_before = _within(Entries.charged_before)

    def __init__(self, path: Path, code: Mapping[str, str] | None = None, signer: Signer | None = None) -> None:
        self.path = path
        self.code = code or {"version": version("das-flows")}
        self.signer = signer

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return journal_path(self.path)

    def exists(self) -> bool:
        """Return whether there is a ledger, or the journal of a lost one."""
        return self.path.exists() or bool(read_file(self.journal))

    def open_account(self, account: Account) -> None:
        """Open an account.

        Raises LedgerError if the name is taken or cannot be printed, the total is not positive, or the account demands
        signatures of another publisher than this ledger's.
        """
        name = account.name
        if not (name.isprintable() and name == name.strip() and 0 < len(name) <= LONGEST_NAME):
            raise LedgerError(f"{name[:50]!r} is not an account's name: use 1 to {LONGEST_NAME} printable characters")
        if account.total <= 0:
            raise LedgerError(f"the total of an account must be positive, not {rounded_up(account.total)}")
        account.check_signer(self.signer)
        with self._transaction(create=True) as entries:
            if name in entries.books.accounts:
                raise LedgerError(f"account {name} is open already; a total is never changed")
            facts = {"definition": account.definition, "total": str(account.total), "unit": account.unit}
            demand = {"publisher": account.publisher} if account.publisher else {}
            entries.note("opened", account=name, **facts, **demand)

    def precheck(self, *requests: Request) -> list[Fraction]:
        """Return what requests would charge, one after the other, in the currency of the account of each.

        Raises LedgerError if `reserve` would refuse one of them. Before its data is read, a request has no digests.
        """
        with self._transaction() as entries:
            amounts, refusal = entries.admit_all(requests)
        if refusal:
            raise refusal
        return amounts

    def note_approval(self, run: str, by: str, why: str) -> None:
        """Enter in the journal who approved the charge of a run, before it is reserved, and why.

        Raises LedgerError if the name is empty, or if the name or reason cannot be printed or is too long.
        """
        for what, text in (("name", by), ("reason", why)):
            if not text.isprintable() or len(text) > LONGEST_REASON or (what == "name" and not text.strip()):
                raise LedgerError(f"the {what} of an approval is one line of at most {LONGEST_REASON} characters")
        with self._transaction() as entries:
            entries.note("approved", run=run, by=by, why=why)

    def reserve(self, request: Request, make_secret: Callable[[], str]) -> Row:
        """Charge a run and make its secret in one act: all levels at once, before any noise.

        `make_secret` writes the secret to disk and returns its digest. It is called only if this run has no row yet,
        and before the row is committed: a secret without a row has authorized nothing, and a row never gets a second
        secret.

        Raises LedgerError if the account is missing, has another currency or too little budget remaining; if the run
        has a row already; if the data was run under a mark; or if it was charged to another account and the request
        does not allow a second one.
        """
        return self.reserve_together((request, make_secret))[0]

    def reserve_together(self, *claims: tuple[Request, Callable[[], str]]) -> list[Row]:
        """Charge all of these runs or none, in one transaction. Each is charged and gets its secret as by `reserve`.

        No two may charge the same state, so that one run's charge cannot decide whether another is refused.

        Raises LedgerError as `reserve` does, naming the run if there are several.
        """
        states = [state for request, _ in claims for state in request.states]
        if len(set(states)) < len(states):
            raise LedgerError("runs that are reserved together may not charge the same state")
        rows: list[Row] = []
        with self._transaction() as entries:
            for request, _ in claims:
                if entries.row(request.run):
                    raise LedgerError(f"run {request.run} is reserved already")
            amounts, refusal = entries.admit_all([request for request, _ in claims])
            if refusal is None:
                for (request, make_secret), amount in zip(claims, amounts, strict=True):
                    together = rows[-1].run if rows else None
                    rows.append(entries.insert_run(request, amount, make_secret(), together))
        if refusal:
            raise refusal
        return rows

    def enter_marked(self, run: str, digests: Set[str], mark: MarkName = "SYNTHETIC") -> None:
        """Enter a run on marked data by the data's digests, uncharged. Makes the ledger if it does not exist.

        Raises LedgerError if a run was charged for this data, or if this run has other data.
        """
        with self._transaction(create=True) as entries:
            entries.check_marked(digests)
            if not entries.digests(run):
                entries.note(mark.lower(), run=run)
                entries.insert_digests(run, digests)
            elif entries.digests(run) != digests:
                raise LedgerError(f"run {run} began with other inputs; start a new run")
            elif entries.books.marked.get(run, ("", mark))[1] != mark:
                raise LedgerError(f"run {run} began with data under another mark; start a new run")

    def runs_on_other_data(self, run: str) -> list[str]:
        """Return the earlier runs of a run's account that charged one of its states for data with another digest."""
        row = self.row(run)
        return on_other_data(row, self.rows(row.account)) if row else []

    def books(self) -> Books:
        """Return the accounts and charges that follow from the journal."""
        with self._transaction() as entries:
            return entries.books

    def acts(self) -> list[dict[str, Any]]:
        """Return every act in the journal, oldest first, as docs/spec/files.md describes them."""
        with self._transaction() as entries:
            return [json.loads(line) for line in entries.lines]

    def seal(self, run: str, release_digest: str) -> None:
        """Record the digest of a run's release; from now on the run can publish no other."""
        self._move(run, ("reserved", "sealed"), "sealed", release_digest)

    def release(self, run: str, release_digest: str) -> None:
        """Record that the sealed release is in its place."""
        self._move(run, ("sealed", "released"), "released", release_digest)

    def abandon(self, run: str) -> None:
        """Record that a run will publish no release; its charge stays. A released run stays released."""
        with self._transaction() as entries:
            row = entries.row(run)
            if row is not None and row.status in ("reserved", "sealed"):
                entries.move(row, "abandoned", row.release_digest)

    def _move(self, run: str, sources: Sequence[Status], target: Status, release_digest: str) -> None:
        with self._transaction() as entries:
            row = entries.row(run)
            if row is None or row.status not in sources:
                raise LedgerError(f"run {run} is {row.status if row else 'not in the ledger'}: it cannot be {target}")
            if row.release_digest not in (None, release_digest):
                raise LedgerError(f"run {run} was sealed with another release")
            if row.status != target:
                entries.move(row, target, release_digest)

    def backup(self, place: Path) -> None:
        """Copy the ledger and its journal, as they are between two acts, to `place` and `place`.journal.

        The copy appears whole. Raises LedgerError if either file exists or cannot be written.
        """
        copies = {self.path: place, self.journal: journal_path(place)}
        if taken := [str(copy) for copy in copies.values() if copy.exists()]:
            raise LedgerError(f"there is {' and '.join(taken)} already: name another file for the backup")
        drafts = {path: copy.with_name(f".{copy.name}.{os.getpid()}") for path, copy in copies.items()}
        try:
            for draft in drafts.values():
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with self._transaction():  # nobody writes meanwhile
                append(drafts[self.journal], self.journal.read_bytes())
                with closing(sqlite3.connect(self.path)) as here, closing(sqlite3.connect(drafts[self.path])) as there:
                    here.backup(there)
            flush(drafts[self.path])
            for path in (self.journal, self.path):
                os.rename(drafts[path], copies[path])
            flush(place.parent)
        except OSError as error:
            raise LedgerError(f"the backup {place} cannot be written: {error.strerror}") from None
        finally:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)

    def restore(self) -> tuple[int, list[str]]:
        """Repair a ledger that lacks acts of its journal's file, or a journal's file that is lost or older; enter this.

        The accounts, charges and statuses of the missing acts are entered in the ledger, which may be lost altogether.
        The journal has no digests, so a run that is entered from it cannot be resumed and is not recognized by its
        data. Returns the number of acts entered, and those runs.

        Raises LedgerError if nothing is missing, or if the two do not belong together.
        """
        with self._connected(create=self.exists()) as (database, entries):
            current = read_file(self.journal)
            filed = (current or b"").decode("ascii", "replace").split("\n")[:-1]
            common = min(len(filed), len(entries.lines))
            if filed[:common] != entries.lines[:common]:
                raise LedgerUnusable(f"{self.journal} is not the journal of the ledger {self.path}")
            written = len(entries.lines) - len(last_transaction(entries.lines))
            if current is not None and written <= len(filed) <= len(entries.lines):
                raise LedgerError(f"the ledger {self.path} lacks nothing of its journal: there is nothing to restore")
            known, missing = self._replayed(entries).runs.keys(), filed[common:]
            entries.enter(missing)
            lost = [run for run in entries.books.runs if run not in known]
            entries.note("restored", entered=len(missing), without_digests=lost)
            database.execute("COMMIT")
            database.execute("BEGIN IMMEDIATE")
            write_file(self.journal, Entries(database, self.code, self.signer).lines)
        return len(missing), lost

    def examine(self) -> Examined:
        """Compare the ledger with its journal, its sums with its totals, and the file with what SQLite requires.

        Raises LedgerError if the ledger cannot be read at all.
        """
        with self._connected() as (database, entries):
            damage = [text for (text,) in database.execute("PRAGMA integrity_check") if text != "ok"]
            books, faults = Books(), dict[str, list[str]]()
            try:
                catch_up(self.journal, self.path, entries.lines)
            except LedgerUnusable as error:
                faults["file"] = [str(error)]
            try:
                books = entries.books
            except LedgerUnusable as error:
                faults["acts"] = [str(error)]
            found = [
                ("the database", str(self.path), damage),
                ("the journal's file", str(self.journal), faults.get("file", [])),
                ("every act follows from those before", f"{len(entries.lines)} acts", faults.get("acts", [])),
            ]
            for account in books.accounts.values():
                spent = books.spent(account.name)
                fullest, remaining = books.remaining(account.name)
                over = [f"{state} has spent more" for state, amount in spent.items() if amount > account.total]
                most, total = rounded_up(account.total - remaining), rounded_up(account.total)
                unit = f"{UNITS[account.definition]} {most} of {total}"
                where = f" in state {fullest}" if spent and not charged_alike(spent) else ""
                found.append((f"account {account.name}", unit + where, over))
            rows = {run: row for run in books.runs if (row := entries.row(run))}
            return Examined(tuple(found), rows, books, entries.lines)

    @contextmanager
    def _transaction(self, *, create: bool = False) -> Iterator[Entries]:
        """Yield the entries for one act, if the ledger agrees with its journal."""
        with self._connected(create=create) as (database, entries):
            self._check_journal(entries)
            lines_before = len(entries.lines)
            yield entries
            database.execute("COMMIT")
            if len(entries.lines) > lines_before:  # under the lock again: another process may have come between
                database.execute("BEGIN IMMEDIATE")
                self._check_journal(Entries(database, self.code, self.signer))

    @contextmanager
    def _connected(self, *, create: bool = False) -> Iterator[tuple[sqlite3.Connection, Entries]]:
        """Yield the database under its write lock, and its entries."""
        if not create and not self.path.exists():
            self._check_not_lost()
            raise LedgerError(f"there is no ledger {self.path}: open an account first (das ledger open)")
        try:
            if create:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.touch(mode=0o600)
        except OSError as error:
            raise LedgerUnusable(f"the ledger {self.path} cannot be made: {error.strerror}") from error
        self.check_locks()
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as database:
                for pragma in ("journal_mode = DELETE", "synchronous = EXTRA"):
                    database.execute(f"PRAGMA {pragma}")
                database.execute("BEGIN IMMEDIATE")  # closing without COMMIT rolls back
                self._prepare(database, create=create)
                yield database, Entries(database, self.code, self.signer)
        except sqlite3.Error as error:
            raise LedgerUnusable(f"the ledger {self.path} cannot be used: {error}") from error

    def check_locks(self) -> None:
        """Raise LedgerUnusable where the file system cannot lock files; SQLite would only wait for a minute.

        The journal's file is tried, or a temporary file: to close the ledger's would end other threads' locks on it.
        """
        there = self.journal.exists()
        try:
            with open(self.journal, "rb") if there else TemporaryFile(dir=self.path.parent) as file:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):  # SQLite reports other errors itself
                raise LedgerUnusable(
                    f"the ledger {self.path} cannot be locked: {error.strerror}; keep it on a local disk (--ledger)"
                ) from error

    def _check_not_lost(self) -> None:
        """Raise LedgerUnusable if the ledger is missing but its journal exists."""
        if read_file(self.journal):
            catch_up(self.journal, self.path, [])

    def _check_journal(self, entries: Entries) -> None:
        """Bring the journal's file up to date with the ledger, and check that its acts follow from each other.

        The file of a new ledger is made before the first commit, and never later.
        """
        if not entries.lines and read_file(self.journal) is None:
            try:
                make_file(self.journal)
            except OSError as error:
                raise LedgerUnusable(f"the journal {self.journal} cannot be made: {error.strerror}") from None
        catch_up(self.journal, self.path, entries.lines)
        self._replayed(entries)

    def _replayed(self, entries: Entries) -> Books:
        """Return what follows from the ledger's acts. Raises LedgerUnusable if one does not follow."""
        try:
            return entries.books
        except LedgerUnusable as error:
            raise LedgerUnusable(
                f"the ledger {self.path} was changed by hand ({error}): put back the newest copy that das ledger "
                "check finds whole"
            ) from None

    def _prepare(self, database: sqlite3.Connection, *, create: bool) -> None:
        """Make the tables in an empty file if `create`. Raises LedgerUnusable for a file with another schema.

        Such a file is not touched: an empty ledger in its place would forget what was spent.
        """
        (schema,) = database.execute("PRAGMA user_version").fetchone()
        if schema == SCHEMA:
            return
        if schema > SCHEMA:
            raise LedgerUnusable(
                f"{self.path} is the ledger of a later version of das-flows (its schema is {schema}): use that version"
            )
        if schema or database.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise LedgerUnusable(
                f"{self.path} is not a ledger of this version of das-flows (its schema is {schema}, not {SCHEMA}): use "
                "the version that made it. Another file (--ledger) does not record what was spent: open an account "
                "there with the remaining part of its total"
            )
        if not create:
            self._check_not_lost()
            raise LedgerUnusable(f"the ledger {self.path} is empty: open an account with das ledger open")
        for statement in (files("privacy.accounting") / "ledger.sql").read_text("utf-8").split("\n\n"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {SCHEMA}")


def on_other_data(row: Row, rows: Sequence[Row]) -> list[str]:
    """Return the runs before `row` (rows are oldest first) that charged one of its states for other data."""
    earlier = rows[: rows.index(row)]
    return [
        other.run
        for other in earlier
        if other.input_digest != row.input_digest and not set(other.states).isdisjoint(row.states)
    ]
