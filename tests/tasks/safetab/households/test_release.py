"""The Detailed DHC-B with the noise off against a naive tabulation; its noise by address; its check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from dhca_inputs import BLOCKS
from dhcb_inputs import (
    BUDGETS,
    NATION_AND_COUNTIES,
    HouseholdInputs,
    configuration,
    households,
    only,
    release,
    released,
    stage_here,
    truth_here,
)

from flows.execution.states import page
from flows.execution.systems import SYSTEMS
from spine.settings import Jurisdiction
from tasks.releases.datapackage import read_package
from tasks.releases.manifest import read_manifest
from tasks.safetab import check as safetab_check
from tasks.safetab.domain import equalities, load_domain
from tasks.safetab.group_tables import load_final
from tasks.safetab.households import estimates as estimating
from tasks.safetab.households.tables import HouseholdTypes
from tasks.safetab.levels import Level, named_level

pytestmark = pytest.mark.usefixtures("untidy")
SOME_OFF = {name: 0 for name in BUDGETS if name.endswith(("t3_level_1_usa", "level_2_place", "t4_level_1_tract"))}
PURE, CLIPPED = {"privacy_defn": "puredp", **SOME_OFF}, {"max_race_codes": 3, "allow_negative_counts": False}
PR_TOO = households(80, 5, [*BLOCKS[:6], *BLOCKS[7:]])


@pytest.mark.parametrize(
    ("changes", "jurisdiction"),
    [
        pytest.param({}, "us", id="zcdp-us"),
        pytest.param(PURE, "pr", id="puredp-pr", marks=pytest.mark.ci),
        pytest.param({}, "pr", id="zcdp-pr", marks=pytest.mark.ci),
        pytest.param(PURE, "us", id="puredp-us", marks=pytest.mark.ci),
        pytest.param(CLIPPED, "us", id="clipped-us", marks=pytest.mark.ci),
        pytest.param(CLIPPED, "pr", id="clipped-pr", marks=pytest.mark.slow),
    ],
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
    inputs = HouseholdInputs(households=households(60), config=configuration(**NATION_AND_COUNTIES))
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


def faults(staged: Path) -> list[Any]:
    """What the checks of a release find."""
    found = SYSTEMS["detailed-dhcb"].part("release_checks")(staged, read_manifest(staged))
    return [each for each in found if each.faults]


def estimates(staged: Path, kind: str = "estimates/") -> dict[str, list[tuple[str, ...]]]:
    """The estimated groups and their rows, by file."""
    return released(staged / kind)


@pytest.mark.parametrize(
    ("only_one", "definition"),
    [
        ("t4_level_2_county", "zcdp"),
        ("t3_level_2_county", "puredp"),
        pytest.param("t4_level_2_place", "zcdp", marks=pytest.mark.slow),
        pytest.param("t4_level_2_county", "puredp", marks=pytest.mark.slow),
    ],
)
@pytest.mark.ci
def test_coterminous_estimates_are_of_the_groups_and_details_of_the_counts(
    tmp_path: Path, only_one: str, definition: str
) -> None:
    """Tract, county and place are the same blocks; one lacks a table: it can give the other, and has no estimate."""
    blocks = [BLOCKS[0], *(("01", "003", "000100", f"100{number}", "00700", "9999") for number in range(2))]
    levels = only("2_tract", "2_county", "2_place")
    changes = {**levels, f"privacy_budget_h_{only_one}": 0, "privacy_defn": definition}
    inputs = HouseholdInputs(
        blocks=blocks, households=households(90, 4, blocks), config=configuration(state_filter_us=["01"], **changes)
    )
    _, staged = stage_here(tmp_path, inputs, "run", coterminous=True, estimates=True)
    manifest = read_manifest(staged)
    shown = page(manifest, staged, "digest", [])  # in Prefect
    for name, level in manifest["levels"].items():
        for table, details in level["groups_published"].items():
            assert f"| {named_level(name).name}: {table} | {sum(details.values()):,} |" in shown
    counts, estimated = released(staged), estimates(staged)
    lacking = only_one.rpartition("_")[2]
    assert not [name for name in estimated if f"/{lacking}-2" in name]
    assert [name for name in counts if f"/{lacking}-2" in name]
    both: dict[tuple[str, ...], set[str]] = {}
    for name, rows in counts.items():
        for row in rows:
            both.setdefault(row[:3], set()).add(name[:2])
    expected = {name: [row[:4] for row in rows if len(both[row[:3]]) == 2] for name, rows in counts.items()}
    assert {name: [row[:4] for row in rows] for name, rows in estimated.items()} == {
        name: rows for name, rows in expected.items() if rows
    }
    numbers: dict[tuple[str, str, str], set[tuple[str, ...]]] = {}
    for name, rows in estimated.items():
        for row in rows:
            if row[0] in ("01003", "01003000100", "0100700"):
                numbers.setdefault((name.split("/")[1], *row[2:4]), set()).add(row[4:])
    assert numbers
    assert all(len(found) == 1 for found in numbers.values()), "one estimate and margin of each set"
    assert not faults(staged)
    report = (staged / "report.html").read_text()
    assert "has their margin: that of the other’s level" in report
    assert re.findall(r"<h2>(T\d.*?)</h2>", report) == ["T3: household type", "T4: tenure"]
    assert "built-in" not in report


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(2))
def test_estimates_are_unbiased_and_their_margins_cover_where_more_was_measured(tmp_path: Path, seed: int) -> None:
    """Regional ethnicities with all their parts, coterminous regions, and all others, over many groups."""
    inputs = HouseholdInputs(households=households(300, seed))
    inputs.totals = [(*group[:3], str(seed * 4 + 3)) for group in inputs.totals or []]
    assert inputs.totals is not None
    run, staged = stage_here(tmp_path, inputs, "run", coterminous=bool(seed), estimates=True)
    exact = {(name, *row[:4]): int(row[4]) for name, rows in release(inputs, "us").items() for row in rows}
    weighted = 0
    for level in run.parameters.configuration.levels("us"):
        groups = next(iter(load_final(run, level, HouseholdTypes))).group
        weighted += int(estimating._linked(run, level, groups).sum())
    assert weighted
    found = np.array(
        [
            (int(row[4]) - exact[name, *row[:4]], int(row[5]))
            for name, rows in estimates(staged).items()
            for row in rows
            if (name, *row[:4]) in exact
        ]
    )
    error, margin = found.T
    assert len(error) > 500
    assert abs(error.mean()) <= 5 * error.std() / (len(error) / 10) ** 0.5  # rows of a group go together
    assert (np.abs(error) <= margin).mean() >= 0.95 - 5 * (0.05 * 0.95 / (len(error) / 10)) ** 0.5


@pytest.mark.parametrize(("large", "definition"), [("t3_level_2", "puredp"), ("t", "zcdp")])
@pytest.mark.ci
def test_estimates_of_very_large_budgets_are_the_counts(tmp_path: Path, large: str, definition: str) -> None:
    """Noise without a variance in floats, in both tables or in one: nothing fails after the charge."""
    changes: dict[str, object] = {"privacy_defn": definition, **only("_county", "_place")}
    for name in set(BUDGETS) - changes.keys():
        if name.startswith(f"privacy_budget_h_{large}"):
            changes[name] = 10**5  # the noise of 150,000 is refused
    inputs = HouseholdInputs(households=households(60), config=configuration(**changes))
    _, staged = stage_here(tmp_path, inputs, "run", coterminous=True, estimates=True)
    exact = {(name, *row[:4]): int(row[4]) for name, rows in release(inputs, "us").items() for row in rows}
    far = [
        abs(int(row[4]) - exact[name, *row[:4]])
        for name, rows in estimates(staged).items()
        for row in rows
        if (large == "t" or (name.startswith("t3/") and "-" + large[-1] in name)) and (name, *row[:4]) in exact
    ]
    assert far
    assert max(far) <= 1
    assert not faults(staged)


@pytest.mark.ci
def test_a_regional_ethnicity_is_estimated_from_its_parts_where_all_have_tables(tmp_path: Path) -> None:
    """Its estimate moves with its parts' counts; a part without a table says nothing of the sum."""
    wide = {name: 0.01 for name in BUDGETS if name.endswith("_state")}  # for margins that differ by more than rounding
    everything = HouseholdInputs(config=configuration(**only("_state"), **wide))
    run, _ = stage_here(tmp_path, everything, "all", estimates=True)
    level = Level("STATE", 1)
    sums = {
        load_domain(run, level).iteration_codes[whole]: [
            load_domain(run, Level("STATE", 2)).iteration_codes[part] for part in parts
        ]
        for whole, parts in equalities(run, level).items()
    }
    code, parts = next((code, parts) for code, parts in sums.items() if len(parts) > 1)
    groups = [("01", "STATE", each, "20") for each in (code, *parts)]

    def margin(totals: list[tuple[str, str, str, str]], name: str) -> int:
        _, staged = stage_here(tmp_path, replace(everything, totals=totals), name, estimates=True)
        assert not faults(staged)
        rows = estimates(staged)["t3/T03004/state-1.csv"]
        return next(int(row[5]) for row in rows if row[2] == code and row[3] == "0")

    alone, whole = margin(groups[:1], "alone"), margin(groups, "whole")
    assert margin(groups[:-1], "part") == alone
    many = len(parts)  # whose sum has so many times the variance of its own total
    assert whole == pytest.approx(alone * (many / (many + 1)) ** 0.5, abs=1)


@pytest.mark.parametrize("codes", [5, pytest.param(8, marks=pytest.mark.slow)])
def test_the_manifest_says_how_many_groups_of_each_kind_a_household_is_in(tmp_path: Path, codes: int) -> None:
    inputs = HouseholdInputs(config=configuration(max_race_codes=codes, **NATION_AND_COUNTIES))
    _, staged = stage_here(tmp_path, inputs)
    levels = json.loads((staged / "manifest.json").read_text())["levels"]
    parts = {(level["stability_parts"]["race"], level["stability_parts"]["ethnicity"]) for level in levels.values()}
    assert parts == {(codes, 1)}


@pytest.mark.ci
def test_the_check_finds_estimates_that_do_not_agree(tmp_path: Path) -> None:
    inputs = HouseholdInputs(config=configuration(**NATION_AND_COUNTIES))
    _, staged = stage_here(tmp_path, inputs, "run", estimates=True)
    assert not faults(staged)
    path = staged / "parquet/estimates/t3/T03002/county-2.parquet"
    table = pq.read_table(path)
    for cells, expected in (
        (["0"], "t3/T03002: estimates of (COUNTY, 2): COUNT differs in "),
        (["0", "1"], "estimates of (COUNTY, 2): 1 groups have different totals in the two tables"),
    ):
        first = pc.and_(pc.is_in(table["T3_DATA_CELL"], pa.array(cells)), pa.array(np.arange(len(table)) < 3))
        pq.write_table(table.set_column(4, "ESTIMATE", pc.add(table["ESTIMATE"], first.cast("int64"))), path)
        (found,) = (f"{each.what}: {fault}" for each in faults(staged) for fault in each.faults)
        assert found.startswith(expected)
    pq.write_table(table.slice(3), path)
    assert any(fault.startswith("t3: the groups") for each in faults(staged) for fault in each.faults)


def test_the_check_reads_a_level_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of about four rows, and faults in the first and in the last of them."""
    _, staged = stage_here(tmp_path, HouseholdInputs(config=configuration(**NATION_AND_COUNTIES)), "run")
    sizes, compare = list[int](), safetab_check.check_rows

    def noted(pairs: Iterable[tuple[pa.Table, pa.Table]]) -> Iterator[tuple[pa.Table, pa.Table]]:
        for pair in pairs:
            sizes.append(max(map(len, pair)))
            yield pair

    monkeypatch.setattr(safetab_check, "ROWS_AT_ONCE", 4)
    monkeypatch.setattr(safetab_check, "check_rows", lambda what, pairs, **how: compare(what, noted(pairs), **how))
    assert not faults(staged)
    path = staged / "parquet/t3/T03002/county-2.parquet"
    table = pq.read_table(path)
    widest = max(pq.read_metadata(each).num_rows for each in staged.glob("parquet/t*/*/*.parquet"))
    assert max(sizes) < 13 <= widest
    sums = pc.equal(table["T3_DATA_CELL"], "0").to_numpy()
    ends = np.flatnonzero(sums)[[0, -1]]
    more = np.bincount(ends, minlength=len(table))
    pq.write_table(table.set_column(4, "COUNT", pc.add(table["COUNT"], pa.array(more))), path)
    (found,) = faults(staged)
    assert (found.what, found.faults) == ("t3/T03002: groups of (COUNTY, 2)", ("COUNT differs in 2 rows",))
    assert found.over == f"{len(table):,} rows"


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
