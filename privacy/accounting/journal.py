"""The journal of a ledger: one line of JSON an act, each with the SHA-256 of the line before it.

The lines are a table of the ledger, written in the transaction of their act, and a file next to it, `LEDGER.journal`,
to which they are appended after the commit. Both happen under the ledger's write lock, and no act is entered before the
last one is in the file. So the file lacks at most the last line, after a crash, and a ledger that lacks a line of its
file is an older copy. Accounts, charges and statuses stand nowhere else: they are what follows from the lines.

An act may be signed by the publisher. An account whose opening names the publisher's key, and is signed with it, takes
no charge without that signature: a journal with such a charge does not add up.

The journal holds no digest of data. It is confidential like the ledger: it names runs, accounts and amounts.
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

from privacy.accounting.composition import UNITS_OF_PRIVACY, Spend, UnitOfPrivacy, read_spend
from privacy.accounting.signatures import Signer, is_signed
from privacy.accounting.states import EVERYWHERE, check_states
from privacy.noise.exact import exact, parse_exact
from privacy.noise.laws import UNITS, Definition

Status = Literal["reserved", "sealed", "released", "abandoned"]
MarkName = Literal["SYNTHETIC", "PUBLIC"]  # why a run's data is not charged
MARKED: dict[str, MarkName] = {"synthetic": "SYNTHETIC", "public": "PUBLIC"}  # by act
TEXTS = ("account", "publisher", "run", "release")  # facts of acts that are text where they are there
UNBOOKED = ("approved", "refused", "restored")  # acts from which nothing follows
SIGNATURE = "signature"
LOST = "lost"  # in place of the digests of a run that was entered from the journal
TOGETHER = "together"  # in the act of a run: the run before it, which the same transaction reserved
MOVES: dict[Status, tuple[Status, ...]] = {  # from which status
    "sealed": ("reserved",),
    "released": ("sealed",),
    "abandoned": ("reserved", "sealed"),
}


class LedgerError(ValueError):
    """A request that the ledger refuses; nothing was written. The message is public."""


class LedgerUnusable(LedgerError):
    """The ledger or its journal cannot be read or written now, or contradict each other: nothing is known of either."""


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
        try:
            object.__setattr__(self, "total", exact(self.total, "the total of an account"))
        except ValueError as error:
            raise LedgerError(str(error)) from None

    def check_signer(self, signer: Signer | None) -> None:
        """Raise LedgerError where the account demands signatures, and not this signer's."""
        if self.publisher and (signer is None or signer.publisher != self.publisher):
            raise LedgerError(
                f"account {self.name} takes no charge without its publisher's signature: give --sign KEY, the private "
                "key that the account was opened with"
            )


@dataclass(frozen=True)
class Row:
    """A charged run as the ledger knows it; `amount` is in the account's currency.

    reserved: when. journal: the digest of the act that reserved it. What follows is not in the journal, and makes a row
    confidential: digests of data.
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
    """What follows from a journal: accounts and charged runs by name, the oldest first.

    marked: of runs on marked data when each was entered, and the mark. spends: what each charged run spends.
    digests: of every line, in order.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)
    marked: dict[str, tuple[str, MarkName]] = field(default_factory=dict)
    spends: dict[str, Spend] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)

    def account(self, name: str) -> Account:
        """Return an account. Raises LedgerError where it is not open."""
        if name not in self.accounts:
            meant = "".join(f"; did you mean {known}?" for known in get_close_matches(name, self.accounts, 1))
            raise LedgerError(f"there is no account {name}: open it first (das ledger open {name} …){meant}")
        return self.accounts[name]

    def spent(self, account: str) -> dict[str, Fraction]:
        """Return what is charged to each state in an account, abandoned runs included."""
        spent: dict[str, Fraction] = {}
        for row in self.runs.values():
            for state in row.states if row.account == account else ():
                spent[state] = spent.get(state, Fraction(0)) + row.amount
        return dict(sorted(spent.items()))

    def left(self, account: str, states: Iterable[str] = EVERYWHERE) -> tuple[str, Fraction]:
        """Return which of these states an account has charged most, and what that state has left."""
        spent = self.spent(account)
        fullest = max(states, key=lambda state: spent.get(state, Fraction(0)))
        return fullest, self.accounts[account].total - spent.get(fullest, Fraction(0))


def journal_path(ledger: Path) -> Path:
    """Return the journal's file: next to the ledger itself, also where the ledger is named by a link."""
    real = Path(os.path.realpath(ledger))
    return real.with_name(f"{real.name}.journal")


def line_of(
    act: str, when: str, facts: Mapping[str, Any], code: Mapping[str, str], lines: Sequence[str], signer: Signer | None
) -> str:
    """Return the line of an act that follows `lines`: who did what, when, where and with which code."""
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
    """Return the digest by which the next line knows a line."""
    return sha256(line.encode()).hexdigest()


def signed_part(line: str) -> tuple[bytes, str | None]:
    """Return what the signature of a line covers, and the signature; None where there is none."""
    entry = json.loads(line)
    signature = entry.pop(SIGNATURE, None)
    return _dump(entry).encode(), signature


def replay(lines: Sequence[str]) -> Books:
    """Return what follows from the lines; nobody may change it, for it is cached.

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
    """Return whether names and digests are text. Raises UnicodeEncodeError for text that no file can hold."""
    texts = [entry["when"], *(entry[name] for name in TEXTS if entry.get(name) is not None)]
    return all(isinstance(text, str) and text.encode() is not None for text in texts)


def _is_signed_as_demanded(books: Books, entry: Mapping[str, Any], line: str) -> bool:
    """Return whether an act that opens or charges an account has the signature that the account demands, if it does."""
    if entry["act"] not in ("opened", "reserved"):
        return True
    publisher = books.accounts[entry["account"]].publisher
    content, signature = signed_part(line)
    return publisher is None or (isinstance(signature, str) and is_signed(publisher, content, signature))


def _enter(books: Books, entry: Mapping[str, Any]) -> bool:
    """Enter an act in the books; return whether it may come after those before it.

    Raises ValueError, KeyError or TypeError where it lacks something, or has what is no such thing.
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
    """Make an empty journal for a new ledger, its owner's only, before the ledger's first commit. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    flush(path.parent)


def last_transaction(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines that the last transaction wrote: one, or one of each run that was reserved together."""
    first = len(lines) - 1
    while first > 0 and f'"{TOGETHER}":' in lines[first]:  # no text of an act has it: its quotes are escaped
        first -= 1
    return lines[first:]


def catch_up(path: Path, ledger: Path, lines: Sequence[str]) -> None:
    """Append to the file what it lacks of the last transaction's lines, and flush it.

    Raises LedgerUnusable where the file is missing or cannot be written, holds lines that the ledger lacks, lacks more,
    or is another's.
    """
    text = b"".join(line.encode() + b"\n" for line in lines)
    held = read_file(path)
    if held is None:
        raise LedgerUnusable(
            f"the journal {path} of the ledger {ledger} is missing: put it back; if it is lost, das ledger restore"
        )
    if held == text:
        return
    if len(held) > len(text) and held.startswith(text):
        lacking = max(1, held.count(b"\n") - len(lines))
        try:
            replay(held.decode("ascii", "replace").split("\n")[:-1])
        except LedgerUnusable as fault:
            raise LedgerUnusable(
                f"{path} goes on after the ledger's own acts, {len(lines)}, with a line that is none: {fault}. Put the "
                "newest ledger and journal back from a backup, or take off lines that no run wrote"
            ) from None
        raise LedgerUnusable(
            f"the ledger {ledger} is older than its journal: it lacks {lacking} of the acts in {path}. Put back the "
            "newest ledger; if it is lost, das ledger restore"
        )
    last = sum(len(line) + 1 for line in last_transaction(lines)) if lines else 0
    if not text.startswith(held):
        raise LedgerUnusable(f"{path} is not the journal of the ledger {ledger}: put back the one that is")
    if len(held) < len(text) - last:
        raise LedgerUnusable(
            f"the journal {path} is older than the ledger {ledger}: put back the newest; if it is lost, das ledger "
            "restore"
        )
    append(path, text[len(held) :])


def read_file(path: Path) -> bytes | None:
    """Return the bytes of a journal's file; None where there is none. Raises LedgerUnusable where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerUnusable(f"the journal {path} cannot be read: {error.strerror}") from None


def append(path: Path, text: bytes) -> None:
    """Append to a journal's file and flush it. Raises LedgerUnusable; a part of the text may be in the file then."""
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
    """Write a journal's file anew, whole or not at all. Raises LedgerUnusable."""
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
    """Return the name of the user of this process, or its number; not what the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
