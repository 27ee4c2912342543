"""`das tda` and the flow `top-down`: one charge, the same bytes whatever is killed, nothing confidential outside."""

from __future__ import annotations

import importlib
import json
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from e2e_runs import das, digest
from top_down_inputs import HERE, begin, country, design, finish

from flows.execution.top_down_settings import TopDownSettings
from privacy.accounting.ledger import Account, Ledger
from tasks.inputs.synthetic_mark import MARK_FILE
from tasks.lifecycle.errors import Refused
from tasks.top_down.design import PRODUCTS
from tasks.top_down.reestimate import release_estimate
from tasks.top_down.run import TopDownRun

ACCOUNT = "census"
# every stage that draws, counts or writes on workers, and where its pieces write
WRITES = {
    "validate": "persons/",
    "invariants": "counts/",
    "spine": "prepared/spine",
    "histograms": "counts/",
    "measure": "measurements/",
    "estimate states": "noisy/",
    "estimate tracts": "noisy/",
    "estimate blocks": "noisy/",
    "release": "mdf/",
}
GLS = {"pass up": "/up/", "margins": "/margins/", "margins of states": "/margins/"}  # of the estimator gls alone


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return country(tmp_path)


@pytest.fixture
def here(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Flows of this test run on the session's cluster."""
    monkeypatch.setattr("flows.execution.run.open_cluster", lambda settings, scratch: nullcontext(client))
    return client


def settings_for(folder: Path, data: Path, **changes: Any) -> TopDownSettings:
    known = {
        "data": str(data),
        "out": str(folder / "out"),
        "ledger": str(folder / "ledger.sqlite"),
        "state": str(folder / "state"),
        "run_id": "run",
    }
    return TopDownSettings(**(known | changes))


def real(folder: Path, data: Path, total: int = 10) -> tuple[TopDownSettings, Ledger]:
    """Settings of a run on data that nothing tells from real persons', with an account."""
    (data / MARK_FILE).unlink()
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.open_account(Account(ACCOUNT, "zcdp", total))  # type: ignore[arg-type]
    return settings_for(folder, data, account=ACCOUNT), ledger


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "here")
def test_a_run_that_stops_is_charged_once_and_ends_in_one_release(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import flows.top_down as flow

    settings, ledger = real(tmp_path, data)

    def stops(*_: Any, **__: Any) -> None:
        raise Refused("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr(flow, "stage_release", stops)
        with pytest.raises(Refused, match="stopped here"):
            flow.top_down(settings)
    run = settings.directory
    secret = (run / "secret").read_bytes()
    assert (run / "secret").stat().st_mode & 0o777 == 0o600
    input_digest = run.validated.input_digest
    (reserved,) = ledger.rows(ACCOUNT)
    spent = sum(run.design.cost(product, nation=False) for product in PRODUCTS)
    assert (reserved.status, reserved.amount, reserved.states) == ("reserved", spent, ("23", "46"))
    with pytest.raises(Refused, match="began with another rounding"):
        flow.top_down(settings.model_copy(update={"rounding": "l1"}))
    place = Path(str(flow.top_down(settings)))
    assert place == tmp_path / "out/us"
    (row,) = ledger.rows(ACCOUNT)
    assert row.status == "released"
    assert not run.path.exists()
    released = digest(place)
    assert Path(str(flow.top_down(settings))) == place  # the release that is there
    assert digest(place) == released
    with pytest.raises(Refused, match="another configuration"):
        flow.top_down(settings.model_copy(update={"microdata": "text"}))
    assert ledger.spent(ACCOUNT)["23"] == spent
    outside = "".join(path.read_text(errors="replace") for path in place.rglob("*.*")) + caplog.text
    assert secret.hex() not in outside
    assert input_digest not in outside


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "here")
def test_an_account_that_would_be_passed_is_refused_before_a_record_is_read(tmp_path: Path, data: Path) -> None:
    from flows.top_down import top_down

    settings, ledger = real(tmp_path, data, total=2)
    with pytest.raises(Refused, match="census"):
        top_down(settings)
    assert not list(settings.directory.path.glob("persons/*"))
    assert not (settings.directory / "secret").exists()
    assert ledger.rows(ACCOUNT) == []


def arm(name: str, moment: str, where: str, died: Path) -> None:
    """Make this process die once, before or after it puts a file of a stage in its place."""
    place = importlib.import_module("os")
    function = getattr(place, name)

    def deadly(*arguments: Any) -> Any:
        if where not in str(arguments[-1]):
            return function(*arguments)
        setattr(place, name, function)
        result = function(*arguments) if moment == "after" else None
        with suppress(FileExistsError), open(died, "x"):
            os.kill(os.getpid(), signal.SIGKILL)
        return result if moment == "after" else function(*arguments)

    setattr(place, name, deadly)


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("stage", WRITES | GLS)
def test_a_worker_killed_in_any_stage_changes_no_byte(tmp_path: Path, data: Path, stage: str, moment: str) -> None:
    from flows.execution.cluster import ClusterSettings, open_cluster
    from tasks.lifecycle.workers import Workers

    (tmp_path / "killed").mkdir()
    (tmp_path / "killed/kernels").symlink_to(Path(os.environ["NUMBA_CACHE_DIR"]).parent)  # compiled once for all
    with open_cluster(ClusterSettings(workers=2), tmp_path / "dask") as client:

        def watch(named: str, done: int, total: int) -> None:
            if done == 0 and named == stage:
                client.run(arm, "replace", moment, (WRITES | GLS)[stage], tmp_path / "died")

        killed = _all(tmp_path / "killed", data, stage, Workers(client, watch))
    assert (tmp_path / "died").exists()
    assert digest(killed) == digest(_all(tmp_path / "whole", data, stage, HERE))


def _all(folder: Path, data: Path, stage: str, workers: Any) -> Path:
    made = design(estimator="gls" if stage in GLS else "topdown")
    run = begin(folder, data, made, workers=workers)
    return finish(run, folder, workers)


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.slow
def test_a_flow_on_several_workers_is_estimated_again_from_what_it_published(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Estimator gls under Prefect on two worker processes; then from its measurements in this process, and by das."""
    from flows.execution.cluster import ClusterSettings
    from flows.top_down import top_down

    cluster = ClusterSettings(workers=2)
    place = Path(str(top_down(settings_for(tmp_path, data, estimator="gls", nation=True, cluster=cluster))))
    run = TopDownRun(tmp_path / "state/runs/again")
    run.create()
    again = release_estimate(run, HERE, place / "measurements", tmp_path / "again", {})
    for folder in ("histograms", "margins", "mdf", "invariants"):
        files = sorted(path.relative_to(place) for path in (place / folder).rglob("*.parquet"))
        assert files
        assert all((place / name).read_bytes() == (again / name).read_bytes() for name in files)
    capsys.readouterr()
    assert das("tda", "estimate", data, tmp_path / "none", "--state", tmp_path / "state", "--workers", 1) == 1
    assert "give the folder measurements/ of a TopDown release" in " ".join(capsys.readouterr().err.split())
    assert das("tda", "estimate", place, again, "--state", tmp_path / "state", "--workers", 1) == 1
    assert "is not empty" in capsys.readouterr().err
    assert not list((tmp_path / "state/runs").glob("tda-estimate*"))


def test_das_tda_from_synthetic_records_to_truth(
    tmp_path: Path, data: Path, shared_cluster: None, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    assert das("tda", "synth", tmp_path / "blocks.txt", made, "--seed", 4, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["states"] == ["23", "46"]
    assert das("tda", "validate", made, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"valid": True, "findings": [], "reports": []}
    (made / MARK_FILE).unlink()
    assert das("synth", "--mark", made, "--yes", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)["digests"]) == {path.name for path in made.iterdir()} - {MARK_FILE}
    (made / MARK_FILE).unlink()
    assert das("tda", "truth", made, tmp_path / "truth") == 1
    assert "curator" in capsys.readouterr().err
    assert not list((tmp_path / "truth").glob("*"))
    assert das("tda", "truth", made, tmp_path / "truth", "--i-am-the-curator", "--json") == 0
    assert json.loads(capsys.readouterr().out)["NOT_PRIVATE"]
    assert (tmp_path / "truth/us/mdf/23_persons.parquet").exists()
    states = made / "states.csv"
    states.write_text(states.read_text().replace("23,", "25,"))
    assert das("tda", "validate", made, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["valid"]
    assert [finding["file"] for finding in told["findings"]] == ["states.csv"]


@pytest.fixture
def shared_cluster(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this test that open a cluster get the session's."""
    opened: Callable[..., Any] = lambda settings, scratch: nullcontext(client)  # noqa: E731
    monkeypatch.setattr("flows.execution.cluster.open_cluster", opened)


def test_other_commands_do_not_import_numba() -> None:
    import subprocess
    import sys

    program = "import sys, flows.cli, flows.execution.systems, flows.top_down; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
