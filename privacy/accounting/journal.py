"""The journal of a ledger: one line of JSON an act, each with the SHA-256 of the line before it.

The lines are a table of the ledger, written in the transaction of their act, and a file next to it, `LEDGER.journal`,
to which they are appended after the commit. Both happen under the ledger's write lock, and no act is entered before the
last one is in the file. So the file lacks at most the last line, after a crash, and a ledger that lacks a line of its
file is an older copy. What the tables of the ledger hold must follow from the lines.

An act may be signed by the publisher. An account whose opening names the publisher's key, and is signed with it, takes
no charge without that signature: a journal with such a charge does not add up.

The journal holds no digest of data. It is confidential like the ledger: it names runs, accounts and amounts.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

from privacy.accounting.composition import Spend, read_spend
from privacy.accounting.signatures import Signer, is_signed
from privacy.noise.laws import Definition

MarkName = Literal["SYNTHETIC", "PUBLIC"]  # why a run's data is not charged
MARKED: dict[str, MarkName] = {"synthetic": "SYNTHETIC", "public": "PUBLIC"}  # by act
FACTS = (
    "when",
    "account",
    "definition",
    "total",
    "unit",
    "publisher",
    "run",
    "amount",
    "release",
)  # of acts, in tables
UNBOOKED = ("approved", "refused", "restored")  # acts that change no table
SIGNATURE = "signature"
MOVES = {"sealed": ("reserved",), "released": ("sealed",), "abandoned": ("reserved", "sealed")}  # from which status


class JournalError(ValueError):
    """The journal does not add up, or is not the ledger's. The message is public."""


@dataclass(frozen=True)
class JournalAccount:
    """An account as the ledger has it; one that names no unit of privacy was opened for persons.

    publisher: the public key of those whose signature its charges need; None where they need none.
    """

    definition: str
    total: str
    opened: str
    unit: str = "person"
    publisher: str | None = None


@dataclass(frozen=True)
class JournalRun:
    """A charged run as a row of the ledger has it, less its digests of data; `journal` is its reservation's digest."""

    account: str
    amount: str
    states: tuple[str, ...]
    status: str
    release_digest: str | None
    reserved: str
    journal: str


@dataclass
class Books:
    """What the tables of a ledger hold, or what must be in them by its journal.

    marked: when a run on marked data was entered. digests: of every line, in order. marks: of the runs on marked data.
    spends: of the charged runs; earlier versions entered none.
    """

    accounts: dict[str, JournalAccount] = field(default_factory=dict)
    runs: dict[str, JournalRun] = field(default_factory=dict)
    marked: dict[str, str] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)
    marks: dict[str, MarkName] = field(default_factory=dict)
    spends: dict[str, Spend] = field(default_factory=dict)

    def faults(self, tables: Books) -> Iterator[str]:
        """Yield where the tables hold something else than these books."""
        for what in ("accounts", "runs", "marked"):
            here, there = getattr(self, what), getattr(tables, what)
            for name in sorted(here.keys() | there.keys()):
                if name not in there:
                    yield f"{what}: {name} is missing"
                elif name not in here:
                    yield f"{what}: {name} is in no act"
                elif here[name] != there[name]:
                    yield f"{what}: {name} was changed"


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
    """Return what follows from the lines. Raises JournalError at the first that does not follow from those before."""
    return _replay(tuple(lines))


@lru_cache(maxsize=4)  # a command reads its ledger many times
def _replay(lines: tuple[str, ...]) -> Books:
    books = Books()
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            follows = entry["number"] == number and entry["previous"] == (books.digests[-1] if number > 1 else None)
            books.digests.append(line_digest(line))
            followed = follows and _dump(entry) == line and _enter(books, entry, books.digests[-1])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            followed = False
        if not followed:
            raise JournalError(f"act {number} of its journal does not follow from those before")
        if not _is_signed_as_demanded(books, entry, line):
            raise JournalError(
                f"act {number} of its journal lacks the publisher's signature, which account {entry['account']} demands"
            )
    return books


def _are_texts(entry: Mapping[str, Any]) -> bool:
    """Return whether what an act enters in tables is text. Raises UnicodeEncodeError for text that no file can hold."""
    texts = [entry[name] for name in FACTS if entry.get(name) is not None] + [*entry.get("states", ())]
    return all(isinstance(text, str) and text.encode() is not None for text in texts)


def _is_signed_as_demanded(books: Books, entry: Mapping[str, Any], line: str) -> bool:
    """Return whether an act that opens or charges an account has the signature that the account demands, if it does."""
    if entry["act"] not in ("opened", "reserved"):
        return True
    publisher = books.accounts[entry["account"]].publisher
    content, signature = signed_part(line)
    return publisher is None or (isinstance(signature, str) and is_signed(publisher, content, signature))


def _enter(books: Books, entry: Mapping[str, Any], digest: str) -> bool:
    """Enter an act in the books; return whether it may come after those before it."""
    act: str = entry["act"]
    if act in UNBOOKED:
        return True
    if not _are_texts(entry):
        return False
    run: Any = entry.get("run")
    name: Any = entry.get("account")
    if act == "opened":
        follows = name not in books.accounts
        known = entry["definition"], entry["total"], entry["when"]
        books.accounts[name] = JournalAccount(*known, entry.get("unit", "person"), entry.get("publisher"))
    elif act == "reserved":
        account = books.accounts[name]
        follows = run not in books.runs
        if "spend" in entry:
            books.spends[run] = spend = read_spend(entry["spend"])
            follows &= spend.unit == account.unit
            follows &= str(spend.charged_in(cast("Definition", account.definition))) == entry["amount"]
        states = tuple(entry["states"])
        books.runs[run] = JournalRun(name, entry["amount"], states, "reserved", None, entry["when"], digest)
    elif act in MOVES:
        before = books.runs[run]
        follows = before.status in MOVES[act]
        release = entry["release"] if act == "sealed" else before.release_digest
        books.runs[run] = replace(before, status=act, release_digest=release)
    elif act in MARKED:
        follows = run not in books.marked
        books.marked[run], books.marks[run] = entry["when"], MARKED[act]
    else:
        follows = False
    return follows


def make_file(path: Path) -> None:
    """Make an empty journal for a new ledger, its owner's only, before the ledger's first commit. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    flush(path.parent)


def catch_up(path: Path, ledger: Path, lines: Sequence[str]) -> None:
    """Append to the file the last line, where the file lacks it or ends in a part of it; flush it.

    Raises JournalError where the file is missing or cannot be written, holds lines that the ledger lacks, lacks more,
    or is another's.
    """
    text = b"".join(line.encode() + b"\n" for line in lines)
    held = read_file(path)
    if held is None:
        raise JournalError(
            f"the journal {path} of the ledger {ledger} is missing: put it back; if it is lost, das ledger restore"
        )
    if held == text:
        return
    if len(held) > len(text) and held.startswith(text):
        lacking = max(1, held.count(b"\n") - len(lines))
        raise JournalError(
            f"the ledger {ledger} is older than its journal: it lacks {lacking} of the acts in {path}. Put back the "
            "newest ledger; if it is lost, das ledger restore"
        )
    last = len(lines[-1]) + 1 if lines else 0
    if not text.startswith(held):
        raise JournalError(f"{path} is not the journal of the ledger {ledger}: put back the one that is")
    if len(held) < len(text) - last:
        raise JournalError(
            f"the journal {path} is older than the ledger {ledger}: put back the newest; if it is lost, das ledger "
            "restore"
        )
    append(path, text[len(held) :])


def read_file(path: Path) -> bytes | None:
    """Return the bytes of a journal's file; None where there is none. Raises JournalError where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be read: {error.strerror}") from None


def append(path: Path, text: bytes) -> None:
    """Append to a journal's file and flush it. Raises JournalError; a part of the text may be in the file then."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            while text:
                text = text[os.write(handle, text) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be written: {error.strerror}") from None


def write_file(path: Path, lines: Sequence[str]) -> None:
    """Write a journal's file anew, whole or not at all. Raises JournalError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_file(draft)
        append(draft, b"".join(line.encode() + b"\n" for line in lines))
        os.rename(draft, path)
        flush(path.parent)
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be written: {error.strerror}") from None
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
