"""Data that was charged is charged again only if a person at the terminal says so; elsewhere nothing is asked."""

from __future__ import annotations

import os
import pty
from contextlib import suppress
from fractions import Fraction
from io import StringIO
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from e2e_runs import ACCOUNT, das, open_account, settings_for
from rich.progress import Progress

from flows.commands import runner
from flows.execution import approval
from flows.execution.approval import answered_by, confirm_second_charges
from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account
from tasks.bottom_up.example import Example, make_example
from tasks.errors import Refused
from tasks.lifecycle.reservation import Claim, Input, authorize
from tasks.records.marks import MARK_FILE
from tests.systems.in_process import NO_CLUSTER, patch_flows


@pytest.fixture
def made(tmp_path: Path) -> Example:
    """A table without its mark: nothing tells it from data of real persons, so runs on it are charged."""
    made = make_example(tmp_path / "made", 2_000, states=12, counties=4)
    made.table.with_name(MARK_FILE).unlink()
    return made


def at_terminal(monkeypatch, answer: str, *words: object) -> tuple[int, str]:
    """Run a command whose stdin and stderr are a pseudo-terminal; answer its question once it is shown."""
    ours, theirs = pty.openpty()
    shown = b""

    def person() -> None:
        nonlocal shown
        answered = False
        with suppress(OSError):  # the other side is closed
            while text := os.read(ours, 4096):
                shown += text
                if not answered and b"[y/N]" in shown:
                    answered = bool(os.write(ours, f"{answer}\n".encode()))

    reader = Thread(target=person)
    reader.start()
    with (
        monkeypatch.context() as patch,
        open(os.dup(theirs), encoding="utf-8") as stdin,
        open(theirs, "w", encoding="utf-8") as stderr,
    ):
        patch.setattr("sys.stdin", stdin)
        patch.setattr("sys.stderr", stderr)
        code = das(*words)
    reader.join()
    os.close(ours)
    return code, " ".join(shown.decode().split())


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "shared_cluster")
def test_only_yes_at_the_terminal_charges_again(made, tmp_path, monkeypatch, capsys):
    ledger = open_account(tmp_path, 9, "puredp")

    def words(run: str, *more: object) -> list[object]:
        inputs = "bottom-up", "run", made.table, made.declaration, tmp_path / run
        return [*inputs, "--epsilon", "1", "--account", ACCOUNT, "--ledger", ledger.path, "--run-id", run, *more]

    def charged() -> list[str]:
        return [row.run for row in ledger.rows(ACCOUNT)]

    with monkeypatch.context() as patch:
        patch_flows(patch)
        assert das(*words("first")) == 0
    code, shown = at_terminal(monkeypatch, "n", *words("declined"))
    assert "this data was charged epsilon 1 by run first; charge another epsilon 1? [y/N]" in shown
    assert (code, charged(), (tmp_path / "declined").exists()) == (1, ["first"], False)
    code, shown = at_terminal(monkeypatch, "y", *words("second"))
    assert (code, charged(), (tmp_path / "second").is_dir()) == (0, ["first", "second"], True)
    capsys.readouterr()
    assert das(*words("third")) == 0  # no terminal
    said = " ".join(capsys.readouterr().err.split())
    assert "warning: this data was charged epsilon 1 by run first and" in said
    assert ("by run second; this run charges another epsilon 1" in said, "[y/N]" in said) == (True, False)
    assert charged() == ["first", "second", "third"]
    assert das(*words("first")) == 0  # released: the run is the same, and nothing is charged
    assert das(*words("first", "--epsilon", "2")) == 1
    assert "epsilon" in capsys.readouterr().err
    assert charged() == ["first", "second", "third"]


@pytest.mark.parametrize(("answer", "agreed"), [("n", 0), ("", 0), ("maybe", 0), ("y", 1), (" YES ", 1)])
def test_only_yes_is_an_answer(monkeypatch, answer, agreed):
    monkeypatch.setattr("sys.stdin", StringIO(f"{answer}\n"))
    assert runner.answer_at_terminal(Progress(), "charged", "more") == bool(agreed)


def test_a_run_that_is_resumed_agreed_to_or_read_by_a_program_is_not_asked_about(made, tmp_path, monkeypatch):
    asked = []

    def stops(_settings: object) -> None:
        asked.append(approval._answers != [runner.go_on])
        raise Refused("stopped here")

    monkeypatch.setattr("flows.prefect_flows.bottom_up", stops)
    for name, instead in NO_CLUSTER.items():
        monkeypatch.setattr(name, instead)
    open_account(tmp_path, 9, "puredp")
    at = "--runs-folder", tmp_path / "state", "--ledger", tmp_path / "ledger.sqlite"
    inputs = made.table, made.declaration, tmp_path / "out", "--epsilon", "1", "--account", ACCOUNT
    at_terminal(monkeypatch, "n", "bottom-up", "run", *inputs, "--run-id", "r1", *at)
    at_terminal(monkeypatch, "n", "bottom-up", "run", "--resume", "r1", *at)
    for option in ("--yes", "--json"):
        at_terminal(monkeypatch, "n", "bottom-up", "run", *inputs, "--run-id", "r2", option, *at)
    assert asked == [True, False, False, False]
    assert not approval._answers


def test_a_question_names_the_runs_that_charged_the_same_data_and_one_of_its_states(tmp_path):
    ledger = open_account(tmp_path, 9)
    ledger.open_account(Account("other", "puredp", Fraction(9)))

    def ask(run: str, states: tuple[str, ...], records: str, account: str = ACCOUNT) -> SimpleNamespace:
        settings = settings_for(tmp_path, run, account=account, second_account=True)
        settings.directory.create()
        claim = Claim(settings.directory, states, spend("puredp", [Fraction(2)]), "c", Input(run, (records,), None))
        return SimpleNamespace(part=SimpleNamespace(settings=settings), claim=lambda: claim)

    def questions(*asks: SimpleNamespace) -> list[str]:
        found: list[str] = []
        with answered_by(lambda charged, more: not found.append(f"{charged}; charge {more}?")):
            confirm_second_charges(asks)
        return found

    first, second = ask("a-us", ("44", "45"), "r"), ask("b-us", ("44",), "r", "other")
    for each in (first, second):
        authorize(each.part.settings.charging, each.claim())
    again, other = ask("c-us", ("44",), "r"), ask("c-pr", ("72",), "r")
    charged = "this data was charged rho 2 by run a-us and epsilon 2 by run b-us; charge another rho 2?"
    assert questions(again) == [charged]
    assert questions(again, other) == [f"US: {charged}"]  # another state is charged for the first time
    assert questions(first) == []  # it is charged itself
    assert questions(ask("d-us", ("44",), "new")) == []
    with (
        pytest.raises(Refused, match="a second charge was declined: nothing was charged"),
        answered_by(lambda *_: False),
    ):
        confirm_second_charges([again])
    confirm_second_charges([again])  # nobody to ask
    for run in ("e-us", "f-us", "g-us"):
        each = ask(run, ("44",), "r")
        authorize(each.part.settings.charging, each.claim())
    assert questions(again) == []  # too little budget is left: the reservation says so, and the journal
    with pytest.raises(Refused, match="too little budget left"):
        authorize(again.part.settings.charging, again.claim())
