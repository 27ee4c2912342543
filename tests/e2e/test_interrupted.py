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
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
import pytest
import s_dhc_households
import wide_inputs
from dhc_county import make, redistricting, with_units
from dhca_inputs import BLOCKS
from dhcb_inputs import HouseholdInputs, configuration
from dhcb_inputs import households as some_households
from e2e_runs import ACCOUNT, digest, open_account, real_data, reconfigure
from forked_commands import Ended, ForkedCommands
from top_down_inputs import country

from flows.execution.run import CHECK
from tasks.records.marks import MARK_FILE

pytestmark = [pytest.mark.e2e, pytest.mark.long]
PR_HOUSEHOLDS = some_households(60, 2, BLOCKS[7:])
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
MOMENTS = ("before", "within", "after")  # within: when the first piece is done; a stage without pieces: after it
SECRET = """
from privacy.noise.randomness import RunSecret
RunSecret.generate = classmethod(lambda kind: kind(bytes(range(32))))
"""
STOP = (
    SECRET
    + """
import os, threading, time
import flows.execution.run as execution, tasks.lifecycle.workers as workers
here = threading.local()
def stop():
    os.kill(os.getpid(), {number}); time.sleep(600)  # until that ends this process
def guard(stage, *arguments, guard=execution.guard):
    here.hit = stage.partition(" (")[0] == {stage!r}
    if here.hit and {moment!r} == "before":
        stop()
    try:
        return guard(stage, *arguments)
    finally:
        if here.hit:
            stop()
def ended(*arguments, ended=workers.ended):
    for one in ended(*arguments):
        if here.hit and {moment!r} == "within":
            stop()
        yield one
execution.guard, workers.ended = guard, ended
"""
)


def detailed(example: Path, folder: Path) -> tuple[list[Any], str, str]:
    real_data(example, folder)
    reconfigure(folder / "params", run_us=False)
    return ["run", folder / "params", folder / "data", folder / "out", "--estimates"], "run-pr", "pr"


def households(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    made = HouseholdInputs(config=configuration(run_us=False, run_pr=True), households=PR_HOUSEHOLDS)
    params, data = made.write(folder)
    return ["ddhcb", "run", params, data, folder / "out", "--coterminous", "--estimates"], "run-pr", "pr"


def top_down(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    data = country(folder, ("46",), form="parquet")
    (data / MARK_FILE).unlink()
    return ["tda", "run", data, folder / "out"], "run", "us"


def wide(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    """What the DHC is: answers are drawn as the estimation asks for them. The release that it keeps is made once."""
    kept = folder.with_name("wide-inputs")
    if not kept.exists():
        kept.mkdir(mode=0o700)
        wide_inputs.write_all(kept)
    for name in ("blocks.csv", "wide.csv", "wide.json"):
        shutil.copy(kept / name, folder)
    shutil.copytree(kept / "redistricting", folder / "redistricting")
    words = ["tda", "run", folder / "wide.csv", folder / "out", "--declaration", folder / "wide.json"]
    return words, "run", "declared"


def dhc(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    """The households of the DHC, whose tenures are those of a release that is made once."""
    kept = folder.with_name("dhc-inputs")
    if not kept.exists():
        kept.mkdir(mode=0o700)
        make(kept)
        with_units(kept, redistricting(kept))
    shutil.copy(kept / "households.csv", folder)
    shutil.copytree(kept / "mine", folder / "mine")
    declaration = folder / "mine/dhc-households-us.json"
    return ["tda", "run", folder / "households.csv", folder / "out", "--declaration", declaration], "run", "declared"


def bottom_up(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    from tasks.bottom_up.example import make_example

    folder.mkdir(parents=True, exist_ok=True)
    make_example(folder, 200, states=2, counties=1)
    (folder / MARK_FILE).unlink()
    inputs = folder / "table.parquet", folder / "declaration.toml"
    words = ["bottom-up", "run", *inputs, folder / "out", "--epsilon", "1"]
    return words, "run", "bottom-up"


def supplemental(_example: Path, folder: Path) -> tuple[list[Any], str, str]:
    data = s_dhc_households.country(s_dhc_households.random_units(150, ["44"])).write(folder / "data")
    values = s_dhc_households.configuration(["44"], budget="0.5")  # narrow noise: averages are soon found
    config = s_dhc_households.write_configuration(folder / "config.json", values)
    return ["sdhc", "run", config, data, folder / "out", "--estimates"], "run", "us"


# What makes a run, and its stages after the first, the same for all, in the order in which they begin.
SYSTEMS: dict[str, tuple[Callable[..., tuple[list[Any], str, str]], tuple[str, ...]]] = {
    "detailed": (
        detailed,
        (
            *("validate", "regions", "population groups", "coterminous sets", "estimate tables", "reserve budget"),
            *("spine", "totals", "sex by age", "suppression", "estimates", "coterminous", "release", "commit"),
        ),
    ),
    "households": (
        households,
        (
            *("validate", "regions", "population groups", "coterminous sets", "reserve budget"),
            *("household type and tenure", "coterminous", "estimates", "release", "commit"),
        ),
    ),
    "top-down": (
        top_down,
        ("validate", "histograms", "reserve budget", "measure", "estimate", "release", "commit"),
    ),
    "wide": (
        wide,
        ("validate", "histograms", "reserve budget", "measure", "estimate", "release", "commit"),
    ),
    "dhc": (
        dhc,
        ("validate", "histograms", "reserve budget", "measure", "estimate", "release", "commit"),
    ),
    "s-dhc": (
        supplemental,
        ("encode", "tabulate", "reserve budget", "measure", "averages", "release", "commit"),
    ),
    "bottom-up": (bottom_up, ("tabulate", "reserve budget", "measure", "calibrate", "release", "commit")),
}


class Runs:
    """A folder, always at the same path, with inputs, an account and a run; and what the run gives undisturbed."""

    def __init__(self, system: str, example: Path, folder: Path, das: Callable[..., Ended]) -> None:
        self.make, self.example, self.folder, self.das = SYSTEMS[system][0], example, folder, das
        ended = das(*self.prepare(), first=SECRET)
        assert ended.code == 0, ended.output
        self.expected = digest(folder / "out" / self.jurisdiction, reservation=False)

    def prepare(self) -> list[Any]:
        """Everything anew; returns the words of the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        words, self.run_id, self.jurisdiction = self.make(self.example, self.folder)
        (self.folder / "state").mkdir(mode=0o700)
        unit = "household" if words[0] == "ddhcb" or self.make is dhc else "person"
        self.ledger = open_account(self.folder, unit=unit)  # type: ignore[arg-type]
        where = (
            "--ledger",
            self.ledger.path,
            "--runs-folder",
            self.folder / "state",
            "--run-id",
            "run",
            "--workers",
            "1",
        )
        return [*words, "--account", ACCOUNT, *where]


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


@pytest.fixture(scope="module")
def runs(
    example: Path, tmp_path_factory: pytest.TempPathFactory, forked_commands: ForkedCommands
) -> Callable[[str], Runs]:
    """A system's runs, made when they are first asked for."""
    folder = tmp_path_factory.mktemp("interrupted")
    return lru_cache(lambda system: Runs(system, example, folder / system, forked_commands.das))


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_that_is_stopped_in_every_stage_goes_on_each_time(
    runs: Callable[[str], Runs], system: str, number: signal.Signals
) -> None:
    home = runs(system)
    words = home.prepare()
    command = words[: 1 if words[0] == "run" else 2]
    resume = [*command, "--resume", home.run_id, "--runs-folder", home.folder / "state", "--ledger", home.ledger.path]
    for at, stage in enumerate([CHECK, *SYSTEMS[system][1]], start=SIGNALS.index(number)):
        moment = MOMENTS[at % len(MOMENTS)]
        ended = home.das(*words, first=STOP.format(stage=stage, moment=moment, number=int(number)))
        assert ended.code == (-number if number == signal.SIGKILL else 3), (stage, moment, ended.output)
        assert "Traceback" not in ended.output, (stage, moment)
        until = time.monotonic() + 60
        while left := left_of(ended.process):
            assert time.monotonic() < until, (stage, moment, left)
            time.sleep(0.05)
        seen = [path.name for path in (home.folder / "out").glob("[!.]*")]
        assert seen == [home.jurisdiction] * (stage == "commit" and moment != "before"), "a release is whole or absent"
        assert len(home.ledger.rows(ACCOUNT)) <= 1, (stage, moment)
        words = resume
    ended = home.das(*resume, first=SECRET)
    assert ended.code == 0, ended.output
    assert digest(home.folder / "out" / home.jurisdiction, reservation=False) == home.expected
    assert [row.status for row in home.ledger.rows(ACCOUNT)] == ["released"]
    assert [path.name for path in (home.folder / "out").iterdir()] == [home.jurisdiction]
    assert not (home.folder / "state/runs" / home.run_id).exists()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_whose_out_lies_on_another_file_system_is_whole_or_absent(
    runs: Callable[[str], Runs], system: str, tmp_path: Path
) -> None:
    home = runs(system)
    words = home.prepare()
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        words = [disk / "out" if word == home.folder / "out" else word for word in words]
        ended = home.das(*words, first=SECRET)
        assert ended.code == 0, ended.output
        assert digest(disk / "out" / home.jurisdiction, reservation=False) == home.expected
        assert [path.name for path in (disk / "out").iterdir()] == [home.jurisdiction]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
