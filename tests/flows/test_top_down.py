"""`das tda` and the flow `top-down`: one charge, the same bytes whatever is killed, nothing confidential outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from e2e_runs import ACCOUNT, arm, digest, open_account
from top_down_inputs import HERE, begin, country, design, estimated, finish

from flows.execution.top_down_settings import TopDownSettings
from privacy.accounting.ledger import Ledger
from privacy.noise.randomness import RunSecret
from tasks.errors import Refused
from tasks.lifecycle.workers import Workers
from tasks.records.marks import MARK_FILE
from tasks.top_down.run_plan import PRODUCTS, Estimator
from tasks.top_down.spend import planned_spend
from tests.flows.conftest import Das, Refuse

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
GLS = {  # of the estimator gls alone
    **dict.fromkeys(("pass up", "pass up states"), "/up/"),
    **dict.fromkeys(("margins", "margins of states", "margins of areas"), "/margins/"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return country(tmp_path)


def settings_for(folder: Path, data: Path, **changes: Any) -> TopDownSettings:
    known = {
        "data": str(data),
        "out": str(folder / "out"),
        "ledger": str(folder / "ledger.sqlite"),
        "runs_folder": str(folder / "state"),
        "run_id": "run",
    }
    return TopDownSettings(**(known | changes))


def real(folder: Path, data: Path, total: int = 10) -> tuple[TopDownSettings, Ledger]:
    """Settings of a run on data that nothing tells from real persons', with an account."""
    (data / MARK_FILE).unlink()
    return settings_for(folder, data, account=ACCOUNT), open_account(folder, total)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "shared_cluster")
def test_a_run_that_stops_is_charged_once_and_ends_in_one_release(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import flows.top_down as flow
    from flows.prefect_flows import top_down

    settings, ledger = real(tmp_path, data)

    def stops(*_: Any, **__: Any) -> None:
        raise Refused("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr(flow, "stage_release", stops)
        with pytest.raises(Refused, match="stopped here"):
            top_down(settings)
    run = settings.directory
    secret = (run / "secret").read_bytes()
    assert (run / "secret").stat().st_mode & 0o777 == 0o600
    input_digest = run.validated.input_digest
    (reserved,) = ledger.rows(ACCOUNT)
    spent = sum(run.design.cost(product, nation=False) for product in PRODUCTS)
    assert (reserved.status, reserved.amount, reserved.states) == ("reserved", spent, ("23", "46"))
    with pytest.raises(Refused, match="began with another estimator"):
        top_down(settings.model_copy(update={"estimator": "gls"}))
    place = Path(str(top_down(settings)))
    assert place == tmp_path / "out/us"
    (row,) = ledger.rows(ACCOUNT)
    assert row.status == "released"
    assert not run.path.exists()
    released = digest(place)
    assert Path(str(top_down(settings))) == place  # the release that is there
    assert digest(place) == released
    with pytest.raises(Refused, match="another configuration"):
        top_down(settings.model_copy(update={"microdata": "text"}))
    assert ledger.spent(ACCOUNT)["23"] == spent
    outside = "".join(path.read_text(errors="replace") for path in place.rglob("*.*")) + caplog.text
    assert secret.hex() not in outside
    assert input_digest not in outside


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "shared_cluster")
def test_an_account_that_would_be_passed_is_refused_before_a_record_is_read(tmp_path: Path, data: Path) -> None:
    from flows.prefect_flows import top_down

    settings, ledger = real(tmp_path, data, total=2)
    with pytest.raises(Refused, match="census"):
        top_down(settings)
    assert not list(settings.directory.path.glob("persons/*"))
    assert not (settings.directory / "secret").exists()
    assert ledger.rows(ACCOUNT) == []


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two worker processes, which are started again when they die."""
    from flows.execution.cluster import ClusterSettings, open_cluster

    with open_cluster(ClusterSettings(workers=2), tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.fixture(scope="module")
def confidential(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data that nothing tells from real persons'."""
    data = country(tmp_path_factory.mktemp("confidential"))
    (data / MARK_FILE).unlink()
    return data


@pytest.fixture(scope="module")
def undisturbed(confidential: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Estimator], str]:
    """The digest of the release that an estimator gives when nothing is killed."""

    def of(estimator: Estimator) -> str:
        return digest(charged_once(tmp_path_factory.mktemp("whole"), confidential, estimator), reservation=False)

    return cache(of)


def charged_once(folder: Path, data: Path, estimator: Estimator, workers: Workers = HERE) -> Path:
    """A staged release of a run that is charged, and only once; all of them have one secret, to be compared."""
    ledger = open_account(folder, total=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunSecret, "generate", lambda: RunSecret(bytes(range(32))))
        run = begin(folder, data, design(estimator=estimator), workers=workers, account=ACCOUNT)
    place = finish(run, folder, workers)
    (row,) = ledger.rows(ACCOUNT)
    assert (row.status, row.amount) == ("reserved", planned_spend(run.design, nation=False).charged)
    return place


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("stage", WRITES | GLS)
def test_a_worker_killed_in_any_stage_changes_no_byte(
    tmp_path: Path,
    confidential: Path,
    two_workers: Client,
    undisturbed: Callable[[Estimator], str],
    stage: str,
    moment: str,
) -> None:
    two_workers.wait_for_workers(2)
    estimator: Estimator = "gls" if stage in GLS else "topdown"

    def watch(named: str, done: int, total: int) -> None:
        if done == 0 and named == stage:
            two_workers.run(arm, tmp_path / "died", moment, (WRITES | GLS)[stage])

    killed = charged_once(tmp_path, confidential, estimator, Workers(two_workers, watch))
    assert (tmp_path / "died").exists()
    assert digest(killed, reservation=False) == undisturbed(estimator)


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.slow
def test_a_flow_on_several_workers_is_estimated_again_from_what_it_published(
    tmp_path: Path, data: Path, refused: Refuse
) -> None:
    """Estimator gls under Prefect on two worker processes; then from its measurements in this process, and by das."""
    from flows.execution.cluster import ClusterSettings
    from flows.prefect_flows import top_down

    cluster = ClusterSettings(workers=2)
    place = Path(str(top_down(settings_for(tmp_path, data, estimator="gls", nation=True, cluster=cluster))))
    (again,) = estimated(tmp_path / "again", place / "measurements")
    for folder in ("histograms", "margins", "mdf", "invariants"):
        files = sorted(path.relative_to(place) for path in (place / folder).rglob("*.parquet"))
        assert files
        assert all((place / name).read_bytes() == (again / name).read_bytes() for name in files)
    options = ("--runs-folder", tmp_path / "state", "--workers", 1)
    message = "holds no noisy measurements: name a TopDown release, its folder measurements/"
    refused(message, "tda", "estimate", data, tmp_path / "none", *options)
    refused("is not empty", "tda", "estimate", place, again, *options)
    assert not list((tmp_path / "state/runs").glob("tda-estimate*"))


def test_das_tda_from_synthetic_records_to_truth(
    tmp_path: Path, data: Path, das: Das, refused: Refuse, shared_cluster: None
) -> None:
    def answer(*words: object, expected: int = 0) -> Any:
        code, out, _ = das(*words, "--json")
        assert code == expected
        return json.loads(out)

    made, out = tmp_path / "made", tmp_path / "truth"
    assert answer("tda", "synth", tmp_path / "blocks.txt", made, "--seed", 4)["states"] == ["23", "46"]
    assert answer("tda", "validate", made) == {"valid": True, "findings": [], "reports": []}
    (made / MARK_FILE).unlink()
    names = {path.name for path in made.iterdir()}
    assert set(answer("synth", "--mark", made, "--yes")["digests"]) == names
    (made / MARK_FILE).unlink()
    refused("curator", "tda", "truth", made, out)
    assert not list(out.glob("*"))
    assert answer("tda", "truth", made, out, "--i-am-the-curator")["NOT_PRIVATE"]
    assert (out / "us/mdf/23_persons.parquet").exists()
    states = made / "states.csv"
    states.write_text(states.read_text().replace("23,", "25,"))
    invalid = answer("tda", "validate", made, expected=1)
    assert not invalid["valid"]
    assert [finding["file"] for finding in invalid["findings"]] == ["states.csv"]


@pytest.mark.ci
def test_other_commands_do_not_import_numba() -> None:
    program = "import sys, flows.cli, flows.execution.systems, flows.top_down; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
