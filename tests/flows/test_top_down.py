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
from privacy.noise.randomness import RunSecret
from tasks.lifecycle.workers import Workers
from tasks.records.marks import MARK_FILE
from tasks.top_down.run_plan import Estimator
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


def test_synthetic_records_are_valid_and_changed_ones_are_not(
    tmp_path: Path, data: Path, das: Das, stages_here: None
) -> None:
    def answer(*words: object, expected: int = 0) -> Any:
        code, out, _ = das(*words, "--json")
        assert code == expected
        return json.loads(out)

    made = tmp_path / "made"
    assert answer("tda", "synth", tmp_path / "blocks.txt", made, "--seed", 4)["states"] == ["23", "46"]
    assert answer("tda", "validate", made) == {"valid": True, "findings": [], "reports": []}
    states = made / "states.csv"
    states.write_text(states.read_text().replace("23,", "25,"))
    invalid = answer("tda", "validate", made, expected=1)
    assert not invalid["valid"]
    assert [finding["file"] for finding in invalid["findings"]] == ["states.csv"]


@pytest.mark.ci
def test_other_commands_do_not_import_numba() -> None:
    program = "import sys, flows.cli, flows.execution.systems, flows.top_down; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.ci
def test_workers_that_are_forked_with_numba_use_the_folder_of_kernels(tmp_path: Path) -> None:
    """numba reads the setting when it is imported; without it, it caches next to the sources, of whatever version."""
    program = """
import os, sys, pathlib
os.environ.pop("NUMBA_CACHE_DIR")
from flows.commands.options import RunOptions
RunOptions(runs_folder=pathlib.Path(sys.argv[1])).start_ahead("spine.compiled")
from spine.top_down.rounding import rounded
sys.exit(not rounded.stats.cache_path.startswith(os.environ["NUMBA_CACHE_DIR"]))
"""
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == 0


@pytest.mark.ci
def test_an_estimation_imports_scipy_only_if_a_solver_fails() -> None:
    """Every worker of a run imports it: scipy's matrices and HiGHS take a third of a second of processor time."""
    program = "import sys, spine.top_down.descend, spine.gls.tree_answers; sys.exit('scipy.sparse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
