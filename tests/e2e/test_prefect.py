"""Under a Prefect server and on a cluster of an operator's: schedules complete, and nothing confidential comes out."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import httpx
import psutil
import pytest
from dhca_inputs import Here
from e2e_runs import ACCOUNT, das_process, digest, directory, open_account, prepared, real_data, reconfigure
from top_down_inputs import country
from two_hosts import PRELOAD_FILE, Cluster, tls_cluster

from flows.execution.safetab_settings import DetailedDhcaSettings
from privacy.accounting.ledger import Ledger
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.workers import Workers
from tasks.records.marks import MARK_FILE
from tasks.releases.digests import file_digest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
HERE: Workers = Here()  # type: ignore[assignment]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds until a test gives up; nothing depends on it
PERSONS = {"us": 23_457, "pr": 12_391}  # exact counts that nobody may learn
BAD_AGE, BAD_CODE = "9Q7Z", "7Z1X"
BY_SCHEDULE = "auto-scheduled"  # Prefect's tag; of a run that a schedule has just made it sees events 15 minutes late
ANSWER = {"answer": "approve", "name": "A. Person", "reason": "the yearly release"}
DATABASE = os.environ.get("DAS_TESTS_DATABASE")  # an empty PostgreSQL database by Prefect's URL, instead of SQLite
ALARM = "a value of person 4711 in an exception"


@dataclass
class Office:
    """A Prefect server with its worker, the deployments of deploy/prefect.yaml, and the data that they run on."""

    folder: Path
    api: str
    environment: dict[str, str]
    ledger: Ledger

    @property
    def log(self) -> Path:
        """What server, worker and deploying said."""
        return self.folder / "log"

    def das(self, *words: object, first: str = "") -> tuple[int, str]:
        """A `das` command under this server: its exit code and output."""
        process = das_process(*words, first=first, environment=self.environment)
        result, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, result

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Ask the server's API, again while it says that its database is busy."""
        busy = httpx.codes.SERVICE_UNAVAILABLE
        while (answer := httpx.request(method, f"{self.api}/{path}", json=body, timeout=PATIENCE)).status_code == busy:
            time.sleep(0.2)
        return answer.raise_for_status()

    def post(self, path: str, body: Any) -> Any:
        """What the server's API answers to this."""
        return self.ask("POST", path, body).json()

    def get(self, path: str) -> Any:
        """What the server's API has at a path."""
        return self.ask("GET", path).json()

    def stored(self) -> str:
        """All that the server's database holds."""
        if DATABASE:
            dump = ["pg_dump", DATABASE.replace("+asyncpg", "")]
            return subprocess.run(dump, capture_output=True, text=True, check=True).stdout
        with closing(sqlite3.connect(f"file:{self.folder}/prefect/prefect.db?mode=ro", uri=True)) as database:
            return "\n".join(database.iterdump())

    def deployments(self) -> dict[str, str]:
        """Ids of the deployments of the Detailed DHC-A by name."""
        return {name: self.deployment(f"detailed-dhca-{name}") for name in PERSONS}

    def deployment(self, name: str) -> str:
        """The id of a deployment."""
        (found,) = self.post("deployments/filter", {"deployments": {"name": {"any_": [name]}}})
        return str(found["id"])


@pytest.fixture(scope="module")
def office(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """`prefect server start`, `work-pool create`, `deploy --all`, `worker start`, on real data with an open account.

    Besides their own schedule, once a year, both deployments get one that starts a run in some seconds, as deployed: it
    waits for approval.
    """
    folder = tmp_path_factory.mktemp("office")
    real_data(example, folder)
    fill(folder / "data/person-records.txt")
    ledger = open_account(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_LOGGING_LEVEL": "DEBUG",  # the worst that a log may hold
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",  # and the worst that may be stored
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",  # it enters tasks after the run's own end
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "3",
        "DAS_HOME": str(ROOT),
        "DAS_PARAMS": str(folder / "params"),
        **{f"DAS_INPUT_{name}": str(folder / "data") for name in ("US", "PR")},
        **{f"DAS_TDA_INPUT_{name}": str(folder / "top-down") for name in ("US", "PR")},
        **{f"DAS_BOTTOM_UP_{name}": "1" for name in ("TABLE", "DECLARATION", "EPSILON")},
        **{f"DAS_DECLARED_{name}": "1" for name in ("DATA", "DECLARATION")},
        "DAS_OUT": str(folder / "out"),
        "DAS_ACCOUNT": ACCOUNT,
        "DAS_RUNS_FOLDER": str(folder),
        "DAS_MEMORY": "auto",
    }
    if DATABASE:
        environment["PREFECT_API_DATABASE_CONNECTION_URL"] = DATABASE
    office = Office(folder, environment["PREFECT_API_URL"], environment, ledger)
    prefect = [str(Path(sys.executable).with_name("prefect")), "--no-prompt"]
    with ExitStack() as stack:
        log = stack.enter_context(open(office.log, "wb"))
        loud = environment | {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "DEBUG"}
        result: dict[str, Any] = {"env": loud, "cwd": ROOT, "stdout": log, "stderr": subprocess.STDOUT}

        def start(*words: str) -> None:
            process = subprocess.Popen([*prefect, *words], start_new_session=True, **result)
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)

        def done(*words: str) -> None:
            """Repeats what a server on a busy machine may refuse; the log says why where it never succeeds."""
            runs = (subprocess.run([*prefect, *words], **result).returncode == 0 for _ in range(3))
            assert any(runs), office.log.read_text(errors="replace")[-5000:]

        start("server", "start", "--host", "127.0.0.1", "--port", str(port))
        wait_for(lambda: is_healthy(office.api), "the server")
        template = ("--base-job-template", "deploy/work-pool.json")
        done("work-pool", "create", "das", "--overwrite", "--type", "process", *template)
        done("deploy", "--all", "--prefect-file", "deploy/prefect.yaml")
        policy = folder / "policy.json"
        policy.write_text(json.dumps(own_policy(environment)))
        result["env"] = loud | {"DAS_POLICY": str(policy)}
        start("worker", "start", "--pool", "das")
        soon = (datetime.now(UTC) + timedelta(seconds=8)).isoformat()
        for deployment in office.deployments().values():
            schedule = [{"active": True, "schedule": {"interval": 86_400, "anchor_date": soon}}]
            office.post(f"deployments/{deployment}/schedules", schedule)
            office.post(f"deployments/{deployment}/schedule", {})  # or the server may look at it too late, in a minute
        yield office


def own_policy(environment: Mapping[str, str]) -> dict[str, Any]:
    """The policy of deploy/ for the places of an environment; approval is a caller's to ask for or not."""
    own, example = environment, json.loads((ROOT / "deploy/policy.json").read_text())
    account = {"account": own["DAS_ACCOUNT"]}
    fixed = {"runs_folder": own["DAS_RUNS_FOLDER"], "ledger": f"{own['DAS_RUNS_FOLDER']}/ledger.sqlite"}
    fixed |= {"out": f"{own['DAS_OUT']}/{{date}}/{{product}}/{{run}}", "cluster.memory_limit": own["DAS_MEMORY"]}
    del example["all"]["fixed"]["approval"]
    assert fixed.keys() == example["all"]["fixed"].keys()
    example["all"] = {"fixed": fixed, "may_set": ["approval"]}
    persons = {"fixed": account | {"params": own["DAS_PARAMS"]}, "one_of": {"data": [own["DAS_INPUT_US"]]}}
    example["detailed-dhca"] |= persons
    example["top-down"] |= {"fixed": account, "one_of": {"data": [own["DAS_TDA_INPUT_US"]]}}
    return dict(example)


def fill(persons: Path) -> None:
    """Repeat persons until each jurisdiction has the number that is looked for in every log."""
    header, *lines = persons.read_text(encoding="utf-8").splitlines(keepends=True)
    state = header.split("|").index("TABBLKST")
    jurisdictions: dict[str, list[str]] = {"us": [], "pr": []}
    for line in lines:
        jurisdictions["pr" if line.split("|")[state] == "72" else "us"].append(line)
    filled = [
        lines[number % len(lines)]
        for jurisdiction, lines in jurisdictions.items()
        for number in range(PERSONS[jurisdiction])
    ]
    persons.write_text("".join([header, *filled]), encoding="utf-8")


def is_healthy(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health").is_success
    except httpx.TransportError:
        return False


def wait_for(happens: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def scheduled(office: Office) -> dict[str, dict[str, Any]]:
    """The flow runs of both deployments that a schedule started, approved and brought to their end by the worker."""
    runs: dict[str, dict[str, Any]] = {}

    def done() -> bool:
        for name, deployment in office.deployments().items():
            came = {"any_": ["COMPLETED", "FAILED", "CRASHED", "CANCELLED", "PAUSED"]}
            filters = {"deployment_id": {"any_": [deployment]}, "state": {"type": came}}
            for run in office.post("flow_runs/filter", {"flow_runs": filters}):
                if run["state_type"] == "PAUSED":
                    assert office.ledger.row(f"{run['id']}-{name}") is None, "it is not charged before"
                    assert answered(office, run["id"], answer="approve") == "REJECT", "by nobody, for no reason"
                    assert answered(office, run["id"], **ANSWER) == "ACCEPT"
                else:
                    runs[name] = run
        return len(runs) == 2

    wait_for(done, "two scheduled runs")
    return runs


def answered(office: Office, run: str, **answer: Any) -> str:
    """Resume a run that waits for approval with an answer; returns what the server says of it."""
    return str(office.post(f"flow_runs/{run}/resume", {"run_input": answer})["status"])


@pytest.fixture(scope="module")
def failures(office: Office) -> dict[str, str]:
    """What `das run` reports of runs that fail in the worst way."""
    result = {}
    bad = office.folder / "bad"
    shutil.copytree(office.folder / "data", bad)
    persons = bad / "person-records.txt"
    header, *lines = persons.read_text().splitlines()
    for at, name, value in ((-1, "QAGE", BAD_AGE), (-2, "QRACE1", BAD_CODE)):
        person = lines[at].split("|")
        person[header.split("|").index(name)] = value
        lines[at] = "|".join(person)
    persons.write_text("\n".join([header, *lines]) + "\n")
    params = office.folder / "params-pr"
    shutil.copytree(office.folder / "params", params)
    reconfigure(params, run_us=False)
    words = ("--account", ACCOUNT, "--runs-folder", office.folder)
    code, result["invalid"] = office.das("run", params, bad, office.folder / "out-bad", *words, "--run-id", "invalid")
    assert code == 1, result["invalid"]
    leak = (
        "import flows.detailed_dhca as f\n"
        f"def leak(run, **_): raise ValueError({ALARM!r} + (run / 'secret').read_bytes().hex())\n"
        "f.equate_coterminous = leak"
    )
    run_id = ("--run-id", "leak")
    data = office.folder / "data"
    code, result["stage"] = office.das("run", params, data, office.folder / "out-leak", *words, *run_id, first=leak)
    assert code == 3, result["stage"]
    assert "das run --resume leak-pr" in result["stage"]
    return result


def confidential(office: Office) -> dict[str, str]:
    """Words that must not occur anywhere, by what they are; each a regular expression."""
    rows = office.ledger.rows(ACCOUNT)
    secret = (office.folder / "runs/leak-pr" / SECRET).read_bytes()
    persons = file_digest(office.folder / "data/person-records.txt")
    return {
        "a bad age": BAD_AGE,
        "a bad code": BAD_CODE,
        "an exception's text": ALARM,
        "a secret in hex": secret.hex(),
        "a secret in base64": re.escape(b64encode(secret).decode()),
        "a secret's representation": re.escape(repr(secret)[2:-1]),
        "the digest of the persons": persons,
        **{f"the input digest of {row.run}": row.input_digest for row in rows},
        **{f"the secret digest of {row.run}": row.secret_digest for row in rows},
    }


def counts() -> dict[str, str]:
    """Exact numbers of persons, as words of their own."""
    spelled = {jurisdiction: f"{number:,}".replace(",", "[,_]?") for jurisdiction, number in PERSONS.items()}
    return {f"persons of {jurisdiction}": rf"(?<![\w.-]){number}(?![\w.-])" for jurisdiction, number in spelled.items()}


def found(words: dict[str, str], text: str) -> list[str]:
    return [what for what, word in words.items() if re.search(word, text)]


@pytest.mark.scheduled
def test_no_person_no_count_and_no_secret_is_known_outside_the_confidential_directory(
    office: Office, failures: dict[str, str], scheduled: dict[str, dict[str, Any]]
) -> None:
    words = confidential(office)
    assert len(words) >= 7 + 2 * 3, "two scheduled runs and the one that failed after its reservation"
    stored = office.stored()
    assert "totals (Nation, Regional)" in stored, "the database was read, and it holds logs"
    assert "ValueError was raised" in stored
    assert found(words | counts(), stored) == []
    files = [path.read_bytes() for path in (office.folder / "prefect").rglob("*") if path.is_file()]
    results = [b64decode(path.read_bytes()) for path in (office.folder / "prefect/storage").glob("*")]
    assert found(words | counts(), b"\n".join(files + results).decode("latin-1")) == []
    result = [str(artifact["data"]) for artifact in office.post("artifacts/filter", {"limit": 200})]
    assert any("digest of manifest.json" in each for each in result), "the artifacts are among what was read"
    assert found(words | counts(), "\n".join(result)) == []
    log = office.log.read_text()
    assert "released: " in log
    assert found(words | counts(), log) == []
    for result in failures.values():
        assert found(words, result) == []
        assert "Traceback" not in result
    reports = [path.read_text() for path in (office.folder / "runs").rglob("*") if path.suffix in (".json", ".txt")]
    assert any(BAD_AGE in report for report in reports), "the curator's report has it"
    assert any(ALARM in report for report in reports), "the curator's copy of the exception has it"


@pytest.mark.scheduled
def test_scheduled_runs_of_both_deployments_complete(office: Office, scheduled: dict[str, dict[str, Any]]) -> None:
    assert {name: run["state_type"] for name, run in scheduled.items()} == {"us": "COMPLETED", "pr": "COMPLETED"}
    for jurisdiction, run in scheduled.items():
        assert run["auto_scheduled"]
        own = f"{run['id']}-{jurisdiction}"
        (place,) = office.folder.glob(f"out/20??-??-??/detailed-dhca/{own}/{jurisdiction}/manifest.json")
        assert place.is_file()
        row = office.ledger.row(own)
        assert row is not None
        assert row.status == "released"
        assert row.states == {"us": ("31", "46"), "pr": ("72",)}[jurisdiction]
        (approved,) = [act for act in office.ledger.acts() if act["act"] == "approved" and act["run"] == own]
        assert (approved["by"], approved["why"]) == (ANSWER["name"], ANSWER["reason"])
        names = [state["name"] for state in reported_of(office, run["id"])]
        assert names[-6:] == ["Suspended", "Resuming", "Pending", "Submitting", "Running", "Completed"]


@pytest.mark.scheduled
def test_every_stage_of_every_level_is_a_task_run(office: Office, scheduled: dict[str, dict[str, Any]]) -> None:
    for jurisdiction, run in scheduled.items():
        levels = {
            "us": ("(Nation, Regional)", "(State, Detailed)", "(AIANNH, Detailed)"),
            "pr": ("(PR-State, Regional)", "(PR-Tract, Detailed)"),
        }[jurisdiction]
        expected = {f"{stage} {level}" for stage in ("totals", "sex by age", "suppression") for level in levels}
        once = {"validate", "population groups", "reserve budget", "coterminous", "spine", "release", "commit"}
        expected |= once
        asked = {"task_runs": {"flow_run_id": {"any_": [run["id"]]}}, "limit": 200}
        until = time.monotonic() + 60  # the server enters tasks after the run that they belong to
        while True:
            found = office.post("task_runs/filter", asked)
            if expected <= {task["name"] for task in found if task["state_type"] == "COMPLETED"}:
                break
            assert time.monotonic() < until, sorted(expected - {task["name"] for task in found})
            time.sleep(0.5)
        assert {task["state_type"] for task in found} == {"COMPLETED"}


def flow_runs_of(office: Office, run: str) -> list[dict[str, Any]]:
    """The flow runs of a run, the latest first, and that no task of theirs is left open."""
    tagged = {"flow_runs": {"tags": {"all_": [f"run:{run}"]}}, "sort": "START_TIME_DESC"}
    runs: list[dict[str, Any]] = office.post("flow_runs/filter", tagged)

    def left() -> list[str]:
        of_them = {"flow_run_id": {"any_": [each["id"] for each in runs]}}
        still = {"state": {"type": {"any_": ["PENDING", "RUNNING", "SCHEDULED"]}}}
        return [task["name"] for task in office.post("task_runs/filter", {"task_runs": of_them | still})]

    wait_for(lambda: not left(), "tasks to be closed")
    return runs


@pytest.mark.scheduled
def test_the_server_says_how_a_run_ended(
    office: Office, failures: dict[str, str], scheduled: dict[str, dict[str, Any]]
) -> None:
    (invalid,), (stopped,) = flow_runs_of(office, "invalid-pr"), flow_runs_of(office, "leak-pr")
    assert (invalid["state_type"], invalid["state_name"]) == ("FAILED", "Refused")
    assert invalid["state"]["message"].startswith("refused: the input does not pass validation; the findings")
    assert (stopped["state_type"], stopped["state_name"]) == ("FAILED", "Failed")
    charged = f"was charged to account {ACCOUNT}; Retry continues with the same noise"
    assert charged in stopped["state"]["message"]
    assert "charged" in stopped["tags"]
    for jurisdiction, run in scheduled.items():
        (ended,) = flow_runs_of(office, f"{run['id']}-{jurisdiction}")
        assert {"charged", "resumed"} <= set(ended["tags"])
        assert re.fullmatch(rf"{jurisdiction.upper()} \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", ended["name"])


def test_a_killed_run_is_closed_by_the_one_that_takes_it_up(office: Office, tmp_path: Path) -> None:
    """Nobody but the operating system ends it, and only a `das run --resume` hears of it."""
    hang = (
        "import flows.detailed_dhca as f, time\n"
        f"def hang(run, **_): open({str(tmp_path / 'there')!r}, 'w'); time.sleep(600)\n"
        "f.equate_coterminous = hang"
    )
    words = ("--account", ACCOUNT, "--runs-folder", office.folder, "--run-id", "killed", "--no-spine")
    params, data, out = office.folder / "params-pr", office.folder / "data", tmp_path / "out"
    if not params.exists():
        shutil.copytree(office.folder / "params", params)
        reconfigure(params, run_us=False)
    process = das_process("run", params, data, out, *words, first=hang, environment=office.environment)
    wait_for((tmp_path / "there").exists, "the run to hang")
    process.kill()
    process.communicate()
    code, result = office.das("run", "--resume", "killed-pr", "--runs-folder", office.folder)
    assert code == 0, result
    last, first = flow_runs_of(office, "killed-pr")
    assert (first["state_type"], last["state_type"]) == ("CRASHED", "COMPLETED")
    assert first["state"]["message"] == f"its process ended; the run continues as {last['name']}"
    assert "resumed" in last["tags"]
    assert [row.status for row in office.ledger.rows(ACCOUNT) if row.run == "killed-pr"] == ["released"]


def state_of(office: Office, run: str) -> str:
    return str(office.get(f"flow_runs/{run}")["state_name"])


def started(office: Office, deployment: str, *tags: str, enforced: bool = True, **changes: Any) -> str:
    """Start a run of a deployment, with some settings changed; returns the id of its flow run.

    A caller may ask the server not to compare them with the deployment's form.
    """
    own = office.deployment(deployment)
    settings = office.get(f"deployments/{own}")["parameters"]["settings"]
    changed = {"parameters": {"settings": settings | changes}, "state": {"type": "SCHEDULED"}, "tags": list(tags)}
    asked = changed | {"enforce_parameter_schema": enforced}
    return str(office.post(f"deployments/{own}/create_flow_run", asked)["id"])


def process_of(run: str) -> psutil.Process | None:
    """The process that Prefect's worker has started for a flow run, or for its hook."""

    def is_of_run(process: psutil.Process | None) -> bool:
        return process is not None and process.environ().get("PREFECT__FLOW_RUN_ID") == run

    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if is_of_run(process) and not is_of_run(process.parent()):
                return process
    return None


def reported_of(office: Office, run: str) -> list[dict[str, Any]]:
    """The states of a flow run, the first first."""
    asked = httpx.get(f"{office.api}/flow_run_states/", params={"flow_run_id": run}).raise_for_status()
    return sorted(asked.json(), key=lambda state: str(state["timestamp"]))


@pytest.mark.slow
def test_no_crash_is_told_of_a_retry_that_goes_on(office: Office, scheduled: dict[str, dict[str, Any]]) -> None:
    """A Retry as soon as the crash is seen, while Prefect's worker still starts the hook; another run is cancelled."""
    run = started(office, "detailed-dhca-pr", approval=False)
    wait_for(lambda: state_of(office, run) == "Running", "the first try")
    process = process_of(run)
    assert process is not None
    other = started(office, "detailed-dhca-pr", approval=False)
    wait_for(lambda: state_of(office, other) == "Cancelled", "another run of the deployment")
    process.kill()
    retries = 0
    while (state := state_of(office, run)) != "Completed":
        if state == "Crashed" and (retries == 0 or process_of(run) is None):
            retries += 1
            retry = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}
            office.post(f"flow_runs/{run}/set_state", retry)
        assert state != "Failed"
        assert retries <= 2, "Prefect's worker tells of a crash a second time, once the hook is done"
        time.sleep(0.05)
    states = reported_of(office, run)
    names = [each["name"] for each in states]
    final = [names[at + 1] for at, each in enumerate(states) if "Retry continues" in str(each["message"])]
    assert set(final) <= {"AwaitingRetry"}, names
    row = office.ledger.row(f"{run}-pr")
    assert row is not None
    assert row.status == "released"
    flow_runs_of(office, f"{run}-pr")


class Messages(BaseHTTPRequestHandler):
    """Where the automations' messages go."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cast("Any", self.server).messages.append(body["text"])
        self.send_response(200)
        self.end_headers()


@pytest.fixture(scope="module")
def messages(office: Office, scheduled: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """What the automations of deploy/ tell from now on; the schedules that they would stop have had their run."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Messages) as server:
        result: list[str] = []
        cast("Any", server).messages = result
        Thread(target=server.serve_forever, daemon=True).start()
        environment = office.environment | {"DAS_NOTIFY_URL": f"http://127.0.0.1:{server.server_port}"}
        subprocess.run([sys.executable, "deploy/automations.py"], check=True, cwd=ROOT, env=environment)
        yield result
        server.shutdown()


@pytest.mark.slow
def test_a_schedule_that_is_refused_stops_and_the_policy_of_the_worker_refuses(
    office: Office, messages: list[str]
) -> None:
    started(office, "detailed-dhca-us", BY_SCHEDULE, account="mine")
    own = office.deployments()["us"]
    wait_for(lambda: office.get(f"deployments/{own}")["paused"], "the schedule to be paused")
    refused = f"account is 'mine', and the policy of this worker fixes it at '{ACCOUNT}': leave it out"
    wait_for(lambda: any("Refused" in text and refused in text for text in messages), "the message")
    waiting = {"deployment_id": {"any_": [own]}, "state": {"type": {"any_": ["SCHEDULED"]}}}
    assert office.post("flow_runs/filter", {"flow_runs": waiting}) == []


class Trap:
    """What runs a command when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.sprung}",)


@pytest.mark.slow
def test_a_worker_takes_neither_folder_nor_run_from_a_caller(office: Office, tmp_path: Path) -> None:
    """A caller plants a run directory, with settings of its own and pickles, and names it past the server's form."""
    planted, sprung = tmp_path / "runs/planted", tmp_path / "sprung"
    (planted / "prepared").mkdir(parents=True)
    settings = office.get(f"deployments/{office.deployment('pr')}")["parameters"]["settings"]
    (planted / "settings.json").write_text(json.dumps(settings | {"runs_folder": str(tmp_path), "run_id": "planted"}))
    for name in ("validated", "plan", "tabulated"):
        (planted / "prepared" / name).write_bytes(pickle.dumps(Trap(sprung)))
    before = {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in [tmp_path, *tmp_path.rglob("*")]}
    rows = office.ledger.rows(ACCOUNT)
    attacks: list[dict[str, Any]] = [
        *({name: str(planted)} for name in ("beside", "run_id", "runs_folder", "out", "data", "params")),
        {"run_id": "planted", "runs_folder": str(tmp_path)},
        {"run_id": f"../../{tmp_path}/runs/planted"},
        {"ledger": str(tmp_path / "ledger.sqlite")},
        {"sign": str(planted / "settings.json")},
        {"cluster": {"scheduler": "tcp://127.0.0.1:1", "tls_key": str(planted / "settings.json")}},
    ]
    for attack in attacks:  # one after another: a deployment has one run at a time
        run = started(office, "detailed-dhca-pr", enforced=False, approval=False, **attack)
        wait_for(lambda run=run: state_of(office, run) in ("Failed", "Refused"), f"the refusal of {attack}")
    assert not sprung.exists()
    assert before == {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in [tmp_path, *tmp_path.rglob("*")]}
    assert office.ledger.rows(ACCOUNT) == rows


@pytest.mark.slow
def test_a_scheduled_run_that_is_late_is_cancelled(office: Office, messages: list[str]) -> None:
    """While its work pool is paused, as in an outage; nothing begins when it is over."""
    office.ask("PATCH", "work_pools/das", {"is_paused": True})
    run = started(office, "detailed-dhca-pr", BY_SCHEDULE)
    wait_for(lambda: state_of(office, run) == "Cancelled", "the late run")
    office.ask("PATCH", "work_pools/das", {"is_paused": False})
    assert [state["name"] for state in reported_of(office, run)][:2] == ["Scheduled", "Late"]
    assert office.ledger.row(f"{run}-pr") is None
    wait_for(lambda: any("Late" in text for text in messages), "the message")


def question_of(office: Office, run: str) -> str:
    """The question of a run that waits for approval."""
    keys = office.get(f"flow_runs/{run}")["state"]["state_details"]["run_input_keyset"]
    return str(office.get(f"flow_runs/{run}/input/{keys['description']}"))


@pytest.mark.slow
def test_somebody_is_told_of_a_run_that_waits_and_what_the_form_shows(office: Office, messages: list[str]) -> None:
    run = started(office, "detailed-dhca-pr")
    wait_for(lambda: state_of(office, run) == "Suspended", "the question")
    wait_for(lambda: any("waits for a person" in text and f"/runs/flow-run/{run}" in text for text in messages), "it")
    asked = question_of(office, run)
    spent = sum((row.amount for row in office.ledger.rows(ACCOUNT) if "72" in row.states), Fraction(0))
    for words in (
        "charge to each state: rho 2, not refunded",
        "a person added or removed: rho 2, epsilon 14.871 at delta 1e-10",
        "a person replaced: rho 4, epsilon 22.329 at delta 1e-10; an attacker who knows all else is right in at most",
        f"data: {office.folder}/data, pr",
        "states: 72",
        f"account {ACCOUNT}: of rho 1000 state 72, charged most, has {1000 - spent} left, and {998 - spent} after",
    ):
        assert words in asked
    assert found(counts(), asked) == []
    assert f"asks rho 2 of account {ACCOUNT}" in office.get(f"flow_runs/{run}")["tags"]
    assert f"s approval of rho 2 of account {ACCOUNT}" in office.stored()  # a dump doubles the apostrophe before it
    code, said = office.das("run", "--resume", f"{run}-pr", "--runs-folder", office.folder)
    assert code == 1
    assert "asks for a person's approval: Resume or Retry its flow run in Prefect's UI" in " ".join(said.split())
    for unclear in ({}, {"answer": True}, {"answer": "maybe"}):
        given = {name: ANSWER[name] for name in ("name", "reason")} | unclear
        assert answered(office, run, **given) == "REJECT", "the choice is required"
    assert answered(office, run, **ANSWER | {"answer": "refuse", "reason": "another day"}) == "ACCEPT"
    wait_for(lambda: state_of(office, run) == "Refused", "the answer")
    last = office.get(f"flow_runs/{run}")["state"]["message"]
    assert last == "refused: the charge was not approved by A. Person: another day"
    assert not [tag for tag in office.get(f"flow_runs/{run}")["tags"] if tag.startswith("asks ")], "it is answered"
    assert "exited with unexpected exception" not in office.log.read_text()
    again = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}
    office.post(f"flow_runs/{run}/set_state", again)  # a Retry asks again, and the answer before is no answer
    wait_for(lambda: state_of(office, run) == "Suspended", "the second question")
    office.post(f"flow_runs/{run}/set_state", {"state": {"type": "SCHEDULED", "name": "Resuming"}})
    wait_for(lambda: state_of(office, run) == "Refused", "no answer")
    assert "was resumed without an answer" in office.get(f"flow_runs/{run}")["state"]["message"]
    assert office.ledger.row(f"{run}-pr") is None


@pytest.mark.slow
def test_the_approval_of_a_topdown_run_shows_the_relations_that_it_covers(office: Office) -> None:
    """One record of each product replaced within its state: of a person who comes or goes nothing is promised."""
    data = country(office.folder / "made", ("23",)).rename(office.folder / "top-down")
    (data / MARK_FILE).unlink()
    run = started(office, "top-down-us")
    before = ("Scheduled", "Pending", "Submitting", "Running")
    wait_for(lambda: state_of(office, run) not in before, "the question")
    assert state_of(office, run) == "Suspended", office.get(f"flow_runs/{run}")["state"]["message"]
    asked = question_of(office, run)
    within = "within a state, declared counts unchanged"
    for words in (
        "charge to each state: rho 2.56595, not refunded",
        f"* a person and a housing unit replaced, each {within}: rho 2.56595, epsilon 17.182 at delta 1e-10",
        f"* a person replaced {within}: rho 2.49137, epsilon 16.889 at delta 1e-10",
        f"* a housing unit replaced {within}: rho 0.0745781, epsilon 2.469 at delta 1e-10",
        "* a person or a housing unit added or removed: not covered",
        "* a person or a housing unit replaced by one of another state: not covered",
        "* unit of privacy: a person",
        "* states: 23",
    ):
        assert words in asked
    assert "a person added or removed" not in asked
    assert "a person replaced:" not in asked
    assert asked.count("rho") - asked.count("of rho") == 4, "and nothing is doubled"
    assert answered(office, run, **ANSWER | {"answer": "refuse"}) == "ACCEPT"
    wait_for(lambda: state_of(office, run) == "Refused", "the answer")
    assert office.ledger.row(f"{run}-us") is None


# On a scheduler with TLS. What the workers preload makes them fail or hang once a file says so.

PRELOAD = f"""
import os, time
from pathlib import Path
from tasks.safetab.persons import totals
def choose_details(*arguments, choose=totals.choose_details):
    mode = Path(os.environ["{PRELOAD_FILE}"]).read_text()
    if mode == "leak":
        raise ValueError({ALARM!r})
    while mode == "hang":
        time.sleep(1)
    choose(*arguments)
totals.choose_details = choose_details
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers with TLS."""
    folder = tmp_path_factory.mktemp("tls") / "cluster"
    folder.mkdir()
    (folder / "preload.py").write_text(PRELOAD)
    with tls_cluster(folder, preload=folder / "preload.py") as cluster:
        yield cluster


def words_of(settings: DetailedDhcaSettings, run_id: str) -> tuple[str, ...]:
    """A run from the beginning, as a person types it."""
    places = ("run", settings.params, settings.data, settings.out, "--runs-folder", settings.runs_folder)
    return (*places, "--run-id", run_id, "--no-spine")


def test_a_cluster_with_tls_gives_the_same_bytes_and_keeps_secrets_too(
    example: Path, tmp_path: Path, office: Office, cluster: Cluster
) -> None:
    settings, expected = prepared(example, tmp_path, "tls-pr")
    cluster.note.write_text("leak")
    code, result = office.das(*words_of(settings, "tls"), *cluster.options)
    assert code == 3, result
    assert ALARM not in result + cluster.log.read_text() + office.log.read_text()
    errors = directory(settings) / "errors"
    assert any(ALARM in path.read_text() for path in errors.iterdir())
    cluster.note.write_text("")
    code, result = office.das("run", "--resume", "tls-pr", "--runs-folder", settings.runs_folder)
    assert code == 0, result
    assert digest(Path(settings.out) / "pr") == expected
    assert bytes(range(32)).hex() not in cluster.log.read_text()


def test_a_run_whose_cluster_dies_goes_on_elsewhere(
    example: Path, tmp_path: Path, office: Office, cluster: Cluster
) -> None:
    settings, expected = prepared(example, tmp_path, "dies-pr")
    cluster.note.write_text("hang")
    impatient = "import flows.execution.cluster as c\nc.QUIET['distributed.comm.timeouts.connect'] = '2s'"
    words = (*words_of(settings, "dies"), *cluster.options)
    process = das_process(*words, first=impatient, environment=office.environment)
    wait_for((directory(settings) / "authorization").exists, "the first draw")
    cluster.scheduler.kill()
    result, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, result
    assert "the workers did not return all pieces" in result
    assert "das run --resume dies-pr" in result
    assert "Traceback" not in result
    code, result = office.das("run", "--resume", "dies-pr", "--runs-folder", settings.runs_folder, "--workers", "2")
    assert code == 0, result
    assert digest(Path(settings.out) / "pr") == expected
