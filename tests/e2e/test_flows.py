"""The flows as Prefect and Dask carry them out; other tests run the same stages in their own process.

Of every system the bytes are the same as there; no value of a person reaches the server's database or Dask's logs.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from dhca_faults import PERSONS, field, good_inputs, headless
from e2e_runs import ACCOUNT, das, digest, open_account, settings_for

from flows.prefect_flows import detailed_dhca
from privacy.noise.randomness import RunSecret
from tasks.errors import Refused
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.run_directory import RunDirectory
from tests.systems.cases import CASES, Case
from tests.systems.conftest import Home
from tests.systems.in_process import patch_flows

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("prefect_server", "shared_cluster")]


# Two in `make test`, the others in CI; the toy is in tests/flows/test_systems.py.
AS_HERE = [
    case if case.name in ("detailed-dhca", "bottom-up") else pytest.param(case, marks=pytest.mark.ci)
    for case in CASES
    if case.name != "toy"
]


@pytest.mark.parametrize("case", AS_HERE, ids=str)
def test_a_run_on_a_cluster_has_the_bytes_of_one_in_this_process(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a person types it, charged once and released, under one secret."""
    monkeypatch.setattr(RunSecret, "generate", classmethod(lambda kind: kind(bytes(range(32)))))
    home = Home(case, tmp_path / "home")
    shutil.copytree(home.folder, tmp_path / "kept")
    with monkeypatch.context() as patch:
        patch_flows(patch)
        assert home.run().code == 0
    expected = digest(home.release, reservation=False)
    home.put_back(tmp_path / "kept")
    ended = home.run()
    assert ended.code == 0, ended.err
    assert digest(home.release, reservation=False) == expected
    assert [row.status for row in home.rows()] == ["released"]
    assert home.left() == [home.release]


def plant_canaries(folder: Path) -> dict[str, str]:
    """A person whose every value is a canary, and a line that is too short; returns the canaries."""
    path = folder / PERSONS
    text = path.read_bytes()
    columns = text.decode().splitlines()[0].split("|")
    canaries = {column: f"canary-{column.lower()}-8642" for column in columns if column != "TABBLKST"}
    for column, value in canaries.items():
        text = field(5, column, value)(text)
    path.write_bytes(text + b"canary-short-8642|1\n")
    return canaries


def database_text() -> bytes:
    """All that Prefect has stored."""
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

    time.sleep(2.5)  # its client sends log lines in batches, every two seconds
    path = Path(str(PREFECT_API_DATABASE_CONNECTION_URL.value()).split(":///")[1])
    return b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))


def test_no_value_of_a_person_leaves_the_confidential_directory(
    tmp_path: Path, client: Any, state_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    inputs, ledger = good_inputs().write(tmp_path), open_account(tmp_path)

    def run_refused(why: str, *words: object) -> str:
        where = ("--account", ACCOUNT, "--ledger", ledger.path, "--no-spine")
        assert das("run", *inputs, tmp_path / "out", *where, *words) == 1
        out, err = capfd.readouterr()
        assert why in err.splitlines()[-1]
        assert ledger.rows(ACCOUNT) == []
        return out + err

    canaries = plant_canaries(tmp_path)
    text = run_refused("the input does not pass validation", "--run-id", "finding-run")
    assert sum("Invalid values found" in line for line in text.splitlines()) == len(canaries)
    report = (state_home / "runs/finding-run-us/findings.json").read_text()
    assert [canary for canary in canaries.values() if canary not in report] == []
    path = tmp_path / PERSONS  # and a file without a header, whose first line is that of a person
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(headless(b"\n".join([lines[0], lines[4], *lines[1:]])))
    more = run_refused("pass validation")
    assert "Unexpected columns found" in more
    stored = database_text()
    assert b"finding-run-us" in stored  # it is the right database
    logs = repr((client.get_worker_logs(), client.get_scheduler_logs(), client.get_events()))
    for canary in ("canary-", "8642"):
        assert canary not in text + more
    assert b"canary-" not in stored
    assert "canary-" not in logs


def test_a_jurisdiction_that_is_switched_off_is_charged_nothing(tmp_path: Path, state_home: Path) -> None:
    """As a deployment starts it, which names its jurisdiction itself."""
    inputs = good_inputs()
    thresholds = inputs.config["thresholds_p"]
    inputs.config["thresholds_p"] = {level: of for level, of in thresholds.items() if "PR-" not in level}
    inputs.write(tmp_path)
    ledger = open_account(tmp_path)
    settings = settings_for(tmp_path, "switched-off-pr", runs_folder=state_home)
    assert detailed_dhca(settings) is None
    assert ledger.rows(ACCOUNT) == []
    assert not (state_home / "runs/switched-off-pr").exists()
    assert b"PR has no block, or config.json switches it off: skipped, nothing charged" in database_text()
    reserved = RunDirectory(state_home / "runs/reserved-pr")
    reserved.create()
    (reserved / AUTHORIZATION).touch()
    with pytest.raises(
        Refused, match="may have been charged and its directory is kept"
    ):  # its secret is not thrown away
        detailed_dhca(settings.model_copy(update={"run_id": reserved.id}))
    assert (reserved / AUTHORIZATION).exists()
