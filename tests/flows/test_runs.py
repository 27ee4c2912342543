"""`das runs`: runs at work, stopped, refused or over, what only the curator is shown of them, and their settings."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from e2e_runs import ACCOUNT, directory, hold, open_account, settings_for

from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.cluster import ClusterSettings
from flows.execution.run_status import ANSWER, ASKED, REFUSED
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import keep_settings, load_settings
from flows.execution.top_down_settings import TopDownSettings
from privacy.accounting.composition import spend
from privacy.accounting.ledger import Ledger, Request
from tasks.errors import Refused
from tasks.lifecycle.files import save_object
from tasks.lifecycle.run_directory import SETTINGS, VALIDATED, RunDirectory, locked
from tasks.records.findings import Finding, keep_findings
from tests.flows.conftest import Das, Refuse


def request(run: str) -> Request:
    digests = ("input", "configuration", 1, f"records of {run}")
    return Request(run, ACCOUNT, ("72",), spend("zcdp", [Fraction(2)]), *digests, second_account=True)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A refused run with a person's value in its findings, a stopped one that was charged, and one that is released."""
    ledger: Ledger = open_account(tmp_path)
    for run in ("refused-pr", "stopped-pr"):
        settings = settings_for(tmp_path, run, runs_folder=tmp_path)
        with locked(directory(settings)):
            keep_settings(directory(settings), settings)
    faults = [Finding("person-records.txt", "Invalid values found", "QAGE", 12, (7, 9), ("9Q7Z",))]
    keep_findings(RunDirectory(tmp_path / "runs/refused-pr"), faults)
    for run in ("stopped-pr", "over-pr"):
        ledger.reserve(request(run), lambda: "digest")
    ledger.seal("over-pr", "release")
    ledger.release("over-pr", "release")
    return tmp_path


def test_runs_are_listed_with_their_state_and_charge(das: Das, state: Path) -> None:
    code, out, _ = das("runs", "list", "--runs-folder", state, "--all", "--json")
    assert code == 0
    charge = f"rho 2 of {ACCOUNT}"
    assert {row["run"]: (row["state"], row["charge"]) for row in json.loads(out)} == {
        "refused-pr": ("refused", "nothing"),
        "stopped-pr": ("stopped", charge),
        "over-pr": ("released", charge),
    }
    code, out, _ = das("runs", "list", "--runs-folder", state, "--json")
    assert {row["run"] for row in json.loads(out)} == {"refused-pr", "stopped-pr"}


def test_however_many_runs_are_listed_their_ledger_is_read_once(
    das: Das, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, books = list[Path](), Ledger.books
    monkeypatch.setattr(Ledger, "books", lambda ledger: read.append(ledger.path) or books(ledger))
    assert das("runs", "list", "--runs-folder", state, "--all")[0] == 0
    assert read == [state / "ledger.sqlite"]


def test_a_run_that_a_process_holds_is_at_work(das: Das, state: Path) -> None:
    process = hold(state / "runs/stopped-pr")
    try:
        assert json.loads(das("runs", "show", "stopped-pr", "--runs-folder", state, "--json")[1])["state"] == "at work"
    finally:
        process.kill()
        process.join()
    result = json.loads(das("runs", "show", "stopped-pr", "--runs-folder", state, "--json")[1])
    assert (result["state"], result["stage"]) == ("stopped", "reserved")
    assert "das run --resume stopped-pr" in result["next_step"]


def test_a_validated_run_that_asks_for_approval_awaits_it(das: Das, state: Path) -> None:
    """Before, it was listed as stopped, with nothing that told it from a run that failed."""
    settings = settings_for(state, "asks-pr", runs_folder=state, approval=True)
    with locked(directory(settings)):
        keep_settings(directory(settings), settings)
        save_object(directory(settings) / VALIDATED, {})
    stopped = json.loads(das("runs", "show", "asks-pr", "--runs-folder", state, "--json")[1])
    assert stopped["state"] == "stopped", "it was not asked yet"
    save_object(directory(settings) / ANSWER, ASKED)
    rows = {row["run"]: row for row in json.loads(das("runs", "list", "--runs-folder", state, "--json")[1])}
    assert (rows["asks-pr"]["state"], rows["asks-pr"]["charge"]) == ("awaits approval", "nothing")
    assert "Resume or Retry its flow run in Prefect's UI" in rows["asks-pr"]["next_step"]
    save_object(directory(settings) / ANSWER, REFUSED)
    result = json.loads(das("runs", "show", "asks-pr", "--runs-folder", state, "--json")[1])
    assert (result["state"], result["charge"]) == ("refused", "nothing")
    assert "which asks again" in result["next_step"]


def test_values_of_persons_are_shown_where_they_are_asked_for_only(das: Das, state: Path) -> None:
    for as_json in ((), ("--json",)):
        code, out, err = das("runs", "show", "refused-pr", "--runs-folder", state, *as_json)
        assert code == 0
        assert "Invalid values found" in out
        assert "9Q7Z" not in out + err
        out = das("runs", "show", "refused-pr", "--runs-folder", state, "--values", *as_json)[1]
        assert "9Q7Z" in out
        assert as_json or "person-records.txt QAGE line 7, 9 and 10 more: '9Q7Z'" in out


def test_refused_runs_are_discarded_together_and_no_other(das: Das, state: Path) -> None:
    code, out, _ = das("runs", "discard", "--refused", "--runs-folder", state, "--json")
    assert (code, json.loads(out)) == (0, [{"run": "refused-pr", "charged": False}])
    assert (state / "runs/stopped-pr").is_dir()
    assert das("runs", "discard", "--runs-folder", state)[0] == 2


def test_a_run_that_nobody_knows_is_refused(refused: Refuse, state: Path) -> None:
    refused("no row in the ledger", "runs", "show", "nobody", "--runs-folder", state)
    Ledger(state / "ledger.sqlite").enter_marked("made-up-us", {"0" * 64})
    refused("das ledger show lists it", "runs", "show", "made-up-us", "--runs-folder", state)


# The settings of a run


def test_a_directory_without_settings_is_not_said_to_be_missing(refused: Refuse, state: Path) -> None:
    """A run that was killed before its first file, or a truth."""
    RunDirectory(state / "runs/early-pr").create()
    resume = ("run", "--resume", "early-pr", "--runs-folder", state)
    refused("has no settings.json in", *resume)
    refused("so it cannot be resumed: das runs discard early-pr removes it", *resume)


def test_the_settings_of_a_run_with_a_secret_stay(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "runs/r1")
    run.create()
    common = {"out": str(tmp_path / "out"), "runs_folder": str(tmp_path), "run_id": "r1"}
    first = BottomUpSettings(table="table", declaration="declaration", epsilon="1", **common)
    keep_settings(run, first)
    (run / "counts").mkdir()
    half = first.model_copy(update={"epsilon": "1/2"})
    keep_settings(run, half)  # nothing was drawn: it begins anew
    assert load_settings(run) == half
    assert not (run / "counts").exists()
    (run / "secret").touch()
    with pytest.raises(Refused, match="began with another epsilon"):
        keep_settings(run, first)
    assert load_settings(run) == half
    moved = half.model_copy(update={"cluster": ClusterSettings(workers=7)})
    keep_settings(run, moved)
    assert load_settings(run) == moved


@pytest.mark.parametrize("name", ["dashboard", "rounding"])
def test_settings_of_another_version_are_refused(tmp_path: Path, name: str) -> None:
    run = RunDirectory(tmp_path / "runs/r1")
    run.create()
    common = {"out": str(tmp_path / "out"), "runs_folder": str(tmp_path), "run_id": "r1"}
    keep_settings(run, BottomUpSettings(table="table", declaration="declaration", epsilon="1", **common))
    kept = json.loads((run / SETTINGS).read_text())
    kept["settings"] |= {"rounding": "program"} if name == "rounding" else {}
    kept["settings"]["cluster"] |= {"dashboard": False} if name == "dashboard" else {}
    (run / SETTINGS).write_text(json.dumps(kept))
    with pytest.raises(Refused, match="has other settings than this version"):
        load_settings(run)


def test_a_run_directory_is_of_one_system(tmp_path: Path) -> None:
    """Two systems would take each other's stages for their own."""
    common = {"out": str(tmp_path / "out"), "runs_folder": str(tmp_path), "run_id": "run"}
    detailed = DetailedDhcaSettings(params="params", data="data", jurisdiction="us", **common)
    others = [
        TopDownSettings(data="data", **common),
        BottomUpSettings(table="table", declaration="declaration", epsilon="1", **common),
    ]
    run = RunDirectory(tmp_path / "runs/run")
    run.create()
    keep_settings(run, detailed)
    for other in others:
        with pytest.raises(Refused, match="run is a run of another system"):
            keep_settings(run, other)
    keep_settings(run, detailed)
    assert load_settings(run) == detailed


def test_the_command_that_goes_on_names_a_ledger_that_lies_elsewhere(tmp_path: Path) -> None:
    """A run that is stopped once it is released has no directory any more: only its ledger tells that it is done."""
    common = {"data": "data", "out": "out", "runs_folder": str(tmp_path), "run_id": "run"}
    usual, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    assert TopDownSettings(ledger=str(usual), **common).resume == f"das tda run --resume run --runs-folder {tmp_path}"
    assert TopDownSettings(ledger=str(other), **common).resume.endswith(f" --ledger {other}")
