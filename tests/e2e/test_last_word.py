"""Whatever goes wrong around a run, the ledger and OUT have the last word on whether it is charged and released."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from e2e_runs import ACCOUNT, FEW_LEVELS, das_process, open_account, real_data, reconfigure

from privacy.accounting.ledger import Ledger

pytestmark = pytest.mark.e2e
END = """
import httpx
import flows.detailed_dhca as stages, flows.execution.no_server as no_server
import flows.execution.runner as runner, flows.execution.safetab as safetab
no_server.CLIENT["PREFECT_CLIENT_MAX_RETRIES"] = "0"  # or Prefect asks for half a minute
def dead(_, request):
    print("nothing answers")
    raise httpx.ConnectError("as of a server that was killed", request=request)
def hit(*arguments, whole={place}, **named):
    if {after}:
        result = whole(*arguments, **named)
    no_server.Records.handle_request = dead
    return result if {after} else whole(*arguments, **named)
{place} = hit
"""
slow = pytest.mark.slow


@dataclass
class Home:
    """A folder with real data of few levels of Puerto Rico, and an account; it belongs to no Prefect server."""

    folder: Path
    ledger: Ledger

    def run(self, first: str, **environment: str) -> tuple[int, str]:
        """Run in a process of its own, after some lines of Python; return its exit code and output."""
        own = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        places = [self.folder / name for name in ("params", "data", "out")]
        words = ("run", *places, "--account", ACCOUNT, "--run-id", "a", "--workers", 1, "--no-spine")
        where = ("--ledger", self.ledger.path, "--runs-folder", self.folder / "state")
        own |= {"PREFECT_HOME": str(self.folder / "prefect")} | environment
        process = das_process(*words, *where, first=first, environment=own)
        output, _ = process.communicate(timeout=240)
        return process.returncode, output


@pytest.fixture
def home(example: Path, tmp_path: Path) -> Home:
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False, **FEW_LEVELS)
    return Home(tmp_path, open_account(tmp_path))


@pytest.mark.parametrize(
    ("place", "after"),
    [
        pytest.param("safetab.count_population_groups", False, id="before the charge", marks=slow),
        pytest.param("stages.measure_sex_by_age", False, id="noise", marks=slow),
        pytest.param("runner.commit", True, id="after the commit"),
    ],
)
@pytest.mark.ci
def test_a_run_is_released_though_nothing_answers_prefect_any_more(home: Home, place: str, after: bool) -> None:
    code, result = home.run(END.format(place=place, after=after))
    assert code == 0, result
    assert "PR released (run a-pr)" in result
    assert "warning: run a-pr is released; after that, " in result
    assert "nothing answers" in result
    assert "Traceback" not in result
    assert [row.status for row in home.ledger.rows(ACCOUNT)] == ["released"]
    assert (home.folder / "out/pr/manifest.json").is_file()
    assert not list((home.folder / "state/runs").glob("a-*"))


@pytest.mark.parametrize(
    "place", [pytest.param("safetab.count_population_groups", marks=slow), "stages.measure_sex_by_age"]
)
def test_a_run_that_is_stopped_leaves_nothing_in_the_temporary_folder(home: Home, place: str) -> None:
    stops = (
        "import os, signal, time, flows.detailed_dhca as stages, flows.execution.safetab as safetab\n"
        f"{place} = lambda *_, **__: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(600))\n"
    )
    with TemporaryDirectory() as folder:  # in which the path of a socket is not too long
        code, result = home.run(stops, TMPDIR=folder)
        assert code == 3, result
        assert "stopped: interrupted" in result
        assert os.listdir(folder) == []
