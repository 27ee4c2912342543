"""The stage of estimates: what it reads and writes, and over many groups of one size the law that it states."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dhca_inputs import BUDGETS, HERE, Inputs, configuration, people, person, read_rows, stage_here
from estimation_cases import exact

from flows.execution.safetab_settings import DetailedDhcaSettings
from tasks.lifecycle.files import open_array
from tasks.lifecycle.staging import staging
from tasks.releases.manifest import read_manifest
from tasks.safetab import domain
from tasks.safetab.coterminous import equate_coterminous
from tasks.safetab.domain import equalities, load_domain
from tasks.safetab.exact_counts import read_exact_counts
from tasks.safetab.group_tables import final_folders
from tasks.safetab.levels import Level
from tasks.safetab.noise import estimate_words, load_queries
from tasks.safetab.persons import estimates
from tasks.safetab.persons.details import AGE23, TOTAL, TOTAL_ONLY
from tasks.safetab.persons.estimate_tables import ancestors, critical_values, details_of, load_estimators, variances
from tasks.safetab.persons.estimates import estimate, pooled_totals
from tasks.safetab.persons.release import stage_release
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups

pytestmark = pytest.mark.usefixtures("untidy")
GROUP = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE"]


def read(place: Path, table: str) -> pd.DataFrame:
    paths = sorted((place / table).glob("*.csv"))
    return pd.concat(pd.DataFrame(read_rows(path)).assign(FILE=path.stem) for path in paths)


# Left out where nation, states, counties and their tracts are enough: a run takes as long as it has levels.
FEW = dict.fromkeys((name for name in BUDGETS if name.endswith(("1_county", "1_tract", "place", "aiannh"))), 0)
SOME = dict.fromkeys((name for name in BUDGETS if name.endswith(("1_tract", "place", "aiannh"))), 0)


def country(**changes: Any) -> Inputs:
    return Inputs(config=configuration(**changes), persons=people(400))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[DetailedRun, Path]:
    """A run with estimates, coterminous regions equated, and its staged release."""
    return stage_here(tmp_path_factory.mktemp("estimates"), country(**SOME), coterminous=True, estimates=True)


def bytes_of(place: Path, *folders: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for folder in folders
        for path in (place / folder).rglob("*")
        if path.is_file()
    }


TABLES = ("t1", "t2", "parquet/t1", "parquet/t2")
OF_ESTIMATES = ("estimates", "parquet/estimates")


def test_the_counts_are_what_they_are_without(made: tuple[DetailedRun, Path], tmp_path: Path) -> None:
    run, place = made
    bare, without = stage_here(tmp_path, country(**SOME), coterminous=True)
    assert bytes_of(place, *TABLES) == bytes_of(without, *TABLES)
    assert not (without / "estimates").exists()
    assert "estimates" not in read_manifest(without)
    assert "has their margin: that of the other’s level" in (without / "report.html").read_text()
    level = Level("COUNTY", 2)
    assert not (bare.noisy_folder(level, "totals", 0) / "total.npy").exists()
    assert (run.noisy_folder(level, "totals", 0) / "total.npy").exists()
    assert not bare.noisy_folder(level, EstimatedGroups.MADE, 0).parent.exists()


def test_what_was_not_paid_for_is_not_kept(made: tuple[DetailedRun, Path]) -> None:
    """A TotalOnly group spends all of its budget in one query. It has no stage-1 answer; its estimate is its count."""
    run, place = made
    for level in (Level("USA", 2), Level("STATE", 2)):
        detail, total = (open_array(run.noisy_folder(level, "totals", 0), name) for name in ("detail", "total"))
        assert (detail == TOTAL_ONLY).any()
        assert (total[detail == TOTAL_ONLY] == 0).all()
        groups = np.flatnonzero(detail == TOTAL_ONLY)
        pooled = pooled_totals(run, level, groups)
        assert (pooled.total == pooled.measured).all()
        assert (pooled.margin == load_queries(run, level).margin("total_only")).all()
    counts, estimates = (read(place, folder).set_index([*GROUP, "FILE"]) for folder in ("t1", "estimates/t1"))
    only = counts.index.get_level_values("ITERATION_CODE").isin(["2007", "2008", "3003"])
    assert (estimates[only]["ESTIMATE"] == counts[only]["COUNT"]).all()


def test_it_reads_noisy_counts_only(made: tuple[DetailedRun, Path], tmp_path: Path) -> None:
    """Without persons and exact counts, and with pieces of another size: the same bytes. So has a retry."""
    run, place = made
    copy = DetailedRun(tmp_path / run.id)
    shutil.copytree(run.path, copy.path)
    for name in ("records", "counts"):
        shutil.rmtree(copy / name)
    again(copy, tmp_path / "out")
    assert bytes_of(staging(copy, tmp_path / "out", "us"), *OF_ESTIMATES) == bytes_of(place, *OF_ESTIMATES)


def again(run: DetailedRun, out: Path) -> None:
    """Make the estimates anew, and release."""
    levels = run.parameters.configuration.levels("us")
    for level in levels:
        for stage in (EstimatedGroups.MADE, EstimatedGroups.FINAL):
            shutil.rmtree(run / f"noisy/{level.slug}/{stage}")
    for level in levels:
        estimate(run, HERE, level)
    equate_coterminous(run, HERE, "us", (PublishedGroups, EstimatedGroups))
    stage_release(run, HERE, "us", out, {"estimates": True, "coterminous": True}, "no spine")


@pytest.mark.ci
def test_pieces_change_nothing(made: tuple[DetailedRun, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "GROUPS_EACH", 1)  # a region each
    _, place = stage_here(tmp_path, country(**SOME), coterminous=True, estimates=True)
    assert bytes_of(place, *OF_ESTIMATES) == bytes_of(made[1], *OF_ESTIMATES)


def test_tables_join_and_add_up(made: tuple[DetailedRun, Path]) -> None:
    """The rows are those of t1 and t2 less the groups that are dropped; cells sum to sexes, sexes to totals."""
    run, place = made
    t1, t2 = read(place, "estimates/t1"), read(place, "estimates/t2")
    assert t1.columns.tolist() == [*GROUP, "ESTIMATE", "MOE", "FILE"]
    assert t2.columns.tolist() == [*GROUP, "AGESTART", "AGEEND", "SEX", "ESTIMATE", "MOE", "FILE"]
    dropped = {
        (run, level, int(group))
        for level in run.parameters.configuration.levels("us")
        for piece in [EstimatedGroups.load(final_folders(run, level, EstimatedGroups))]
        for group in piece.group[piece.dropped]
    }
    manifest = read_manifest(place)["estimates"]
    assert sum(level["groups_dropped"] for level in manifest.values()) == len(dropped)
    counts = read(place, "t1")
    assert len(t1) == len(counts) - len(dropped)
    assert set(map(tuple, t1[[*GROUP, "FILE"]].to_numpy())) <= set(map(tuple, counts[[*GROUP, "FILE"]].to_numpy()))
    assert len(t2) == len(read(place, "t2"))
    t1["ESTIMATE"], t2["ESTIMATE"] = t1["ESTIMATE"].astype(int), t2["ESTIMATE"].astype(int)
    sums = t2["AGESTART"] == "*"
    of_cells = t2[~sums].groupby([*GROUP, "FILE", "SEX"])["ESTIMATE"].sum()
    of_sexes = t2[sums].set_index([*GROUP, "FILE", "SEX"])["ESTIMATE"]
    assert (of_cells == of_sexes.sort_index()).all()
    of_totals = of_sexes.groupby([*GROUP, "FILE"]).sum()
    assert (t1.set_index([*GROUP, "FILE"])["ESTIMATE"].loc[of_totals.index] == of_totals).all()
    parquet = pd.read_parquet(place / "parquet/estimates/t1/county-2.parquet")
    assert parquet["ESTIMATE"].tolist() == t1[t1["FILE"] == "county-2"]["ESTIMATE"].tolist()


@pytest.mark.ci
def test_a_clipped_release(tmp_path: Path) -> None:
    """Each estimate after all sums, as counts are."""
    inputs = country(allow_negative_counts=False, **FEW)
    _, place = stage_here(tmp_path, inputs, estimates=True)
    for table in ("estimates/t1", "estimates/t2"):
        assert (read(place, table)["ESTIMATE"].astype(int) >= 0).all()


# The law


def thresholds(numbers: list[float]) -> dict[str, list[float]]:
    return dict.fromkeys(configuration()["thresholds_p"], numbers)


def of_one_size(tmp_path: Path, definition: str, regions: int, levels: dict[str, Any], **changes: Any) -> DetailedRun:
    """A run over tracts, a county each, in which next to nobody lives: groups of size 0 by the thousand."""
    blocks = [("01", f"{n // 1000:03d}", f"{n % 1000:06d}", "1000", "99999", "9999") for n in range(regions)]
    budgets = dict.fromkeys(BUDGETS, 0) | levels
    config = configuration(privacy_defn=definition, **budgets, **changes)
    del config["zero_suppression_chance"]
    inputs = Inputs(config=config, blocks=blocks, persons=[person(blocks[0])])
    run, _ = stage_here(tmp_path, inputs, estimates=True)
    return run


@pytest.mark.parametrize("definition", ["zcdp", pytest.param("puredp", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "threshold", [0, pytest.param(-100_000, marks=pytest.mark.slow)], ids=["at a threshold", "far from one"]
)
@pytest.mark.ci
def test_groups_of_one_size(tmp_path: Path, definition: str, threshold: int) -> None:
    """20,000 groups and more of size 0: bias, error and coverage given the detail are those of the exact sums.

    The secret is fixed. With a fresh one each figure would be out of its bounds, 4 standard errors, with a chance of
    6e-5.
    """
    level = Level("TRACT", 2)
    settings = {"privacy_budget_p_level_2_tract": 5}
    run = of_one_size(tmp_path, definition, 4000, settings, thresholds_p=thresholds([threshold] * 3))
    assert load_domain(run, level).groups > 20_000
    final = EstimatedGroups.load(final_folders(run, level, EstimatedGroups))
    inhabited = len(load_domain(run, level).iterations)
    for detail in (TOTAL, AGE23):
        part = final.take(np.flatnonzero((final.detail == detail) & (final.group >= inhabited)))
        if threshold and detail == TOTAL:
            assert len(part.group) == 0
            continue
        law = exact(load_estimators(run, level)[detail], 0)
        n = len(part.group)
        assert n > 9_000
        total = part.cells.reshape(n, -1).sum(axis=1)
        assert (total == pooled_totals(run, level, part.group).total).all()
        assert abs(total.mean() - law.bias) <= 4 * law.rmse / n**0.5
        squares = total.astype(float) ** 2
        assert abs(squares.mean() - law.rmse**2) <= 4 * squares.std() / n**0.5
        covered = (np.abs(total) <= part.margin).mean()
        assert abs(covered - law.covered) <= 4 * (law.covered * (1 - law.covered) / n) ** 0.5
        if detail == AGE23:
            check_cells(part.cells.reshape(n, 46), load_queries(run, level).margin("stage_2"))


def check_cells(cells: np.ndarray, margin: int) -> None:
    """Every cell and both sexes are unbiased, and their margins cover."""
    n = len(cells)
    assert (np.abs(cells.mean(axis=0)) <= 4.5 * cells.std(axis=0) / n**0.5).all()  # 46 of them
    assert (np.abs(cells) <= margin).mean() > 0.95
    sexes = cells.reshape(n, 2, 23).sum(axis=2)
    assert (np.abs(sexes.mean(axis=0)) <= 4 * sexes.std(axis=0) / n**0.5).all()


def test_words_are_of_a_stream_of_their_own(made: tuple[DetailedRun, Path]) -> None:
    run, _ = made
    groups = np.arange(50)
    words = estimate_words(run, Level("COUNTY", 2), groups)
    assert np.array_equal(words[[7, 3]], estimate_words(run, Level("COUNTY", 2), np.array([7, 3])))
    assert not (words == estimate_words(run, Level("COUNTY", 1), groups)).any()


# Equalities


def test_a_regional_ethnicity_and_its_parts(made: tuple[DetailedRun, Path]) -> None:
    """3001 is 3002 and 3003 at nation and state; below, 3003 is not tabulated, which undoes the equality."""
    run, place = made
    at_level, below = Level("STATE", 1), Level("STATE", 2)
    codes, parts = (load_domain(run, level).iteration_codes for level in (at_level, below))
    whole = equalities(run, at_level)
    assert {codes[key]: [parts[part] for part in members] for key, members in whole.items()} == {
        "3001": ["3002", "3003"]
    }
    assert equalities(run, Level("COUNTY", 1)) == {}
    assert equalities(run, below) == {}
    (position, of_parts), regions = *whole.items(), np.arange(2)
    exact_one, exact_parts = (
        read_exact_counts(run, level, 0, 2).totals().reshape(2, -1) for level in (at_level, below)
    )  # synthetic
    assert (exact_one[:, position] == exact_parts[:, list(of_parts)].sum(axis=1)).all()
    own = pooled_totals(run, at_level, regions * len(codes) + position)
    others = pooled_totals(run, below, (regions[:, None] * len(parts) + np.array(of_parts)).ravel())
    v_own = variances(run, at_level)[own.detail]
    v_parts = variances(run, below)[others.detail].reshape(2, 2).sum(axis=1)
    expected = (v_parts * own.total + v_own * others.total.reshape(2, 2).sum(axis=1)) / (v_own + v_parts)
    t1 = read(place, "estimates/t1")
    released = t1[(t1["FILE"] == "state-1") & (t1["ITERATION_CODE"] == "3001")]
    assert np.abs(released["ESTIMATE"].astype(int).to_numpy() - expected).max() <= 0.5 + 1e-9
    assert (released["MOE"].astype(int).to_numpy() < own.margin).all()
    assert read_manifest(place)["estimates"]["(STATE, 1)"]["sums"] == {"3001": ["3002", "3003"]}


@pytest.mark.ci
def test_with_one_race_code_races_are_sums_too(tmp_path: Path) -> None:
    persons = [person(races=[code]) for code in ("1100", "1110", "1200", "1300")]
    run, _ = stage_here(
        tmp_path, Inputs(config=configuration(max_race_codes=1, **FEW), persons=persons), estimates=True
    )
    codes = load_domain(run, Level("USA", 1)).iteration_codes
    assert {codes[whole] for whole in equalities(run, Level("USA", 1))} == {"1001", "1002", "1003", "1004", "3001"}


# Ancestors


def test_a_group_that_is_there_is_seldom_dropped(tmp_path: Path) -> None:
    """Tracts that are a county each, of size 0 like it: the chance of .00135 holds, near to 4 standard errors."""
    levels = {f"privacy_budget_p_level_2_{name}": 1 for name in ("county", "tract")}
    run = of_one_size(tmp_path, "zcdp", 999, levels, thresholds_p=thresholds([10**6] * 3))
    level = Level("TRACT", 2)
    assert ancestors(run, level) == {Level("COUNTY", 2): 5}
    final = EstimatedGroups.load(final_folders(run, level, EstimatedGroups))
    n = len(final.group)
    assert n > 5_000
    assert final.dropped.mean() <= 0.00135 + 4 * (0.00135 / n) ** 0.5


@pytest.mark.ci
def test_which_groups_are_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a test that nobody passes: groups without a table whose iteration the ancestor has, below state."""
    monkeypatch.setattr(estimates, "critical_values", lambda *_: dict.fromkeys(range(TOTAL_ONLY), -(10**9)))
    run, _ = stage_here(tmp_path, country(privacy_budget_p_level_2_county=0), coterminous=True, estimates=True)
    for level in run.parameters.configuration.levels("us"):
        part = EstimatedGroups.load([run.noisy_folder(level, EstimatedGroups.MADE, 0)])
        codes = np.array(load_domain(run, level).iteration_codes)[part.group % len(load_domain(run, level).iterations)]
        tested = (part.detail == TOTAL) & ~np.isin(codes, ["2009", "2010"])  # those are below state only
        if level.region_type in ("USA", "STATE", "AIANNH"):
            tested[:] = False
        assert np.array_equal(part.dropped, tested), level


@pytest.mark.ci
def test_a_set_has_one_fate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """County 003 of state 01 is one tract: what is dropped of the county is dropped of the tract."""
    monkeypatch.setattr(estimates, "critical_values", lambda *_: dict.fromkeys(range(TOTAL_ONLY), -100))
    inputs = country(thresholds_p=thresholds([float("inf")] * 3))  # totals only: the rest is never tested
    run, _ = stage_here(tmp_path, inputs, coterminous=True, estimates=True)
    fates: list[dict[str, tuple[int, int, bool]]] = []
    for level, region in ((Level("COUNTY", 2), "01003"), (Level("TRACT", 2), "01003000100")):
        domain = load_domain(run, level)
        part = EstimatedGroups.load(final_folders(run, level, EstimatedGroups))
        mine = part.take(np.flatnonzero(part.group // len(domain.iterations) == domain.region_ids.index(region)))
        codes = [domain.iteration_codes[group % len(domain.iterations)] for group in mine.group]
        fates.append(dict(zip(codes, zip(mine.cells, mine.margin, mine.dropped, strict=True), strict=True)))
    assert fates[0] == fates[1]
    assert any(dropped for _, _, dropped in fates[0].values())


# The option


def test_the_option_shapes_a_release_only_where_it_is_taken(tmp_path: Path) -> None:
    """Without it the configuration digest, and so the noise of a secret, is what it was before there was one."""
    params, data = Inputs().write(tmp_path)
    asked = {"params": str(params), "data": str(data), "out": str(tmp_path / "out"), "jurisdiction": "us"}
    bare, taken = (DetailedDhcaSettings(**asked, estimates=estimates) for estimates in (False, True))
    assert set(bare.shaping_options) == {"region", "coterminous", "coterminous_list"}
    assert taken.shaping_options == bare.shaping_options | {"estimates": True}
    assert taken.configuration_digest() != bare.configuration_digest()
    assert DetailedDhcaSettings(**asked).estimates is False


# Ends


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"thresholds_p": thresholds([0, 1, 2])}, marks=pytest.mark.slow),
        pytest.param({"thresholds_p": thresholds([5, 5, 5])}, marks=pytest.mark.slow),
        pytest.param({"thresholds_p": thresholds([float("inf")] * 3)}, marks=pytest.mark.ci),
        pytest.param(
            {"privacy_defn": "puredp", "privacy_budget_p_stage_1_fraction": 0.9, **dict.fromkeys(BUDGETS, 20), **FEW},
            marks=pytest.mark.ci,
        ),
        pytest.param({"privacy_budget_p_stage_1_fraction": 0.001}, marks=pytest.mark.slow),
        pytest.param(dict.fromkeys(BUDGETS, 4000) | FEW, marks=pytest.mark.ci),  # next to no noise
        {"privacy_budget_p_level_2_aiannh": 1, "privacy_budget_p_level_2_usa": 0, "privacy_budget_p_level_1_state": 0},
    ],
    ids=lambda changes: ",".join(map(str, changes))[:40],
)
def test_unusual_parameters(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Narrow windows, none, step 1 with most or next to none of the budget, no noise to speak of, absent levels."""
    run, place = stage_here(tmp_path, country(**FEW | changes), estimates=True)
    for level in run.parameters.configuration.levels("us"):
        assert details_of(run, level).keys() == load_estimators(run, level).keys()
    manifest = json.loads((place / "manifest.json").read_text())
    assert set(manifest["estimates"]) == set(manifest["levels"])
    if changes.get(BUDGETS[0]) == 4000:
        counts, estimates = read(place, "t1"), read(place, "estimates/t1")
        joined = estimates.merge(counts, on=[*GROUP, "FILE"])
        pooled = ~joined["FILE"].isin(["usa-1", "state-1"]) | (joined["ITERATION_CODE"] != "3001")
        assert (joined["ESTIMATE"] == joined["COUNT"])[pooled].all()


def test_what_the_manifest_and_the_page_say(made: tuple[DetailedRun, Path]) -> None:
    run, place = made
    result = read_manifest(place)["estimates"]["(TRACT, 2)"]
    table = result["details"]["age4"]
    assert table["total"]["deviation"] < load_queries(run, Level("TRACT", 2)).law("stage_2").variance() ** 0.5 * 8**0.5
    assert {"total", "sex", "cell"} <= set(table)
    values = critical_values(run, Level("TRACT", 2), Level("STATE", 2))
    assert result["critical_values"]["(STATE, 2)"]["total"] == values[TOTAL]
    assert set(result["critical_values"]) == {"(STATE, 2)", "(COUNTY, 2)"}
    assert "given publication it is not" in read_manifest(place)["statements"]["estimates"]
    assert "left out by the ancestor test" in (place / "report.html").read_text()
