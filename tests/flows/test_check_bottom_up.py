"""`das check` of a bottom-up release: a forger who writes the manifest anew over what was changed is found out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dhca_inputs import Here

from privacy.accounting.ledger import Account, Ledger
from tasks.bottom_up.domain import read_domain
from tasks.bottom_up.measure import PLAN, Plan, calibrate_counts, measure
from tasks.bottom_up.release import stage_release
from tasks.bottom_up.reserve_budget import reserve_budget
from tasks.bottom_up.tabulate import tabulate
from tasks.lifecycle.files import save_object
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.run_directory import RunDirectory
from tests.flows.conftest import Das
from tests.flows.test_check import faults, rewrite, with_column

HERE: Any = Here()
DOMAIN = {
    "factors": {"COUNTY": ["44001", "44003", "45001", "46001"], "SEX": ["1", "2"]},
    "states": ["44", "45", "46"],
    "groups": {"STATE": {"of": "COUNTY", "first": 2}},
}


@pytest.fixture(scope="module", params=[False, True], ids=["unclipped", "clipped"])
def bottom_up_released(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bottom-up")
    (folder / "domain.json").write_text(json.dumps(DOMAIN))
    (folder / "table.csv").write_text("COUNTY,SEX\n" + "44001,1\n" * 5 + "44003,2\n" * 90 + "46001,2\n" * 4)
    ledger = folder / "ledger.sqlite"
    Ledger(ledger).open_account(Account("long-form", "puredp", Fraction(1)))
    run = RunDirectory(folder / "runs/r1")
    run.create()
    domain = read_domain(folder / "domain.json")
    save_object(run / PLAN, Plan(domain, Fraction(1, 2), marginals=((), ("SEX",)), clip=request.param))
    tabulate(run, HERE, str(folder / "table.csv"), domain)
    reserve_budget(run, Charging("long-form", ledger))
    measure(run, HERE)
    calibrate_counts(run, HERE)
    stage_release(run, HERE, folder / "release")
    return folder / "release"


@pytest.fixture
def release(bottom_up_released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bottom_up_released, tmp_path / "release"))


def test_a_release_is_what_its_manifest_says(das: Das, release: Path) -> None:
    assert faults(das, release) == []


def test_a_changed_a_missing_and_a_foreign_file_are_named(das: Das, release: Path) -> None:
    histogram, total, more = release / "histogram.csv", release / "parquet/total.parquet", release / "more.csv"
    histogram.write_bytes(histogram.read_bytes().replace(b"|", b";", 1))
    total.unlink()
    more.write_text("")
    changed, missing = "histogram.csv was changed", "parquet/total.parquet is missing"
    assert set(faults(das, release)) == {changed, missing, "more.csv is not of this release"}
    rewrite(release)
    assert set(faults(das, release)) == {missing, "more.csv is no file of such a release"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told["spent"]["unbounded"].update(epsilon="1/4", decimal=0.25), "it is 4, not 2"),
        (lambda told: told["spent"]["bounded"].update(epsilon="1/2", decimal=0.5), "it is 1, not 1/2"),
        (lambda told: told["spent"]["bounded"].update(decimal=0.5), "is not 0.5"),
        (lambda told: told["noise"].update(scale="1"), "it is 2, not 1"),
        (lambda told: told["noise"].update(variance=1.0), "not 1.0"),
        (lambda told: told["noise"].update(sensitivity=2), "it is 4, not 2"),
        (lambda told: told["noise"].update(step="1/2"), "margins of error are not those of the law"),
    ],
)
def test_what_a_forged_manifest_says_is_computed_again(
    das: Das, release: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    rewrite(release, change)
    assert any(said in fault for fault in faults(das, release))


@pytest.mark.slow
@pytest.mark.parametrize("table", ["histogram", "total", "by-sex"])
@pytest.mark.parametrize("column", ["COUNT", "MOE"])
def test_a_forged_count_or_margin_is_found(das: Das, release: Path, table: str, column: str) -> None:
    with_column(release / f"parquet/{table}.parquet", column, lambda value: value + 1)
    rewrite(release)
    assert faults(das, release)


def test_a_count_that_was_forged_in_both_twins_is_found(das: Das, release: Path) -> None:
    """Unclipped it is no sum of the histogram's; clipped it is more than they are."""
    path = release / "total.csv"
    text = pd.read_csv(path, sep="|")
    forged = int(text["COUNT"].iloc[0]) + 100
    text.assign(COUNT=forged).to_csv(path, sep="|", index=False)
    with_column(release / "parquet/total.parquet", "COUNT", lambda _: forged)
    rewrite(release)
    assert any("sums of the histogram" in fault for fault in faults(das, release))
