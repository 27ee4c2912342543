"""`das` meets bad input: a line for each finding, exit 1, no traceback, nothing written, and nobody's value shown."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from dhca_faults import CANARY, FAULTS, INVALID, PERSONS, Fault, field, good_inputs
from dhca_inputs import Inputs, configuration, edit
from e2e_runs import ACCOUNT, FEW_LEVELS, das_process, open_account, reconfigure
from pydantic import ValidationError

from flows.execution.cluster import ClusterSettings
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import keep_settings
from flows.reports.terminal import interruptible, stay_interruptible
from privacy.accounting.ledger import Account, Ledger
from tasks.lifecycle.run_directory import RunDirectory
from tests.flows.conftest import Das, Refuse

pytestmark = pytest.mark.usefixtures("stages_here")


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folders_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_dir()]


def fault_named(name: str) -> Fault:
    """Return a fault of the input: tests of validation try them all, each command one."""
    (fault,) = [fault for fault in FAULTS if fault.name == name]
    return fault


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    """Parameters and data without a fault."""
    return good_inputs().write(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


# das validate


def test_das_validate_shows_a_fault_and_no_value(tmp_path: Path, das: Das, inputs: tuple[Path, Path]) -> None:
    fault = fault_named(f"person: QAGE {CANARY!r}")
    fault.change(tmp_path)
    before = files_in(tmp_path / "params") | files_in(tmp_path / "data")
    code, out, err = das("validate", *inputs, "--json")
    assert code == 1
    assert err.splitlines()[-1] == "refused: the input does not pass validation"
    answer = json.loads(out)
    assert not answer["valid"]
    (error,) = [finding for finding in answer["findings"] if not finding["warning"]]
    assert fault.rule in error["rule"]
    found = [error[name] for name in ("file", "column", "rows", "first")]
    assert found == [fault.file, fault.column, fault.rows, fault.first]
    assert not re.search(rf"\b{CANARY}\b", out + err)
    (report,) = answer["reports"]
    assert CANARY in (Path(report) / "findings.json").read_text()
    assert before == files_in(tmp_path / "params") | files_in(tmp_path / "data")


def test_the_table_has_a_line_for_each_finding(tmp_path: Path, refused: Refuse, inputs: tuple[Path, Path]) -> None:
    path = tmp_path / PERSONS
    path.write_bytes(field(3, "QAGE", "CANARY")(field(5, "QSEX", CANARY)(path.read_bytes())))
    text = refused("does not pass validation", "validate", *inputs, findings=True)
    lines = [re.split(" {2,}", line.strip()) for line in text.splitlines()]
    assert [line for line in lines if line[0] in ("error", "warning")] == [
        ["error", "person-records.txt", "QAGE", "1", "3", f"{INVALID}; valid are whole numbers from 0 to 115"],
        ["error", "person-records.txt", "QSEX", "1", "5", f"{INVALID}; valid are 1 or 2"],
        ["warning", "person-records.txt", "TABBLKST", "2", "persons outside the states of US, left out"],
    ]
    assert "CANARY" not in text
    assert not re.search(rf"\b{CANARY}\b", text)


def test_good_input_is_valid_and_leaves_nothing(tmp_path: Path, das: Das, state_home: Path) -> None:
    code, out, _ = das("validate", *Inputs().write(tmp_path), "--json")
    assert (code, json.loads(out)) == (0, {"valid": True, "findings": [], "reports": []})
    assert folders_in(state_home / "runs") == []


def test_both_jurisdictions_are_checked(tmp_path: Path, das: Das) -> None:
    """A fault of each, and one of the parameters that both read: three lines."""
    inputs = Inputs(config=configuration(run_pr=True), codes=[*Inputs().codes, "4000"])
    one = inputs.persons[0]
    inputs.persons += [{**one, "QAGE": "x"}, {**one, "TABBLKST": "72", "TABBLK": "1009"}]
    code, out, _ = das("validate", *inputs.write(tmp_path), "--json")
    findings = [each for each in json.loads(out)["findings"] if each["column"] not in ("TABBLKST", "BLOCK")]
    assert code == 1
    assert sorted((finding["rule"], finding["rows"]) for finding in findings) == [
        (f"{INVALID}; valid are whole numbers from 0 to 115", 1),
        ("block is not in GRF-C", 1),
        ("codes that map to no iteration: ['4000']", 1),
    ]


@pytest.mark.parametrize("command", ["validate", "run", "truth"])
def test_faulty_parameters_hide_no_fault_of_the_data_files(
    tmp_path: Path, refused: Refuse, inputs: tuple[Path, Path], out: Path, command: str
) -> None:
    params, data = inputs
    edit(params / "config.json", lambda text: text.replace("max_race_codes", "most_race_codes"))
    edit(tmp_path / PERSONS, lambda text: text.replace("QSEX", "SEX", 1))
    edit(data / "GRF-C.txt", lambda text: text.rstrip("\n") + "|1\n")
    text = refused("pass validation", command, *inputs, *([out] if command != "validate" else []), findings=True)
    for fault in ("missing required keys", "Missing: ['QSEX']", "a row does not have"):
        assert fault in text
    (data / "GRF-C.txt").unlink()
    (tmp_path / PERSONS).unlink()
    text = refused("pass validation", "validate", *inputs, findings=True)
    assert text.count("the file does not exist") == 2


def test_a_mark_that_does_not_cover_the_data_is_refused(
    tmp_path: Path, das: Das, refused: Refuse, inputs: tuple[Path, Path], out: Path
) -> None:
    assert das("synth", "--mark", inputs[1], "--yes")[0] == 0
    edit(tmp_path / PERSONS, lambda text: text.replace("\n30|", "\n31|", 1))
    for words in (("validate", *inputs), ("truth", *inputs, out)):
        refused("person-records.txt is not the file that SYNTHETIC.json declares synthetic", *words)
    assert not out.exists()


# das truth

CURATOR = "--i-am-the-curator"


def test_das_truth_refuses_bad_input(tmp_path: Path, refused: Refuse, inputs: tuple[Path, Path], out: Path) -> None:
    fault = fault_named("person: code after Null")
    fault.change(tmp_path)
    text = refused("pass validation", "truth", *inputs, out, CURATOR, findings=True)
    assert fault.rule in text
    assert "curator's report" not in text  # it is removed with the run's directory
    assert not out.exists()


def test_das_truth_is_for_synthetic_data_or_the_curator(
    das: Das, refused: Refuse, inputs: tuple[Path, Path], out: Path, state_home: Path, no_umask: None
) -> None:
    reconfigure(inputs[0], **FEW_LEVELS)
    refused("only its curator may see its exact counts (--i-am-the-curator)", "truth", *inputs, out)
    assert not out.exists()
    assert [folder.stat().st_mode & 0o777 for folder in (state_home.parent, state_home)] == [0o777, 0o700]
    code, _, err = das("truth", *inputs, out, CURATOR)
    assert (code, "NOT PRIVATE" in err) == (0, True)
    assert [folder.stat().st_mode & 0o777 for folder in (out, out / "us")] == [0o700, 0o700]
    assert [path.name for path in out.iterdir()] == ["us"]
    theirs = out.with_name("theirs")
    theirs.mkdir(mode=0o755)
    assert das("truth", *inputs, theirs, CURATOR)[0] == 0
    assert (theirs / "us").stat().st_mode & 0o777 == 0o700


def write_mine(out: Path, name: str) -> None:
    """Write a file into OUT, or in its place."""
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    (out / name).write_text("mine")


@pytest.mark.parametrize("name", [".", "us/notes.txt"])
def test_das_truth_loses_nothing_that_is_there(
    refused: Refuse, inputs: tuple[Path, Path], out: Path, name: str
) -> None:
    write_mine(out, name)
    refused("", "truth", *inputs, out, CURATOR)
    assert files_in(out.parent)[str(Path("out", name))] == b"mine"
    assert len(list(out.rglob("*"))) == len(Path(name).parts)


@pytest.mark.e2e
@pytest.mark.slow
def test_a_truth_that_is_killed_leaves_no_exact_counts(
    das: Das, inputs: tuple[Path, Path], out: Path, state_home: Path
) -> None:
    """A plain kill clears up at once, a hard one leaves what `das runs discard` clears."""
    for number in ("SIGTERM", "SIGKILL"):
        dies = (
            "import os, signal, flows.execution.runner as runner\n"
            f"runner.commit = lambda *_, **__: os.kill(os.getpid(), signal.{number})\n"
        )
        process = das_process("truth", *inputs, out, CURATOR, "--workers", 1, first=dies)
        process.communicate(timeout=120)
        if number == "SIGTERM":
            assert process.returncode == 3
        else:
            (left,) = folders_in(state_home / "runs")
            assert any((out / f".us-{left}.partial").rglob("*.csv"))
            assert das("runs", "discard", left)[0] == 0
        assert list(out.iterdir()) == []
        assert folders_in(state_home / "runs") == []


def test_a_plain_kill_is_the_commands_in_a_flow_too() -> None:
    """Prefect takes it when a flow begins; tests/e2e/test_interrupted.py has the whole of it."""
    others = signal.getsignal(signal.SIGTERM)
    with interruptible("interrupted"):
        ours = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stay_interruptible()
        assert signal.getsignal(signal.SIGTERM) is ours
    stay_interruptible()
    assert signal.getsignal(signal.SIGTERM) is others
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


UNNOTICED = """
import signal, threading, time
from flows.reports.terminal import interruptible
def other():
    time.sleep(0.2)  # the main thread waits by then, and a signal that this thread takes does not interrupt it
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
with interruptible("say how to resume"):
    threading.Thread(target=other, daemon=True).start()
    threading.Event().wait()
"""


def test_a_kill_that_does_not_interrupt_a_wait_is_noticed_all_the_same() -> None:
    ended = subprocess.run([sys.executable, "-c", UNNOTICED], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (3, "\nstopped: say how to resume\n")


# das run


@pytest.fixture
def run_refused(tmp_path: Path, refused: Refuse, out: Path) -> Refuse:
    """Call `das run` with an account that is open: it is refused, charges nothing and leaves OUT as it is."""
    ledger = open_account(tmp_path)

    def call(message: str, inputs: tuple[Path, Path], *words: object) -> str:
        before = files_in(tmp_path / "out")
        text = refused(message, "run", *inputs, out, "--ledger", ledger.path, "--no-spine", *words, findings=True)
        assert ledger.rows(ACCOUNT) == []
        assert files_in(out) == before
        return text

    return call


def test_das_run_refuses_bad_input(tmp_path: Path, run_refused: Refuse, inputs: tuple[Path, Path]) -> None:
    fault = fault_named("duplicate block")
    fault.change(tmp_path)
    assert fault.rule in run_refused("pass validation", inputs, "--account", ACCOUNT)


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({}, "", "this data needs an account"),
        ({}, "--account acs", "there is no account acs: open it first"),
        ({"privacy_budget_p_level_2_usa": 990}, "--account census", "account census has too little budget left"),
        ({"privacy_budget_p_level_2_usa": float("inf")}, "--account census", "only `das truth` takes infinite"),
        ({}, "--account census --coterminous-list no-such-file", "No such file"),
        ({}, "--account census --coterminous-list list.txt", "COUNTY 01999 is not a region of this run"),
        ({}, "--account pure", "a zcdp run cannot be charged to it"),
    ],
)
def test_das_run_refuses_what_it_may_not_spend(
    tmp_path: Path,
    run_refused: Refuse,
    inputs: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    words: str,
    message: str,
) -> None:
    """Each before anything is charged."""
    monkeypatch.chdir(tmp_path)
    open_account(tmp_path, definition="puredp", name="pure")
    reconfigure(inputs[0], **changes)
    (tmp_path / "list.txt").write_text("SET|REGION_TYPE|REGION_ID\na|COUNTY|01999\n")
    run_refused(message, inputs, *words.split())


def test_a_mistyped_data_folder_is_not_taken_for_data_without_an_account(
    run_refused: Refuse, inputs: tuple[Path, Path]
) -> None:
    run_refused(f"there is no file or folder {inputs[1] / 'nowhere'}", (inputs[0], inputs[1] / "nowhere"))


@pytest.mark.parametrize("name", [".", "notes.txt", "us/notes.txt"])
def test_das_run_loses_nothing_that_is_there(
    run_refused: Refuse, inputs: tuple[Path, Path], out: Path, name: str
) -> None:
    write_mine(out, name)
    run_refused("is not empty", inputs, "--account", ACCOUNT)
    assert (out / name).read_bytes() == b"mine"


# Usage and resuming


@pytest.mark.parametrize(
    "words", ["run", "validate params", "run a b c --workers 0", "no-such-command", "truth", "bottom-up run table.csv"]
)
def test_wrong_usage_is_exit_2(das: Das, words: str) -> None:
    assert das(*words.split())[0] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tda run data out --estimator gsl", "'--estimator': 'gsl' is not one of 'topdown', 'gls'"),
        ("run params data out --workers two", "'--workers': 'two' should be a valid integer"),
        ("run params data out --workers 0", "'--workers': '0' should be greater than or equal to 1"),
    ],
)
def test_a_mistyped_value_is_named_in_our_words(das: Das, words: str, said: str) -> None:
    code, _, err = das(*words.split())
    assert code == 2
    assert said in re.sub(r"[│\s]+", " ", err)


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> Callable[..., list[Any]]:
    """Keep a run with these cluster settings; returns a list, of the settings that `das run --resume kept-us` uses."""

    def keep(**cluster: Any) -> list[Any]:
        run = RunDirectory(state_home / "runs/kept-us")
        run.create()
        settings = DetailedDhcaSettings(
            params="p", data="d", out="out", jurisdiction="us", run_id=run.id, cluster=ClusterSettings(**cluster)
        )
        keep_settings(run, settings)
        return taken

    taken: list[Any] = []
    monkeypatch.setattr("tests.systems.in_process.flow", taken.append)
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
def test_an_option_that_resume_would_not_heed_is_a_usage_error(
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
        ({"workers": 3}, ["--memory-limit", "6GiB"], {"workers": 3, "memory_limit": "6GiB"}),
        ({"memory_limit": "6GiB"}, ["--workers", "2"], {"memory_limit": "6GiB", "workers": 2}),
        (REMOTE, [], REMOTE),
        (REMOTE, ["--tls-key", "new"], REMOTE | {"tls_key": "new"}),
        (REMOTE, ["--workers", "2", "--memory-limit", "6GiB"], {"workers": 2, "memory_limit": "6GiB"}),
        (REMOTE, ["--scheduler", "tcp://127.0.0.1:1"], {"scheduler": "tcp://127.0.0.1:1"}),
        ({"cluster_class": "a:B"}, ["--memory-limit", "6GiB"], None),
        (REMOTE, ["--memory-limit", "6GiB"], None),
    ],
)
def test_a_resumed_run_keeps_its_cluster_except_for_the_options_given(
    das: Das, resumed: Callable[..., list[Any]], saved: dict[str, Any], options: list[str], expected: Any
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


# Refusals in one line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run params data s3://b/out", "give a path, on this machine"),
        ("truth params data s3://b/out", "give a path, on this machine"),
        ("bottom-up run table declaration s3://b/out --epsilon 1", "is a URL"),
        ("run params data out --runs-folder s3://bucket/state", "s3://bucket/state is a URL"),
        ("runs list --runs-folder s3://bucket/state", "s3://bucket/state is a URL"),
        ("run params data out --ledger=", "--ledger . is not a regular file"),
        ("accuracy params data out --ledger=", "--ledger . is not a regular file"),
        ("bottom-up noise --epsilon 1e-9", "the noise is too wide"),
        ("tune --total 1e-9", "Nation, Detailed: the noise is too wide for the sampler"),
        ("tune --total 1e-9 --definition puredp", "the noise is too wide for the sampler"),
        ("tda run nowhere out --persons-budget 1/0", "--persons-budget 1/0: is not a number"),
        (
            "tda run nowhere out --measurements nmf --spine aian",
            "--measurements nmf is of the optimized spine under zcdp, not of the spine aian under zcdp: choose parquet",
        ),
        (
            "tda run nowhere out --measurements nmf --definition puredp --persons-budget 17 --units-budget 1",
            "not of the spine optimized under puredp: choose parquet",
        ),
        ("tda run nowhere out --units-budget 1e-90", "--units-budget 1e-90: it must be a number from 1e-09"),
        ("ledger show", "there is no ledger"),
        ("ledger open a --definition zcdp --total much", "--total much is not a number"),
        ("ledger open a --definition zcdp --total 1/0", "--total 1/0 is not a number"),
        ("ledger open a --definition zcdp --total -1", "must be positive, not -1"),
        ("ledger open a --definition zcdp --total 1e400", "--total 1e400 must have at most 100"),
        ("ledger open a --definition zcdp --total 1e999999999", "and an exponent to 100"),
        ("runs discard no-such-run", "has no confidential directory"),
        ("run --resume no-such-run", "if the run has not ended, give the --runs-folder it was started with"),
        ("runs show 20260101-000000-abcd", "(did you mean 20260101-000000-abcd-us?) and no row in the ledger"),
        ("run --resume 20260110-000000-abcd-us", "(did you mean 20260101-000000-abcd-us?)"),
        *((f"runs discard {run}", "is not a run id") for run in ("", ".", "..", "../ledger", "a/b")),
        *((f"run --resume {run}", "is not a run id") for run in ("", ".", "..", "../ledger", "a/b")),
    ],
)
def test_one_line_says_what_is_wrong(
    tmp_path: Path, refused: Refuse, state_home: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    RunDirectory(state_home / "runs/20260101-000000-abcd-us").create()
    refused(message, *words.split(" "))
    assert list(tmp_path.iterdir()) == [state_home.parent]
    assert (state_home / "runs/20260101-000000-abcd-us").is_dir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("validate nowhere nowhere", "does not pass validation"),
        ("run nowhere nowhere out", "do not pass validation"),
        ("validate nowhere://params nowhere://data", "nowhere://params/config.json: Protocol not known"),
    ],
)
def test_folders_that_are_not_there_are_refused(
    tmp_path: Path, refused: Refuse, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(message, *words.split(), findings=True)


def test_a_deployment_releases_to_no_url() -> None:
    with pytest.raises(ValidationError, match="give a folder on this machine"):
        DetailedDhcaSettings(params="p", data="d", out="s3://b/{run}", jurisdiction="us")


def test_a_ledger_with_a_total_that_passes_every_float_is_shown(tmp_path: Path, das: Das) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).open_account(Account("huge", "zcdp", Fraction(10) ** 400))
    assert das("ledger", "open", "large", "--definition", "zcdp", "--total", "1e100", "--ledger", path)[0] == 0
    code, out, _ = das("ledger", "show", "--ledger", path)
    assert code == 0
    assert "Account huge: zcdp, rho 1e+400 for every state" in out
    assert "Account large: zcdp, rho 1e+100 for every state" in out


def test_a_ledger_that_is_none_is_refused(tmp_path: Path, refused: Refuse) -> None:
    path, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    path.write_text("not a database, not by any means")
    refused("file is not a database", "ledger", "show", "--ledger", path)
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE mine (x)")
    refused("is not a ledger", "ledger", "show", "--ledger", other)


def test_the_report_of_a_crash_is_kept_below_the_given_state(
    tmp_path: Path, das: Das, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(state: Path) -> None:
        raise ZeroDivisionError("a value of person 4711")

    monkeypatch.setattr("flows.execution.run_status.run_directories", breaks)
    for home, given in ((tmp_path / "given", ("--runs-folder", tmp_path / "given")), (state_home, ())):
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

    said = f"a request to the Prefect server at PREFECT_API_URL failed ({type(error).__name__}): see that it is up"
    assert str(report_crash(error)).startswith(said)


def test_a_module_that_is_gone_is_one_line(tmp_path: Path) -> None:
    """das-flows was upgraded while a run went on: in the command itself, and in a stage on a worker."""
    from flows.execution.crash_report import report_crash
    from tasks.errors import Failed
    from tasks.lifecycle.confidential import guard
    from tasks.lifecycle.run_directory import RunDirectory

    def imports(_: RunDirectory) -> None:
        import nowhere_at_all  # type: ignore[import-not-found]  # noqa: F401

    said = "the module nowhere_at_all cannot be imported: install das-flows again"
    with pytest.raises(ImportError) as gone:
        imports(RunDirectory(tmp_path))
    assert str(report_crash(gone.value)).startswith(said)
    with pytest.raises(Failed, match=f"^release: {said}"):
        guard("release", RunDirectory(tmp_path), imports)


def test_an_import_error_that_names_no_module_is_given_no_cause(tmp_path: Path) -> None:
    """As httpx's, which lacks a package for the proxy that the environment names: no installation is at fault."""
    from flows.execution.crash_report import report_crash, set_crash_folder
    from tasks.errors import Failed
    from tasks.lifecycle.confidential import guard
    from tasks.lifecycle.run_directory import RunDirectory

    def lacks(_: RunDirectory) -> None:
        raise ImportError("Using SOCKS proxy, but the 'socksio' package is not installed")

    with pytest.raises(Failed, match=r"^release: a ImportError was raised; its text is in the run's errors/$"):
        guard("release", RunDirectory(tmp_path), lacks)
    set_crash_folder(tmp_path)
    assert str(report_crash(ImportError("of a proxy"))).startswith("an unexpected ImportError; the curator's copy is ")
    set_crash_folder(None)
