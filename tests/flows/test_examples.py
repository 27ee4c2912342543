"""The scripts of examples/ run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import lacking

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str, *words: object, code: int = 0) -> str:
    """What a script prints, on its error output where it is refused."""
    from prefect.settings import get_current_settings

    environment = os.environ | {"PREFECT_API_URL": get_current_settings().api.url or ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_the_readme_names_every_script() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert sorted(path.name for path in EXAMPLES.glob("*.py") if f"examples/{path.name} " not in text) == []
    assert text.count("| `.venv/bin/python examples/") == len(list(EXAMPLES.glob("*.py")))


def test_what_a_budget_buys() -> None:
    zcdp, pure = (
        [line.split() for line in block.splitlines()]
        for block in example("what_a_budget_buys.py", "0.159", "2.134").strip().split("\n\n")[1:]
    )
    assert zcdp[1] == ["0.159", "33", "11", "31", "47", "75", "21"]  # the production budget of (COUNTY, 2)
    assert [row[0] for row in (*zcdp[1:], *pure)] == ["0.159", "2.134"] * 2


@pytest.mark.ci
def test_base_r_reads_a_table_as_pandas_does(released: Path) -> None:
    """Ids keep their zeros, counts are numbers, regions have names."""
    if shutil.which("Rscript") is None:
        lacking("no Rscript: apt-get install r-base-core")
    script = ["Rscript", str(EXAMPLES / "read_release.R"), str(released / "tables/t1/place-2.csv")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240, env=os.environ | {"LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    own = pd.read_csv(released / "t1/place-2.csv", sep="|", dtype=str)
    total = own["COUNT"].astype(int).sum()
    assert done.stdout.splitlines()[-1].split() == f"{len(own)} rows, sum of count {total}".split()
    assert own["REGION_ID"].iloc[0].startswith("01")
    assert re.search(r"\b0100500\b.*Añasco", done.stdout)


def test_a_table_is_measured_until_its_account_is_spent(tmp_path: Path) -> None:
    for spent in ("1/2", "1"):
        result = example("measure_a_table.py", tmp_path, "1/2")
        assert f"'44': Fraction({spent.replace('/', ', ') if '/' in spent else '1, 1'})" in result
        assert "each count within 2, a row's sum within 3, with probability 95%" in result
    assert "state 44 has 0 of 1" in example("measure_a_table.py", tmp_path, "1/2", code=1)


@pytest.mark.ci
def test_any_table_is_read_by_its_description(released: Path, top_down_released: Path) -> None:
    listed = example("read_tables.py", released).splitlines()
    assert "t1-county-2-text: Totals of population groups: County, Detailed" in listed
    read = example("read_tables.py", released, "t2-county-2")
    assert "COUNT: its margin of error is MOE, 3 to 15" in read
    assert all(word in read for word in ("female", "Iteration 2001", "NaN"))  # codes, a foreign key, a missing age
    cells = example("read_tables.py", top_down_released, "histograms-persons-tabulation-county")
    assert "Black or African American" in cells


@pytest.mark.slow
@pytest.mark.e2e
def test_a_run_is_compared_to_the_truth_and_read(tmp_path: Path, prefect_server: None) -> None:
    result = example("compare_to_truth.py", tmp_path, 1)
    assert "run 0: " in result
    shares = [float(word.strip("%,")) for word in result.split() if "%" in word]
    assert len(shares) == 10  # region types
    assert min(shares) > 50  # of 95% or so, by chance in less than one test of a million
    read = example("read_release.py", tmp_path / "run-0/us", "County, Regional")
    assert read.count(" County ") >= 10
