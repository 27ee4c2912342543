"""`das runs`: how runs stand, at work, stopped, refused or over; and what of it only the curator is shown."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from e2e_runs import ACCOUNT, directory, hold, open_account, settings_for

from flows.execution.settings import keep_settings
from privacy.accounting.ledger import Ledger, Request
from tasks.inputs.findings import Finding, write_findings
from tasks.lifecycle.run_directory import locked
from tests.flows.conftest import Das


def request(run: str) -> Request:
    return Request(
        run,
        ACCOUNT,
        ("72",),
        "zcdp",
        Fraction(2),
        "input",
        "configuration",
        1,
        f"records of {run}",
        second_account=True,
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A refused run with a person's value in its findings, a stopped one that was charged, and one that is released."""
    ledger: Ledger = open_account(tmp_path)
    for run in ("refused-pr", "stopped-pr"):
        settings = settings_for(tmp_path, run, state=tmp_path)
        with locked(directory(settings)):
            keep_settings(directory(settings), settings)
    faults = [Finding("person-records.txt", "Invalid values found", "QAGE", 1, 7, ("9Q7Z",))]
    write_findings(tmp_path / "runs/refused-pr/findings.json", faults)
    for run in ("stopped-pr", "over-pr"):
        ledger.reserve(request(run), lambda: "digest")
    ledger.seal("over-pr", "release")
    ledger.release("over-pr", "release")
    return tmp_path


def test_runs_are_listed_with_their_state_and_charge(das: Das, state: Path) -> None:
    code, out, _ = das("runs", "list", "--state", state, "--all", "--json")
    assert code == 0
    told = {row["run"]: (row["state"], row["charge"]) for row in json.loads(out)}
    charge = f"rho 2 of {ACCOUNT}"
    expected = {
        "refused-pr": ("refused", "nothing"),
        "stopped-pr": ("stopped", charge),
        "over-pr": ("released", charge),
    }
    assert told == expected
    code, out, _ = das("runs", "list", "--state", state, "--json")
    assert {row["run"] for row in json.loads(out)} == {"refused-pr", "stopped-pr"}


def test_a_run_that_a_process_holds_is_at_work(das: Das, state: Path) -> None:
    process = hold(state / "runs/stopped-pr")
    try:
        assert json.loads(das("runs", "show", "stopped-pr", "--state", state, "--json")[1])["state"] == "at work"
    finally:
        process.kill()
        process.join()
    told = json.loads(das("runs", "show", "stopped-pr", "--state", state, "--json")[1])
    assert (told["state"], told["stage"]) == ("stopped", "reserved")
    assert "das run --resume stopped-pr" in told["go_on"]


def test_values_of_persons_are_shown_where_they_are_asked_for_only(das: Das, state: Path) -> None:
    for as_json in ((), ("--json",)):
        code, out, err = das("runs", "show", "refused-pr", "--state", state, *as_json)
        assert code == 0
        assert "Invalid values found" in out
        assert "9Q7Z" not in out + err
        assert "9Q7Z" in das("runs", "show", "refused-pr", "--state", state, "--values", *as_json)[1]


def test_refused_runs_are_discarded_together_and_no_other(das: Das, state: Path) -> None:
    code, out, _ = das("runs", "discard", "--refused", "--state", state, "--json")
    assert (code, json.loads(out)) == (0, [{"run": "refused-pr", "charged": False}])
    assert (state / "runs/stopped-pr").is_dir()
    assert das("runs", "discard", "--state", state)[0] == 2


def test_a_run_that_nobody_knows_is_refused(das: Das, state: Path) -> None:
    code, _, err = das("runs", "show", "nobody", "--state", state)
    assert code == 1
    assert "no row in the ledger" in err
