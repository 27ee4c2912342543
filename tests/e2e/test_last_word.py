"""Whatever goes wrong around a run, the ledger and OUT have the last word on whether it is charged and released."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from e2e_runs import ACCOUNT, das_process, open_account, real_data, reconfigure

pytestmark = pytest.mark.e2e
KILL = """
import os, psutil, time
from urllib.parse import urlsplit
import flows.detailed_dhca as stages, flows.execution.runner as runner
def kill():
    from prefect.settings import get_current_settings
    port = urlsplit(get_current_settings().api.url).port
    listening = [each for each in psutil.net_connections("tcp") if each.status == "LISTEN" and each.laddr.port == port]
    servers = {{each.pid for each in listening}} - {{os.getpid(), None}}
    assert servers
    for process in servers:
        os.kill(process, 9)
    time.sleep(0.2)
def hit(*arguments, whole={place}, **named):
    if {after}:
        result = whole(*arguments, **named)
    kill()
    return result if {after} else whole(*arguments, **named)
{place} = hit
"""
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("place", "after"),
    [
        pytest.param("stages.count_population_groups", False, id="before the charge", marks=slow),
        pytest.param("stages.measure_sex_by_age", False, id="noise", marks=slow),
        pytest.param("runner.commit", True, id="after the commit"),
    ],
)
def test_a_run_is_released_though_the_temporary_server_is_killed(
    example: Path, tmp_path: Path, place: str, after: bool
) -> None:
    real_data(example, tmp_path)
    reconfigure(tmp_path / "params", run_us=False)
    ledger = open_account(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_CLIENT_MAX_RETRIES": "0",
    }  # else it waits minutes
    words = (tmp_path / "params", tmp_path / "data", tmp_path / "out", "--account", ACCOUNT, "--run-id", "a")
    where = ("--ledger", ledger.path, "--state", tmp_path / "state", "--workers", 1, "--no-spine")
    process = das_process("run", *words, *where, first=KILL.format(place=place, after=after), environment=environment)
    told, _ = process.communicate(timeout=240)
    assert process.returncode == 0, told
    assert "PR released (run a-pr)" in told
    assert "warning: run a-pr is released; after that, " in told
    assert "Traceback" not in told
    assert [row.status for row in ledger.rows(ACCOUNT)] == ["released"]
    assert (tmp_path / "out/pr/manifest.json").is_file()
    assert not list((tmp_path / "state/runs").glob("a-*"))
