"""A disk that is full or read-only stops a run in one line; with space it goes on: one charge, one release."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dhca_inputs import BUDGETS, Inputs, configuration
from e2e_runs import ACCOUNT, das, open_account

from flows import detailed_dhca
from flows.execution import run as execution
from flows.execution import runner, safetab
from privacy.accounting.ledger import Ledger

pytestmark = pytest.mark.e2e
slow = partial(pytest.param, marks=pytest.mark.slow)
TWO_LEVELS = dict.fromkeys(BUDGETS, 0) | {BUDGETS[0]: 1, BUDGETS[5]: 1}


class Disks:
    """A file system of its own for each of OUT, ledger and state, and a run over real data on them."""

    def __init__(self, folder: Path) -> None:
        self.params, self.data = Inputs(config=configuration(**TWO_LEVELS)).write(folder)
        self.folders = {name: folder / "disks" / name for name in ("out", "ledger", "state")}
        self.out, self.state = self.folders["out"] / "release", self.folders["state"] / "home"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folders["ledger"] / "ledger.sqlite")

    def run(self) -> int:
        """Start the run."""
        where = ("--account", ACCOUNT, "--ledger", self.ledger.path, "--runs-folder", self.state, "--run-id", "run")
        return das("run", self.params, self.data, self.out, *where, "--no-spine")

    def full(self, name: str) -> None:
        """Leave no byte."""
        handle, size = os.open(self.folders[name] / "filler", os.O_CREAT | os.O_WRONLY), 1 << 20
        while size:
            try:
                os.write(handle, bytes(size))
            except OSError:
                size //= 2
        os.close(handle)

    def read_only(self, name: str) -> None:
        """Let nothing be written."""
        subprocess.run(["mount", "-o", "remount,ro", self.folders[name]], check=True)

    def mend(self, name: str) -> None:
        """Make space."""
        subprocess.run(["mount", "-o", "remount,rw", self.folders[name]], check=True)
        (self.folders[name] / "filler").unlink(missing_ok=True)


@pytest.fixture
def disks(tmp_path: Path, shared_cluster: None, no_server: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disks]:
    """An account on its disk; the run uses the session's cluster and gives a stage one try."""
    monkeypatch.setattr(execution, "stage", execution.stage.with_options(retries=0))
    made = Disks(tmp_path)
    mounted: list[Path] = []
    try:
        for folder in made.folders.values():
            folder.mkdir(parents=True)
            words = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
            with suppress(FileNotFoundError):
                if subprocess.run(words, capture_output=True).returncode == 0:
                    mounted.append(folder)
        if len(mounted) < len(made.folders):
            pytest.skip("no file system can be mounted here")
        open_account(made.folders["ledger"])
        yield made
    finally:
        for folder in mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize(
    ("name", "stage", "trouble", "says"),
    [
        slow("state", "validate", Disks.full, "validate: the disk is full"),
        ("state", "measure_totals", Disks.full, "totals (Nation, Regional): the disk is full"),
        slow("out", "stage_release", Disks.full, "release: the disk is full"),
        slow("out", "commit", Disks.read_only, "commit: Read-only file system"),
        slow(
            "ledger",
            "authorize",
            Disks.full,
            "reserve budget: the ledger {} cannot be used: database or disk is full",
        ),
        slow("ledger", "commit", Disks.full, "commit: the ledger {} cannot be used: database or disk is full"),
    ],
    ids=lambda value: getattr(value, "__name__", value if isinstance(value, str) and ":" not in value else ""),
)
def test_a_run_goes_on_once_there_is_space(
    disks: Disks,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    stage: str,
    trouble: Callable[[Disks, str], None],
    says: str,
) -> None:
    place = next(each for each in (safetab, runner, detailed_dhca) if hasattr(each, stage))
    function = getattr(place, stage)

    def in_trouble(*positional: Any, **named: Any) -> Any:
        trouble(disks, name)
        return function(*positional, **named)

    with monkeypatch.context() as patch:
        patch.setattr(place, stage, in_trouble)
        assert disks.run() == 3
    out, err = capfd.readouterr()
    assert says.format(disks.ledger.path) in err.splitlines()[-1]
    assert f"continue with: das run --resume run-us --runs-folder {disks.state}" in err.splitlines()[-1]
    assert "Traceback" not in out + err
    assert not (disks.out / "us").exists()
    disks.mend(name)
    assert len(disks.ledger.rows(ACCOUNT)) == (stage not in ("validate", "authorize"))
    assert das("run", "--resume", "run-us", "--runs-folder", disks.state) == 0
    assert [row.status for row in disks.ledger.rows(ACCOUNT)] == ["released"]
    assert [path.name for path in disks.out.iterdir()] == ["us"]
    assert not (disks.state / "runs/run-us").exists()


def test_a_place_that_another_run_fills_meanwhile_is_charged_nothing(
    disks: Disks, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    count = safetab.count_population_groups

    def filled(*positional: Any, **named: Any) -> Any:
        (disks.out / "us").mkdir(parents=True)
        (disks.out / "us/manifest.json").write_text('{"run": "another"}')
        return count(*positional, **named)

    with monkeypatch.context() as patch:
        patch.setattr(safetab, "count_population_groups", filled)
        assert disks.run() == 1
    assert f"{disks.out}/us is not empty" in capfd.readouterr().err
    assert disks.ledger.rows(ACCOUNT) == []


@pytest.mark.parametrize(
    ("name", "trouble", "says"),
    [
        ("out", Disks.read_only, "{out} cannot be written"),
        slow("state", Disks.full, "cannot be written: No space left on device"),
    ],
    ids=["out", "state"],
)
def test_what_cannot_be_written_at_all_is_refused_at_once(
    disks: Disks,
    capfd: pytest.CaptureFixture[str],
    name: str,
    trouble: Callable[[Disks, str], None],
    says: str,
) -> None:
    trouble(disks, name)
    assert disks.run() == 1
    out, err = capfd.readouterr()
    assert says.format(out=disks.folders["out"]) in err.splitlines()[-1]
    assert "Traceback" not in out + err
    disks.mend(name)
    assert disks.ledger.rows(ACCOUNT) == []
    assert disks.run() == 0
    assert len(disks.ledger.rows(ACCOUNT)) == 1
