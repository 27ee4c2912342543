"""Two users of one machine: neither reads what the other keeps, and neither reads back what the other prepared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from flows.execution.settings import load_settings
from tasks.errors import Refused
from tasks.lifecycle import process
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.commit import check_out, is_released
from tasks.lifecycle.files import atomic_path
from tasks.lifecycle.private_folder import is_as_safe_as, make_private
from tasks.lifecycle.run_directory import SETTINGS, RunDirectory, locked
from tasks.lifecycle.staging import clear_staging, longest_name, open_staging, staging
from tasks.releases.manifest import MANIFEST

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root takes other users' parts")
CURATOR, ATTACKER = 4321, 4322


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which every user may make files, and remove their own."""
    process.versions()  # kept for the users, who may not read where this Python is
    folder = Path(mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def as_user(user: int, act: Callable[[], object]) -> str:
    """What a user gets: the result, as text, or the error."""
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def hold(run: RunDirectory) -> list[str]:
    with locked(run):
        return sorted(path.name for path in run.path.iterdir())


@pytest.mark.parametrize("made", ["state", "state/runs", "state/runs/r1-us"])
@pytest.mark.parametrize("mode", [0o777, *(pytest.param(mode, marks=pytest.mark.ci) for mode in (0o700, 0o755))])
def test_what_another_user_prepared_is_not_read(shared: Path, made: str, mode: int) -> None:
    run = RunDirectory(shared / "state/runs/r1-us")

    def prepare() -> None:
        """A run directory that the curator's next run is to take for its own."""
        folder = shared / made
        folder.mkdir()
        run.path.mkdir(parents=True, exist_ok=True)
        (run / SETTINGS).write_text("{")
        for path in (folder, *folder.rglob("*")):
            path.chmod(mode)

    above = (shared / made).parent
    if above != shared:  # a runs folder that its owner made before, open to all
        above.mkdir(parents=True)
        for path in (above, *above.parents[: len(Path(made).parts) - 2]):
            os.chown(path, CURATOR, CURATOR)
            path.chmod(0o777)
    assert as_user(ATTACKER, prepare) == "None"
    for act in (load_settings, hold):
        said = as_user(CURATOR, lambda act=act: act(run))  # type: ignore[misc]
        assert said.startswith("Refused: ")
        assert "belongs to another user" in said or "is open to other users" in said
    assert {path.name for path in run.path.iterdir()} == {SETTINGS}


@pytest.mark.parametrize("planted", ["a link", "a folder"])
def test_what_another_user_plants_in_out_is_neither_followed_nor_released(shared: Path, planted: str) -> None:
    """By the name of the run's staging folder, which leads to a charged run, and by a release that names the run."""
    run, charged = (RunDirectory(shared / f"state/runs/{name}-us") for name in ("r1", "r0"))

    def begin() -> None:
        charged.create()
        (charged / SECRET).write_bytes(bytes(32))
        (charged / "noisy").mkdir()

    def plant() -> None:
        staged = staging(run, shared, "us")
        staged.symlink_to(charged.path) if planted == "a link" else staged.mkdir(0o777)
        (shared / "us").mkdir()
        (shared / f"us/{MANIFEST}").write_text(json.dumps({"run": run.id, "files": {}, "SYNTHETIC": ""}))

    assert as_user(CURATOR, begin) == as_user(ATTACKER, plant) == "None"
    refused = "is a link or another user's: remove it"
    assert refused in as_user(CURATOR, lambda: check_out(run, shared, "us"))
    assert refused in as_user(CURATOR, lambda: clear_staging(run, shared, "us"))
    assert refused in as_user(CURATOR, lambda: open_staging(run, shared, "us"))
    assert as_user(CURATOR, lambda: is_released(run, shared, "us")) == "False"
    assert sorted(path.name for path in charged.path.iterdir()) == ["noisy", SECRET]


@pytest.mark.parametrize("there", [True, False], ids=["to a folder", "to nothing"])
def test_a_link_in_the_place_of_the_release_is_refused_before_the_charge(tmp_path: Path, there: bool) -> None:
    """The commit, long after the charge, would not move a release onto it."""
    if there:
        (tmp_path / "empty").mkdir()
    (tmp_path / "us").symlink_to(tmp_path / "empty")
    with pytest.raises(Refused, match="us is a link or another user's: remove it"):
        check_out(RunDirectory(tmp_path / "state/runs/r1-us"), tmp_path, "us")


def test_a_run_id_with_which_no_release_could_be_staged_is_refused_before_the_charge(tmp_path: Path) -> None:
    """Two folders next to the release are named by it, one of them while a worker writes it in one piece."""
    most = os.pathconf(tmp_path, "PC_NAME_MAX") - len(longest_name(staging(RunDirectory(Path()), tmp_path, "us")))
    check_out(RunDirectory(tmp_path / "runs" / ("r" * most)), tmp_path / "out", "us")
    with atomic_path(staging(RunDirectory(Path("r" * most)), tmp_path, "us")) as longest:
        longest.mkdir()
    with pytest.raises(Refused, match=r"the run id r{40}… is too long"):
        check_out(RunDirectory(tmp_path / "runs" / ("r" * (most + 1))), tmp_path / "out", "us")


def test_a_mount_in_the_place_of_the_release_is_refused_before_the_charge(tmp_path: Path) -> None:
    """The commit could not rename the release onto it."""
    place = tmp_path / "us"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(Refused, match="us is a mounted folder: choose an output folder in it, or another one"):
            check_out(RunDirectory(tmp_path / "state/runs/r1-us"), tmp_path, "us")
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_run_directory_is_closed_to_others(shared: Path) -> None:
    run = RunDirectory(shared / "state/runs/r1-us")
    assert "lock" in as_user(CURATOR, lambda: hold(run))
    for folder in (run.path, run.path.parent, run.runs_folder):
        assert as_user(ATTACKER, lambda folder=folder: list(folder.iterdir())).startswith("PermissionError")  # type: ignore[misc]
    assert as_user(ATTACKER, lambda: hold(run)).startswith("Refused: ")


def test_caches_that_another_user_could_change_are_not_used(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of compiled kernels are unpickled: nobody else may write them who cannot change the program too."""
    environment, state = shared / "environment", shared / "state"
    monkeypatch.setattr(sys, "prefix", str(environment))
    cache = environment / process.ENVIRONMENT_FOLDER / "kernels"
    (cache / "spine").mkdir(parents=True)
    index = cache / "spine/kernel.nbi"
    index.touch()

    def used() -> list[Path]:
        return process.cache_folders("kernels", state)

    assert used() == [cache, state / "kernels"]
    for path in (cache.parent, cache, index.parent, index):
        path.chmod(0o777)
        assert used() == [state / "kernels"]
        path.chmod(0o755)
        os.chown(path, ATTACKER, ATTACKER)
        assert used() == [state / "kernels"]
        os.chown(path, 0, 0)
    (cache / "link").symlink_to("/tmp")
    assert used() == [state / "kernels"]
    (cache / "link").unlink()
    make_private(state)
    (state / "kernels").mkdir()
    assert used() == [cache, state / "kernels"]
    os.chown(state / "kernels", ATTACKER, ATTACKER)
    assert used() == [cache]
    os.chown(state / "kernels", 0, 0)
    state.chmod(0o755)
    assert used() == [cache]
    assert is_as_safe_as(environment, cache)
