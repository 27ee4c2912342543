"""A worker killed in the middle of any stage: the run completes with the bytes of its secret, and is charged once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import wide_inputs
from dhc_county import make, redistricting, with_units
from dhca_inputs import HERE
from distributed import Client
from e2e_runs import (
    ACCOUNT,
    KEY,
    arm,
    digest,
    directory,
    go,
    open_account,
    real_data,
    reconfigure,
    settings_for,
    small_pieces,
)

from flows.execution.cluster import ClusterSettings, open_cluster
from flows.execution.top_down_settings import DeclaredSettings
from privacy.accounting.composition import UnitOfPrivacy
from privacy.noise.randomness import RunSecret
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import SEE_SPINE
from tasks.lifecycle.workers import Workers
from tasks.spine.optimize import build_spine
from tasks.top_down.declared import source

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
WRITES = {  # every stage that maps its work onto the workers, and where in the run or the release its pieces write
    "validate": "/records",
    "population groups": "/counts",
    "digest": "/digests-",  # of a resume: is the input what it was
    "totals": "/totals",
    "sex by age": "/sex_by_age",
    "suppression": "/published",
    "coterminous": "/final",
    "release": ".partial/",  # t1 and t2 of a level are pieces of their own
}
MOMENTS = [  # what a piece wrote is not yet in its place, or it is and only the answer is lost
    *((stage, "before") for stage in WRITES),
    *((stage, "after") for stage in ("validate", "totals", "release")),
]


@pytest.fixture(scope="module")
def home(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real data of few levels, its persons in several row groups, so that every stage has several pieces."""
    folder = tmp_path_factory.mktemp("killed")
    real_data(example, folder)
    unused = [f"privacy_budget_p_level_{level}_pr_{name}" for level in (1, 2) for name in ("state", "place")]
    reconfigure(folder / "params", run_us=False, **dict.fromkeys(unused, 0))
    text = folder / "data/person-records.txt"
    columns = text.read_text().partition("\n")[0].split("|")
    as_text = pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False)
    persons = pa.csv.read_csv(text, parse_options=pa.csv.ParseOptions(delimiter="|"), convert_options=as_text)
    pq.write_table(persons, text.with_suffix(".parquet"), row_group_size=len(persons) // 6)
    text.unlink()
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two workers, and what takes the place of killed ones."""
    with small_pieces(), open_cluster(ClusterSettings(workers=2), tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.mark.parametrize(("stage", "moment"), MOMENTS)
def test_a_run_completes(home: Path, tmp_path: Path, two: Client, stage: str, moment: str) -> None:
    two.wait_for_workers(2, timeout=60)
    alive, died = set(two.run(os.getpid).values()), tmp_path / "died"
    settings = settings_for(tmp_path, params=home / "params", data=home / "data", blocks_each=10)
    run, ledger = directory(settings), open_account(tmp_path)

    def watch(named: str, done: int, total: int) -> None:
        """Arm the workers when the stage begins with several pieces, or with the one digest of a resume."""
        several = (run / SECRET).exists() if stage == "digest" else total > 1
        if done == 0 and named.startswith(stage) and several:
            two.run(arm, died, moment, WRITES[stage])

    go(settings, Workers(two, watch), before="totals")
    secret = (run / SECRET).read_bytes()
    (reserved,) = ledger.rows(ACCOUNT)
    for path in (ledger.path, ledger.journal):
        shutil.copy(path, tmp_path / f"before-{path.name}")
    place = go(settings, Workers(two, watch))  # a resume: it takes up what is there
    assert place is not None
    process = int(died.read_text())
    assert process in alive
    assert not psutil.pid_exists(process)
    (charge,) = ledger.rows(ACCOUNT)
    assert charge.status == "released"
    assert ledger.spent(ACCOUNT) == {"72": reserved.amount}
    released = digest(place)
    # The same reservation once more, from the input on, in one process and undisturbed.
    shutil.rmtree(place)
    for path in (ledger.path, ledger.journal):
        shutil.copy(tmp_path / f"before-{path.name}", path)
    run.create()
    (run / SECRET).write_bytes(secret)
    assert go(settings, HERE) == place
    assert digest(place) == released


WIDE_WRITES = {  # as WRITES, of the DHC's kind of table: answers are drawn as the estimation asks for them
    "validate": "persons/",
    "histograms": "counts/",
    "measure": "measurements/",
    **dict.fromkeys(("estimate county", "estimate tract", "estimate block", "sum leaves"), "noisy/"),
    "release": "parquet/",
}


Release = Callable[[Path, Workers], str]  # in a folder; returns the release's digest


def releasing(data: Path, declaration: Path, unit: UnitOfPrivacy, budget: Fraction) -> Release:
    """Return what releases a table under one secret and in many pieces, and checks that it was charged once."""

    def release(folder: Path, workers: Workers) -> str:
        known = {"data": data, "declaration": declaration, "out": folder / "out"}
        known |= {"ledger": folder / "ledger.sqlite", "runs_folder": folder / "state"}
        paths = {name: str(path) for name, path in known.items()}
        settings, ledger = DeclaredSettings.new(**paths, run_id="run", account=ACCOUNT), open_account(folder, unit=unit)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunSecret, "generate", classmethod(lambda kind: kind(KEY)))
            patch.setattr(source, "CHILDREN", 1)
            settings.directory.create()
            place = go(settings, workers)
        assert place is not None
        (charge,) = ledger.rows(ACCOUNT)
        assert (charge.status, charge.amount) == ("released", budget)
        return digest(place, reservation=False)

    return release


def wide(folder: Path) -> Release:
    wide_inputs.write_all(folder)
    return releasing(folder / "wide.csv", folder / "wide.json", "person", Fraction(4))


def households(folder: Path) -> Release:
    make(folder)
    with_units(folder, redistricting(folder))
    own = folder / "mine/dhc-households-us.json"
    return releasing(folder / "households.csv", own, "household", Fraction("6.8172"))


TABLES = {"wide": wide, "households": households}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Release, str]]:
    """Return what releases a table, and the digest of its release by one process that nobody kills."""

    @cache
    def made(table: str) -> tuple[Release, str]:
        release = TABLES[table](tmp_path_factory.mktemp(table))
        return release, release(tmp_path_factory.mktemp("undisturbed"), HERE)

    return made


@pytest.mark.parametrize(
    ("table", "stage", "moment"),
    [
        *(("wide", stage, moment) for stage in WIDE_WRITES for moment in ("before", "after")),
        *(("households", stage, "before") for stage in ("estimate Block", "release")),
    ],
)
def test_a_wide_run_completes(
    undisturbed: Callable[[str], tuple[Release, str]], tmp_path: Path, two: Client, table: str, stage: str, moment: str
) -> None:
    release, expected = undisturbed(table)
    two.wait_for_workers(2, timeout=60)

    def watch(named: str, done: int, _total: int) -> None:
        if done == 0 and named == stage:
            two.run(arm, tmp_path / "died", moment, WIDE_WRITES[stage.casefold()])

    assert release(tmp_path, Workers(two, watch)) == expected
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("at", ["tasks.spine.first_pass.build", "tasks.spine.second_pass._write"])
def test_the_spine_completes(example: Path, tmp_path: Path, two: Client, at: str) -> None:
    """The spine's pieces leave their results on the workers: those of a killed one are made again."""
    two.wait_for_workers(2, timeout=60)

    def built(name: str) -> str:
        run, data = RunDirectory(tmp_path), str(example / "data")
        line = build_spine(run, Workers(two), data, "us", ("31", "46"), tmp_path / name)
        assert line.endswith(SEE_SPINE)
        return digest(tmp_path / name)

    two.run(arm, tmp_path / "died", "after", of=at)
    killed = built("killed")
    assert (tmp_path / "died").exists()
    assert built("undisturbed") == killed
