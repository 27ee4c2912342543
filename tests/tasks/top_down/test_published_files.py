"""The Census Bureau's noisy measurement files: truth and dense estimates come out; a fault is a finding."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import weakref
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dense_gls import solve
from e2e_runs import das
from top_down_inputs import damage, estimated, read

from privacy.noise.laws import DiscreteGaussian
from spine.noise import parameter
from spine.production import allocation
from spine.top_down import query_group
from tasks.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.findings import load_findings
from tasks.releases.manifest import read_manifest, released_files
from tasks.top_down.check.redistricting import checks
from tasks.top_down.published.nmf import census_2020
from tasks.top_down.published.nmf import rows as rows_of_files
from tasks.top_down.published.nmf.census_2020 import totals_of_2020
from tasks.top_down.published.nmf.inventory import take_inventory
from tasks.top_down.release.measurements import write_own_layout
from tasks.top_down.release.nmf_layout import FOOTER, LEVELS, Footer, read_order, written_order
from tasks.top_down.run_plan import SCHEMAS, counts_of
from tasks.top_down.user_areas.published_counts import published_counts

pytestmark = pytest.mark.usefixtures("untidy")
Row = dict[str, Any]
PERSONS, UNITS = "US_Person_PL_PROD", "US_Unit_PL_PROD"
KEPT = "5600500030022001"  # a block of the AIAN part
LEVEL_NAMES = {"persons": "person", "units": "unit"}


@pytest.fixture(scope="module")
def sample(das_data: Path) -> Path:
    return das_data / "nmf-sample"


def of_sample(folder: Path, sample: Path, name: str, nmf: Path | None = None, **options: Any) -> Path:
    """The release of a flavour of the sample, or of files in its place."""
    data = sample / name
    return estimated(folder, nmf or data / "nmf", data / "states.csv", data / "blocks.csv", **options)[0]


@pytest.fixture(scope="module")
def noisy_gls(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The estimate of the noisy files by `gls`, to look at."""
    return of_sample(tmp_path_factory.mktemp("noisy"), sample, "noisy", estimator="gls")


def tables(release: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(release)): path for path in released_files(release)}
    return {name: path.read_bytes() for name, path in files.items() if name != "report.html"}


def true_blocks(sample: Path, name: str = "exact") -> dict[str, set[tuple[str, int, int]]]:
    truth = np.load(sample / name / "truth.npz")
    persons = {
        (str(truth["person_codes"][block]), int(cell), int(count))
        for block, cell, count in zip(truth["block"], truth["cell"], truth["count"], strict=True)
    }
    counts = np.column_stack([truth["hu"] - truth["occupied"], truth["occupied"]])
    units = {
        (str(code), cell, int(row[cell]))
        for code, row in zip(truth["unit_codes"], counts, strict=True)
        for cell in (0, 1)
        if row[cell]
    }
    return {"persons": persons, "units": units}


def blocks(release: Path, product: str) -> set[tuple[str, int, int]]:
    table = read(release, f"histograms/{product}/Block/*.parquet")
    return set(zip(table["geounit"], table["cell"].tolist(), table["count"].tolist(), strict=True))


@pytest.mark.parametrize("estimator", ["topdown", pytest.param("gls", marks=pytest.mark.ci)])
def test_the_truth_comes_out_of_exact_answers(tmp_path: Path, sample: Path, estimator: str) -> None:
    release = of_sample(tmp_path, sample, "exact", estimator=estimator, asked={"check_spine": True})
    truth = true_blocks(sample)
    assert {product: blocks(release, product) for product in truth} == truth
    manifest = read_manifest(release)
    assert not [check for check in checks(release, manifest) if check.faults]
    assert manifest["spent"] is None
    assert "not a Census Bureau product" in manifest["ESTIMATE"]
    assert "not a Census Bureau product" in (release / "report.html").read_text()
    assert manifest["source"]["state_totals"] == {"56": 1227}
    assert manifest["source"]["us_level_used"] is False
    equal = manifest["source"]["blocks_with_the_geocode_of_our_spine"]
    assert {product: sum(same for same, _ in counties.values()) for product, counties in equal.items()} == {
        "persons": 24,
        "units": 24,
    }
    assert "guarantee" not in manifest["statements"]
    assert "noise_scheme" not in manifest
    assert len([name for name in manifest["public_files"] if name.startswith(PERSONS)]) == 18
    assert not list((tmp_path / "runs").glob("estimate*"))


def test_estimates_and_standard_errors_are_those_of_the_dense_solution(noisy_gls: Path, sample: Path) -> None:
    expected = json.loads(gzip.decompress((sample / "noisy/expected.json.gz").read_bytes()))
    compared = 0
    for product, name in LEVEL_NAMES.items():
        for level in LEVELS[:-1]:
            margins = read(noisy_gls, f"margins/{product}/{level}/*.parquet")
            for row in margins.itertuples():
                if row[2] == "voting age by origin: Hispanic":  # which the dense solution was not asked for
                    continue
                known = expected[name][level][row.geounit]["gls"][row[2]]
                np.testing.assert_allclose([row.estimate, row.standard_error], known, atol=0.002)
                compared += 1
    assert compared == 25 * sum(len(expected["person"][level]) for level in LEVELS[:-1]) - missing_units(expected)


@pytest.mark.ci
def test_margins_of_the_cells_of_pl94_are_the_dense_solution(tmp_path: Path, sample: Path) -> None:
    """All 322 counts of the state, its counties and tracts, against a solution that shares no code with das-flows."""
    release = of_sample(tmp_path, sample, "noisy", estimator="gls", pl94=True)
    dense = solve(sample / "noisy/nmf" / PERSONS, {"56": 1312})
    counts = counts_of("persons", True)
    for level, width in {"State": 2, "County": 5, "Tract": 11}.items():
        areas: dict[str, list[str]] = {}
        for code in dense.codes:
            areas.setdefault(code[-16:][:width], []).append(code)
        margins = read(release, f"margins/persons/tabulation/{level}/*.parquet").set_index(["geounit", "count"])
        margins = margins.loc[[(area, count.name) for area in areas for count in counts]]
        estimate, spread = dense.columns(SCHEMAS["persons"].matrix(counts), areas)
        np.testing.assert_allclose(margins["estimate"], estimate, atol=0.0006)
        np.testing.assert_allclose(margins["standard_error"], np.sqrt(np.maximum(np.diag(spread), 0)), atol=0.0006)


@pytest.mark.slow
def test_answers_stay_mapped_for_one_batch_of_rows(
    tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of a file that stays mapped count as a worker's memory: a large state's would be more than it has."""
    seen: list[weakref.ref[Any]] = []
    load = np.load

    def watched(path: Path, mmap_mode: Any = None) -> Any:
        found = load(path, mmap_mode=mmap_mode)
        if mmap_mode == "r+":
            assert not any(earlier() is not None for earlier in seen)
            seen.append(weakref.ref(found))
        return found

    monkeypatch.setattr(np, "load", watched)
    monkeypatch.setattr(rows_of_files, "BATCH", 32)
    of_sample(tmp_path, sample, "noisy")
    assert len(seen) > 30


def missing_units(expected: dict[str, Any]) -> int:
    return sum(len(expected["person"][level]) - len(expected["unit"][level]) for level in LEVELS[:-1])


def edit(folder: Path, change: Callable[[Path, list[Row]], list[Row]], pattern: str = "*") -> None:
    """Rewrite the part files below a folder, row by row."""
    for path in sorted(folder.glob(f"**/{pattern}/**/*.parquet")):
        if path.is_file():
            table = pq.read_table(path, partitioning=None)
            pq.write_table(pa.Table.from_pylist(change(path, table.to_pylist()), table.schema), path)


@pytest.mark.ci
def test_files_of_other_forms_give_the_same_bytes(tmp_path: Path, sample: Path, noisy_gls: Path, client: Any) -> None:
    nmf = tmp_path / "nested/download/nmf"
    shutil.copytree(sample / "noisy/nmf", nmf)
    rng = random.Random(1)
    for folder in sorted({path.parent for path in nmf.glob("**/part-*.parquet")}):  # one part, shuffled, 32 bits
        parts = sorted(folder.glob("part-*"))
        table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in parts])
        for path in parts:
            path.unlink()
        table = table.take(rng.sample(range(len(table)), len(table)))
        for at, kind in enumerate((pa.binary(), pa.large_string())):  # geocode, query_name
            table = table.set_column(at, table.column_names[at], table.column(at).cast(kind))
        if "DPQuery" in str(folder):
            table = table.drop_columns(["sign"])
            at = table.column_names.index("value")
            table = table.set_column(at, "value", table["value"].cast(pa.list_(pa.int32())))
        (folder / "_SUCCESS").unlink(missing_ok=True)
        (folder / ".part-0.crc").touch()
        pq.write_table(table.select(table.column_names[::-1]), folder / "part-00000.parquet", compression="zstd")
    (nmf / f"{PERSONS}/County.parquet/DPQuery/State=125").mkdir()  # a part that has no answer
    other = of_sample(tmp_path / "other", sample, "noisy", nmf=nmf.parent, estimator="gls", workers=Workers(client))
    assert tables(other) == tables(noisy_gls)


def test_a_footer_of_das_flows_that_anybody_may_have_written(tmp_path: Path, sample: Path) -> None:
    rank = np.array([2, 0, 1, 3])
    assert read_order(written_order(rank), 4).tolist() == np.argsort(rank).tolist()
    for wrong in ("", "!", written_order(rank)[:8], written_order(np.arange(5))):
        with pytest.raises(ValueError, match="no order of the blocks"):
            read_order(wrong, 4)
    nmf = tmp_path / "nmf"
    shutil.copytree(sample / "exact/nmf", nmf)
    paths = [path for path in nmf.rglob("*.parquet") if path.is_file()]
    for footer, files, fault in (
        (Footer("run", True, {56: 1}).written(), paths[:1], "has a footer of another run, mark or totals than"),
        ("{}", paths, "a footer of das-flows without a run"),
        (
            '{"run": "a", "state_totals": {"56": 1}}',
            paths,
            "a footer of das-flows without a run, mark and state totals",
        ),
        ('{"run": "a\\nb", "synthetic": true, "state_totals": {}}', paths, "a run or a population that cannot be"),
    ):
        for path in files:
            table = pq.read_table(path, partitioning=None)
            pq.write_table(table.replace_schema_metadata({FOOTER: footer}), path)
        findings = take_inventory(nmf)[1].findings()
        assert [finding for finding in findings if fault in finding.rule and not finding.warning]


@pytest.mark.ci
def test_what_is_imported_gives_the_same_estimate(tmp_path: Path, sample: Path, noisy_gls: Path) -> None:
    """The spine is read again, not made: of blocks alone, without a geography, none could be."""
    data = sample / "noisy"
    asked = {"as_measured": True}
    (kept,) = estimated(
        tmp_path / "kept", data / "nmf", data / "states.csv", data / "blocks.csv", write=write_own_layout, asked=asked
    )
    assert {path.name for path in kept.iterdir()} == {"measurements"}
    (release,) = estimated(tmp_path, kept, estimator="gls")
    assert tables(release) == tables(noisy_gls)
    manifest = read_manifest(release)
    assert "not a Census Bureau product" in manifest["ESTIMATE"]
    assert manifest["source"] == read_manifest(noisy_gls)["source"]
    assert "noise_scheme" not in manifest
    path = kept / "measurements/geounits/persons/56.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(Refused, match="not the geounits of imported measurements"):
        estimated(tmp_path / "none", kept)


def test_where_one_jurisdiction_is_refused_nothing_is_imported(tmp_path: Path, sample: Path) -> None:
    nmf, out = tmp_path / "nmf", tmp_path / "new/out"
    shutil.copytree(sample / "exact/nmf", nmf)
    shutil.copytree(nmf / PERSONS, nmf / "PR_Person_PL_PROD", ignore=shutil.ignore_patterns("State=156"))
    for path in (nmf / "PR_Person_PL_PROD").glob("*/*/State=056"):
        path.rename(path.with_name("State=072"))  # its geocodes are still those of state 56
    (tmp_path / "states.csv").write_text("state,pop\n56,1227\n72,1227\n")
    with pytest.raises(Refused, match=r"PR_Person\S+: a geocode with another state than its folder"):
        estimated(out.parent, nmf, tmp_path / "states.csv", write=write_own_layout)
    assert not out.exists()


@pytest.mark.ci
def test_one_product_alone(tmp_path: Path, sample: Path) -> None:
    for product, folder in (("persons", PERSONS), ("units", UNITS)):
        place = tmp_path / product
        place.mkdir(0o700)
        shutil.copytree(sample / "exact/nmf" / folder, place / "nmf" / folder)
        release = of_sample(place, sample, "exact", place / "nmf" / folder)
        assert blocks(release, product) == true_blocks(sample)[product]
        manifest = read_manifest(release)
        assert list(manifest["products"]) == [product]
        assert any("are missing and left out" in note for note in manifest["source"]["notes"])
        assert not [check for check in checks(release, manifest) if check.faults]


@pytest.mark.slow
def test_budgets_of_no_known_design(tmp_path: Path, sample: Path, noisy_gls: Path) -> None:
    """Twice the variance everywhere: shares are ratios, estimates the same, standard errors larger."""
    nmf = tmp_path / "nmf"
    shutil.copytree(sample / "noisy/nmf", nmf)

    def twice(_: Path, rows: list[Row]) -> list[Row]:
        return [{**row, "variance": row["variance"] * 2} for row in rows]

    edit(nmf, twice, "DPQuery")
    other = of_sample(tmp_path / "other", sample, "noisy", nmf=nmf, estimator="gls")
    assert "no known design" in read_manifest(other)["source"]["design"]["persons"]
    assert not [check for check in checks(other, read_manifest(other)) if check.faults]
    one, two = (read(release, "margins/persons/County/*.parquet") for release in (noisy_gls, other))
    np.testing.assert_allclose(two["estimate"], one["estimate"], atol=0.01)
    np.testing.assert_allclose(two["standard_error"], one["standard_error"] * 2**0.5, rtol=2e-3, atol=0.002)


@pytest.mark.ci
def test_the_us_level_is_used_where_the_states_add_up(tmp_path: Path, sample: Path) -> None:
    nmf = tmp_path / "nmf"
    shutil.copytree(sample / "exact/nmf", nmf)
    hu = int(np.load(sample / "exact/truth.npz")["hu"].sum())
    for folder, name, total in ((PERSONS, "pl94-persons", 1227), (UNITS, "pl94-units", hu)):
        states = nmf / folder / "State.parquet/DPQuery"
        parts = [pq.read_table(path, partitioning=None) for path in sorted(states.glob("*/part-*"))]
        design = allocation(name, "us")
        rows = []
        for row in parts[0].to_pylist():
            query = row["query_name"].removesuffix("_dpq").replace(" ", "")
            if query not in design.queries["US"]:
                continue
            values = [p["value"] for part in parts for p in part.to_pylist() if p["query_name"] == row["query_name"]]
            law = DiscreteGaussian(parameter(design, design.levels["US"], design.queries["US"][query]))
            sums = np.sum(values, axis=0).tolist()
            rows.append({**row, "geocode": "", "value": sums, "variance": law.variance()})
        declared = {"geocode": "", "query_name": "total_con", "value": [total]}
        for kind, table in (
            ("DPQuery", pa.Table.from_pylist(rows, parts[0].schema)),
            ("Constraint", pa.Table.from_pylist([declared])),
        ):
            place = nmf / folder / f"US.parquet/{kind}"
            place.mkdir(parents=True)
            pq.write_table(table, place / "part-0.parquet")
    release = of_sample(tmp_path / "nation", sample, "exact", nmf, estimator="gls", pl94=True)
    assert read_manifest(release)["spine"]["us_level"]
    assert not [check for check in checks(release, read_manifest(release)) if check.faults]
    whole, state = (read(release, f"margins/persons/{folder}/*.parquet") for folder in ("US", "tabulation/State"))
    np.testing.assert_allclose(whole["estimate"], whole["released"], atol=0.001)  # of exact answers
    assert whole.drop(columns="geounit").equals(state.drop(columns="geounit"))  # the only state
    assert blocks(release, "persons") == true_blocks(sample)["persons"]
    us = read(release, "histograms/persons/US/US.parquet")
    assert us["count"].sum() == 1227
    edit(nmf / PERSONS / "US.parquet", lambda _, rows: [{**row, "value": [1228]} for row in rows], "Constraint")
    release = of_sample(tmp_path / "state", sample, "exact", nmf)
    assert not read_manifest(release)["spine"]["us_level"]
    assert any("the US level is left out" in note for note in read_manifest(release)["source"]["notes"])


@pytest.mark.ci
def test_puerto_rico_beside_the_states(tmp_path: Path, sample: Path) -> None:
    """The sample without its AIAN part, as Puerto Rico's: its own shares, no total of State, the total declared."""
    nmf, truth = tmp_path / "nmf", np.load(sample / "exact/truth.npz")
    shutil.copytree(sample / "exact/nmf", nmf)
    there = {product: {row for row in rows if row[0].startswith("0")} for product, rows in true_blocks(sample).items()}
    total = sum(count for _, _, count in there["persons"])
    shares = json.loads(gzip.decompress((sample / "exact/expected.json.gz").read_bytes()))
    for folder, name, key in ((PERSONS, "pl94-persons", "person"), (UNITS, "pl94-units", "unit")):
        place = nmf / folder.replace("US_", "PR_")
        shutil.copytree(nmf / folder, place)
        for path in place.glob("*/*/State=156"):
            shutil.rmtree(path)
        for path in place.glob("*/*/State=056"):
            path.rename(path.with_name("State=072"))
        us, pr = allocation(name, "us"), allocation(name, "pr")

        def moved(path: Path, rows: list[Row], us: Any = us, pr: Any = pr, key: str = key) -> list[Row]:
            level = path.parts[-4].removesuffix(".parquet")
            found = []
            for row in rows:
                code = row["geocode"]
                own = "072" + (code[3:-16] + "72" + code[-14:] if level == "Block" else code[3:])
                if "Constraint" in str(path):
                    found.append({**row, "geocode": own})
                    continue
                query = row["query_name"].removesuffix("_dpq").replace(" ", "")
                if query not in pr.queries[level]:
                    continue
                of_us, of_pr = (list(each.levels.values())[list(each.levels).index(level) :] for each in (us, pr))
                number = list(accumulate(of_us)).index(Fraction(shares[key][level][code]["share"]))
                law = DiscreteGaussian(parameter(pr, sum(of_pr[: number + 1]), pr.queries[level][query]))
                found.append({**row, "geocode": own, "variance": law.variance()})
            if level == "State" and "Constraint" in str(path) and key == "person":
                found.append({**found[0], "query_name": "total_con", "query_shape": [1], "value": [total]})
            return found

        edit(place, moved)
    totals = tmp_path / "totals.csv"
    totals.write_text(f"state,pop\n56,1227\n72,{total}\n")
    us_release, pr_release = estimated(tmp_path, nmf, totals)
    assert (us_release.name, pr_release.name) == ("us", "pr")
    assert not [check for check in checks(pr_release, read_manifest(pr_release)) if check.faults]
    for product, rows in there.items():
        moved_rows = {("072" + code[3:-16] + "72" + code[-14:], cell, count) for code, cell, count in rows}
        assert blocks(pr_release, product) == moved_rows
    assert blocks(us_release, "persons") == true_blocks(sample)["persons"]
    assert len(truth["code16"]) > len({code for code, _, _ in there["persons"]})


@pytest.mark.ci
def test_blocks_in_water_are_counted_where_the_tables_have_them(
    tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block goes to another that is there, one to a code of its own in another tract."""
    counts: dict[str, int] = {}
    for code, _, count in true_blocks(sample)["persons"]:
        counts[code[-16:]] = counts.get(code[-16:], 0) + count
    gone, to, moved = sorted(counts)[:3]
    elsewhere = "5600599999999999"
    short = [int(code[:11] + code[12:]) for code in (gone, to, moved, elsewhere)]
    monkeypatch.setattr(census_2020, "MOVED", dict(zip(short[::2], short[1::2], strict=True)))
    release = of_sample(tmp_path, sample, "exact", estimator="gls")
    manifest = read_manifest(release)
    assert manifest["source"]["as_tabulated"] == {gone: to, moved: elsewhere}
    assert not [check for check in checks(release, manifest) if check.faults]
    mdf = read(release, "mdf/56_persons.parquet")
    code = mdf.TABBLKST + mdf.TABBLKCOU + mdf.TABTRACTCE + mdf.TABBLKGRPCE + mdf.TABBLK
    expected = counts | {to: counts[to] + counts[gone], elsewhere: counts[moved]}
    del expected[gone], expected[moved]
    assert mdf.COUNT.groupby(code).sum().to_dict() == expected
    assert not mdf.duplicated([name for name in mdf if name != "COUNT"]).any()
    tracts = read(release, "histograms/persons/tabulation/Tract/56.parquet").groupby("geounit")["count"].sum()
    assert tracts["56005999999"] == counts[moved]
    assert blocks(release, "persons") == true_blocks(sample)["persons"]  # the spine is that of the files
    published: dict[int, int] = {}  # as `das tda areas` shows it with an area
    for block, of_block in zip(*published_counts(str(release))("persons", "56"), strict=True):
        published[int(block)] = published.get(int(block), 0) + int(of_block[0])
    assert published == {int(code[:11] + code[12:]): count for code, count in expected.items()}


@pytest.mark.slow
def test_geocodes_of_2010(tmp_path: Path, sample: Path) -> None:
    """A county without a number of its own, and so another width on every level; totals of 2010 must be given."""
    nmf = tmp_path / "nmf"
    shutil.copytree(sample / "exact/nmf", nmf)

    def shorter(code: str) -> str:
        return code[:8] + code[9:]

    edit(nmf, lambda _, rows: [{**row, "geocode": shorter(row["geocode"])} for row in rows])
    release = of_sample(tmp_path, sample, "exact", nmf)
    truth = {(shorter(code), cell, count) for code, cell, count in true_blocks(sample)["persons"]}
    assert blocks(release, "persons") == truth
    assert any("2010" in note for note in read_manifest(release)["source"]["notes"])
    with pytest.raises(Refused, match="give its populations with --state-totals"):
        estimated(tmp_path / "again", nmf, None)


@pytest.mark.ci
def test_a_part_of_one_block_is_measured_in_its_state_alone(tmp_path: Path, sample: Path) -> None:
    """All shares moved to State: sigma^2 is .44 there, and the variance of the discrete law is another number."""
    nmf, truth = tmp_path / "nmf", np.load(sample / "exact/truth.npz")
    shutil.copytree(sample / "exact/nmf", nmf)
    gone = 0
    for folder, engine, product, key in (
        (PERSONS, "pl94-persons", SCHEMAS["persons"], "person_codes"),
        (UNITS, "pl94-units", SCHEMAS["units"], "unit_codes"),
    ):
        kept = next(code for code in truth[key].tolist() if code.endswith(KEPT))
        here = truth[key].tolist().index(kept)
        own = truth["block"] == here
        cell, count = truth["cell"][own], truth["count"][own]
        if product.name == "pl94-units":
            cell, count = (
                np.array([0, 1]),
                np.array([truth["hu"][here] - truth["occupied"][here], truth["occupied"][here]]),
            )
        else:
            others = [number for number, code in enumerate(truth[key].tolist()) if code[0] == "1" and code != kept]
            gone = int(truth["count"][np.isin(truth["block"], others)].sum())
        design = allocation(engine, "us")
        share = 1 - design.levels["US"]

        def only(
            path: Path, rows: list[Row], kept: str = kept, of: Any = (product, cell, count, design, share)
        ) -> list[Row]:
            if "DPQuery" in str(path) and "State.parquet" not in str(path):
                return []
            found = [row for row in rows if kept.startswith(row["geocode"])]
            if "Constraint" in str(path):
                return found
            product, cell, count, design, share = of
            for row in found:
                query = row["query_name"].removesuffix("_dpq").replace(" ", "")
                group = query_group(product, query)
                sums = np.bincount(group.coordinate[cell], count, minlength=group.width).astype(int)
                law = DiscreteGaussian(parameter(design, share, design.queries["State"][query]))
                row |= {"value": sums.tolist(), "variance": law.variance()}
            return found

        edit(nmf / folder, only, "State=156")
    totals = tmp_path / "totals.csv"
    totals.write_text(f"state,pop\n56,{1227 - gone}\n")
    release = estimated(tmp_path, nmf, totals, estimator="gls")[0]
    expected = {row for row in true_blocks(sample)["persons"] if row[0][0] == "0" or row[0].endswith(KEPT)}
    assert blocks(release, "persons") == expected
    laws = read_manifest(release)["products"]["persons"]["noise"]
    assert Fraction(3995, 4099) in {Fraction(law["share"]) for law in laws if law["level"] == "State"}


def test_totals_of_2020_add_up() -> None:
    totals = totals_of_2020()
    assert (totals[1], totals.pop(72)) == (5_024_279, 3_285_874)
    assert sum(totals.values()) == 331_449_281  # of the 50 states and DC, as published with them
    assert len(totals) == 51


def test_the_command(
    tmp_path: Path, sample: Path, stages_here: None, state_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals, out = sample / "exact/states.csv", tmp_path / "out"
    assert das("tda", "inventory", sample / "exact/nmf", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["files"]
    assert sum(row["rows"] for row in rows if (row["product"], row["rows of"]) == ("persons", "Constraint")) == 168
    assert (
        das("tda", "estimate", sample / "exact/nmf", out, "--state-totals", totals, "--only-state", 56, "--json") == 0
    )
    assert json.loads(capsys.readouterr().out)["release"] == str(out / "us")
    shutil.copytree(sample / "exact/nmf", tmp_path / "nmf")
    rows_of("County", lambda rows: rows[1:])(tmp_path / "nmf")
    assert das("tda", "estimate", tmp_path / "nmf", tmp_path / "none", "--state-totals", totals) == 1
    told = capsys.readouterr()
    assert "a measured geounit lacks the query total: geocode 056100011" in " ".join(told.out.split())
    assert "Traceback" not in told.out + told.err
    assert (
        das("tda", "estimate", sample / "exact/nmf", tmp_path / "none") == 1
    )  # the made-up state has Wyoming's number
    assert "declares 576,851 persons in state 56" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "none").exists()
    assert not list(state_home.glob("runs/tda*"))


Break = Callable[[Path], object]


def rows_of(
    level: str, change: Callable[[list[Row]], list[Row]], kind: str = "DPQuery", product: str = PERSONS
) -> Break:
    """Change the rows of a level of the state's plain part."""

    def broken(nmf: Path) -> None:
        (path,) = (nmf / product / f"{level}.parquet/{kind}/State=056").glob("part-*")
        table = pq.read_table(path, partitioning=None)
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path)

    return broken


def first(**changes: Any) -> Callable[[list[Row]], list[Row]]:
    """Change columns of the first row."""
    return lambda rows: [{**rows[0], **changes}, *rows[1:]]


def query(name: str, **changes: Any) -> Callable[[list[Row]], list[Row]]:
    """Change columns of the first row of a query."""

    def changed(rows: list[Row]) -> list[Row]:
        at = next(number for number, row in enumerate(rows) if row["query_name"] == name)
        return [*rows[:at], {**rows[at], **changes}, *rows[at + 1 :]]

    return changed


def values(name: str, of: Callable[[list[int]], list[int]]) -> Callable[[list[Row]], list[Row]]:
    """Change the value of the first row of a query."""
    return lambda rows: query(name, value=of(next(r["value"] for r in rows if r["query_name"] == name)))(rows)


def with_type(name: str, kind: pa.DataType, of: Callable[[Any], Any]) -> Break:
    def broken(nmf: Path) -> None:
        (path,) = (nmf / PERSONS / "Tract.parquet/DPQuery/State=056").glob("part-*")
        table = pq.read_table(path, partitioning=None)
        column = pa.array([of(value) for value in table[name].to_pylist()], kind)
        pq.write_table(table.set_column(table.column_names.index(name), name, column), path)

    return broken


def part(level: str, kind: str = "DPQuery") -> Callable[[Path], Path]:
    return lambda nmf: next((nmf / PERSONS / f"{level}.parquet/{kind}/State=056").glob("part-*"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def recoded(code: Callable[[str], str], *levels: str) -> Break:
    """Change the geocodes of the first geounit of levels, in all its rows."""

    def broken(nmf: Path) -> None:
        for level in levels:
            (path,) = (nmf / PERSONS / f"{level}.parquet/Constraint/State=056").glob("part-*")
            table = pq.read_table(path, partitioning=None)
            least = min(table["geocode"].to_pylist())
            codes = [code(each) if each == least else each for each in table["geocode"].to_pylist()]
            pq.write_table(table.set_column(table.column_names.index("geocode"), "geocode", pa.array(codes)), path)

    return broken


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def loop_of_folders(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(folder.parent)


FOREIGN = pa.table({"name": ["x"], "number": [1]})
UB, LB = "hhgq_total_ub_con", "hhgq_total_lb_con"
FIRST_COUNTY, FIRST_BLOCK = "056100011", "0561000110001015600100010022003"
BAD: dict[str, Break] = {
    r"Tract.parquet/Constraint: the folder is missing": lambda nmf: shutil.rmtree(
        nmf / PERSONS / "Tract.parquet/Constraint"
    ),
    r"State=056: no Constraint rows of the level Tract": lambda nmf: shutil.rmtree(
        nmf / PERSONS / "Tract.parquet/Constraint/State=056"
    ),
    rf"level County, state 56: a measured geounit lacks the query \S+: geocode {FIRST_COUNTY}": rows_of(
        "County", lambda rows: rows[1:]
    ),
    rf"County.parquet/DPQuery/State=056/part\S+: a row twice: geocode {FIRST_COUNTY}": rows_of(
        "County", lambda rows: [rows[0], *rows]
    ),
    "a value of another length than its query": rows_of("County", query("total_dpq", value=[1, 2])),
    "the query_shape of another query": rows_of("County", query("total_dpq", query_shape=[1, 1, 1, 2])),
    "a value that is missing": rows_of("County", query("total_dpq", value=[None])),
    "Tract.*a value that is missing": rows_of("Tract", query("total_dpq", value=None)),
    "the column value holds list<element: double>, not lists of whole numbers": with_type(
        "value", pa.list_(pa.float64()), lambda v: v
    ),
    "the column value holds string, not lists": with_type("value", pa.string(), str),
    "the column value holds list<element: string>, not": with_type(
        "value", pa.list_(pa.string()), lambda v: list(map(str, v))
    ),
    "the column geocode holds int64, not text": with_type("geocode", pa.int64(), int),
    "the column geocode holds struct<.*, not text": with_type(
        "geocode", pa.struct({"a": pa.string()}), lambda v: {"a": v}
    ),
    "the column variance holds bool, not a number": with_type("variance", pa.bool_(), bool),
    "a geocode that is not digits: geocode '.x1b": with_type("geocode", pa.binary(), lambda v: b"\x1b[31m\n"),
    "a variance that is missing": rows_of("County", query("total_dpq", variance=float("nan"))),
    "a variance that is .* not positive": rows_of("County", query("total_dpq", variance=0.0)),
    "a variance that is not 1e-20 to 1e\\+20": rows_of("County", query("total_dpq", variance=1e-30)),
    rf"a value more than 40 standard .* above the 1,227 there can be: geocode {FIRST_COUNTY}": rows_of(
        "County", query("total_dpq", value=[2**31 - 1])
    ),
    "a value more than 40 standard deviations below 0": with_type(
        "value", pa.list_(pa.int64()), lambda v: [-(2**62)] * len(v)
    ),
    "a value more than 40 standard deviations below 0, or": with_type(
        "value", pa.list_(pa.uint64()), lambda v: [2**64 - 1] * len(v)
    ),
    rf"variances that do not fit a single share: geocode {FIRST_COUNTY}": rows_of(
        "County", query("total_dpq", variance=5.0)
    ),
    "level State, state 56: variances that do not fit a single share: geocode 056": lambda nmf: edit(
        nmf / PERSONS / "State.parquet", lambda _, rows: query("total_dpq", variance=5.0)(rows), "DPQuery"
    ),
    "a block with shares on its path that do not sum": lambda nmf: (
        shutil.rmtree(nmf / PERSONS / "Block.parquet/DPQuery/State=156")
        or shutil.rmtree(nmf / PERSONS / "Tract.parquet/DPQuery/State=156")
    ),
    "no answer for a geounit that has siblings": rows_of(
        "County", lambda rows: [row for row in rows if row["geocode"] != FIRST_COUNTY]
    ),
    "a geocode without the 9 digits": recoded(lambda code: code + "1", "County"),
    "a geocode that is not digits": recoded(lambda code: code[:-1] + "x", "County"),
    "a geocode with another state than its folder": recoded(lambda code: "055" + code[3:], "County"),
    "a geounit without its parent": recoded(lambda code: code[:8] + "9", "County"),
    "a geounit without children": rows_of(
        "County", lambda rows: [*rows, {**rows[0], "geocode": "056100990"}], "Constraint"
    ),
    "a block without both bounds": rows_of(
        "Block",
        lambda rows: [r for r in rows if (r["geocode"], r["query_name"]) != (rows[0]["geocode"], UB)],
        "Constraint",
    ),
    "an upper bound that is not a multiple of 99999": rows_of("Block", values(UB, lambda v: [7, *v[1:]]), "Constraint"),
    "a lower bound above the upper bound": rows_of("Block", values(LB, lambda v: [10**9, *v[1:]]), "Constraint"),
    "bounds of different numbers of group quarters": rows_of(
        "Block", values(UB, lambda v: [*v[:7], v[7] + 99_999]), "Constraint"
    ),
    "a block with more than 999,999,999 housing units": rows_of(
        "Block", values("total_con", lambda v: [2**62]), "Constraint", UNITS
    ),
    "a block with more than 999,999,999 living quarters": rows_of(
        "Block", values(UB, lambda v: [99_999 * 2**45, *v[1:]]), "Constraint"
    ),
    "housing units differ between persons and units": rows_of(
        "Block", values("total_con", lambda v: [v[0] + 1]), "Constraint", UNITS
    ),
    "Constraint.*a row of hhgq_total_lb_con twice": rows_of(
        "Block", lambda rows: [*rows, next(r for r in rows if r["query_name"] == LB)], "Constraint"
    ),
    "a block with another state than its geocode": recoded(lambda code: code[:-16] + "55" + code[-14:], "Block"),
    "a block that shares its last 16 digits with another": recoded(
        lambda code: code[:-16] + "5600100010011000", "Block"
    ),
    "the query 'age_dpq' is unknown; these are measurements of the DHC": rows_of(
        "County", query("total_dpq", query_name="age_dpq")
    ),
    "the query 'h_dpq' is unknown": rows_of("County", query("total_dpq", query_name="h _dpq")),
    r"part\S+: cannot be read as a Parquet file": lambda nmf: part("County")(nmf).write_bytes(b"PAR1"),
    r"part\S+: cannot be read \(\w+\)": lambda nmf: damage(part("Block")(nmf)),
    r"Constraint.*part.*cannot be read \(\w+\)": lambda nmf: damage(part("Block", "Constraint")(nmf)),
    "cannot be read: it is a named pipe": lambda nmf: pipe(part("County")(nmf)),
    "cannot be read: Too many levels of symbolic links": lambda nmf: loop(part("County")(nmf)),
    "has no column variance": lambda nmf: pq.write_table(
        pq.read_table(part("County")(nmf), partitioning=None).drop_columns(["variance"]), part("County")(nmf)
    ),
    "is not a folder State=025": lambda nmf: (nmf / PERSONS / "County.parquet/DPQuery/State=099").mkdir(),
    "a geounit without a Constraint row": rows_of("County", lambda rows: [*rows, {**rows[0], "geocode": "056100990"}]),
    r"County\S+part\S+: has no column geocode, query_name, query_shape, value, variance": lambda nmf: pq.write_table(
        FOREIGN, part("County")(nmf)
    ),
    r"County\S+/part-other.parquet: has no column geocode": lambda nmf: pq.write_table(
        FOREIGN, part("County")(nmf).with_name("part-other.parquet")
    ),
    r"Unit\S+County\S+: the query 'cenrace_dpq' is unknown": lambda nmf: shutil.copy(
        part("County")(nmf), next((nmf / UNITS / "County.parquet/DPQuery/State=056").glob("part-*"))
    ),
    r"Person\S+Block\S+: a block without both bounds": lambda nmf: swap(nmf / PERSONS, nmf / UNITS),
    r"State=056/State=056: cannot be read: it is a folder": lambda nmf: loop_of_folders(part("County")(nmf).parent),
    r"State=055: no Constraint rows of the level State": lambda nmf: shutil.copytree(
        part("Block", "Constraint")(nmf).parent, nmf / PERSONS / "Block.parquet/Constraint/State=055"
    ),
    "a row without a geocode": with_type("geocode", pa.string(), lambda code: None),
    "measurements of the DHC": lambda nmf: [
        (nmf / name).rename(nmf / name.replace("PL", "DHC")) for name in (PERSONS, UNITS)
    ],
    "declared population of 3, less than": lambda nmf: (nmf / "states.csv").write_text("state,pop\n56,3\n"),
    "there is no declared population of state 56": lambda nmf: (nmf / "states.csv").write_text("state,pop\n55,3\n"),
    "declares 9,999 persons in state 56; measured are 1,227": lambda nmf: (nmf / "states.csv").write_text(
        "state,pop\n56,9999\n"
    ),
    "persons: no geounit was measured": lambda nmf: edit(nmf / PERSONS, lambda *_: [], "DPQuery"),
    "a block that the other product lacks": lambda nmf: [
        shutil.rmtree(path) for path in (nmf / UNITS).glob("*/*/State=156")
    ],
}


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[pytest.mark.ci] * (at % 3 > 0)) for at, rule in enumerate(BAD)]
)
def test_a_fault_is_a_finding_and_nothing_is_released(tmp_path: Path, sample: Path, rule: str) -> None:
    nmf = tmp_path / "nmf"
    shutil.copytree(sample / "exact/nmf", nmf)
    shutil.copy(sample / "exact/states.csv", nmf)
    for path in [nmf, *nmf.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    BAD[rule](nmf)
    with pytest.raises(Refused, match="the published files do not pass") as refused:
        estimated(tmp_path, nmf, nmf / "states.csv")
    assert "\n" not in str(refused.value)
    findings = load_findings(RunDirectory(tmp_path / "runs/estimate-0"))
    said = [f"{finding.file}: {finding.rule}" for finding in findings if not finding.warning]
    assert any(re.search(rule, line) for line in said), said
    assert not (tmp_path / "out").exists()
