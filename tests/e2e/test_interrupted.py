"""SIGTERM, Ctrl-C and SIGKILL in every stage of every system: no process is left, and a resume gives the same bytes.

The secret is fixed, so that the release of a run that was never stopped is known.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from e2e_runs import ACCOUNT, das_process, digest, open_account, real_data, reconfigure
from top_down_inputs import country

from tasks.inputs.synthetic_mark import MARK_FILE

pytestmark = [pytest.mark.e2e, pytest.mark.long]
PATIENCE = 600  # seconds until a test gives up; nothing depends on it
SECRET = """
from privacy.noise.randomness import RunSecret
RunSecret.generate = classmethod(lambda kind: kind(bytes(range(32))))
"""
STOP = (
    SECRET
    + """
import os, signal, time
import flows.execution.run as execution
def guard(stage, *arguments, guard=execution.guard):
    hit = stage.partition(" (")[0] == {stage!r}
    if hit and not {after}:
        os.kill(os.getpid(), {number}); time.sleep(30)
    try:
        return guard(stage, *arguments)
    finally:
        if hit:
            os.kill(os.getpid(), {number}); time.sleep(30)
execution.guard = guard
"""
)


def detailed(example: Path, folder: Path) -> tuple[list[Any], str, str]:
    real_data(example, folder)
    reconfigure(folder / "params", run_us=False)
    return ["run", folder / "params", folder / "data", folder / "out", "--estimates"], "run-pr", "pr"


def top_down(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    data = country(folder, ("46",), form="parquet")
    (data / MARK_FILE).unlink()
    return ["tda", "run", data, folder / "out"], "run", "us"


def bottom_up(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    from tasks.bottom_up.example import make_example

    folder.mkdir(parents=True, exist_ok=True)
    make_example(folder, 200, states=2, counties=1)
    (folder / MARK_FILE).unlink()
    words = ["bottom-up", "run", folder / "table.parquet", folder / "domain.json", folder / "out", "--epsilon", "1"]
    return words, "run", "bottom-up"


SYSTEMS: dict[str, tuple[Callable[..., tuple[list[Any], str, str]], tuple[str, ...]]] = {
    "detailed": (
        detailed,
        (
            *("account", "validate", "population groups", "coterminous sets", "estimate tables", "budget check"),
            *("spine", "totals", "sex by age", "suppression", "estimates", "coterminous", "release", "commit"),
        ),
    ),
    "top-down": (
        top_down,
        ("validate", "spine", "histograms", "budget check", "measure", "estimate", "release", "commit"),
    ),
    "bottom-up": (bottom_up, ("tabulate", "budget check", "measure", "calibrate", "release", "commit")),
}


class Runs:
    """A folder, always at the same path, with inputs, an account and a run; and what the run gives undisturbed."""

    def __init__(self, system: str, example: Path, folder: Path) -> None:
        self.make, self.example, self.folder = SYSTEMS[system][0], example, folder
        self.expected = ""
        words = self.prepare()
        assert self.das(words, SECRET)[0] == 0
        self.expected = digest(folder / "out" / self.region)

    def prepare(self) -> list[Any]:
        """Everything anew; returns the words of the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        words, self.run_id, self.region = self.make(self.example, self.folder)
        self.ledger = open_account(self.folder)
        where = ("--ledger", self.ledger.path, "--state", self.folder / "state", "--run-id", "run", "--workers", "1")
        return [*words, "--account", ACCOUNT, *where]

    def das(self, words: list[Any], first: str) -> tuple[int, str, int]:
        """A command in a session of its own: its exit code, its output, the session."""
        process = das_process(*words, first=first)
        told, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, told, process.pid


def left_of(session: int) -> list[psutil.Process]:
    """The processes of a session."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.Error):
            pass
    return found


@pytest.fixture(scope="module", params=SYSTEMS)
def runs(
    request: pytest.FixtureRequest, example: Path, tmp_path_factory: pytest.TempPathFactory, prefect_server: None
) -> tuple[str, Runs]:
    return request.param, Runs(request.param, example, tmp_path_factory.mktemp("interrupted") / "work")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_is_stopped_in_any_stage_goes_on(runs: tuple[str, Runs], number: signal.Signals) -> None:
    system, home = runs
    for at, stage in enumerate(SYSTEMS[system][1]):
        words = home.prepare()
        stop = STOP.format(stage=stage, after=bool(at % 2), number=int(number))
        code, told, session = home.das(words, stop)
        assert code == (-number if number == signal.SIGKILL else 3), (stage, told)
        assert "Traceback" not in told, stage
        until = time.monotonic() + 60
        while left := left_of(session):
            assert time.monotonic() < until, (stage, left)
            time.sleep(0.2)
        seen = [path.name for path in (home.folder / "out").glob("[!.]*")]
        assert seen == [home.region] * (stage == "commit" and at % 2 == 1), "a release is whole or absent"
        assert len(home.ledger.rows(ACCOUNT)) <= 1
        resume = [*words[: 1 if words[0] == "run" else 2], "--resume", home.run_id, "--state", home.folder / "state"]
        resume += ["--ledger", home.ledger.path]
        code, told, _ = home.das(resume, SECRET)
        assert code == 0, (stage, told)
        assert digest(home.folder / "out" / home.region) == home.expected, stage
        assert [row.status for row in home.ledger.rows(ACCOUNT)] == ["released"], stage
        assert [path.name for path in (home.folder / "out").iterdir()] == [home.region], stage
        assert not (home.folder / "state/runs" / home.run_id).exists(), stage


def test_a_run_whose_out_lies_on_another_file_system_is_whole_or_absent(runs: tuple[str, Runs], tmp_path: Path) -> None:
    _, home = runs
    words = home.prepare()
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        code, told, _ = home.das([disk / "out" if word == home.folder / "out" else word for word in words], SECRET)
        assert code == 0, told
        assert [path.name for path in (disk / "out").iterdir()] == [home.region]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
