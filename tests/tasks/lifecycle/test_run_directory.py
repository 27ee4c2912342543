"""The run directory: what exists is whole, and what must outlive a crash of the machine is flushed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from flows.execution import crash_report
from flows.execution.settings import load_settings
from flows.reports.curator import run_directories
from privacy.accounting.ledger import Account, Ledger
from tasks.errors import Refused
from tasks.lifecycle import files
from tasks.lifecycle.authorization import SECRET, make_secret
from tasks.lifecycle.files import atomic_path, remove
from tasks.lifecycle.private_folder import check_private, make_private
from tasks.lifecycle.run_directory import STAGES, RunDirectory, locked


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run directory that has been worked on, with a folder of every stage."""
    run = RunDirectory(tmp_path / "state/runs/run-us")
    with locked(run):
        for name in STAGES:
            (run / name).mkdir()
            (run / name / "part").touch()
    return run


@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("first", ["run", "crash", "ledger", "spine"])
def test_the_runs_folder_is_its_owners_alone_whatever_makes_it_first(
    state_home: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_report, "_state", None)  # the folder of a command before, in this process
    make: dict[str, Callable[[], object]] = {
        "run": RunDirectory(state_home / "runs/run-us").create,
        "crash": lambda: crash_report.report_crash(ValueError()),
        "ledger": lambda: Ledger(state_home / "ledger.sqlite").open_account(Account("a", "zcdp", Fraction(1))),
        "spine": lambda: make_private(state_home),
    }
    make[first]()
    assert state_home.parent.stat().st_mode & 0o777 == 0o777  # as mkdir makes it
    assert state_home.stat().st_mode & 0o777 == 0o700
    for path in state_home.rglob("*"):
        assert path.name == ".run-directories" or not path.stat().st_mode & 0o077, path


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_that_its_last_holder_removed_is_no_lock(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """A run ends while another process opens its lock; a third may have begun it again."""
    flock = fcntl.flock

    def removed(*arguments: Any) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        shutil.rmtree(run.path)
        if again:
            third.enter_context(locked(run))
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", removed)
    with ExitStack() as third, pytest.raises(Refused, match="is in use by another process"), locked(run):
        pytest.fail("two processes hold one run")


READERS: dict[str, Callable[[RunDirectory], object]] = {
    "lock": lambda run: locked(run).__enter__(),
    "settings": load_settings,
    "list": lambda run: run_directories(run.runs_folder),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("place", ["state", "runs", "run"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o2770, 0o755, 0o701, 0o710, 0o2700, 0o700])
def test_a_folder_that_others_may_open_is_refused_before_it_is_read(
    run: RunDirectory, place: str, mode: int, read: str
) -> None:
    folder = {"state": run.runs_folder, "runs": run.path.parent, "run": run.path}[place]
    folder.chmod(mode)
    before = {path: path.stat().st_mtime_ns for path in run.runs_folder.rglob("*")}
    if mode & 0o077 and (place, read) != ("run", "list"):
        with pytest.raises(Refused, match=rf"{folder} is open to other users \(mode {mode:04o}\).*chmod 700 {folder}"):
            READERS[read](run)
        assert {path: path.stat().st_mtime_ns for path in run.runs_folder.rglob("*")} == before
    else:
        READERS[read](run)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
@pytest.mark.parametrize("place", ["state", "runs", "run"])
def test_a_folder_of_another_user_is_refused(run: RunDirectory, place: str) -> None:
    folder = {"state": run.runs_folder, "runs": run.path.parent, "run": run.path}[place]
    os.chown(folder, 4321, 4321)
    for read in ("lock", "settings"):
        with pytest.raises(Refused, match=rf"{folder} belongs to another user \(uid 4321\)"):
            READERS[read](run)


def test_a_link_is_no_run_directory_but_a_runs_folder_may_be_one(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run.runs_folder)
    make_private(tmp_path / "link", may_be_link=True)
    with pytest.raises(Refused, match="is a link"):
        check_private(tmp_path / "link")
    (run.path.parent / "linked").symlink_to(run.path)
    with pytest.raises(Refused, match="is a link"):
        load_settings(RunDirectory(run.path.parent / "linked"))
    elsewhere = run.path.parent.rename(tmp_path / "elsewhere")
    run.path.parent.symlink_to(elsewhere)
    for read in READERS.values():
        with pytest.raises(Refused, match="is a link"):
            read(run)


def stages_left(run: RunDirectory) -> set[str]:
    return {path.name for path in run.path.iterdir() if path.is_dir()}


@pytest.mark.parametrize("mark", ["boot", "code", "libraries"])
@pytest.mark.parametrize("mark_of", ["same", "another", "missing", "empty"])
def test_what_is_not_of_this_boot_and_code_is_dropped(run: RunDirectory, mark: str, mark_of: str) -> None:
    if mark_of == "missing":
        (run / mark).unlink()
    elif mark_of != "same":
        (run / mark).write_text(f"of another {mark}" if mark_of == "another" else "")
    with locked(run):
        assert stages_left(run) == (set(STAGES) if mark_of == "same" else set())
    (run / "noisy").mkdir(exist_ok=True)
    with locked(run):
        assert "noisy" in stages_left(run), "dropped twice"


def test_what_cannot_be_deleted_is_not_taken_for_whole(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, ignore_errors: bool = False) -> None:
        assert ignore_errors

    (run / "boot").unlink()
    monkeypatch.setattr(shutil, "rmtree", fails)
    with locked(run):
        assert not any((run / name).exists() for name in STAGES)
    monkeypatch.setattr(os, "rename", _denied)
    (run / "noisy").mkdir()
    with pytest.raises(PermissionError):
        remove(run / "noisy")


def _denied(*_: Any) -> None:
    raise PermissionError(13, "Permission denied")


def _make(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.mkdir()
        (temporary / "part").write_text(text)


def test_a_folder_gives_way_to_its_twin_and_to_nothing_else(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(run / "noisy/usa-1", "same")
    first = (run / "noisy/usa-1").stat().st_ino
    _make(run / "noisy/usa-1", "same")
    assert (run / "noisy/usa-1").stat().st_ino == first
    monkeypatch.setattr(os, "replace", _denied)
    with pytest.raises(PermissionError):
        _make(run / "noisy/usa-1", "denied")
    assert {path.name for path in (run / "noisy").iterdir()} == {"part", "usa-1"}


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, bool]]:
    """What is flushed, in order: where it lies, and whether the secret or file `kept` had its name by then."""
    seen: list[tuple[Path, bool]] = []

    def fsync(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        seen.append((path, path.is_dir() and any((path / name).exists() for name in ("kept", SECRET))))

    monkeypatch.setattr(files.os, "fsync", fsync)
    return seen


def test_a_durable_file_is_flushed_and_then_its_name(run: RunDirectory, flushed: list[tuple[Path, bool]]) -> None:
    with atomic_path(run / "kept", durable=True) as temporary:
        temporary.touch()
    assert flushed == [(temporary, False), (run.path, True)]


def test_a_secret_is_flushed_and_every_folder_on_its_way(run: RunDirectory, flushed: list[tuple[Path, bool]]) -> None:
    make_secret(run)
    assert flushed[:2] == [(run / SECRET, False), (run.path, True)]
    assert [path for path, _ in flushed[2:]] == list(run.path.parents)


def test_a_folder_that_was_there_before_is_replaced(tmp_path: Path) -> None:
    _make(tmp_path / "kept", "old")
    _make(tmp_path / "kept", "new")
    assert (tmp_path / "kept/part").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("same", [True, False])
def test_a_folder_that_came_meanwhile_is_a_duplicate_or_an_error(tmp_path: Path, same: bool) -> None:
    def write() -> None:
        with atomic_path(tmp_path / "kept") as folder:
            folder.mkdir()
            (folder / "part").write_text("text")
            _make(tmp_path / "kept", "text" if same else "of somebody else")

    if same:
        write()
    else:
        with pytest.raises(FileExistsError):
            write()
    assert (tmp_path / "kept/part").read_text() == ("text" if same else "of somebody else")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
