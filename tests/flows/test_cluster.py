"""How many workers a memory limit allows for, and who reaches their scheduler."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from dhca_faults import good_inputs
from distributed import LocalCluster
from distributed.utils import get_ip

from flows.execution.cluster import COORDINATOR, WORKER, ClusterSettings, fit, open_cluster
from tasks.errors import Refused
from tests.flows.conftest import Refuse

GIB = 2**30


@pytest.mark.parametrize(
    ("limit", "wanted", "workers"), [("1GiB", 4, 1), ("3GiB", 4, 1), ("4GiB", 4, 2), ("6GiB", 4, 4), ("64GiB", 4, 4)]
)
def test_less_memory_means_fewer_workers(limit: str, wanted: int, workers: int) -> None:
    fitting, each = fit(ClusterSettings(memory_limit=limit, workers=wanted))
    assert fitting == workers
    assert each >= WORKER
    if fitting * each + COORDINATOR > int(limit.removesuffix("GiB")) * GIB:
        assert fitting == 1  # the least that runs at all


def test_workers_with_threads_hold_a_piece_each() -> None:
    assert fit(ClusterSettings(memory_limit="6GiB", workers=4, threads_per_worker=2)) == (2, 2 * GIB)


@pytest.mark.parametrize(("limit", "said"), [("much", "not a size"), ("2GiB", "is too small.*3.00 GiB")])
def test_a_limit_that_cannot_be_kept_is_refused(tmp_path: Path, limit: str, said: str) -> None:
    with pytest.raises(Refused, match=said), open_cluster(ClusterSettings(memory_limit=limit), tmp_path):
        pass


def test_a_limit_that_could_not_be_kept_is_refused_before_a_run_is_made(
    tmp_path: Path, refused: Refuse, state_home: Path
) -> None:
    for command in ("run", "truth"):
        words = (*good_inputs().write(tmp_path), tmp_path / "out", "--memory-limit", "6")
        refused("needs 3.00 GiB", command, *words)
    assert not state_home.exists()


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.evil.com:8786",
        "tcp://localhost.evil.com:8786",
        "tcp://127.0.0.1.evil.com",
        "tcp://10.0.0.1:8786",
        "tcp://[::2]:8786",
        "scheduler:8786",
        "ws://127.0.0.1:8786",
    ],
)
def test_a_scheduler_that_others_reach_is_refused_without_tls(tmp_path: Path, address: str) -> None:
    with pytest.raises(Refused, match="use tls://"), open_cluster(ClusterSettings(scheduler=address), tmp_path):
        pass


@pytest.fixture
def network() -> str:
    """This machine's address on a network."""
    address: str = get_ip()
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


def of_a_class(address: str, **tls: str) -> ClusterSettings:
    options = {"host": address, "n_workers": 1, "dashboard_address": "127.0.0.1:0"}  # None is the port that others take
    return ClusterSettings(cluster_class="distributed:LocalCluster", cluster_options=options, **tls)


@pytest.mark.e2e
def test_a_cluster_class_without_tls_is_refused_on_a_network(tmp_path: Path, network: str) -> None:
    with pytest.raises(Refused, match="without TLS"), open_cluster(of_a_class(network), tmp_path):
        pass
    with open_cluster(of_a_class("127.0.0.1"), tmp_path) as client:
        assert client.scheduler.address.startswith("tcp://127.")


@pytest.mark.e2e
def test_a_cluster_class_gets_the_certificates(tmp_path: Path, network: str) -> None:
    """Those that the three lines of deploy/README.md make."""
    readme = (Path(__file__).resolve().parents[2] / "deploy/README.md").read_text()
    lines = [line for line in readme.splitlines() if line.startswith("openssl ")]
    assert len(lines) == 3
    for line in lines:
        subprocess.run(shlex.split(line), cwd=tmp_path, check=True, capture_output=True)
    tls = {f"tls_{name}": str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    with open_cluster(of_a_class(network, **tls), tmp_path) as client:
        assert client.scheduler.address.startswith(f"tls://{network}:")
        assert client.submit(sum, (1, 2)).result() == 3


class SlowToStop(LocalCluster):
    """A cluster that does not stop in time."""

    def close(self, timeout: float | None = None) -> Any:
        if timeout is None:  # its own way out
            return super().close()
        super().close()
        raise TimeoutError("timed out after 10 s.")


@pytest.mark.e2e
def test_a_cluster_that_does_not_stop_in_time_changes_nothing_of_what_was_done(tmp_path: Path) -> None:
    here = {"n_workers": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    settings = ClusterSettings(cluster_class=f"{__name__}:SlowToStop", cluster_options=here)
    with open_cluster(settings, tmp_path) as client:
        assert client.submit(sum, (1, 2)).result() == 3


BUSY = """
import sys, threading, time
from pathlib import Path
from flows.execution.cluster import ClusterSettings, open_cluster
def work(place):
    import os
    Path(place).write_text(str(os.getpid()))
    sum(range(10**11))  # minutes, in which no other thread of the worker runs
with open_cluster(ClusterSettings(workers=1), Path(sys.argv[1])) as client:
    client.submit(work, sys.argv[2]).result()
"""


@pytest.mark.e2e
def test_a_busy_worker_ends_when_its_run_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "worker"
    run = subprocess.Popen([sys.executable, "-c", BUSY, tmp_path / "dask", place], start_new_session=True)
    try:
        until(lambda: place.exists() and place.read_text())
        worker = psutil.Process(int(place.read_text()))
        run.kill()
        run.wait()
        until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)


def until(found: Callable[[], object]) -> None:
    """Wait for it, a minute at most."""
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        time.sleep(0.05)
