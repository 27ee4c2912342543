"""The Detailed DHC-B with the noise off against a naive tabulation; its noise by address; its check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dhca_inputs import BLOCKS
from dhcb_inputs import BUDGETS, HouseholdInputs, configuration, households, release, released, stage_here, truth_here

from flows.execution.systems import SYSTEMS
from spine.settings import Jurisdiction
from tasks.lifecycle.datapackage import read_package
from tasks.lifecycle.manifest import read_manifest

SOME_OFF = {name: 0 for name in BUDGETS if name.endswith(("t3_level_1_usa", "level_2_place", "t4_level_1_tract"))}
PR_TOO = households(80, 5, [*BLOCKS[:6], *BLOCKS[7:]])


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"privacy_defn": "puredp", **SOME_OFF}, {"max_race_codes": 3, "allow_negative_counts": False}],
    ids=["zcdp", "puredp", "clipped"],
)
def test_without_noise_the_release_is_the_naive_one(
    tmp_path: Path, jurisdiction: Jurisdiction, changes: dict[str, Any]
) -> None:
    inputs = HouseholdInputs(config=configuration(run_pr=True, **changes), households=PR_TOO)
    place = truth_here(tmp_path, *inputs.write(tmp_path), jurisdiction)
    expected = release(inputs, jurisdiction)
    assert len({name.split("/")[1] for name in expected}) == 6
    assert {name: sorted(rows) for name, rows in released(place).items()} == expected
    assert all(rows == sorted(rows) for rows in released(place).values())
    manifest = read_manifest(place)
    checks = list(SYSTEMS["detailed-dhcb"].part("release_checks")(place, manifest))
    assert checks
    assert not [each for each in checks if each.faults]


def test_noise_has_an_address_and_estimates_change_no_count(tmp_path: Path) -> None:
    """A group's noise does not depend on which other groups the totals hold, nor on estimates."""
    inputs = HouseholdInputs(households=households(200))
    assert inputs.totals is not None
    run, staged = stage_here(tmp_path, inputs, "all", estimates=True)
    fewer = replace(inputs, totals=inputs.totals[::2])
    _, some = stage_here(tmp_path, fewer, "some")
    whole = {name: set(rows) for name, rows in released(staged).items()}
    for name, rows in released(some).items():
        assert set(rows) <= whole[name]
    exact = release(inputs, "us")
    assert {name: {row[:4] for row in rows} for name, rows in exact.items()} == {
        name: {row[:4] for row in rows} for name, rows in whole.items()
    }
    manifest = read_manifest(staged)
    assert not [each for each in SYSTEMS["detailed-dhcb"].part("release_checks")(staged, manifest) if each.faults]
    totals: dict[tuple[str, ...], set[str]] = {}
    for name in released(staged):
        rows = [tuple(line.split("|")) for line in (staged / "estimates" / name).read_text().splitlines()[1:]]
        assert {row[:4] for row in rows} == {row[:4] for row in whole[name]}
        assert all(int(row[5]) > 0 for row in rows)
        for row in rows:
            if row[3] == "0":
                totals.setdefault(row[:3], set()).add(row[4])
    assert totals
    assert all(len(found) == 1 for found in totals.values()), "both tables have one total"
    described = {one.name: one for one in read_package(staged, manifest["files"])}
    assert described["estimates-t3-t03004-county-2"].of == "t3-t03004-county-2"
    assert described["t3-t03002-county-2"].noise
    assert run.totals_read.run is None


def test_coterminous_regions_have_one_table(tmp_path: Path) -> None:
    """County 01003 is one place, so it is tabulated twice, by thresholds of its own."""
    blocks = [
        BLOCKS[0],
        ("01", "003", "000100", "1000", "00700", "9999"),
        ("01", "003", "000100", "1001", "00700", "9999"),
    ]
    inputs = HouseholdInputs(
        blocks=blocks, households=households(90, 4, blocks), config=configuration(state_filter_us=["01"])
    )
    inputs.totals = [
        ("01003", "COUNTY", "2001", "3"),
        ("0100700", "PLACE", "2001", "40"),
        ("01", "STATE", "2001", "40"),
    ]
    _, staged = stage_here(tmp_path, inputs, "run", coterminous=True, estimates=True)
    files = released(staged)
    county, place = files["t3/T03002/county-2.csv"], files["t3/T03002/place-2.csv"]
    assert [row[2:] for row in county] == [row[2:] for row in place]
    assert "t3/T03004/place-2.csv" not in files
    manifest = read_manifest(staged)
    assert manifest["levels"]["(PLACE, 2)"]["groups_published"]["t3"] == {
        "T03001": 0,
        "T03002": 1,
        "T03003": 0,
        "T03004": 0,
    }
