"""A run on two hosts, TLS between them: the bytes of its secret, made on both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e_runs import digest, prepared
from two_hosts import LOOPBACK, Cluster, Host, NoNamespacesError, namespaces, tls_cluster

from flows.execution.settings import keep_settings

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PIECE_LOG = Path(__file__).with_name("piece_log.py")  # not in tests/, whose folders hide tasks and privacy from Dask
PATIENCE = 240  # seconds until a test gives up; nothing depends on it


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two network namespaces with a cable between them; two addresses of this machine where those cannot be made."""
    with ExitStack() as stack:
        try:
            addresses = stack.enter_context(namespaces())
        except NoNamespacesError:
            addresses = LOOPBACK
        yield addresses


@pytest.fixture
def cluster(hosts: tuple[Host, Host], tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and a worker on the first host, a worker on the second."""
    (tmp_path / "cluster").mkdir()
    with tls_cluster(tmp_path / "cluster", PIECE_LOG, hosts) as files:
        yield files


def test_a_run_gives_the_bytes_of_its_secret(
    example: Path, tmp_path: Path, hosts: tuple[Host, Host], cluster: Cluster
) -> None:
    settings, expected = prepared(example, tmp_path, "run-pr")
    keep_settings(settings.directory, settings.model_copy(update={"blocks_each": 1}))
    words = ["--resume", str(settings.run_id), "--runs-folder", settings.runs_folder]
    das = [*hosts[0].enter, str(Path(sys.executable).with_name("das")), "run", *words]
    environment = os.environ | {
        "PREFECT_HOME": str(tmp_path.parent / "prefect")
    }  # with a server of its own, on its host
    done = subprocess.run([*das, *cluster.options], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert digest(Path(settings.out) / "pr") == expected
    ran = [json.loads(line) for line in cluster.note.read_text().splitlines()]
    assert {piece["host"] for piece in ran if piece["stage"] == "population groups"} == {host.address for host in hosts}
    here = os.readlink("/proc/self/ns/net")
    networks = {piece["network"] for piece in ran}
    assert networks == {here} if hosts == LOOPBACK else len(networks - {here}) == 2
