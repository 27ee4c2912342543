"""Errors of two releases of one description: by kind of row, with their margins, whatever system has made them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tasks.releases.description import Column, Description, Table, count_and_margin, integer
from tasks.releases.errors import compare, figures

KEY = (Column("REGION", "code", ""), Column("CELL", "code", "", {"0": "all", "1": "some"}))
COUNTS = Table("", (*KEY, *count_and_margin("", "", "")), parquet="t/{level}.parquet", key=("REGION", "CELL"))
ESTIMATE = (integer("N", "", "", role="estimate"), integer("M", "", "", role="margin", of="N"))
ESTIMATES = Table("", (*KEY, *ESTIMATE), parquet="e/{level}.parquet", key=("REGION", "CELL"), of="t/{level}")
TWO = Description((COUNTS, ESTIMATES), others=())


def write(folder: Path, name: str, **columns: list) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    """A release and its truth, whose rows are in another order; only some counts have estimates."""
    keys = {"REGION": ["a", "a", "b", "b"], "CELL": ["0", "1", "0", "1"]}
    backwards = {name: own[::-1] for name, own in keys.items()}
    release, truth = tmp_path / "release", tmp_path / "truth"
    write(release, "t/county", **keys, COUNT=[10, 5, 20, 8], MOE=[3, 2, 3, 2])
    write(release, "e/county", REGION=["b"], CELL=["1"], N=[3], M=[1])
    write(truth, "t/county", **backwards, COUNT=[4, 20, 3, 14], MOE=[0] * 4)
    return release, truth


def test_errors_are_of_the_same_rows_by_kind(releases: tuple[Path, Path]) -> None:
    found = figures(compare(TWO, *releases)).set_index(["TABLE", "OF", "ROW"])
    rows = found.to_dict("index")
    assert rows["t-county", "COUNT", "CELL 0"] == {  # errors -4 and 0, within 3 one of them
        "COUNTS": 2,
        "BIAS": -2,
        "RMSE": pytest.approx(8**0.5),
        "Q90": 4,
        "MARGIN": 3,
        "COVERAGE": 0.5,
    }
    assert rows["t-county", "COUNT", "CELL 1"]["BIAS"] == 3  # errors 2 and 4
    assert rows["e-county", "ESTIMATE", ""] == {  # error -1
        "COUNTS": 1,
        "BIAS": -1,
        "RMSE": 1,
        "Q90": 1,
        "MARGIN": 1,
        "COVERAGE": 1,
    }
    assert len(rows) == 3


def test_repetitions_are_counted_together(releases: tuple[Path, Path]) -> None:
    once = compare(TWO, *releases)
    one, two = (figures(each, ["TABLE", "OF"]) for each in (once, pd.concat([once, once])))
    assert two["COUNTS"].tolist() == (2 * one["COUNTS"]).tolist()
    assert two.drop(columns="COUNTS").equals(one.drop(columns="COUNTS"))


def test_a_truth_has_no_errors_and_lacks_no_row(releases: tuple[Path, Path]) -> None:
    release, truth = releases
    assert set(figures(compare(TWO, truth, truth))["RMSE"]) == {0}
    write(truth, "t/county", REGION=["a"], CELL=["0"], COUNT=[1], MOE=[0])
    with pytest.raises(KeyError, match="lacks rows of t-county"):
        compare(TWO, release, truth)
