"""Whatever goes wrong around a run, the ledger and OUT have the last word on whether it is charged and released."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from e2e_runs import ACCOUNT, FEW_LEVELS, das_process, open_account, real_data, reconfigure

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


@pytest.mark.parametrize(
    ("place", "after"),
    [
        pytest.param("safetab.count_population_groups", False, id="before the charge", marks=slow),
        pytest.param("stages.measure_sex_by_age", False, id="noise", marks=slow),
        pytest.param("runner.commit", True, id="after the commit"),
    ],
)
@pytest.mark.ci
def test_a_run_is_released_though_nothing_answers_prefect_any_more(
    example: Path, tmp_path: Path, place: str, after: bool
) -> None:
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False, **FEW_LEVELS)
    ledger = open_account(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect")}
    words = (tmp_path / "params", tmp_path / "data", tmp_path / "out", "--account", ACCOUNT, "--run-id", "a")
    where = ("--ledger", ledger.path, "--runs-folder", tmp_path / "state", "--workers", 1, "--no-spine")
    process = das_process("run", *words, *where, first=END.format(place=place, after=after), environment=environment)
    result, _ = process.communicate(timeout=240)
    assert process.returncode == 0, result
    assert "PR released (run a-pr)" in result
    assert "warning: run a-pr is released; after that, " in result
    assert "nothing answers" in result
    assert "Traceback" not in result
    assert [row.status for row in ledger.rows(ACCOUNT)] == ["released"]
    assert (tmp_path / "out/pr/manifest.json").is_file()
    assert not list((tmp_path / "state/runs").glob("a-*"))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in which the path of a socket is not too long."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    "place", [pytest.param("safetab.count_population_groups", marks=slow), "stages.measure_sex_by_age"]
)
def test_a_run_that_is_stopped_leaves_nothing_in_the_temporary_folder(
    example: Path, tmp_path: Path, short_folder: Path, place: str
) -> None:
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False, **FEW_LEVELS)
    ledger = open_account(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "TMPDIR": str(short_folder)}
    words = (tmp_path / "params", tmp_path / "data", tmp_path / "out", "--account", ACCOUNT, "--run-id", "a")
    where = ("--ledger", ledger.path, "--runs-folder", tmp_path / "state", "--workers", 1, "--no-spine")
    stops = (
        "import os, signal, time, flows.detailed_dhca as stages, flows.execution.safetab as safetab\n"
        f"{place} = lambda *_, **__: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(600))\n"
    )
    process = das_process("run", *words, *where, first=stops, environment=environment)
    result, _ = process.communicate(timeout=240)
    assert process.returncode == 3, result
    assert "stopped: interrupted" in result
    assert [*short_folder.iterdir()] == []
