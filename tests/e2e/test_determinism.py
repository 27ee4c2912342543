"""A run's noise depends on its secret and nothing else: the same bytes however the work is cut, spread or repeated."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dhca_inputs import HERE, read_release
from distributed import Client
from e2e_runs import (
    ACCOUNT,
    FEW_LEVELS,
    KEY,
    digest,
    directory,
    go,
    open_account,
    real_data,
    reconfigure,
    settings_for,
    small_pieces,
    with_secret,
)

from flows import detailed_dhca as flow
from flows.execution.cluster import ClusterSettings, open_cluster
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.prefect_flows import detailed_dhca
from tasks.errors import Failed
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.workers import Workers
from tasks.safetab import domain
from tasks.safetab.persons.run import DetailedRun

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("untidy")]


@pytest.fixture(scope="module")
def country(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthetic example, at a path that stays the same; of few levels, for runs take as long as they have tasks."""
    folder = tmp_path_factory.mktemp("determinism") / "country"
    shutil.copytree(example, folder)
    reconfigure(folder / "params", run_pr=False, **FEW_LEVELS)
    return folder


def settings_in(folder: Path, country: Path, **changes: Any) -> DetailedDhcaSettings:
    places = {"out": folder / "out", "runs_folder": folder / "state", "account": None}
    return settings_for(country, "run-us", **places, **changes)


@pytest.fixture
def prepare(country: Path, tmp_path: Path) -> Callable[..., DetailedDhcaSettings]:
    """Prepares a run of its own on the synthetic example: always the same id and the same secret."""

    return lambda name, **changes: with_secret(settings_in(tmp_path / name, country, **changes))


@pytest.fixture(scope="module")
def expected(country: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the release that the secret gives, made in one process and the plainest way."""
    return digest(released(with_secret(settings_in(tmp_path_factory.mktemp("expected"), country)), HERE))


def released(settings: DetailedDhcaSettings, workers: Workers) -> Path:
    place = go(settings, workers)
    assert place is not None
    return place


@pytest.mark.slow
def test_estimates_by_two_workers(
    prepare: Callable[..., DetailedDhcaSettings], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes as one process gives, jurisdiction by jurisdiction."""
    monkeypatch.setattr(domain, "GROUPS_EACH", 1)
    here = digest(released(prepare("here", estimates=True), HERE))
    monkeypatch.undo()
    assert digest(released(prepare("workers", estimates=True), Workers(client))) == here


IN_PROCESS = {"processes": False, "n_workers": 2, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
CLUSTERS = {
    "processes with threads": ClusterSettings(workers=2, threads_per_worker=2),
    "threads of the flow's own process": ClusterSettings(
        cluster_class="distributed:LocalCluster", cluster_options=IN_PROCESS
    ),
}


@pytest.mark.parametrize(
    "cluster",
    [pytest.param(CLUSTERS[name], id=name, marks=[pytest.mark.ci] * (name[0] == "p")) for name in CLUSTERS],
)
def test_threads_and_processes(
    prepare: Callable[..., DetailedDhcaSettings],
    expected: str,
    tmp_path: Path,
    cluster: ClusterSettings,
) -> None:
    with small_pieces(), open_cluster(cluster, tmp_path / "dask") as client:
        assert digest(released(prepare("threads", blocks_each=7), Workers(client))) == expected


@pytest.mark.parametrize(
    ("blocks_each", "groups_each"), [(1, 100), pytest.param(17, 1, marks=pytest.mark.slow), (10_000, 1)]
)
def test_partitions_and_pieces_of_any_size(
    prepare: Callable[..., DetailedDhcaSettings],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    blocks_each: int,
    groups_each: int,
) -> None:
    monkeypatch.setattr(domain, "GROUPS_EACH", groups_each)
    assert digest(released(prepare("parts", blocks_each=blocks_each), HERE)) == expected


def deadly() -> None:
    """Make this process die when it first draws noise of a table; the process that takes its place is as before."""
    from tasks.safetab.persons import sex_by_age

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    sex_by_age.measure_tables = die  # type: ignore[assignment]


def test_one_worker_that_is_killed_while_it_draws(
    prepare: Callable[..., DetailedDhcaSettings], expected: str, tmp_path: Path
) -> None:
    with open_cluster(ClusterSettings(workers=1), tmp_path / "dask") as client:
        (before,) = client.run(os.getpid).values()
        client.run(deadly)
        assert digest(released(prepare("one"), Workers(client))) == expected
        (after,) = client.run(os.getpid).values()
    assert before != after, "the worker was never killed"


def test_a_task_that_fails_and_is_tried_again(
    prepare: Callable[..., DetailedDhcaSettings],
    expected: str,
    prefect_server: None,
    shared_cluster: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flow itself; a stage fails after its work is done, as when an answer is lost."""
    failed = []
    measure = flow.measure_sex_by_age

    def fails_once(run: DetailedRun, **arguments: Any) -> None:
        measure(run, **arguments)
        if not failed:
            failed.append(arguments["level"])
            raise Failed("sex by age: the workers were lost")

    monkeypatch.setattr(flow, "measure_sex_by_age", fails_once)
    place = detailed_dhca(prepare("flow"))
    assert failed
    assert place is not None
    assert digest(Path(place)) == expected


def test_a_fresh_secret_gives_other_noise(country: Path, tmp_path: Path) -> None:
    first, second = (released(settings_in(tmp_path / name, country), HERE) for name in ("first", "second"))
    assert (first / "manifest.json").read_text() != (second / "manifest.json").read_text()
    one, other = (
        {row[:3]: int(row[3]) for row in read_release(place, "t1") if row[1] in ("USA", "STATE")}
        for place in (first, second)
    )
    assert one.keys() == other.keys(), "nation and state are never suppressed"
    differs = np.mean([one[group] != other[group] for group in one])
    assert differs > 0.5, "sigma is above 2, so two draws are equal with a chance below 0.15"


def test_a_prepared_secret_is_never_used_on_real_data(example: Path, tmp_path: Path) -> None:
    real_data(example, tmp_path)
    ledger, settings = open_account(tmp_path), settings_for(tmp_path)
    go(with_secret(settings), HERE, before="totals")
    assert (directory(settings) / SECRET).read_bytes() != KEY
    assert len(ledger.rows(ACCOUNT)) == 1
