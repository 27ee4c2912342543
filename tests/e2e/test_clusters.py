"""Clusters of others: their workers' settings and what they must see; the files of deploy/clusters.

That of SLURM carries a run on a node here, the other says what Kubernetes takes.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml
from e2e_runs import ACCOUNT, das, digest, directory, open_account, prepared, real_data, reconfigure
from slurm_node import missing, slurm_node
from two_hosts import DASK_CONFIG, LOOPBACK, Cluster, Host, tls_cluster, write_certificates

from flows.execution import safetab
from flows.execution.cluster import FORKED, QUIET, ClusterSettings, open_cluster
from flows.execution.fork_server import ENVIRONMENT
from tests.conftest import lacking

ROOT = Path(__file__).resolve().parents[2]
CLUSTERS = ROOT / "deploy/clusters"
PIECE_LOG = ROOT / "tests/e2e/piece_log.py"


def cluster_file(name: str, **places: Path) -> Any:
    """A file of deploy/clusters, with other folders in the place of its own."""
    text = (CLUSTERS / name).read_text()
    for place, here in places.items():
        there = {"state": "/srv/confidential/das-flows", "certificates": "/etc/das-flows"}[place]
        assert there in text
        text = text.replace(there, str(here))
    return yaml.safe_load(text)


def flat(settings: Any, above: str = "") -> dict[str, Any]:
    """Settings of Dask by their names with dots, as its own configuration takes them."""
    if not isinstance(settings, dict):
        return {above.removesuffix("."): settings}
    return {name: value for key, inner in settings.items() for name, value in flat(inner, f"{above}{key}.").items()}


def test_dasks_settings_of_workers_of_others_are_those_of_our_own() -> None:
    ours = QUIET | FORKED
    for local in ("distributed.deploy.lost-worker-timeout", "distributed.worker.multiprocessing-method"):
        del ours[local]
    assert flat(yaml.safe_load(DASK_CONFIG.read_text())) == ours


def blind(folder: Path) -> Host:
    """This machine, without what is in a folder: something else is mounted in its place."""
    hide = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder))
    if subprocess.run([*hide, "true"], capture_output=True).returncode:
        lacking("leave to mount (root)")
    return Host("127.0.0.2", hide)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and a worker as deploy/README.md starts them."""
    (tmp_path / "cluster").mkdir()
    with tls_cluster(tmp_path / "cluster", PIECE_LOG, LOOPBACK[:1]) as started:
        yield started


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_a_worker_that_does_not_see_a_place_is_named_before_anything_is_charged(
    example: Path, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that is there from the start, and one that joins just before the reservation, which gives it no piece."""
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False)
    ledger, out, state = open_account(tmp_path), tmp_path / "out", ("--runs-folder", tmp_path)
    out.mkdir()
    where, scheduler = blind(out), ClusterSettings.model_validate(cluster.settings)
    named = rf"worker tls://127\.0\.0\.2:\d+ on host {socket.gethostname()} does not see {out}/\.pr-far-pr\S*: mount"

    def is_named(*words: object) -> None:
        assert das("run", *words, *state, *cluster.options) == 3
        assert re.search(named, capfd.readouterr().err)
        assert ledger.rows(ACCOUNT) == []
        assert list(out.iterdir()) == []

    def of_a_worker(dask_worker: Any) -> tuple[dict[str, Any], dict[str, str], int]:
        return dask.config.config, dict(os.environ), len(dask_worker.http_application.applications)

    with open_cluster(scheduler, tmp_path / "dask") as client:
        ((settings, environment, pages),) = client.run(of_a_worker).values()
        expected = flat(yaml.safe_load(DASK_CONFIG.read_text()))
        assert {name: dask.config.get(name, config=settings) for name in expected} == expected
        assert ENVIRONMENT.items() <= environment.items()
        assert pages == 0

        def join() -> None:
            client.wait_for_workers(1)
            cluster.join(where)
            client.wait_for_workers(2)

        def leave() -> None:
            client.retire_workers([address for address in client.nthreads() if "127.0.0.2" in address])

        join()
        begin = (tmp_path / "params", tmp_path / "data", out, "--account", ACCOUNT, "--run-id", "far", "--no-spine")
        is_named(*begin)
        leave()

        save_sets = safetab.save_sets
        with monkeypatch.context() as patch:
            patch.setattr(safetab, "count_population_groups", lambda run, **_: None)
            patch.setattr(safetab, "save_sets", lambda run, **named: (save_sets(run, **named), join()))
            is_named("--resume", "far-pr")
        leave()
    assert das("run", "--resume", "far-pr", *state, *cluster.options) == 0
    assert [row.status for row in ledger.rows(ACCOUNT)] == ["released"]
    assert {path.name for path in out.iterdir()} == {"pr"}


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if reason := missing():
        pytest.skip(reason)
    pytest.importorskip("dask_jobqueue", reason="no dask-jobqueue: pip install dask-jobqueue")
    with slurm_node(tmp_path_factory.mktemp("slurm")) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "slurm")
def test_a_run_on_jobs_of_slurm_gives_the_same_bytes(example: Path, tmp_path: Path) -> None:
    """Of the file's eight jobs the node takes two at once; the others wait, and are cancelled at the end."""
    from flows.prefect_flows import detailed_dhca

    settings, expected = prepared(example, tmp_path, "slurm-pr")
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    write_certificates(certificates, ["127.0.0.1"])
    cluster = cluster_file("slurm.yaml", state=tmp_path, certificates=certificates)["cluster"]
    cluster["cluster_options"]["scheduler_options"] = {"host": "tls://127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    settings = settings.model_copy(update={"cluster": ClusterSettings.model_validate(cluster)})
    assert Path(str(detailed_dhca(settings))) == Path(settings.out) / "pr"
    assert digest(Path(settings.out) / "pr") == expected
    assert not directory(settings).path.exists()
    logs = "".join(path.read_text() for path in (tmp_path / "dask-logs").iterdir())
    assert "Registered to:" in logs
    assert bytes(range(32)).hex() not in logs
    queue = subprocess.run(["squeue", "--noheader"], capture_output=True, text=True, check=True)
    assert [line for line in queue.stdout.splitlines() if " CG " not in line] == []


def test_the_settings_of_slurm_are_settings() -> None:
    ClusterSettings.model_validate(cluster_file("slurm.yaml")["cluster"])


def test_every_option_is_one_of_the_class() -> None:
    cluster = cluster_file("slurm.yaml")["cluster"]
    module, _, attribute = cluster["cluster_class"].partition(":")
    of = getattr(pytest.importorskip(module, reason=f"no {module}"), attribute)
    known: set[str] = set()
    for each in of.__mro__:
        known |= set(inspect.signature(each.__init__).parameters) if each is not object else set()
        if job := getattr(each, "job_cls", None):
            known |= {name for base in job.__mro__[:-1] for name in inspect.signature(base.__init__).parameters}
    assert set(cluster["cluster_options"]) <= known


def test_the_pods_of_kubernetes_have_what_a_worker_needs() -> None:
    resource = cluster_file("kubernetes.yaml")
    assert (resource["apiVersion"], resource["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    pods = [resource["spec"]["worker"]["spec"], resource["spec"]["scheduler"]["spec"]]
    for pod in pods:
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted == {"srv": "/srv", "tls": "/etc/das-flows"}
        assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
        for name, value in {each["name"]: each["value"] for each in container["env"]}.items():
            assert name in (CLUSTERS.parent / "README.md").read_text()
            assert isinstance(value, str)
        _known_to_dask(container["args"])
    ports = resource["spec"]["scheduler"]["service"]["ports"]
    assert [port["targetPort"] for port in ports] == [port["name"] for port in pods[1]["containers"][0]["ports"]]


def _known_to_dask(words: list[str]) -> None:
    """Whether a command line of Dask's is one that its program takes."""
    program = importlib.import_module(f"distributed.cli.dask_{words[1]}").main
    options = {name for option in program.params for name in (*option.opts, *option.secondary_opts)}
    asked = [re.split("=", word)[0] for word in words if word.startswith("--")]
    assert set(asked) <= options


def test_kubernetes_knows_every_field_of_the_pods() -> None:
    """By Kubernetes' own schemas, strictly: a field that they do not name is an error."""
    kubernetes = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate")
    spec = cluster_file("kubernetes.yaml")["spec"]
    named = {"apiVersion": "v1", "metadata": {"name": "das"}}
    for pod in (spec["worker"]["spec"], spec["scheduler"]["spec"]):
        kubernetes.validate({**named, "kind": "Pod", "spec": pod}, "1.30", strict=True)
    kubernetes.validate({**named, "kind": "Service", "spec": spec["scheduler"]["service"]}, "1.30", strict=True)
