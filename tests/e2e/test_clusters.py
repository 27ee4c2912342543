"""The files of deploy/clusters: that of SLURM carries a run on a node here, the others say what a cluster takes."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_runs import digest, directory, prepared
from slurm_node import missing, slurm_node

from benchmarks.two_hosts import write_certificates
from flows.execution.cluster import ClusterSettings

CLUSTERS = Path(__file__).resolve().parents[2] / "deploy/clusters"


def told(name: str, **places: Path) -> Any:
    """A file of deploy/clusters, with other folders in the place of its own."""
    text = (CLUSTERS / name).read_text()
    for place, here in places.items():
        there = {"state": "/srv/confidential/das-flows", "certificates": "/etc/das-flows"}[place]
        assert there in text
        text = text.replace(there, str(here))
    return yaml.safe_load(text)


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
    cluster = told("slurm.yaml", state=tmp_path, certificates=certificates)["cluster"]
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


def test_the_settings_of_every_cluster_are_settings() -> None:
    for name in ("slurm.yaml", "gateway.yaml"):
        ClusterSettings.model_validate(told(name)["cluster"])


@pytest.mark.parametrize("name", ["slurm.yaml", "gateway.yaml"])
def test_every_option_is_one_of_the_class(name: str) -> None:
    cluster = told(name)["cluster"]
    module, _, attribute = cluster["cluster_class"].partition(":")
    of = getattr(pytest.importorskip(module, reason=f"no {module}"), attribute)
    known: set[str] = set()
    for each in of.__mro__:
        known |= set(inspect.signature(each.__init__).parameters) if each is not object else set()
        if job := getattr(each, "job_cls", None):
            known |= {name for base in job.__mro__[:-1] for name in inspect.signature(base.__init__).parameters}
    assert set(cluster["cluster_options"]) <= known


def test_the_pods_of_kubernetes_have_what_a_worker_needs() -> None:
    resource = told("kubernetes.yaml")
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
    spec = told("kubernetes.yaml")["spec"]
    named = {"apiVersion": "v1", "metadata": {"name": "das"}}
    for pod in (spec["worker"]["spec"], spec["scheduler"]["spec"]):
        kubernetes.validate({**named, "kind": "Pod", "spec": pod}, "1.30", strict=True)
    kubernetes.validate({**named, "kind": "Service", "spec": spec["scheduler"]["service"]}, "1.30", strict=True)
