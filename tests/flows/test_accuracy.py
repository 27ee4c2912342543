"""das accuracy as a person starts it: its files, what each of them says, and what is left behind."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from e2e_runs import reconfigure

from flows.commands.accuracy import STATEMENT
from tasks.safetab.persons.accuracy.report import STATEMENT as ON_PAGE
from tests.flows.conftest import printed

pytestmark = pytest.mark.usefixtures("stages_here")


das = partial(printed, "accuracy")


@pytest.fixture
def params(example: Path, tmp_path: Path) -> Path:
    """Parameters of Puerto Rico alone."""
    shutil.copytree(example / "params", tmp_path / "params")
    reconfigure(tmp_path / "params", run_us=False)
    return tmp_path / "params"


@pytest.mark.slow
def test_reports_of_both_jurisdictions_with_estimates_beside_counts(
    example: Path, tmp_path: Path, state_home: Path
) -> None:
    words = (example / "params", example / "data", tmp_path / "out", "--runs", 2, "--estimates", "--json")
    result = json.loads(das(*words))
    assert result["NOT_PRIVATE"] == STATEMENT
    assert [region["region"] for region in result["regions"]] == ["us", "pr"]
    for region in result["regions"]:
        place = Path(region["report"])
        files = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
        assert files == {"accuracy.html", "errors.csv", "workloads.csv"}
        for name in files - {"accuracy.html"}:
            table = pd.read_csv(place / name)
            assert len(table)
            assert table["NOT_PRIVATE"].all()
        page = (place / "accuracy.html").read_text()
        assert page.count(ON_PAGE) == 2
        assert page.count('<svg class="dots"') == 1
        assert "Counts and estimates" in page
        assert set(pd.read_csv(place / "errors.csv")["OF"]) == {"count", "estimate"}
        assert {row["COUNT_OF"] for row in region["estimates"]} == {"table", "sex", "cell"}
        assert not any(word in page for word in ("<script", "<link", 'src="', "@import"))  # one file, offline
        assert {row["WORKLOAD"] for row in region["levels"]} >= {"Total", "Sex x Age(4)"}
    assert not [path for path in (state_home / "runs").iterdir() if path.is_dir()]


@pytest.mark.slow
def test_one_jurisdiction_in_a_terminal(example: Path, params: Path, tmp_path: Path) -> None:
    text = das(params, example / "data", tmp_path / "out", "--runs", 1, "--no-coterminous")
    assert "PR-State, Regional" in text
    assert "accuracy.html" in text
    assert [place.name for place in (tmp_path / "out").iterdir()] == ["pr"]
    errors = pd.read_csv(tmp_path / "out/pr/errors.csv")
    assert (errors["NOISE_OF"] == errors["REGION_TYPE"]).all()
