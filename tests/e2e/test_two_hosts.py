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
import wide_inputs
from dhc_county import make, redistricting, with_units
from e2e_runs import digest, foreseen, prepared
from two_hosts import LOOPBACK, Cluster, Host, NoNamespacesError, namespaces, tls_cluster

from flows.execution.settings import RunSettings, keep_settings
from flows.execution.top_down_settings import DeclaredSettings
from tasks.records.marks import write_mark
from tasks.top_down.declared import source

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


def of_detailed(example: Path, folder: Path) -> tuple[RunSettings, str]:
    settings, expected = prepared(example, folder, "run-pr")
    keep_settings(settings.directory, settings.model_copy(update={"blocks_each": 1}))
    return settings, expected


def of_wide(_example: Path, folder: Path) -> tuple[RunSettings, str]:
    wide_inputs.write_all(folder)
    return of_declaration(folder, "wide.csv", "wide.json")


def of_households(_example: Path, folder: Path) -> tuple[RunSettings, str]:
    make(folder)
    with_units(folder, redistricting(folder))
    return of_declaration(folder, "households.csv", "mine/dhc-households-us.json")


def of_declaration(folder: Path, data: str, declaration: str) -> tuple[RunSettings, str]:
    write_mark(folder, [data], generator="a test", version="1")
    paths = {"data": data, "declaration": declaration, "out": "out", "runs_folder": "state"}
    paths = {name: str(folder / path) for name, path in paths.items()}
    settings = DeclaredSettings.new(**paths, ledger=str(folder / "ledger.sqlite"), run_id="run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHILDREN", 1)
        settings, expected = foreseen(settings)
    keep_settings(settings.directory, settings)
    return settings, expected


MANY_PIECES = "from tasks.top_down.declared import source; source.CHILDREN = 1"
# What prepares a run, its command, how it is cut into more pieces, and the stage whose pieces both hosts work on.
SYSTEMS = {
    "detailed": (of_detailed, ("run",), "", "population groups"),
    "wide": (of_wide, ("tda", "run"), MANY_PIECES, "estimate block"),
    "households": (of_households, ("tda", "run"), MANY_PIECES, "release"),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_gives_the_bytes_of_its_secret(
    example: Path, tmp_path: Path, hosts: tuple[Host, Host], cluster: Cluster, system: str
) -> None:
    prepare, command, first, stage = SYSTEMS[system]
    settings, expected = prepare(example, tmp_path)
    words = [*command, "--resume", str(settings.run_id), "--runs-folder", settings.runs_folder]
    das = [*hosts[0].enter, sys.executable, "-c", f"{first}\nfrom flows.cli import main\nmain()", *words]
    environment = os.environ | {
        "PREFECT_HOME": str(tmp_path.parent / "prefect")
    }  # with a server of its own, on its host
    done = subprocess.run([*das, *cluster.options], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert digest(Path(settings.out) / settings.folder) == expected
    ran = [json.loads(line) for line in cluster.note.read_text().splitlines()]
    assert {piece["host"] for piece in ran if piece["stage"] == stage} == {host.address for host in hosts}
    here = os.readlink("/proc/self/ns/net")
    networks = {piece["network"] for piece in ran}
    assert networks == {here} if hosts == LOOPBACK else len(networks - {here}) == 2
