"""`das tda compare-gls`: margins without totals and blocks' zeros, and a GLS product from further measurements.

Both are held against one dense solution of the measurement files (`dense_gls`), which shares no code with das-flows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dense_gls import add_us_level, solve, write_product
from e2e_runs import das
from top_down_inputs import estimated, read

from spine.redistricting import PERSON_TABLES
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import read_manifest
from tasks.top_down.check.release import checks
from tasks.top_down.estimate.gls.margin_tables import counts_of
from tasks.top_down.published.least_squares import compare_with_bureau
from tasks.top_down.run_plan import SCHEMAS

LEVELS = {"US": 0, "State": 2, "County": 5, "Tract": 11}
VARIANCES = {"Tract": 8.0, "County": 20.0}  # of the measurements that stand for the DHC's, of every cell


PERSONS = "US_Person_PL_PROD"


def free_estimate(folder: Path, nmf: Path, data: Path) -> Path:
    options = {"estimator": "gls", "pl94": True, "free": True}
    return estimated(folder, nmf, data / "states.csv", data / "blocks.csv", **options)[0]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, das_data: Path) -> Path:
    data = das_data / "nmf-sample/noisy"
    return free_estimate(tmp_path_factory.mktemp("free"), data / "nmf", data)


class Product:
    """A GLS product of the sample with further measurements, the variance of its z, and the release's own solution."""

    def __init__(self, folder: Path, data: Path, files: Path) -> None:
        counts = counts_of("persons", True)
        self.folder, self.names = folder, [count.name for count in counts]
        counted = SCHEMAS["persons"].matrix(counts)
        self.own, self.spread, self.deviation = {}, {}, {}
        self.levels = [level for level in LEVELS if (files / f"{level}.parquet").exists()]
        truth = np.load(data / "truth.npz")
        before = solve(files)
        exact = np.zeros((len(before.codes), 2016))
        at = {code: row for row, code in enumerate(before.codes)}
        rows = [at[str(truth["person_codes"][block])] for block in truth["block"]]
        np.add.at(exact, (rows, truth["cell"]), truth["count"])
        rng, further = np.random.default_rng(2020), []
        for level, variance in VARIANCES.items():
            for blocks in self.areas(level, before.codes).values():
                inside = np.isin(before.codes, blocks).astype(float)
                noise = rng.normal(0, variance**0.5, (8, 252))
                further.append((inside, (inside @ exact).reshape(8, 252) + noise, variance))
        after = solve(files, further)
        cells = [cell.name for table in PERSON_TABLES.values() for cell in table]
        of_pl94 = np.array([name in set(cells) for name in self.names])
        for level in self.levels:
            areas = self.areas(level, before.codes)
            self.own[level], self.spread[level] = before.columns(counted, areas)
            estimate, spread = after.columns(counted[:, of_pl94], areas)
            shape = len(areas), len(cells)
            errors = np.sqrt(np.maximum(np.diag(spread), 0)).reshape(shape)
            for area, x, s in zip(areas, estimate.reshape(shape), errors, strict=True):
                write_product(folder, level, area, cells, x, s)
            both = np.tile(of_pl94, len(areas))
            difference = self.spread[level][np.ix_(both, both)] - spread
            root = np.sqrt(np.maximum(np.diag(difference), 0))
            kept = root**2 > 0.1 * np.sqrt(np.maximum(np.diag(spread), 0) + root**2)
            correlation = difference[np.ix_(kept, kept)] / np.outer(root[kept], root[kept])
            self.deviation[level] = np.sqrt(2 * (correlation**2).sum()) / kept.sum()  # of the mean of z squared

    @staticmethod
    def areas(level: str, codes: list[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for code in codes:
            found.setdefault(code[-16:][: LEVELS[level]], []).append(code)
        return found


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, das_data: Path) -> Product:
    data, folder = das_data / "nmf-sample/noisy", tmp_path_factory.mktemp("gls")
    return Product(folder / "census-2020-pl94-gls", data, data / "nmf" / PERSONS)


def assert_dense(release: Path, product: Product) -> None:
    """Assert that all 322 counts of all levels, estimates and standard errors as written, are the dense solution's."""
    for level in product.levels:
        folder = level if level == "US" else f"tabulation/{level}"
        margins = read(release, f"margins/persons/{folder}/*.parquet").set_index(["geounit", "count"])
        areas = sorted(set(margins.index.get_level_values(0)))
        key = [(area, name) for area in areas for name in product.names]
        np.testing.assert_allclose(margins.loc[key, "estimate"], product.own[level], atol=0.0006)
        errors = np.sqrt(np.maximum(np.diag(product.spread[level]), 0))
        np.testing.assert_allclose(margins.loc[key, "standard_error"], errors, atol=0.0006)


@pytest.mark.ci
def test_free_margins_are_the_dense_solution(release: Path, product: Product) -> None:
    assert_dense(release, product)
    manifest = read_manifest(release)
    assert not [check for check in checks(release, manifest) if check.faults]
    assert (manifest["options"]["pl94"], manifest["options"]["free"]) == (True, True)


def test_z_is_standard_normal(release: Path, product: Product, tmp_path: Path) -> None:
    """The mean of z squared within 5 of its own standard deviations of 1: false alarms, below one in 10,000 a level."""
    found = compare_with_bureau(release, product.folder, tmp_path / "out")
    assert found.verdict == f"agree in all {298 * 10:,} cells: z is N(0, 1), and no standard error is above ours"
    for level, cells in found.by_query.groupby("level"):
        mean = (cells["mean_z2"] * cells["with_z"]).sum() / cells["with_z"].sum()
        assert abs(mean - 1) < 5 * product.deviation[str(level)]
        assert cells["with_z"].sum() > 0.6 * cells["cells"].sum()
    assert product.deviation["Tract"] < 0.1  # so the tracts would show an error of half the variance
    assert found.notes == []


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_errors_of_another_size_do_not_agree(release: Path, product: Product, tmp_path: Path, scale: float) -> None:
    """Differences of twice the size, or standard errors of theirs above ours, are seen."""
    copy = tmp_path / "gls"
    shutil.copytree(product.folder, copy)
    for path in copy.glob("us/Tract/**/*.csv"):
        head, *rows = (line.split("|") for line in path.read_text().splitlines())
        rows = [[a, q, x, repr(float(s) * scale), d] for a, q, x, s, d in rows]
        path.write_text("\n".join("|".join(row) for row in [head, *rows]) + "\n")
    verdict = compare_with_bureau(release, copy).verdict
    assert verdict.startswith("do not agree")
    assert ("standard errors are above ours" in verdict) == (scale > 1)


@pytest.mark.ci
def test_the_nation_is_compared(tmp_path: Path, das_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The US level, measured and compared: its margins, its 298 cells, z; an estimate that is not theirs is seen."""
    data, nmf = das_data / "nmf-sample/noisy", tmp_path / "nmf"
    shutil.copytree(data / "nmf" / PERSONS, nmf / PERSONS)
    truth = np.load(data / "truth.npz")
    add_us_level(nmf / PERSONS, np.bincount(truth["cell"], truth["count"], 2016), np.random.default_rng(26))
    release, product = free_estimate(tmp_path, nmf, data), Product(tmp_path / "gls", data, nmf / PERSONS)
    assert read_manifest(release)["source"]["us_level_used"]
    assert_dense(release, product)
    found = compare_with_bureau(release, product.folder)
    assert found.verdict == f"agree in all {298 * 11:,} cells: z is N(0, 1), and no standard error is above ours"
    assert found.notes == []
    cells = found.by_query[found.by_query["level"] == "US"]
    mean = (cells["mean_z2"] * cells["with_z"]).sum() / cells["with_z"].sum()
    assert abs(mean - 1) < 5 * product.deviation["US"]
    path = next(product.folder.glob("us/US/*.csv"))
    text = path.read_text()
    total = text.splitlines()[1]
    assert total.startswith("|P0010001|")  # the nation's geocode is blank
    number = total.split("|")[2]
    path.write_text(text.replace(number, repr(float(number) + 100), 1))
    assert das("tda", "compare-gls", release, product.folder) == 0
    assert "1 estimates differ by more than 4 standard errors" in " ".join(capsys.readouterr().out.split())
    path.write_text(text.replace("\n|", "\n56|"))
    with pytest.raises(Refused, match="a geocode that is not 0 digits"):
        compare_with_bureau(release, product.folder)
    path.unlink()
    assert compare_with_bureau(release, product.folder).notes == ["US: the Bureau's estimates are not there"]


def test_what_the_command_prints_and_refuses(
    release: Path, product: Product, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert das("tda", "compare-gls", release / "margins", product.folder / "us", tmp_path / "out") == 0
    assert "z is N(0, 1)" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"cells.parquet", "by_query.csv"}
    copy = tmp_path / "gls"
    shutil.copytree(product.folder, copy)
    path = next(copy.glob("us/Tract/**/*.csv"))
    good = path.read_text()
    for change, message in {
        good.replace("std_dev", "error"): "not one column std_dev",
        good.replace("query_description", "estimate"): "not one column estimate",
        good.replace("|P0010001|", "|P0010002|"): "is there twice",
        good.replace("56", "57"): "a geocode that is not its folder's",
        "\n".join(good.splitlines()[:2]).rsplit("|", 2)[0] + "|nan|x\n": "a value of std_dev that is no number",
    }.items():
        path.write_text(change)
        with pytest.raises(Refused, match=message):
            compare_with_bureau(release, copy)
    path.unlink()
    assert any(
        "the Bureau's estimates lack 298 cells of 1 geounits" in note
        for note in compare_with_bureau(release, copy).notes
    )
    with pytest.raises(Refused, match="is missing; name a release"):
        compare_with_bureau(release.parent, copy)
    with pytest.raises(Refused, match="no folder us with State"):
        compare_with_bureau(release, tmp_path / "out")


def _no_parquet(path: Path) -> None:
    path.write_bytes(b"PAR1 nothing PAR1")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _without_a_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop(["standard_error"]), path)


def _not_a_number(path: Path) -> None:
    frame = pq.read_table(path).to_pandas()
    pq.write_table(pa.Table.from_pandas(frame.assign(estimate=np.nan)), path)


def _column_twice(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.append_column("estimate", table["estimate"]), path)


def _twice(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 400)]), path)


def _other_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"P0010001", b"\xff\xfe\x00", 1))


def _ragged(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "56|P0010001|1|1|a|b|c|d\n", encoding="utf-8")


@pytest.mark.parametrize("damage", [_no_parquet, _folder, _without_a_column, _not_a_number, _twice, _column_twice])
def test_damaged_margins_are_refused_by_name(
    release: Path, product: Product, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    copy = tmp_path / "release"
    shutil.copytree(release, copy)
    path = next((copy / "margins/persons/tabulation/Tract").glob("*.parquet"))
    damage(path)
    with pytest.raises(Refused, match=path.name):
        compare_with_bureau(copy, product.folder)


def _surrogates(path: Path) -> None:
    path.rename(path.parent / os.fsdecode(b"\xff.csv"))


@pytest.mark.parametrize("damage", [_other_bytes, _ragged, _folder, _surrogates])
def test_damaged_estimates_are_refused_by_name_or_noted(
    release: Path, product: Product, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    copy = tmp_path / "gls"
    shutil.copytree(product.folder, copy)
    path = next(copy.glob("us/Tract/**/*.csv"))
    damage(path)
    if damage is _folder:
        assert "lack 298 cells of 1 geounits" in compare_with_bureau(release, copy).notes[0]
    else:
        with pytest.raises(Refused, match="no text" if damage is _surrogates else path.name):
            compare_with_bureau(release, copy)


def test_a_column_that_others_do_not_have_changes_nothing(release: Path, product: Product, tmp_path: Path) -> None:
    shutil.copytree(product.folder, copy := tmp_path / "gls")
    path = next(copy.glob("us/Tract/**/*.csv"))
    path.write_text(path.read_text().replace("query_description", "folder"))
    assert compare_with_bureau(release, copy).verdict == compare_with_bureau(release, product.folder).verdict


def test_a_hostile_manifest_and_other_places_are_refused(release: Path, product: Product, tmp_path: Path) -> None:
    copy = tmp_path / "release"
    shutil.copytree(release, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    for change in (
        {"states": ["../.."]},
        {"states": 5},
        {"region": "../us"},
        {"spine": None},
        {"options": []},
        {"products": 1},
    ):
        (copy / "manifest.json").write_text(json.dumps(manifest | change))
        with pytest.raises(Refused, match="no margins of the cells of P1 to P5"):
            compare_with_bureau(copy, product.folder)
    for place in (tmp_path / "nowhere", copy / "manifest.json"):
        assert das("tda", "compare-gls", place, product.folder) == 1
        assert das("tda", "compare-gls", release, place) == 1
