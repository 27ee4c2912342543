"""Whatever goes wrong around a run, the ledger and OUT have the last word on whether it is charged and released."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from e2e_runs import ACCOUNT, FEW_LEVELS, das, das_process, open_account, real_data, reconfigure
from httpx import ConnectError
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags

pytestmark = pytest.mark.e2e
KILL = """
import os, psutil, time
from urllib.parse import urlsplit
import flows.detailed_dhca as stages, flows.execution.prefect_server as server
import flows.execution.runner as runner, flows.execution.safetab as safetab
server.CLIENT["PREFECT_CLIENT_MAX_RETRIES"] = "0"  # or Prefect asks the dead server for half a minute
def kill():
    from prefect.settings import get_current_settings
    port = urlsplit(get_current_settings().api.url).port
    listening = [each for each in psutil.net_connections("tcp") if each.status == "LISTEN" and each.laddr.port == port]
    for process in {{each.pid for each in listening}} - {{os.getpid(), None}}:
        print("the server is killed")
        os.kill(process, 9)
    time.sleep(0.2)
def hit(*arguments, whole={place}, **named):
    if {after}:
        result = whole(*arguments, **named)
    kill()
    return result if {after} else whole(*arguments, **named)
{place} = hit
"""
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("place", "after"),
    [
        pytest.param("safetab.count_population_groups", False, id="before the charge", marks=slow),
        pytest.param("stages.measure_sex_by_age", False, id="noise", marks=slow),
        pytest.param("runner.commit", True, id="after the commit"),
    ],
)
def test_a_run_is_released_though_the_temporary_server_is_killed(
    example: Path, tmp_path: Path, place: str, after: bool
) -> None:
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False, **FEW_LEVELS)
    ledger = open_account(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect")}
    words = (tmp_path / "params", tmp_path / "data", tmp_path / "out", "--account", ACCOUNT, "--run-id", "a")
    where = ("--ledger", ledger.path, "--state", tmp_path / "state", "--workers", 1, "--no-spine")
    process = das_process("run", *words, *where, first=KILL.format(place=place, after=after), environment=environment)
    result, _ = process.communicate(timeout=240)
    assert process.returncode == 0, result
    assert "PR released (run a-pr)" in result
    assert "warning: run a-pr is released; after that, " in result
    assert "the server is killed" in result
    assert "Traceback" not in result
    assert [row.status for row in ledger.rows(ACCOUNT)] == ["released"]
    assert (tmp_path / "out/pr/manifest.json").is_file()
    assert not list((tmp_path / "state/runs").glob("a-*"))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in which the path of a socket is not too long."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    "place", [pytest.param("safetab.count_population_groups", marks=slow), "stages.measure_sex_by_age"]
)
def test_a_run_that_is_stopped_leaves_nothing_in_the_temporary_folder(
    example: Path, tmp_path: Path, short_folder: Path, place: str
) -> None:
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False, **FEW_LEVELS)
    ledger = open_account(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "TMPDIR": str(short_folder)}
    words = (tmp_path / "params", tmp_path / "data", tmp_path / "out", "--account", ACCOUNT, "--run-id", "a")
    where = ("--ledger", ledger.path, "--state", tmp_path / "state", "--workers", 1, "--no-spine")
    stops = (
        "import os, signal, time, flows.detailed_dhca as stages, flows.execution.safetab as safetab\n"
        f"{place} = lambda *_, **__: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(600))\n"
    )
    process = das_process("run", *words, *where, first=stops, environment=environment)
    result, _ = process.communicate(timeout=240)
    assert process.returncode == 3, result
    assert "stopped: interrupted" in result
    assert [*short_folder.iterdir()] == []


def test_what_the_server_missed_of_a_charge_is_made_good_at_the_end(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_cluster: None, prefect_server: None
) -> None:
    """The server is away from the beginning of a run until its commit; the next run stops after its charge."""
    from flows.execution import artifacts, runner, states

    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False, **FEW_LEVELS)
    ledger = open_account(tmp_path)
    back: list[bool] = []

    def client(**options: Any) -> Any:
        if not back:
            raise ConnectError("the server is away")
        return get_client(**options)

    def commit(*arguments: Any, whole: Any = runner.commit, **named: Any) -> Any:
        back.append(True)
        return whole(*arguments, **named)

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError

    monkeypatch.setattr(artifacts, "get_client", client)
    monkeypatch.setattr(states, "get_client", client)
    monkeypatch.setattr(runner, "commit", commit)
    words = ("--account", ACCOUNT, "--ledger", ledger.path, "--state", tmp_path / "state", "--no-spine", "--run-id")
    inputs = (tmp_path / "params", tmp_path / "data")
    assert das("run", *inputs, tmp_path / "out", *words, "missed-a") == 0
    tags, message, budget = reported_of("missed-a-pr")
    assert {"run:missed-a-pr", "charged"} <= tags
    assert ACCOUNT in budget
    monkeypatch.setattr("flows.detailed_dhca.equate_coterminous", fail)
    assert das("run", *inputs, tmp_path / "out-b", *words, "missed-b") == 3
    tags, message, budget = reported_of("missed-b-pr")
    (_, row) = ledger.rows(ACCOUNT)
    assert f"; rho {float(row.amount):g} was charged to account {ACCOUNT}; Retry continues" in message


def reported_of(run: str) -> tuple[set[str], str, str]:
    """The tags, the message and the budget table of a run's flow run, by its tag."""
    tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[f"run:{run}"]))
    with get_client(sync_client=True) as client:
        (flow_run,) = client.read_flow_runs(flow_run_filter=tagged)
        artifacts = client.read_artifacts(flow_run_filter=tagged)
    (budget,) = [str(artifact.data) for artifact in artifacts if str(artifact.key).endswith("budget")]
    return set(flow_run.tags), str(flow_run.state and flow_run.state.message), budget
