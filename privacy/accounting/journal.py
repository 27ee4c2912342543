"""The journal of a ledger: one line of JSON an act, each with the SHA-256 of the line before it.

The lines are a table of the ledger, written in the transaction of their act, and a file next to it, `LEDGER.journal`,
to which they are appended after the commit. Both happen under the ledger's write lock, and an act is entered only once
the one before is in the file. So after a crash the file lacks at most the last line, and a ledger that lacks a line of
its file is an older copy. Accounts, charges and statuses are recorded nowhere else: they follow from the lines.

The publisher may sign acts. If the opening of an account names the publisher's key and is signed with it, every charge
to that account needs the same signature: a journal with an unsigned charge is refused.

The journal contains no digest of data. It is confidential like the ledger: it names runs, accounts and amounts.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from privacy.accounting.composition import UNITS_OF_PRIVACY, Spend, UnitOfPrivacy, read_spend, rounded_up
from privacy.accounting.signatures import Signer, is_signed
from privacy.accounting.states import EVERYWHERE, check_states
from privacy.noise.exact import exact, parse_exact
from privacy.noise.laws import UNITS, Definition

Status = Literal["reserved", "sealed", "released", "abandoned"]
MarkName = Literal["SYNTHETIC", "PUBLIC"]  # the reason why a run's data is not charged
MARKED: dict[str, MarkName] = {"synthetic": "SYNTHETIC", "public": "PUBLIC"}  # by act
TEXTS = ("account", "publisher", "run", "release")  # facts that must be text if an act has them
UNBOOKED = ("approved", "refused", "restored")  # acts that change no account and no run
SIGNATURE = "signature"
LOST = "lost"  # in place of the digests of a run that was entered from the journal
TOGETHER = "together"  # key in the act of a run: the preceding run, which the same transaction reserved
MOVES: dict[Status, tuple[Status, ...]] = {  # the statuses that each one may follow
    "sealed": ("reserved",),
    "released": ("sealed",),
    "abandoned": ("reserved", "sealed"),
}


class LedgerError(ValueError):
    """The ledger refuses a request; nothing was written. The message is public."""


class LedgerUnusable(LedgerError):
    """The ledger or its journal cannot be read or written now, or they contradict each other: trust neither."""


@dataclass(frozen=True)
class Account:
    """A total budget for one confidential dataset, opened by name. `total` is rho (zcdp) or epsilon (puredp).

    unit: the unit of privacy whose loss its charges bound. publisher: the public key, in hexadecimal, whose signature
    every charge needs; None if charges need no signature.
    """

    name: str
    definition: Definition
    total: Fraction
    unit: UnitOfPrivacy = "person"
    publisher: str | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "total", exact(self.total, "the total of an account"))
        except ValueError as error:
            raise LedgerError(str(error)) from None

    def amount(self, figure: Fraction) -> str:
        """Return an amount in its currency in words, rounded up: `rho 2.56`."""
        return f"{UNITS[self.definition]} {rounded_up(figure)}"

    def check_signer(self, signer: Signer | None) -> None:
        """Raise LedgerError if the account demands signatures by another signer."""
        if self.publisher and (signer is None or signer.publisher != self.publisher):
            raise LedgerError(
                f"account {self.name} takes no charge without its publisher's signature: give --sign KEY, the private "
                "key that the account was opened with"
            )


@dataclass(frozen=True)
class Row:
    """A charged run as the ledger knows it; `amount` is in the account's currency.

    reserved: the time. journal: the digest of the act that reserved it. The fields below are digests of data, which the
    journal does not have; they make a row confidential.
    """

    run: str
    account: str
    states: tuple[str, ...]
    amount: Fraction
    status: Status
    release_digest: str | None
    reserved: str
    journal: str
    input_digest: str = LOST
    configuration_digest: str = LOST
    noise_scheme: int = 0
    secret_digest: str = LOST


@dataclass
class Books:
    """The accounts and charged runs that follow from a journal, by name, the oldest first.

    marked: the runs on marked data, with the time of entry and the mark. spends: what each charged run spends. digests:
        one per line, in order.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)
    marked: dict[str, tuple[str, MarkName]] = field(default_factory=dict)
    spends: dict[str, Spend] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)

    def account(self, name: str) -> Account:
        """Return an account. Raises LedgerError if it is not open."""
        if name not in self.accounts:
            meant = "".join(f"; did you mean {known}?" for known in get_close_matches(name, self.accounts, 1))
            raise LedgerError(f"there is no account {name}: open it first (das ledger open {name} …){meant}")
        return self.accounts[name]

    def spent(self, account: str) -> dict[str, Fraction]:
        """Return the charge of each state in an account, abandoned runs included."""
        spent: dict[str, Fraction] = {}
        for row in self.runs.values():
            for state in row.states if row.account == account else ():
                spent[state] = spent.get(state, Fraction(0)) + row.amount
        return dict(sorted(spent.items()))

    def remaining(
        self, account: str, states: Iterable[str] = EVERYWHERE, asked: Mapping[str, Fraction] | None = None
    ) -> tuple[str, Fraction]:
        """Return the one of these states with the largest charge in an account, and its remaining budget.

        asked: further charges by state, not made yet, that count as made.
        """
        spent, more = self.spent(account), asked or {}
        charged = {state: spent.get(state, Fraction(0)) + more.get(state, Fraction(0)) for state in states}
        fullest = max(charged, key=lambda state: charged[state])
        return fullest, self.accounts[account].total - charged[fullest]


def journal_path(ledger: Path) -> Path:
    """Return the journal's file: next to the ledger itself, even if a link names the ledger."""
    real = Path(os.path.realpath(ledger))
    return real.with_name(f"{real.name}.journal")


def line_of(
    act: str, when: str, facts: Mapping[str, Any], code: Mapping[str, str], lines: Sequence[str], signer: Signer | None
) -> str:
    """Return the line of an act that follows `lines`: who did what, when, on which host and with which code."""
    entry: dict[str, Any] = {
        "number": len(lines) + 1,
        "act": act,
        "when": when,
        "user": _user(),
        "host": socket.gethostname(),
        "code": dict(code),
        **facts,
        "previous": line_digest(lines[-1]) if lines else None,
    }
    if signer:
        entry[SIGNATURE] = signer.sign(_dump(entry).encode())
    return _dump(entry)


def line_digest(line: str) -> str:
    """Return the digest of a line, which the next line names."""
    return sha256(line.encode()).hexdigest()


def signed_part(line: str) -> tuple[bytes, str | None]:
    """Return the bytes that a line's signature covers, and the signature; None for an unsigned line."""
    entry = json.loads(line)
    signature = entry.pop(SIGNATURE, None)
    return _dump(entry).encode(), signature


def replay(lines: Sequence[str]) -> Books:
    """Return what follows from the lines. The result is cached: callers must not change it.

    Raises LedgerUnusable at the first line that does not follow from those before.
    """
    return _replay(tuple(lines))


@lru_cache(maxsize=4)  # a command reads its ledger many times
def _replay(lines: tuple[str, ...]) -> Books:
    books = Books()
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            follows = entry["number"] == number and entry["previous"] == (books.digests[-1] if number > 1 else None)
            books.digests.append(line_digest(line))
            followed = follows and _dump(entry) == line and _enter(books, entry)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            followed = False
        if not followed:
            raise LedgerUnusable(f"act {number} of its journal does not follow from those before")
        if not _is_signed_as_demanded(books, entry, line):
            raise LedgerUnusable(
                f"act {number} of its journal lacks the publisher's signature, which account {entry['account']} demands"
            )
    return books


def _are_texts(entry: Mapping[str, Any]) -> bool:
    """Return whether names and digests are text. Raises UnicodeEncodeError for text that cannot be encoded."""
    texts = [entry["when"], *(entry[name] for name in TEXTS if entry.get(name) is not None)]
    return all(isinstance(text, str) and text.encode() is not None for text in texts)


def _is_signed_as_demanded(books: Books, entry: Mapping[str, Any], line: str) -> bool:
    """Return whether an act that opens or charges an account has the signature that the account demands."""
    if entry["act"] not in ("opened", "reserved"):
        return True
    publisher = books.accounts[entry["account"]].publisher
    content, signature = signed_part(line)
    return publisher is None or (isinstance(signature, str) and is_signed(publisher, content, signature))


def _enter(books: Books, entry: Mapping[str, Any]) -> bool:
    """Enter an act in the books; return whether it may follow the acts before it.

    Raises ValueError, KeyError or TypeError for an act that lacks a fact or has one of the wrong kind.
    """
    act: str = entry["act"]
    if act in UNBOOKED:
        return True
    run: Any = entry.get("run")
    name: Any = entry.get("account")
    if not _are_texts(entry) or (name if act == "opened" else run) is None:
        return False
    if act == "opened":
        definition, total = entry["definition"], parse_exact(entry["total"])
        unit = entry["unit"]
        follows = name not in books.accounts and definition in UNITS and unit in UNITS_OF_PRIVACY and total > 0
        books.accounts[name] = Account(name, definition, total, unit, entry.get("publisher"))
    elif act == "reserved":
        account, states = books.accounts[name], tuple(entry["states"])
        check_states(states)
        amount = parse_exact(entry["amount"])
        books.spends[run] = spend = read_spend(entry["spend"])
        follows = TOGETHER not in entry or entry[TOGETHER] in [*books.runs][-1:]
        follows &= run not in books.runs and run not in books.marked and amount > 0 and bool(states)
        follows &= spend.unit == account.unit and spend.charged_in(account.definition) == amount
        books.runs[run] = Row(run, name, states, amount, "reserved", None, entry["when"], books.digests[-1])
    elif act in MOVES:
        before = books.runs[run]
        release = entry["release"] if act == "sealed" else before.release_digest
        follows = before.status in MOVES[act] and (act == "abandoned" or release is not None)
        books.runs[run] = replace(before, status=act, release_digest=release)
    elif act in MARKED:
        follows = run not in books.marked and run not in books.runs
        books.marked[run] = entry["when"], MARKED[act]
    else:
        follows = False
    return follows


def make_file(path: Path) -> None:
    """Make an empty journal for a new ledger, readable by its owner only, before the first commit. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    flush(path.parent)


def last_transaction(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines that the last transaction wrote: one for each run that was reserved together, else one."""
    first = len(lines) - 1
    while first > 0 and f'"{TOGETHER}":' in lines[first]:  # text cannot contain this: its quotes are escaped
        first -= 1
    return lines[first:]


def catch_up(path: Path, ledger: Path, lines: Sequence[str]) -> None:
    """Append to the file the lines of the last transaction that it lacks, and flush it.

    Raises LedgerUnusable if the file is missing, cannot be written, has lines that the ledger lacks, lacks more than
    one transaction, or belongs to another ledger.
    """
    text = b"".join(line.encode() + b"\n" for line in lines)
    current = read_file(path)
    if current is None:
        raise LedgerUnusable(
            f"the journal {path} of the ledger {ledger} is missing: put it back; if it is lost, das ledger restore"
        )
    if current == text:
        return
    if len(current) > len(text) and current.startswith(text):
        lacking = max(1, current.count(b"\n") - len(lines))
        try:
            replay(current.decode("ascii", "replace").split("\n")[:-1])
        except LedgerUnusable as fault:
            raise LedgerUnusable(
                f"{path} goes on after the ledger's own acts, {len(lines)}, with an invalid line: {fault}. Put the "
                "newest ledger and journal back from a backup, or remove lines that no run wrote"
            ) from None
        raise LedgerUnusable(
            f"the ledger {ledger} is older than its journal: it lacks {lacking} of the acts in {path}. Put back the "
            "newest ledger; if it is lost, das ledger restore"
        )
    last = sum(len(line) + 1 for line in last_transaction(lines)) if lines else 0
    if not text.startswith(current):
        raise LedgerUnusable(f"{path} is not the journal of the ledger {ledger}: put back the right one")
    if len(current) < len(text) - last:
        raise LedgerUnusable(
            f"the journal {path} is older than the ledger {ledger}: put back the newest; if it is lost, das ledger "
            "restore"
        )
    append(path, text[len(current) :])


def read_file(path: Path) -> bytes | None:
    """Return the bytes of a journal's file; None if it does not exist. Raises LedgerUnusable if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerUnusable(f"the journal {path} cannot be read: {error.strerror}") from None


def append(path: Path, text: bytes) -> None:
    """Append to a journal's file and flush it. Raises LedgerUnusable; part of the text may then be in the file."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            while text:
                text = text[os.write(handle, text) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise LedgerUnusable(f"the journal {path} cannot be written: {error.strerror}") from None


def write_file(path: Path, lines: Sequence[str]) -> None:
    """Replace a journal's file atomically. Raises LedgerUnusable."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_file(draft)
        append(draft, b"".join(line.encode() + b"\n" for line in lines))
        os.rename(draft, path)
        flush(path.parent)
    except OSError as error:
        raise LedgerUnusable(f"the journal {path} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _dump(entry: Mapping[str, Any]) -> str:
    """Return an act as one line of ASCII."""
    return json.dumps(entry, separators=(",", ":"))


def _user() -> str:
    """Return the name of this process's user, or its number; the environment is not trusted."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
