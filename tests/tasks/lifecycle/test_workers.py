"""A stage's pieces on a real cluster: what fails is named without its content, and nothing is waited for in vain."""

from __future__ import annotations

import os
import pickle
import resource
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.core import error_message
from e2e_runs import das

from flows.execution.cluster import ClusterSettings, open_cluster
from tasks.errors import Failed, Refused
from tasks.lifecycle import process, workers
from tasks.lifecycle.confidential import guard
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers, lost, map_public

TESTS = Path(__file__).parents[2]

pytestmark = pytest.mark.e2e
ALARM = "a value of person 4711"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.create()
    return directory


def piece(run: RunDirectory, number: int, does: str) -> int:
    if does == "leak":
        raise ValueError(ALARM)
    if does == "refuse":
        raise Refused("the table names an unknown region")
    time.sleep(0.3 if does == "slow" else 0)
    (run / f"{number}").touch()
    return number


def test_results_come_in_the_order_of_the_arguments(client: Client, run: RunDirectory) -> None:
    assert Workers(client).map("a stage", run, piece, [(0, "slow"), (1, ""), (2, "")]) == [0, 1, 2]
    assert Workers(client).map("a stage", run, piece, []) == []


def test_a_failure_is_stage_and_rule_and_comes_when_all_pieces_have_ended(client: Client, run: RunDirectory) -> None:
    with pytest.raises(Failed) as failed:
        Workers(client).map("a stage", run, piece, [(0, "leak"), (1, "slow"), (2, "slow"), (3, "slow")])
    assert str(failed.value) == "a stage: a ValueError was raised; its text is in the run's errors/"
    assert ALARM not in "".join(traceback.format_exception(failed.value))
    assert [ALARM in path.read_text() for path in (run / "errors").iterdir()] == [True]
    assert {path.name for path in run.path.iterdir()} >= {"1", "2", "3"}


@pytest.mark.parametrize("kind", [Refused, Failed])
def test_what_is_told_brings_nothing_of_what_it_was_told_for(
    client: Client, run: RunDirectory, kind: type[Exception]
) -> None:
    """Workers pickle an exception with its context, also one that `from None` hides."""

    def reworded(_run: RunDirectory) -> None:
        try:
            raise ValueError(ALARM)
        except ValueError:
            raise kind("a row is not as it should be") from None

    def sent(function: Callable[..., object]) -> bytes:
        try:
            function(run)
        except Exception as error:
            message = error_message(error)
            return pickle.dumps(message["exception"].data) + pickle.dumps(message["traceback"].data)
        raise AssertionError("nothing was raised")

    assert ALARM.encode() in sent(reworded)  # so one does see it
    assert ALARM.encode() not in sent(partial(guard, "a stage", function=reworded))
    with pytest.raises(kind, match="a row is not") as result:
        Workers(client).map("a stage", run, reworded, [()])
    assert result.value.__context__ is None


def test_a_refusal_passes_before_any_failure(client: Client, run: RunDirectory) -> None:
    with pytest.raises(Refused, match="unknown region"):
        Workers(client).map("a stage", run, piece, [(0, "leak"), (1, "refuse")])


def test_a_piece_that_was_given_up_is_not_taken_for_done(client: Client, run: RunDirectory) -> None:
    def give_up(_stage: str, done: int, _total: int) -> None:
        if done == 1:
            pending = [key for key, state in client.futures.items() if state.status == "pending"]
            client.cancel([Future(key, client=client) for key in pending])

    pieces = [(0, ""), *((number, "slow") for number in range(1, 8))]
    with pytest.raises(Failed, match="a stage: the workers did not return all pieces"):
        Workers(client, give_up).map("a stage", run, piece, pieces)


def test_a_lost_stage_says_what_was_seen_of_its_workers() -> None:
    state = SimpleNamespace(address="tcp://127.0.0.1:9")
    assert str(lost("a stage", KilledWorker("piece", state, 3))) == (
        "a stage: 4 workers died at the same piece; --memory-limit gives each more memory"
    )
    assert str(lost("a stage", OSError("of persons"))) == "a stage: the workers did not return all pieces (OSError)"


def test_a_cluster_without_workers_is_lost(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ASK_EACH", 0.1)
    settings = ClusterSettings(workers=1, patience=0.5)
    with open_cluster(settings, tmp_path / "dask") as client:
        client.retire_workers()
        with pytest.raises(Failed, match="a stage: the workers did not return all pieces"):
            Workers(client, patience=settings.patience).map("a stage", run, piece, [(0, "")])


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[tuple[Client, subprocess.Popen[bytes]]]:
    """A scheduler and one worker process that nothing starts again."""
    quiet = {"n_workers": 0, "dashboard_address": "127.0.0.1:0", "silence_logs": False}
    with LocalCluster(**quiet) as alone, Client(alone, set_as_default=False) as client:
        words = ["-m", "dask", "worker", alone.scheduler_address, "--no-nanny", "--no-dashboard", "--nthreads", "1"]
        worker = subprocess.Popen(
            [sys.executable, *words, "--local-directory", tmp_path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"},
        )
        try:
            client.wait_for_workers(1, timeout=60)
            yield client, worker
        finally:
            worker.kill()
            worker.wait()


def cores(_run: object = None) -> int:
    return resource.getrlimit(resource.RLIMIT_CORE)[0]


def allow_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)


def test_no_worker_leaves_a_core_dump_however_it_was_started(
    mortal: tuple[Client, subprocess.Popen[bytes]], run: RunDirectory
) -> None:
    client, _ = mortal
    client.run(allow_cores)
    if set(client.run(cores).values()) == {0}:
        pytest.skip("nothing here may leave core dumps")
    assert Workers(client).map("a stage", run, cores, [()]) == [0]


def test_no_command_leaves_a_core_dump(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: limits.append(limit))
    assert das("--help") == 0
    assert [(kind, soft) for kind, (soft, _) in limits] == [(resource.RLIMIT_CORE, 0)]


def test_the_spine_gives_up_a_cluster_whose_workers_are_killed(
    mortal: tuple[Client, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ASK_EACH", 0.1)
    client, worker = mortal
    mortals = Workers(client, progress=lambda *_: worker.kill(), patience=0.5)
    with pytest.raises(Failed, match="spine: the workers did not return all pieces"):
        map_public(mortals, "spine", time.sleep, [(600,), (600,)])


def test_what_a_piece_of_the_spine_raises_comes_as_it_is(client: Client) -> None:
    assert map_public(Workers(client), "spine", divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]
    with pytest.raises(ZeroDivisionError):
        map_public(Workers(client), "spine", divmod, [(7, 2), (9, 0)])


def test_workers_with_other_code_are_not_worked_with(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    Workers(client).check()
    with monkeypatch.context() as patch:
        patch.setattr(workers, "code_digest", lambda: "of another checkout")
        with pytest.raises(Failed, match=r"the worker t(ls|cp)://\S+ on host \S+ runs different code: install"):
            Workers(client).check()
    here_alone = ModuleType("here_alone")
    exec("def check_worker(code, paths): pass", here_alone.__dict__)
    monkeypatch.setitem(sys.modules, "here_alone", here_alone)
    monkeypatch.setattr(workers, "check_worker", here_alone.check_worker)
    with pytest.raises(Failed, match=r"could not look for its code \(ModuleNotFoundError"):
        Workers(client).check()


def test_code_is_told_by_the_names_and_bytes_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HOME", tmp_path)
    for package in process.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "tasks/spine").mkdir()
    file = tmp_path / "tasks/spine/first_pass.py"
    seen = set()
    for text in ("x = 1", "x = 2"):
        file.write_text(text)
        seen.add(process.code_digest.__wrapped__())
    file.rename(tmp_path / "tasks/state.py")
    seen.add(process.code_digest.__wrapped__())
    assert len(seen) == 3
    (tmp_path / "tasks/notes.txt").touch()
    assert process.code_digest.__wrapped__() in seen


def test_a_digest_of_no_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HOME", tmp_path)
    with pytest.raises(Failed, match="package flows has no source files"):
        process.code_digest.__wrapped__()


def test_the_code_that_is_digested_is_this_code() -> None:
    assert Path(process.__file__).is_relative_to(process.HOME / "tasks")


def test_a_worker_that_comes_later_with_other_code_does_nothing(
    client: Client, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "code_digest", lambda: "of another checkout")
    with pytest.raises(Failed, match="runs different code"):
        Workers(client).map("a stage", run, piece, [(0, "")])
    assert not (run / "0").exists()
    with pytest.raises(Failed, match="runs different code"):
        map_public(Workers(client), "spine", divmod, [(7, 2)])


def test_a_worker_names_the_path_that_it_does_not_see_and_does_nothing(
    client: Client, run: RunDirectory, tmp_path: Path
) -> None:
    there, away = (str(tmp_path), os.R_OK | os.W_OK), (str(tmp_path / "nothing is mounted here"), os.R_OK)
    Workers(client, paths=(there,)).check()
    elsewhere = Workers(client, paths=(there, away))
    named = rf"the worker tls://\S+ on host {socket.gethostname()} does not see {away[0]}: mount the same file system"
    with pytest.raises(Failed, match=named):
        elsewhere.check()
    with pytest.raises(Failed, match=named):
        elsewhere.map("a stage", run, piece, [(0, "")])
    assert not (run / "0").exists()
    (tmp_path / "nothing is mounted here").mkdir()
    assert elsewhere.map("a stage", run, piece, [(0, "")]) == [0]
