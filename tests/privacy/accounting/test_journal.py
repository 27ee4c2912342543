"""The journal of the ledger: what was done is known from it alone, and no other ledger is taken for the truth."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest
from e2e_runs import watch
from ledgers import digest_of

from privacy.accounting.composition import spend
from privacy.accounting.journal import replay
from privacy.accounting.ledger import Account, Ledger, LedgerError, LedgerUnusable, Request

STATES = ("01", "02")


def request(run: str, amount: str = "1", states: tuple[str, ...] = STATES) -> Request:
    return Request(run, "census", states, spend("zcdp", [Fraction(amount)]), "1" * 64, "2" * 64, 1, ("4" * 64,))


def secret() -> str:
    return "3" * 64


def never() -> str:
    raise AssertionError("a secret was made")


def opened(path: Path, total: str | int = "4.944") -> Ledger:
    ledger = Ledger(path, {"version": "of a test"})
    ledger.open_account(Account("census", "zcdp", Fraction(total)))
    return ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with a run that is released, and one that is reserved; a copy of it is in old/."""
    ledger = opened(tmp_path / "ledger.sqlite")
    ledger.reserve(request("a"), secret)
    (tmp_path / "old").mkdir()
    for path in (ledger.path, ledger.journal):
        shutil.copy(path, tmp_path / "old")
    ledger.seal("a", "5" * 64)
    ledger.release("a", "5" * 64)
    ledger.reserve(request("b", "2"), secret)
    return ledger


def test_every_act_is_in_the_journal_and_chained(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger.sqlite")
    ledger.note_approval("a", by="A. Curator", why="as the board decided")
    ledger.reserve(request("a", "4"), secret)
    for refused in (ledger.precheck, lambda asked: ledger.reserve(asked, never)):
        with pytest.raises(LedgerError, match="too little budget left"):
            refused(request("b"))
    for _ in range(2):  # again, after a crash: it is one act
        ledger.seal("a", "5" * 64)
    ledger.release("a", "5" * 64)
    ledger.reserve(request("c", "1/2"), secret)
    ledger.abandon("c")
    ledger.enter_marked("d", {"6" * 64})
    acts = ledger.acts()
    assert [(act["act"], act.get("run")) for act in acts] == [
        ("opened", None),
        ("approved", "a"),
        ("reserved", "a"),
        ("refused", "b"),
        ("refused", "b"),
        ("sealed", "a"),
        ("released", "a"),
        ("reserved", "c"),
        ("abandoned", "c"),
        ("synthetic", "d"),
    ]
    assert {"account": "census", "definition": "zcdp", "total": "618/125", "previous": None}.items() <= acts[0].items()
    assert {"by": "A. Curator", "why": "as the board decided"}.items() <= acts[1].items()
    assert {"account": "census", "amount": "4", "states": ["01", "02"]}.items() <= acts[2].items()
    assert "too little budget left" in acts[3]["why"]
    assert acts[5]["release"] == "5" * 64
    assert all(act["code"] == {"version": "of a test"} and act["user"] and act["host"] and act["when"] for act in acts)
    lines = ledger.journal.read_text().splitlines()
    assert [json.loads(line) for line in lines] == acts
    assert [act["previous"] for act in acts[1:]] == [sha256(line.encode()).hexdigest() for line in lines[:-1]]
    row = ledger.row("a")
    assert row is not None
    assert row.journal == sha256(lines[2].encode()).hexdigest()
    assert stat.S_IMODE(ledger.journal.stat().st_mode) == 0o600
    digests = ("1" * 64, "2" * 64, "3" * 64, "4" * 64, "6" * 64)
    assert not any(digest in ledger.journal.read_text() for digest in digests), "a digest of data"


@pytest.mark.parametrize(
    ("by", "why"), [("", "x"), (" ", "x"), ("a\nb", "x"), ("a", "\x1b[2J"), ("a", "x" * 1001)], ids=repr
)
def test_an_approval_can_be_shown(ledger: Ledger, by: str, why: str) -> None:
    with pytest.raises(LedgerError, match="of an approval is one line"):
        ledger.note_approval("c", by, why)


# A ledger or a journal that is not the one


def old(ledger: Ledger, name: str) -> Path:
    return ledger.path.parent / "old" / name


def new(ledger: Ledger) -> Ledger:
    return opened(ledger.path.parent / "new" / ledger.path.name, total=5)


def changed(ledger: Ledger, trigger: str, statement: str) -> None:
    """Somebody who may write the file drops a trigger, and changes what it held."""
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute(f"DROP TRIGGER {trigger}")
        database.execute(statement)
        database.commit()


EDITS = {
    "the last act": ("journal_stays", "DELETE FROM journal WHERE number = 5"),
    "an earlier act": ("journal_stays", "DELETE FROM journal WHERE number = 3"),
    "an amount": ("journal_is_fixed", """UPDATE journal SET line = replace(line, '"amount":"1"', '"amount":"2"')"""),
    "a total": ("journal_is_fixed", "UPDATE journal SET line = replace(line, '618/125', '1000')"),
    "a unit of privacy": ("journal_is_fixed", "UPDATE journal SET line = replace(line, 'person', 'household')"),
    "a status": ("journal_is_fixed", "UPDATE journal SET line = replace(line, 'released', 'abandoned')"),
}
OTHERS: dict[str, tuple[Callable[[Ledger], object], str]] = {
    "an older copy": (lambda it: shutil.copy(old(it, it.path.name), it.path), "it lacks 3 of the acts in .*newest"),
    "nothing": (lambda it: it.path.unlink(), "it lacks 5 of the acts in .* Put back the newest ledger"),
    "an empty file": (lambda it: it.path.write_bytes(b""), "it lacks 5 of the acts"),
    "a new ledger": (lambda it: shutil.copy(new(it).path, it.path), "is not the journal of the ledger"),
    "no journal": (lambda it: it.journal.unlink(), "is missing: put it back"),
    "a line that no act wrote": (
        lambda it: it.journal.write_bytes(it.journal.read_bytes() + b'{"x":1}\n'),
        "goes on after the ledger's own acts, .*does not follow from those before. Put .* remove lines",
    ),
    "an empty journal": (lambda it: it.journal.write_bytes(b""), "is older than the ledger"),
    "an older journal": (lambda it: shutil.copy(old(it, it.journal.name), it.journal), "is older than the ledger"),
    "another's journal": (lambda it: shutil.copy(new(it).journal, it.journal), "is not the journal of the ledger"),
    "a journal that cannot be read": (lambda it: (it.journal.unlink(), it.journal.mkdir()), "cannot be read"),
    **{
        what: (lambda it, edit=edit: changed(it, *edit), "was changed by hand|lacks 1|is not the journal")
        for what, edit in EDITS.items()
    },
}


@pytest.mark.parametrize("what", OTHERS)
def test_no_other_ledger_is_taken_for_the_truth(ledger: Ledger, what: str) -> None:
    """Whatever is asked of it, nothing is charged, opened or changed; the refusal is one line."""
    change, says = OTHERS[what]
    change(ledger)
    before = {path: path.read_bytes() for path in ledger.path.parent.iterdir() if path.is_file()}
    for act in (
        lambda: ledger.reserve(request("c"), never),
        lambda: ledger.precheck(request("c")),
        lambda: ledger.open_account(Account("other", "zcdp", Fraction(5))),
        lambda: ledger.enter_marked("c", {"7" * 64}),
        lambda: ledger.seal("b", "6" * 64),
        lambda: ledger.row("a"),
    ):
        with pytest.raises(LedgerUnusable, match=says) as refusal:
            act()
        assert "\n" not in str(refusal.value)
    left = {path: path.read_bytes() for path in ledger.path.parent.iterdir() if path.is_file()}
    assert {path: content for path, content in left.items() if content} == {
        path: content for path, content in before.items() if content
    }


def test_a_ledger_that_is_named_by_a_link_has_the_same_journal(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link.sqlite").symlink_to(ledger.path)
    Ledger(tmp_path / "elsewhere/link.sqlite").reserve(request("c"), secret)
    assert len(ledger.acts()) == 6
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["link.sqlite"]


# Crashes


@pytest.mark.parametrize("kept", [0, 1, 50, -1])
def test_a_file_that_lacks_the_end_of_the_last_line_is_mended(ledger: Ledger, kept: int) -> None:
    whole = ledger.journal.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    ledger.journal.write_bytes(whole[: last + kept] if kept >= 0 else whole[:kept])
    ledger.spent("census")
    assert ledger.journal.read_bytes() == whole


def reserve_both(ledger: Ledger) -> None:
    asked = request("us", "1/4"), request("pr", "1/4", ("72",))
    ledger.reserve_together(*((each, secret) for each in asked))


@pytest.mark.parametrize(("lost", "mended"), [(1, True), (2, True), (3, False)])
def test_a_file_that_lacks_lines_of_the_last_transaction_is_mended(ledger: Ledger, lost: int, mended: bool) -> None:
    reserve_both(ledger)
    whole = ledger.journal.read_bytes()
    ledger.journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-lost]))
    if not mended:
        with pytest.raises(LedgerUnusable, match="is older than the ledger"):
            ledger.rows("census")
        assert ledger.restore() == (0, [])
        assert len(ledger.journal.read_bytes().splitlines()) == 8
        return
    with pytest.raises(LedgerError, match="there is nothing to restore"):
        ledger.restore()
    ledger.rows("census")
    assert ledger.journal.read_bytes() == whole


@pytest.mark.parametrize("together", [None, "", "a", "us", ["pr"]])
def test_an_act_that_names_another_run_than_the_one_before_is_refused(ledger: Ledger, together: object) -> None:
    lines = ledger.journal.read_text().splitlines()
    last = json.loads(lines[-1]) | {"run": "c", "number": 6, "previous": digest_of(lines[-1]), "together": together}
    with pytest.raises(LedgerUnusable, match="act 6 of its journal does not follow"):
        replay([*lines, json.dumps(last, separators=(",", ":"))])


def test_an_act_whose_line_cannot_be_written_holds_up_the_next(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full after the commit: what was entered stays, and nothing more is until its line is in the file."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for run in ("c", "d"):
        with pytest.raises(LedgerUnusable, match=r"journal .* cannot be written: No space left"):
            ledger.reserve(request(run, "1/4"), secret)
        ledger.journal.write_bytes(ledger.journal.read_bytes()[:-100])
    monkeypatch.undo()
    assert [row.run for row in ledger.rows("census")] == ["a", "b", "c"]
    assert [json.loads(line) for line in ledger.journal.read_text().splitlines()] == ledger.acts()


def act(path: Path) -> None:
    """Open an account, charge two runs in one transaction and another, and be refused one."""
    ledger = opened(path)
    reserve_both(ledger)
    ledger.reserve(request("a", "4"), secret)
    with suppress(LedgerError):
        ledger.reserve(request("b", "4"), never)


def die(at: int, path: Path) -> bool:
    """Do the acts in a fork of this process that is killed at the point of this number; return whether it was."""
    if (child := os.fork()) == 0:
        count = itertools.count()
        watch(lambda _point: os.kill(os.getpid(), signal.SIGKILL) if next(count) == at else None)
        act(path)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_the_next_opening_mends_it(tmp_path: Path, every: int) -> None:
    """No act is lost, entered twice or out of order, and nothing is refused for ever."""
    for point in itertools.count(0, every):
        ledger = Ledger(tmp_path / str(point) / "ledger.sqlite")
        died = die(point, ledger.path)
        with suppress(LedgerError):
            ledger.open_account(Account("census", "zcdp", Fraction("4.944")))
        assert [row.run for row in ledger.rows("census")] in ([], ["us", "pr"], ["us", "pr", "a"]), f"killed at {point}"
        with suppress(LedgerError):
            reserve_both(ledger)
        with suppress(LedgerError):
            ledger.reserve(request("a", "4"), secret)
        ledger.seal("a", "5" * 64)
        acts = [entry["act"] for entry in ledger.acts()]
        assert [each for each in acts if each != "refused"] == ["opened", *["reserved"] * 3, "sealed"], f"at {point}"
        lines = ledger.journal.read_text().splitlines()
        assert [json.loads(line) for line in lines] == ledger.acts()
        assert list(replay(lines).runs) == ["us", "pr", "a"]
        assert sorted(os.listdir(ledger.path.parent)) == ["ledger.sqlite", "ledger.sqlite.journal"]
        if not died:
            break
    assert point > 50


HOSTILE = (None, 7, 10**40, 1e300, True, "", "x", "\ud800", "é\0", [], ["x"], {}, "1/0", "-1", "9" * 5000)


@pytest.mark.parametrize(
    "act", ["reserved", *(pytest.param(act, marks=pytest.mark.ci) for act in ("opened", "sealed"))]
)
def test_a_line_that_holds_anything_is_restored_or_refused_in_a_sentence(tmp_path: Path, act: str) -> None:
    ledger = opened(tmp_path / "ledger.sqlite")
    ledger.reserve(request("a"), secret)
    held = ledger.journal.read_text()
    first, second = (json.loads(line) for line in held.splitlines())
    line = {
        "opened": first | {"account": "other"},
        "reserved": second | {"run": "b"},
        "sealed": first | {"act": "sealed", "run": "a", "release": "5" * 64},
    }[act]
    line |= {"number": 3, "previous": digest_of(held.splitlines()[-1])}
    database = ledger.path.read_bytes()
    for name, value in itertools.product(line, HOSTILE):
        ledger.path.write_bytes(database)
        ledger.journal.write_text(held + json.dumps(line | {name: value}, separators=(",", ":")) + "\n")
        with suppress(LedgerError):
            ledger.restore()
