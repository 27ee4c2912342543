"""What a command starts ahead and shares: Prefect's temporary server, the fork server, one cluster for its runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flows.commands.run import STAGES
from flows.execution import prefect_server
from flows.execution.cluster import ClusterSettings, OneCluster, open_cluster
from flows.execution.prefect_server import TemporaryServer, start_server, use_server

ONE_WORKER = ClusterSettings(workers=1)


def test_the_fork_server_has_imported_the_stages_and_has_no_thread_but_its_own() -> None:
    """In a process of its own: here another test may have started it with other modules."""
    program = (
        "import multiprocessing, os\n"
        "from multiprocessing import forkserver\n"
        "from flows.commands.run import STAGES\n"
        "from flows.execution.fork_server import METHOD, start_fork_server\n"
        "start_fork_server(*STAGES)\n"
        "with multiprocessing.get_context(METHOD).Pool(1) as pool:\n"
        "    print(*pool.apply(eval, (\"sorted(__import__('sys').modules)\",)))\n"
        "print(len(os.listdir(f'/proc/{forkserver._forkserver._forkserver_pid}/task')))\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules, threads = told.stdout.splitlines()
    assert {*STAGES, "distributed.nanny", "pyarrow"} <= set(modules.split())
    assert "prefect" not in modules.split()
    assert int(threads) == 1, "a process with threads must not be forked"


def test_a_temporary_server_ends_with_a_command_that_is_killed() -> None:
    program = (
        "import time\n"
        "from flows.execution.prefect_server import TemporaryServer\n"
        "server = TemporaryServer()\n"
        "server.wait()\n"
        "print(server._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout
        server = psutil.Process(int(command.stdout.readline()))
        assert server.is_running()
        command.send_signal(signal.SIGKILL)
    _wait_until_gone(server)


def _wait_until_gone(process: psutil.Process) -> None:
    try:
        process.wait(60)
    except psutil.TimeoutExpired:
        pytest.fail(f"{process} goes on")


def test_no_server_is_started_where_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_server, "_server", None)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    start_server()
    assert prefect_server._server is None


def test_a_server_that_prefect_is_configured_for_is_used(prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import get_current_settings

    configured = get_current_settings().api.url
    started = TemporaryServer()
    monkeypatch.setattr("flows.execution.prefect_server._server", started)
    use_server()
    assert get_current_settings().api.url == configured != started.url
    assert started._process.wait(60) is not None


def test_a_server_that_does_not_start_is_said_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.lifecycle.errors import Failed

    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "nonsense")
    with pytest.raises(Failed, match=r"Prefect server did not start: .*parse SQLAlchemy URL"):
        TemporaryServer().wait()


def test_runs_of_a_command_share_a_cluster(tmp_path: Path) -> None:
    with OneCluster(tmp_path / "dask"):
        with open_cluster(ONE_WORKER, tmp_path / "one") as first:
            pass
        with open_cluster(ONE_WORKER, tmp_path / "two") as second:
            assert second is first
        with pytest.raises(RuntimeError, match="a stage failed"), open_cluster(ONE_WORKER, tmp_path / "three"):
            raise RuntimeError("a stage failed")
        assert first.status == "closed"  # no work of the failed run goes on
        with open_cluster(ONE_WORKER, tmp_path / "four") as third:
            assert third.submit(os.getpid).result() != os.getpid()
    assert third.status == "closed"
    assert [path.name for path in tmp_path.iterdir()] in ([], ["dask"])


def test_two_regions_that_are_refused_alike_say_it_once(
    das: Callable[..., tuple[int, str, str]], example: Path, tmp_path: Path, shared_cluster: None, prefect_server: None
) -> None:
    from e2e_runs import real_data

    real_data(example, tmp_path)
    code, _, said = das("run", tmp_path / "params", tmp_path / "data", tmp_path / "out")
    assert code == 1
    assert len(said.partition("refused: ")[2].splitlines()) == 1, said
