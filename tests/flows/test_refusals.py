"""`das` meets bad input: a line for each finding, exit 1, no traceback, nothing written, and nobody's value shown."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from dhca_faults import CANARY, FAULTS, PERSONS, Fault, field, good_inputs, headless
from dhca_inputs import Inputs, configuration, edit
from e2e_runs import das_process

from flows.reports.terminal import interruptible, stay_interruptible
from privacy.accounting.ledger import Account, Ledger
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory

Das = Callable[..., tuple[int, str, str]]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def name_of(fault: Fault) -> str:
    return fault.name


def named(*names: str) -> list[Fault]:
    faults = [fault for fault in FAULTS if fault.name in names]
    assert len(faults) == len(names)
    return faults


def one_of_a_kind() -> list[Fault]:
    """One fault of each rule, of persons, blocks and each kind of parameters."""
    return list({(fault.file[:5], fault.rule): fault for fault in FAULTS}.values())


@pytest.mark.parametrize("fault", one_of_a_kind(), ids=name_of)
def test_das_validate_tells_every_fault(tmp_path: Path, das: Das, shared_cluster: None, fault: Fault) -> None:
    params, data = good_inputs().write(tmp_path)
    fault.change(tmp_path)
    before = snapshot(tmp_path / "params") | snapshot(tmp_path / "data")
    code, out, err = das("validate", params, data, "--json")
    assert code == 1
    told = json.loads(out)
    assert not told["valid"]
    (error,) = [finding for finding in told["findings"] if not finding["warning"]]
    assert fault.rule in error["rule"]
    assert [error[name] for name in ("file", "column", "rows", "first")] == [
        fault.file,
        fault.column,
        fault.rows,
        fault.first,
    ]
    assert last_line(err) == "refused: the input does not pass validation"
    if fault.file == "person-records.txt":
        assert not re.search(rf"\b{CANARY}\b", out + err)
        (report,) = told["reports"]
        assert json.loads((Path(report) / "findings.json").read_text())
    assert before == snapshot(tmp_path / "params") | snapshot(tmp_path / "data")


def test_the_table_has_a_line_for_each_finding(tmp_path: Path, das: Das, shared_cluster: None) -> None:
    params, data = good_inputs().write(tmp_path)
    path = tmp_path / PERSONS
    path.write_bytes(field(3, "QAGE", "CANARY")(field(5, "QSEX", CANARY)(path.read_bytes())))
    code, out, err = das("validate", params, data)
    assert code == 1
    lines = [re.split(" {2,}", line.strip()) for line in out.splitlines()]
    assert [line for line in lines if line[0] in ("error", "warning")] == [
        ["error", "person-records.txt", "QAGE", "1", "3", "Invalid values found"],
        ["error", "person-records.txt", "QSEX", "1", "5", "Invalid values found"],
        ["warning", "person-records.txt", "TABBLKST", "2", "persons outside the states of US, left out"],
    ]
    assert "CANARY" not in out + err
    assert not re.search(rf"\b{CANARY}\b", out + err)


def test_good_input_is_valid_and_leaves_nothing(
    tmp_path: Path, das: Das, shared_cluster: None, state_home: Path
) -> None:
    params, data = Inputs().write(tmp_path)
    code, out, _ = das("validate", params, data, "--json")
    assert (code, json.loads(out)) == (0, {"valid": True, "findings": [], "reports": []})
    assert [path for path in (state_home / "runs").iterdir() if path.is_dir()] == []


def test_both_jurisdictions_are_checked(tmp_path: Path, das: Das, shared_cluster: None) -> None:
    """A fault of each, and one of the parameters that both read: three lines."""
    inputs = Inputs(config=configuration(run_pr=True), codes=[*Inputs().codes, "4000"])
    inputs.persons = [
        *inputs.persons,
        {**inputs.persons[0], "QAGE": "x"},
        {**inputs.persons[0], "TABBLKST": "72", "TABBLK": "1009"},
    ]
    params, data = inputs.write(tmp_path)
    code, out, _ = das("validate", params, data, "--json")
    told = [
        (finding["rule"], finding["rows"])
        for finding in json.loads(out)["findings"]
        if finding["column"] not in ("TABBLKST", "BLOCK")
    ]
    assert code == 1
    assert sorted(told) == [
        ("Invalid values found", 1),
        ("block is not in GRF-C", 1),
        ("codes that map to no iteration: ['4000']", 1),
    ]


@pytest.mark.parametrize("command", ["validate", "run", "truth"])
def test_faulty_parameters_hide_no_fault_of_the_data_files(
    tmp_path: Path, das: Das, shared_cluster: None, command: str
) -> None:
    params, data = good_inputs().write(tmp_path)
    edit(params / "config.json", lambda text: text.replace("max_race_codes", "most_race_codes"))
    edit(tmp_path / PERSONS, lambda text: text.replace("QSEX", "SEX", 1))
    edit(data / "GRF-C.txt", lambda text: text.rstrip("\n") + "|1\n")
    code, out, _ = das(command, params, data, *([tmp_path / "out"] if command != "validate" else []))
    assert code == 1
    for fault in ("missing required keys", "Missing: ['QSEX']", "a row does not have"):
        assert fault in out
    (data / "GRF-C.txt").unlink()
    (tmp_path / PERSONS).unlink()
    _, out, _ = das("validate", params, data)
    assert out.count("the file does not exist") == 2


def test_a_mark_that_does_not_cover_the_data(tmp_path: Path, das: Das, shared_cluster: None) -> None:
    params, data = good_inputs().write(tmp_path)
    assert das("synth", "--mark", data, "--yes")[0] == 0
    edit(tmp_path / PERSONS, lambda text: text.replace("\n30|", "\n31|", 1))
    for command in (("validate", params, data), ("truth", params, data, tmp_path / "out")):
        code, _, err = das(*command)
        assert code == 1
        assert "person-records.txt is not the file that SYNTHETIC.json declares synthetic" in last_line(err)
    assert not (tmp_path / "out").exists()


# das truth


@pytest.mark.parametrize(
    "fault",
    [
        fault
        for fault in FAULTS
        if fault.name in ("duplicate block", "race iteration: LEVEL 3", "person: code after Null")
    ],
)
def test_das_truth_refuses_bad_input(tmp_path: Path, das: Das, shared_cluster: None, fault: Fault) -> None:
    params, data = good_inputs().write(tmp_path)
    fault.change(tmp_path)
    code, out, err = das("truth", params, data, tmp_path / "out", "--i-am-the-curator")
    assert code == 1
    assert fault.rule in out
    assert "pass validation" in last_line(err)
    assert not (tmp_path / "out").exists()


def test_das_truth_is_for_synthetic_data_or_the_curator(tmp_path: Path, das: Das, shared_cluster: None) -> None:
    params, data = good_inputs().write(tmp_path)
    code, _, err = das("truth", params, data, tmp_path / "out")
    assert code == 1
    assert "only its curator may see its exact counts (--i-am-the-curator)" in last_line(err)
    assert not (tmp_path / "out").exists()
    code, _, err = das("truth", params, data, tmp_path / "out", "--i-am-the-curator")
    assert code == 0
    assert "NOT PRIVATE" in err


def test_das_truth_loses_nothing_that_is_there(tmp_path: Path, das: Das, shared_cluster: None) -> None:
    params, data = good_inputs().write(tmp_path)
    out = tmp_path / "out"
    (out / "us").mkdir(parents=True)
    (out / "us/notes.txt").write_text("mine")
    code, _, err = das("truth", params, data, out, "--i-am-the-curator")
    assert code == 1
    assert "is not empty" in last_line(err)
    assert snapshot(out) == {"us/notes.txt": b"mine"}
    file = tmp_path / "file"
    file.write_text("mine")
    code, _, err = das("truth", params, data, file, "--i-am-the-curator")
    assert code == 1
    assert file.read_text() == "mine"


def test_exact_counts_are_their_owners_only(tmp_path: Path, das: Das, shared_cluster: None) -> None:
    params, data = good_inputs().write(tmp_path)
    out = tmp_path / "out"
    assert das("truth", params, data, out, "--i-am-the-curator")[0] == 0
    assert [folder.stat().st_mode & 0o777 for folder in (out, out / "us")] == [0o700, 0o700]
    assert [path.name for path in out.iterdir()] == ["us"]
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    assert das("truth", params, data, theirs, "--i-am-the-curator")[0] == 0
    assert (theirs / "us").stat().st_mode & 0o777 == 0o700


@pytest.mark.e2e
@pytest.mark.slow
def test_a_truth_that_is_killed_leaves_no_exact_counts(tmp_path: Path, das: Das, state_home: Path) -> None:
    """A plain kill clears up at once, a hard one leaves what `das runs discard` clears."""
    params, data = good_inputs().write(tmp_path)
    out = tmp_path / "out"
    for number in ("SIGTERM", "SIGKILL"):
        dies = (
            "import os, signal, flows.execution.runner\n"
            f"flows.execution.runner.commit = lambda *_, **__: os.kill(os.getpid(), signal.{number})\n"
        )
        process = das_process("truth", params, data, out, "--i-am-the-curator", "--workers", 1, first=dies)
        process.communicate(timeout=120)
        if number == "SIGTERM":
            assert process.returncode == 3
        else:
            (left,) = [path.name for path in (state_home / "runs").iterdir() if path.is_dir()]
            assert any((out / f".us-{left}.partial").rglob("*.csv"))
            assert das("runs", "discard", left)[0] == 0
        assert list(out.iterdir()) == []
        assert [path for path in (state_home / "runs").iterdir() if path.is_dir()] == []


def test_a_plain_kill_is_the_commands_in_a_flow_too() -> None:
    """Prefect takes it when a flow begins; tests/e2e/test_interrupted.py has the whole of it."""
    others = signal.getsignal(signal.SIGTERM)
    with interruptible("interrupted"):
        ours = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stay_interruptible()
        assert signal.getsignal(signal.SIGTERM) is ours
    stay_interruptible()
    assert signal.getsignal(signal.SIGTERM) is others


# das run


@pytest.fixture
def run(tmp_path: Path, das: Das, shared_cluster: None, prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> Das:
    """Call `das run` on the session's cluster, with an account that is open."""
    ledger = tmp_path / "ledger.sqlite"
    Ledger(ledger).open_account(Account("census", "zcdp", 1000))  # type: ignore[arg-type]

    def call(*arguments: object) -> tuple[int, str, str]:
        ended = das("run", *arguments, "--ledger", ledger, "--no-spine")
        assert Ledger(ledger).rows("census") == []
        return ended

    return call


def plant_canaries(folder: Path) -> dict[str, str]:
    """A person whose every value is a canary, and a line that is too short; returns the canaries."""
    path = folder / PERSONS
    text = path.read_bytes()
    columns = text.decode().splitlines()[0].split("|")
    canaries = {column: f"canary-{column.lower()}-8642" for column in columns if column != "TABBLKST"}
    for column, value in canaries.items():
        text = field(5, column, value)(text)
    path.write_bytes(text + b"canary-short-8642|1\n")
    return canaries | {"short": "canary-short-8642"}


def database_text() -> bytes:
    """All that Prefect has stored."""
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

    time.sleep(2.5)  # its client sends log lines in batches, every two seconds
    path = Path(str(PREFECT_API_DATABASE_CONNECTION_URL.value()).split(":///")[1])
    return b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))


@pytest.mark.e2e
def test_no_value_of_a_person_leaves_the_confidential_directory(
    tmp_path: Path, run: Das, client: Any, state_home: Path
) -> None:
    params, data = good_inputs().write(tmp_path)
    canaries = plant_canaries(tmp_path)
    code, out, err = run(params, data, tmp_path / "out", "--account", "census", "--run-id", "finding-run")
    assert code == 1
    assert last_line(err).startswith("refused: the input does not pass validation")
    assert sum("Invalid values found" in line for line in out.splitlines()) == len(canaries) - 1
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
    report = (state_home / "runs/finding-run-us/findings.json").read_text()
    for canary in set(canaries.values()) - {"canary-short-8642"}:
        assert canary in report
    stored = database_text()
    assert b"finding-run-us" in stored  # it is the right database
    logs = repr((client.get_worker_logs(), client.get_scheduler_logs(), client.get_events()))
    for canary in ("canary-", "8642"):
        assert canary not in out + err
    assert b"canary-" not in stored
    assert "canary-" not in logs


@pytest.mark.e2e
def test_a_person_file_without_header_shows_nobody(tmp_path: Path, run: Das) -> None:
    params, data = good_inputs().write(tmp_path)
    plant_canaries(tmp_path)
    path = tmp_path / PERSONS
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(headless(b"\n".join([lines[0], lines[4], *lines[1:]])))
    code, out, err = run(params, data, tmp_path / "out", "--account", "census")
    assert code == 1
    assert "Unexpected columns found" in out
    assert "canary-" not in out + err
    assert b"canary-" not in database_text()


@pytest.mark.e2e
@pytest.mark.parametrize(
    "fault",
    [
        fault
        for fault in FAULTS
        if fault.name in ("NaN budget", "duplicate block", "no data/GRF-C.txt", "race iteration: LEVEL 3")
    ],
    ids=lambda fault: fault.name,
)
def test_das_run_refuses_bad_input(tmp_path: Path, run: Das, fault: Fault) -> None:
    params, data = good_inputs().write(tmp_path)
    fault.change(tmp_path)
    code, out, err = run(params, data, tmp_path / "out", "--account", "census")
    assert code == 1
    assert fault.rule in out
    assert "pass validation" in last_line(err)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, [], "this data needs an account"),
        ({}, ["--account", "acs"], "there is no account acs: open it first"),
        ({"privacy_budget_p_level_2_usa": 990}, ["--account", "census"], "account census has too little budget left"),
        (
            {"privacy_budget_p_level_2_usa": float("inf")},
            ["--account", "census"],
            "only `das truth` takes infinite",
        ),
        ({}, ["--account", "census", "--coterminous-list", "no-such-file"], "No such file"),
        ({}, ["--account", "census", "--coterminous-list", "LIST"], "COUNTY 01999 is not a region of this run"),
    ],
)
def test_das_run_refuses_what_it_may_not_spend(
    tmp_path: Path, run: Das, changes: dict[str, Any], arguments: list[str], message: str
) -> None:
    """Each before anything is charged."""
    inputs = good_inputs()
    inputs.config |= changes
    params, data = inputs.write(tmp_path)
    (tmp_path / "list.txt").write_text("SET|REGION_TYPE|REGION_ID\na|COUNTY|01999\n")
    named = [str(tmp_path / "list.txt") if argument == "LIST" else argument for argument in arguments]
    code, _, err = run(params, data, tmp_path / "out", *named)
    assert code == 1
    assert message in last_line(err)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.mark.e2e
def test_a_mistyped_data_folder_is_not_taken_for_data_without_an_account(tmp_path: Path, run: Das) -> None:
    params, _ = good_inputs().write(tmp_path)
    code, out, err = run(params, tmp_path / "nowhere", tmp_path / "out")
    assert code == 1
    assert out.count("the file does not exist") == 2
    assert "account" not in last_line(err)


def test_a_limit_that_could_not_be_kept_is_refused_before_a_run_is_made(
    tmp_path: Path, das: Das, state_home: Path
) -> None:
    params, data = good_inputs().write(tmp_path)
    for command in ("run", "truth"):
        code, _, err = das(command, params, data, tmp_path / "out", "--memory-limit", "6")
        assert code == 1
        assert "needs 3.00 GiB" in last_line(err)
    assert not state_home.exists()


@pytest.mark.e2e
def test_a_jurisdiction_that_is_switched_off_is_charged_nothing(
    tmp_path: Path, shared_cluster: None, prefect_server: None, state_home: Path
) -> None:
    """As a deployment starts it, which names its jurisdiction itself."""
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
    from flows.prefect_flows import detailed_dhca

    inputs = good_inputs()
    inputs.config["thresholds_p"] = {
        key: value for key, value in inputs.config["thresholds_p"].items() if "PR-" not in key
    }
    params, data = inputs.write(tmp_path)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("census", "zcdp", 1000))  # type: ignore[arg-type]
    settings = DetailedDhcaSettings(
        params=str(params),
        data=str(data),
        out=str(tmp_path / "out"),
        jurisdiction="pr",
        account="census",
        ledger=str(ledger.path),
        run_id="switched-off-pr",
        spine=False,
    )
    assert detailed_dhca(settings) is None
    assert ledger.rows("census") == []
    assert not (state_home / "runs/switched-off-pr").exists()
    assert b"PR has no block, or config.json switches it off: skipped, nothing charged" in database_text()
    reserved = RunDirectory(state_home / "runs/reserved-pr")
    reserved.create()
    (reserved / AUTHORIZATION).touch()
    with pytest.raises(Refused, match="was reserved"):  # its secret is not thrown away
        detailed_dhca(settings.model_copy(update={"run_id": reserved.id}))
    assert (reserved / AUTHORIZATION).exists()


@pytest.mark.e2e
def test_a_pure_account_takes_no_zcdp_run(tmp_path: Path, run: Das) -> None:
    params, data = good_inputs().write(tmp_path)
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("pure", "puredp", 1000))  # type: ignore[arg-type]
    code, _, err = run(params, data, tmp_path / "out", "--account", "pure")
    assert code == 1
    assert "a zcdp run cannot be charged to it" in last_line(err)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["file", "folder", "us"])
def test_das_run_loses_nothing_that_is_there(tmp_path: Path, run: Das, kind: str) -> None:
    params, data = good_inputs().write(tmp_path)
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    else:
        folder = out / "us" if kind == "us" else out
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")
    code, _, err = run(params, data, out, "--account", "census")
    assert code == 1
    assert "is not empty" in last_line(err)
    assert out.read_text() == "mine" if kind == "file" else list(snapshot(out).values()) == [b"mine"]


# Usage and damaged ledgers


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["validate", "params"], ["run", "a", "b", "c", "--workers", "0"], ["no-such-command"], ["truth"]],
)
def test_usage(das: Das, arguments: list[str]) -> None:
    assert das(*arguments)[0] == 2


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> Callable[..., list[Any]]:
    """Keep a run with these cluster settings; gives the settings that `das run --resume kept-us` goes on with."""
    from flows.execution.cluster import ClusterSettings
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
    from flows.execution.settings import keep_settings

    def keep(**cluster: Any) -> list[Any]:
        run = RunDirectory(state_home / "runs/kept-us")
        run.create()
        settings = DetailedDhcaSettings(
            params="p", data="d", out="out", jurisdiction="us", run_id=run.id, cluster=ClusterSettings(**cluster)
        )
        keep_settings(run, settings)
        return taken

    taken: list[Any] = []
    monkeypatch.setattr("flows.prefect_flows.detailed_dhca", taken.append)
    monkeypatch.setattr("flows.execution.run.start_workers", lambda _settings: None)
    monkeypatch.setattr("flows.commands.runner.served", nullcontext)
    return keep


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--account", "other", "--no-coterminous"], ["--account", "--coterminous"]),
        (["--no-spine"], ["--spine"]),
        (["--ledger", "other.sqlite"], ["--ledger"]),
        (["params", "data", "elsewhere"], ["PARAMS", "DATA", "OUT"]),
    ],
)
def test_what_resume_would_not_heed_is_a_usage_error(
    das: Das, resumed: Callable[..., list[Any]], options: list[str], named: list[str]
) -> None:
    taken = resumed()
    code, _, err = das("run", *options, "--resume", "kept-us")
    assert code == 2
    assert all(name in err for name in named)
    assert taken == []


REMOTE = {"scheduler": "tls://host:8786", "tls_ca": "ca", "tls_cert": "cert", "tls_key": "key"}


@pytest.mark.parametrize(
    ("saved", "options", "expected"),
    [
        ({"workers": 3, "threads_per_worker": 2}, [], {"workers": 3, "threads_per_worker": 2}),
        (
            {"workers": 3, "threads_per_worker": 2},
            ["--memory-limit", "6GiB"],
            {"workers": 3, "threads_per_worker": 2, "memory_limit": "6GiB"},
        ),
        ({"memory_limit": "6GiB"}, ["--workers", "2"], {"memory_limit": "6GiB", "workers": 2}),
        (REMOTE, [], REMOTE),
        (REMOTE, ["--tls-key", "new"], REMOTE | {"tls_key": "new"}),
        (REMOTE, ["--workers", "2", "--memory-limit", "6GiB"], {"workers": 2, "memory_limit": "6GiB"}),
        (REMOTE, ["--scheduler", "tcp://127.0.0.1:1"], {"scheduler": "tcp://127.0.0.1:1"}),
        ({"cluster_class": "a:B"}, ["--memory-limit", "6GiB"], None),
        (REMOTE, ["--memory-limit", "6GiB"], None),
    ],
)
def test_a_resumed_run_goes_on_where_it_was_but_for_what_is_said(
    das: Das,
    resumed: Callable[..., list[Any]],
    saved: dict[str, Any],
    options: list[str],
    expected: dict[str, Any] | None,
) -> None:
    taken = resumed(**saved)
    code, _, err = das("run", "--resume", "kept-us", *options)
    if expected is None:
        assert code == 2
        assert "--memory-limit" in err
        assert taken == []
    else:
        assert code == 0
        (settings,) = taken
        assert settings.cluster.model_dump(exclude_defaults=True) == expected


@pytest.mark.parametrize("command", ["run", "truth"])
def test_a_release_does_not_go_to_a_url(
    tmp_path: Path, das: Das, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from pydantic import ValidationError

    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings

    monkeypatch.chdir(tmp_path)
    code, _, err = das(command, "params", "data", "s3://b/out")
    assert code == 1
    assert "give a path, on this machine" in last_line(err)
    assert not (tmp_path / "s3:").exists()
    with pytest.raises(ValidationError, match="give a folder on this machine"):  # as a deployment gives it
        DetailedDhcaSettings(params="p", data="d", out="s3://b/{run}", jurisdiction="us")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ledger", "show"], "there is no ledger"),
        (["ledger", "open", "a", "--definition", "zcdp", "--total", "much"], "--total much is not a number"),
        (["ledger", "open", "a", "--definition", "zcdp", "--total", "1/0"], "--total 1/0 is not a number"),
        (["ledger", "open", "a", "--definition", "zcdp", "--total", "-1"], "must be positive, not -1"),
        (["ledger", "open", "a", "--definition", "zcdp", "--total", "1e400"], "--total 1e400 must have at most 100"),
        (["ledger", "open", "a", "--definition", "zcdp", "--total", "1e999999999"], "and an exponent to 100"),
        (["ledger", "open", "a", "--definition", "rho", "--total", "1"], "neither zcdp nor puredp"),
        (["runs", "discard", "no-such-run"], "has no confidential directory"),
        (["run", "--resume", "no-such-run"], "has no confidential directory"),
        (["validate", "no-such-folder", "no-such-folder"], "does not pass validation"),
        (["run", "no-such-folder", "no-such-folder", "out"], "do not pass validation"),
        (["validate", "nowhere://params", "nowhere://data"], "nowhere://params/config.json: Protocol not known"),
    ],
)
def test_other_refusals(
    tmp_path: Path, das: Das, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)  # `make run` leaves a folder out where the tests are started
    code, _, err = das(*arguments)
    assert code == 1
    assert message in last_line(err)


def test_a_ledger_with_a_total_that_passes_every_float_is_shown(tmp_path: Path, das: Das) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open_account(Account("huge", "zcdp", Fraction(10) ** 400))
    assert das("ledger", "open", "large", "--definition", "zcdp", "--total", "1e100", "--ledger", path)[0] == 0
    code, out, _ = das("ledger", "show", "--ledger", path)
    assert code == 0
    assert "Account huge: zcdp, rho 1.00000e+400 for every state" in out
    assert "Account large: zcdp, rho 1e+100 for every state" in out


def test_a_ledger_that_is_none(tmp_path: Path, das: Das) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_text("not a database, not by any means")
    code, _, err = das("ledger", "show", "--ledger", path)
    assert code == 1
    assert "file is not a database" in last_line(err)
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as database:
        database.execute("CREATE TABLE mine (x)")
    code, _, err = das("ledger", "show", "--ledger", tmp_path / "other.sqlite")
    assert code == 1
    assert "is not a ledger" in last_line(err)


@pytest.mark.parametrize("run_id", ["", ".", "..", "../ledger", "a/b"])
def test_a_path_is_no_run_id(das: Das, state_home: Path, run_id: str) -> None:
    kept = state_home / "runs" / "20260101-000000-abcd-us"
    kept.mkdir(parents=True)
    for arguments in (("runs", "discard", run_id), ("run", "--resume", run_id)):
        code, _, err = das(*arguments)
        assert code == 1
        assert "is not a run id" in err
    assert kept.is_dir()


def test_what_nobody_foresaw_is_kept_under_the_given_state(
    tmp_path: Path, das: Das, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(state: Path) -> None:
        raise ZeroDivisionError("a value of person 4711")

    monkeypatch.setattr("flows.execution.standing.run_directories", breaks)
    for home, given in ((tmp_path / "given", ("--state", tmp_path / "given")), (state_home, ())):
        for failures in (1, 2):  # within a second, and the first copy stays
            code, out, err = das("runs", "list", *given)
            assert code == 3
            assert "4711" not in out + err
            kept = list((home / "errors").iterdir())
            assert len(kept) == failures
            assert any(str(path) in err for path in kept)
            assert all("person 4711" in path.read_text() for path in kept)
            assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
            assert (home / "errors").stat().st_mode & 0o777 == 0o700


BUSY = httpx.Response(503, request=httpx.Request("POST", "http://x/api/task_runs/"))
PrefectHTTPStatusError = type("PrefectHTTPStatusError", (httpx.HTTPStatusError,), {"__module__": "prefect.exceptions"})


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to reach API at http://x/api/"),
        httpx.ConnectError("no"),
        PrefectHTTPStatusError("503", request=BUSY.request, response=BUSY),
    ],
    ids=["unreachable", "refuses", "busy"],
)
def test_a_prefect_server_that_is_down_is_one_line(error: Exception) -> None:
    from flows.execution.crash_report import report_crash

    told = str(report_crash(error))
    assert told == "the Prefect server at PREFECT_API_URL does not answer: start it, or wait until it is up"


def test_a_module_that_is_gone_is_one_line(tmp_path: Path) -> None:
    """das-flows was upgraded while a run went on: in the command itself, and in a stage on a worker."""
    from flows.execution.crash_report import report_crash
    from tasks.lifecycle.confidential import guard
    from tasks.lifecycle.errors import Failed
    from tasks.lifecycle.run_directory import RunDirectory

    def imports(_: RunDirectory) -> None:
        import nowhere_at_all  # type: ignore[import-not-found]  # noqa: F401

    said = "nowhere_at_all cannot be imported: das-flows or a library was changed while this ran"
    with pytest.raises(ImportError) as gone:
        imports(RunDirectory(tmp_path))
    assert str(report_crash(gone.value)).startswith(said)
    with pytest.raises(Failed, match=f"^release: {said}"):
        guard("release", RunDirectory(tmp_path), imports)
