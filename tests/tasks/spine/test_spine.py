"""A spine's directory: what its files hold agrees with itself, in one process and on Dask, for every product."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import product as product_of
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from spine_cases import blocks_table, root_of, write_grfc

from spine.production import allocation_for
from spine.settings import PRODUCTS, SpineSettings, settings_for
from tasks.errors import Failed, Refused
from tasks.geography.spine_options import read_allocation, read_settings
from tasks.lifecycle.new_folder import new_folder
from tasks.lifecycle.workers import Workers
from tasks.releases.datapackage import DICTIONARY_FILE, read_package
from tasks.releases.digests import file_digest
from tasks.releases.manifest import file_names
from tasks.releases.pages.words import best_in_words
from tasks.spine.optimize import optimize_spine
from tasks.spine.prepare import prepare
from tasks.spine.write import SpineSummary
from tests.packages import validate_package

PERSONS = settings_for("pl94-persons")


@pytest.fixture(scope="module")
def grfc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_grfc(tmp_path_factory.mktemp("geography") / "GRF-C.txt", blocks_table(7, (1, 55), 400))


@pytest.fixture(scope="module")
def spine(grfc: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SpineSummary]:
    """The directory of the whole geography's spine."""
    out = tmp_path_factory.mktemp("spines") / "spine"
    return out, optimized_spine(grfc, out, PERSONS)


def optimized_spine(
    geography: Path, out: Path, settings: SpineSettings, workers: Workers | None = None, **options: Any
) -> SpineSummary:
    with new_folder(out) as folder:
        return optimize_spine(prepare(geography, folder, settings, **options), workers)


def tables(out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    blocks = pd.concat([pd.read_parquet(f) for f in sorted((out / "blocks").iterdir())], ignore_index=True)
    geounits = pd.concat([pd.read_parquet(f) for f in sorted((out / "geounits").iterdir())], ignore_index=True)
    return blocks, geounits.astype({"level": str, "share": str})


def test_every_column_of_a_spine_is_described(spine: tuple[Path, SpineSummary]) -> None:
    out, _ = spine
    named = file_names(out)
    resources = read_package(out, named)
    paths = {path for resource in resources for path in resource.paths}
    assert paths == {name for name in named if name.endswith((".csv", ".parquet")) and name != DICTIONARY_FILE}
    assert all(column.meaning for resource in resources for column in resource.columns)
    by_name = {resource.name: resource for resource in resources}
    numbers = {column.name for column in by_name["blocks"].columns if column.type == "integer"}
    assert numbers == {level.lower() for level in PERSONS.levels[1:-1]}
    for name, delimiter in (("entities", ","), ("noise", ",")):
        table = pd.read_csv(out / f"{name}.csv", sep=delimiter)
        assert list(table) == [column.name for column in by_name[name].columns]


def test_others_read_a_spine_of_two_states_and_of_one(
    spine: tuple[Path, SpineSummary], grfc: Path, tmp_path: Path
) -> None:
    optimized_spine(grfc, tmp_path / "one", PERSONS, states=(55,))
    for out in (spine[0], tmp_path / "one"):
        validate_package(out)
        _, geounits = tables(out)
        roots = geounits[geounits["parent"] < 0]
        assert roots[["level", "id", "parent"]].to_numpy().tolist() == [[PERSONS.levels[0], 0, -1]]


@pytest.mark.parametrize("states", [pytest.param((), marks=pytest.mark.ci), (55,)])
@pytest.mark.parametrize("product", PRODUCTS)
def test_blocks_and_geounits_fit_together(grfc: Path, tmp_path: Path, product: str, states: tuple[int, ...]) -> None:
    settings = settings_for(product)
    out = tmp_path / "spine"
    summary = optimized_spine(grfc, out, settings, states=states)
    blocks, geounits = tables(out)
    assert len(blocks) == summary.blocks == (400 if states else 800)
    assert blocks["block"].is_unique
    assert blocks["geocode"].is_unique
    paths = blocks["share"].map(Fraction).to_numpy()
    above = [level for level in settings.levels if level != "Block"]
    for level in above:
        mine = geounits[geounits["level"] == level].set_index("id")
        assert len(mine) == summary.geounits["optimized"][level]
        assert mine["geocode"].is_unique
        root = level == settings.levels[0]
        ids = np.zeros(len(blocks), int) if root else blocks[level.lower()].to_numpy()
        assert (mine["blocks"].sort_index() == np.bincount(ids)).all()
        paths = paths + mine["share"].map(Fraction).loc[ids].to_numpy()
        prefix = mine["geocode"].loc[ids].to_numpy()
        assert all(code.startswith(p) for code, p in zip(blocks["geocode"], prefix, strict=True))
        if not root:
            parent = above[above.index(level) - 1]
            up = geounits[geounits["level"] == parent].set_index("id")
            assert (mine["parent"].astype(int).value_counts().sort_index() == up["fanout"].sort_index()).all()
    assert set(paths) == {Fraction(1)}  # exact: every block's path spends the whole budget
    assert summary.cost == summary.budget
    assert all(
        code.endswith(b[:11] + b[11] + b[11:]) for code, b in zip(blocks["geocode"], blocks["block"], strict=True)
    )


def test_on_dask_as_in_one_process(spine: tuple[Path, SpineSummary], grfc: Path, tmp_path: Path, client: Any) -> None:
    alone, summary = spine
    spread = optimized_spine(grfc, tmp_path / "spread", PERSONS, workers=Workers(client))
    assert summary.classes == spread.classes
    for name in ("entities.csv", "levels.csv", "noise.csv", "classes.csv", "spine.html"):
        assert (alone / name).read_bytes() == (tmp_path / "spread" / name).read_bytes()
    for table, spread_table in zip(tables(alone), tables(tmp_path / "spread"), strict=True):
        pd.testing.assert_frame_equal(table, spread_table)


def test_two_states_are_measured_as_one_spine(spine: tuple[Path, SpineSummary], grfc: Path) -> None:
    """The tables of a forest under a root are those of the whole nation built and solved at once."""
    from spine.build import aian, conventional, optimized
    from spine.bypass import bypass
    from spine.entities import entities
    from spine.osed import osed, overlap
    from spine.production import allocation_for
    from spine.redistricting import PRODUCTS
    from spine.variance import cell_variance, entity_sums, marginal_parts, upward
    from tasks.geography.blocks.geography import read_geography

    table = pd.read_csv(spine[0] / "entities.csv", dtype={"code": str})
    blocks, _ = read_geography(grfc, PERSONS)
    allocation = allocation_for(PERSONS)
    for make in (conventional, aian, optimized):
        measured = make(blocks, PERSONS).with_shares(dict(allocation.levels))
        measured = bypass(measured, PERSONS) if make is optimized else measured
        for name in ("place", "aian", "mcd"):
            family = entities(blocks, name, PERSONS)
            assert family is not None
            mine = table[table["class"] == name]
            assert (mine[f"osed_{make.__name__}"].to_numpy() == osed(measured, family)).all()
            pairs = overlap(measured, family.of_block, len(family.codes))
            variance = np.zeros(len(family.codes))
            for part in marginal_parts("total", PRODUCTS["pl94-persons"], allocation):
                up = upward(measured, part, 1)
                sums = entity_sums(measured, up, family, pairs)
                variance += cell_variance(part, sums.under(root_of(measured, up)))
            np.testing.assert_allclose(mine[f"se_total_{make.__name__}"], np.sqrt(variance), rtol=1e-6)


@pytest.mark.parametrize("variant", ["production", pytest.param("paper", marks=pytest.mark.ci)])
def test_pure_dp_with_split_counties_and_tract_groups(grfc: Path, tmp_path: Path, variant: Any) -> None:
    words = {"definition": "puredp", "tract_groups": "true", "fanout_cutoff": "1", "exact_bypass": "true"}
    settings = read_settings("pl94-persons", "us", variant, words)
    allocation = read_allocation(None, "8", settings)
    summary = optimized_spine(grfc, tmp_path / "spine", settings, allocation=allocation)
    assert summary.cost == summary.budget == 8
    blocks, geounits = tables(tmp_path / "spine")
    assert blocks["geocode"].is_unique
    for _, of_level in geounits.groupby("level"):
        assert of_level["geocode"].is_unique
    counties = (geounits["level"] == "County").sum()
    assert counties > summary.geounits["aian"]["County"]  # some were split
    noise = pd.read_csv(tmp_path / "spine" / "noise.csv")
    row = noise[(noise["level"] == "US") & (noise["query"] == "detailed")].iloc[0]
    assert Fraction(row["parameter"]) == 2 / (8 * Fraction(104, 4099) * Fraction(189, 241))


def test_noise_is_given_for_every_share_that_occurs(spine: tuple[Path, SpineSummary]) -> None:
    blocks, geounits = tables(spine[0])
    noise = pd.read_csv(spine[0] / "noise.csv")
    occurring = set(zip(geounits["level"], geounits["share"], strict=True))
    occurring |= {("Block", share) for share in blocks["share"].astype(str)}
    assert {(level, share) for level, share in occurring if share != "0"} == set(
        zip(noise["level"], noise["share"], strict=True)
    )
    assert ("Block", "0") in occurring  # only children were bypassed


def test_the_allocation_that_is_written_is_one_that_is_read(spine: tuple[Path, SpineSummary], tmp_path: Path) -> None:
    """Of every production run, of pure DP; and so is the one that docs/spec/files.md shows."""
    used = read_allocation(str(spine[0] / "allocation.json"), None, PERSONS)
    assert replace(used, source="") == replace(allocation_for(PERSONS), source="")
    file = tmp_path / "allocation.json"
    for product, jurisdiction in product_of(PRODUCTS, ("us", "pr")):
        settings = settings_for(product, jurisdiction)
        allocation = replace(allocation_for(settings), source="allocation.json")  # a release names no folder
        pure = replace(settings, definition="puredp")
        for written, under in ((allocation, settings), (replace(allocation, definition="puredp"), pure)):
            file.write_text(json.dumps(written.as_file()))
            assert read_allocation(str(file), None, under) == written
    page = (Path(__file__).resolve().parents[3] / "docs/spec/files.md").read_text()
    (shown,) = re.findall(r'```json\n(\{\n  "rho".*?)```', page, re.S)
    file.write_text(shown)
    assert read_allocation(str(file), None, settings_for("pl94-units")).budget == Fraction(1, 4)


def test_the_manifest_names_every_setting_and_its_source(spine: tuple[Path, SpineSummary], grfc: Path) -> None:
    manifest = json.loads((spine[0] / "spine.json").read_text())
    assert manifest["settings"]["fanout_cutoff"] == {
        "value": 12,
        "source": "programs: table_reader.py, set by no production config",
    }
    assert manifest["inputs"] == {"GRF-C.txt": file_digest(grfc)}
    assert manifest["cost"] == manifest["budget"] == "293764/114921"
    assert manifest["notes"] == [
        "group-quarters types are not known: the GQ entities are left out",
        "which blocks are occupied is not known: all blocks are on the spine",
    ]
    page = (spine[0] / "spine.html").read_text()
    assert "<h1>Geographic spine: redistricting persons, Alabama, Wisconsin</h1>" in page
    assert page.count("<svg") == 3


def test_the_least_figures_are_named_by_column_where_columns_differ() -> None:
    same, both = {"a": 1.0, "b": 1.0, "c": 1.0004}, {"a": 2.0, "b": 3.0, "c": 2.001}
    assert best_in_words({"X": same, "Y": both, "Z": {"a": 2.0, "b": 1.0, "c": 1.1}}) == "a: Y; b: Z; c: Y"
    assert best_in_words({}) == best_in_words({"X": same}) == ""


def test_a_whole_directory_or_none(grfc: Path, tmp_path: Path) -> None:
    out = tmp_path / "spine"
    out.mkdir()
    optimized_spine(grfc, out, PERSONS)  # an empty directory may be there
    with pytest.raises(Refused, match="is not empty"):
        optimized_spine(grfc, out, PERSONS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["spine"]
    for wrong in ({"marginals": ("income",)}, {"states": (36,)}):
        with pytest.raises(Refused):
            optimized_spine(grfc, tmp_path / "other", PERSONS, **wrong)  # type: ignore[arg-type]
        assert not (tmp_path / "other").exists()
    with pytest.raises(Refused, match="the allocation is for"):
        optimized_spine(
            grfc, tmp_path / "other", settings_for("dhc-units"), allocation=read_allocation(None, None, PERSONS)
        )


def test_a_stage_that_fails_leaves_nothing(grfc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("a worker died")

    monkeypatch.setattr("tasks.spine.optimize.summarize_state", broken)
    with pytest.raises(Failed, match="cannot be written: a worker died"):
        optimized_spine(grfc, tmp_path / "spine", PERSONS)
    assert list(tmp_path.iterdir()) == []


def test_a_geography_of_one_block(tmp_path: Path) -> None:
    path = write_grfc(tmp_path / "GRF-C.txt", blocks_table(1, (55,), 40).iloc[:1])
    summary = optimized_spine(path, tmp_path / "spine", PERSONS)
    assert summary.cost == summary.budget
    blocks, geounits = tables(tmp_path / "spine")
    assert blocks["share"].tolist() == ["0"]
    assert geounits["share"].tolist() == ["1", "0", "0", "0", "0"]  # all of it has moved to the root


MEASURED = {  # docs/spine.md: by class, how many, and OSED mean and largest: conventional, AIAN, optimized
    "wi": {
        "place": (804, [(40.17, 671), (40.12, 672), (9.08, 188)]),
        "mcd": (1910, [(53.79, 668), (53.68, 669), (4.75, 133)]),
        "aian": (12, [(102.75, 345), (6.17, 15), (3.5, 14)]),
    },
    "ri": {
        "place": (36, [(25.89, 50), (25.89, 50), (22.92, 58)]),
        "mcd": (39, [(8.26, 42), (8.28, 42), (6.74, 42)]),
        "aian": (1, [(25.0, 25), (1.0, 1), (1.0, 1)]),
    },
    "pr": {"place": (292, [(12.23, 93), (12.23, 93), (2.84, 25)])},
}


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.ci
def test_the_states_at_hand(das_data: Path, tmp_path: Path, name: str) -> None:
    settings = settings_for("pl94-persons", "pr" if name == "pr" else "us")
    summary = optimized_spine(das_data / f"{name}_blocks_2020.csv.gz", tmp_path / "spine", settings)
    rows = {row["class"]: row for row in summary.classes}
    measured = {
        kind: (
            rows[kind]["entities"],
            [(round(float(rows[kind][f"osed_mean_{w}"]), 2), rows[kind][f"osed_max_{w}"]) for w in summary.geounits],
        )
        for kind in MEASURED[name]
    }
    assert measured == MEASURED[name]
    assert summary.cost == summary.budget
