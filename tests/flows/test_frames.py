"""A release of each system as a table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from show_release import with_estimates, with_margins

from flows.frames import read_release
from tasks.errors import Refused
from tasks.releases.manifest import read_manifest


def test_a_detailed_dhca_has_a_row_for_every_count(released: Path) -> None:
    table = read_release(released)
    files = sorted((released / "parquet").glob("t?/*.parquet"))
    assert len(table) == sum(len(pd.read_parquet(file)) for file in files)
    assert not table[["iteration", "region_type", "count", "margin"]].isna().any().any()
    one = read_release(released, "County, Detailed")
    assert set(one.region_type) == {"COUNTY"}
    assert {"Autauga County", "Baldwin County"} <= set(one.region)
    group = (one.region_id == "01001") & (one.iteration_code == one.iteration_code[0])
    (total,) = one[group & one.sex.isna()]["count"]
    ages = one[group & (one.age_start == one.age_start)]["count"]
    assert total == one[group & one.sex.notna() & one.age_start.isna()]["count"].sum() == ages.sum()
    with pytest.raises(Refused, match="the release has no level 'PR-County, Detailed'; it has Nation, Regional"):
        read_release(released, ["PR-County, Detailed"])


@pytest.mark.ci
def test_estimates_stand_in_the_rows_of_their_counts(released: Path, tmp_path: Path) -> None:
    """Each is its count and 1, but for the first group of each level, which has none."""
    table = read_release(with_estimates(released, tmp_path / "estimates"))
    own = read_release(released)
    assert table[list(own)].equals(own)
    assert set(table) - set(own) == {"estimate", "estimate_margin"}
    there = table[table.estimate.notna()]
    assert (there.estimate == there["count"] + 1).all()
    assert (there.estimate_margin == there.margin).all()
    assert len(there) < len(table)


@pytest.mark.ci
def test_margins_stand_in_the_rows_of_their_statistics(top_down_released: Path, tmp_path: Path) -> None:
    shutil.copytree(top_down_released, tmp_path / "margins")
    table = read_release(with_margins(tmp_path / "margins"), "County")
    own = read_release(top_down_released, "County")
    assert table[list(own)].equals(own)
    found = table[table.estimate.notna()].set_index(["code", "statistic"])
    assert found.loc[("46001", "total"), ["margin", "standard_error"]].tolist() == [3.25, 1.658]
    assert found.loc[("46001", "total"), "estimate"] == found.loc[("46001", "total"), "count"] + 0.5
    assert len(found) == 4  # of two counties the total and Hispanic, which has no margin


def test_a_top_down_release_has_the_statistics_of_every_geounit(top_down_released: Path) -> None:
    table = read_release(top_down_released)
    persons = table[(table["product"] == "persons") & (table.statistic == "total")]
    total = persons[persons.level == "State"]["count"].sum()
    for level in ("County", "Tract", "Block_Group"):
        assert persons[persons.level == level]["count"].sum() == total
    blocks = [pd.read_parquet(file) for file in (top_down_released / "mdf").glob("*_persons.parquet")]
    assert total == sum(block["COUNT"].sum() for block in blocks)
    adults = sum(block[block.VOTING_AGE == "2"]["COUNT"].sum() for block in blocks)
    of_states = table[(table.level == "State") & (table["product"] == "persons")].groupby("statistic")["count"].sum()
    assert adults == of_states["voting age"]
    assert total == of_states[[name for name in of_states.index if name.startswith("race: ")]].sum()
    with pytest.raises(Refused, match="the release has no level 'Block'; it has "):
        read_release(top_down_released, ["Block"])


def test_a_bottom_up_release_is_its_histogram(bottom_up_released: Path, tmp_path: Path) -> None:
    table = read_release(bottom_up_released)
    axes = list(read_manifest(bottom_up_released)["histogram"]["axes"])
    assert list(table) == [*axes, "count", "margin"]
    with pytest.raises(Refused, match="it has no levels"):
        read_release(bottom_up_released, ["COUNTY"])
    with pytest.raises(Refused, match="it is not a release"):
        read_release(tmp_path)
    with pytest.raises(Refused, match="name one of them: .*" + bottom_up_released.name):
        read_release(bottom_up_released.parent)
    (tmp_path / "manifest.json").write_text('{"format": 3, "release": "Detailed DHC-A by SafeTab-P", "files": {}}')
    with pytest.raises(Refused, match=r"has no datapackage\.json"):
        read_release(tmp_path)
