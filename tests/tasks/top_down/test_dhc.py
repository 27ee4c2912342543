"""Runs of a wide declaration: few answers are read, and the release is the one that all of them give."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from declarations import count
from declared_runs import again, all_answers, declare, histograms, measured, released, share_read_of_all_noise, stage
from dhca_inputs import HERE
from wide_inputs import QUARTERS, wide, write, write_all

import das_flows
import tasks.top_down.declared.public_tables
import tasks.top_down.declared.source
import tasks.top_down.input.histograms
import tasks.top_down.source
from flows.execution.cluster import fit
from flows.execution.settings import ClusterSettings
from flows.execution.top_down_settings import DeclaredSettings
from privacy.accounting.ledger import Ledger
from privacy.accounting.states import EVERYWHERE
from spine.build import optimized
from spine.declaration.declaration import Declaration, read_declaration
from spine.declaration.hierarchy import Hierarchy, make_hierarchy
from spine.declaration.released import Counts
from spine.declaration.texts import RowIndex, Texts
from spine.geography import gq_pattern
from spine.hierarchy import Spine
from spine.settings import settings_for
from spine.top_down import Estimates
from spine.top_down.queries import query_group
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.block_codes import BLOCK_COLUMNS, short_codes
from tasks.records.declarations import find_declaration, read_raw
from tasks.records.findings import load_findings
from tasks.records.marks import write_mark
from tasks.records.records import is_checked
from tasks.releases.check import Check
from tasks.releases.manifest import file_names, read_manifest
from tasks.releases.statements import Unshown
from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options
from tasks.top_down.check.declaration import checks, statements
from tasks.top_down.declared import accuracy, dhc_microdata
from tasks.top_down.declared.block_declarations import ToKeep, write_dhc_declarations
from tasks.top_down.declared.dhc_fields import microdata_of, microdata_table, unwritable_blocks
from tasks.top_down.declared.explain import WIDE_BYTES, WIDE_UNKNOWN, explain
from tasks.top_down.declared.public_tables import DeclaredDesign, Faulty, PublicTables, read_declared
from tasks.top_down.declared.source import DeclaredRun, charged_states, states_of, states_read
from tasks.top_down.declared.wide import estimate
from tasks.top_down.estimate.topdown import load_estimates

pytestmark = pytest.mark.usefixtures("untidy")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with blocks.csv, wide.csv, and the release that it equals."""
    return write_all(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def run(inputs: Path) -> DeclaredRun:
    """A run that is estimated. Copy before you change it."""
    run = measured(inputs, "wide", declare(inputs, "wide", wide()), "wide.csv")
    estimate(run, HERE)
    return run


@pytest.fixture(scope="module")
def staged(run: DeclaredRun, inputs: Path) -> Path:
    return stage(run, inputs / "out")


def test_lazy_noise_gives_the_release_of_all_noise(run: DeclaredRun, tmp_path: Path) -> None:
    assert 0 < share_read_of_all_noise(run, tmp_path) < 0.5


def test_the_release_follows_from_the_answers_alone(
    run: DeclaredRun, staged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file, and so which answers are published, in a directory without records, exact counts and secret."""
    answers, other = all_answers(run), DeclaredRun(tmp_path / f"runs/{run.id}")
    confidential = shutil.ignore_patterns("persons", "counts", "secret", "noisy")
    shutil.copytree(run.path, other.path, ignore=confidential)
    monkeypatch.setattr(DeclaredRun, "read_at", lambda _: lambda level, query, *at: answers[level, query][at])
    made = released(other, tmp_path / "out")
    assert file_names(made) == file_names(staged)
    for name in (*file_names(made), "manifest.json"):
        assert (made / name).read_bytes() == (staged / name).read_bytes(), name


def test_answers_at_addresses_are_those_of_whole_geounits(run: DeclaredRun) -> None:
    random, product = np.random.default_rng(5), run.declared.declaration.product
    for (level, query), own in all_answers(run).items():
        geounits = random.integers(0, len(own), 50)
        coordinates = random.integers(0, query_group(product, query).width, 50)
        np.testing.assert_array_equal(run.read_at()(level, query, geounits, coordinates), own[geounits, coordinates])


def test_batches_and_a_restart_give_the_same_bytes(
    run: DeclaredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = again(run, tmp_path / "whole")
    for path in ("all/solves/block-0000000", "all/block", "all/tract"):
        folder = other.path / f"noisy/{run.name}/{path}"
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    estimate(other, HERE)
    assert histograms(other) == histograms(run)
    monkeypatch.setattr(tasks.top_down.declared.source, "CHILDREN", 1)
    assert histograms(again(run, tmp_path / "batches")) == histograms(run)


def test_pieces_of_leaves_give_the_counts_of_all(
    run: DeclaredRun, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker reads the leaves of its piece alone, whether it compares, sums, estimates or writes."""
    for module, name in (
        (tasks.top_down.declared.source, "LEAVES_EACH"),
        (tasks.top_down.input.histograms, "LEAVES_EACH"),
    ):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(tasks.top_down.declared.source, "LEAVES", 2)
    read = list[int]()
    load = tasks.top_down.source.load_histograms

    def loaded(*where: Any) -> Any:
        found = load(*where)
        read.append(len(found) if found.level == 3 else 0)
        return found

    other = measured(inputs, "pieces", declare(inputs, "wide", wide()), "wide.csv")
    monkeypatch.setattr(tasks.top_down.source, "load_histograms", loaded)
    for level in run.declared.hierarchy.spine.levels:
        own, parts = run.exact(run.branch, level), other.exact(other.branch, level)
        assert all(map(np.array_equal, (own.starts, own.cell, own.count), (parts.starts, parts.cell, parts.count)))
    read.clear()
    estimate(other, HERE)
    assert len(list((other / "noisy/wide/all/tract").iterdir())) == 6  # of two blocks each
    assert max(read) == 2


def test_what_contradicts_the_counts_is_one_finding_of_all_pieces(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop(leaves: pd.DataFrame, _: pd.DataFrame) -> None:
        leaves.loc[[0, 8], "gq1"] += 99

    shutil.copytree(inputs / "redistricting", tmp_path / "redistricting")
    write(tmp_path, drop)
    monkeypatch.setattr(tasks.top_down.declared.source, "LEAVES_EACH", 5)
    monkeypatch.setattr(tasks.top_down.declared.public_tables, "released_faults", lambda *_: [])
    with pytest.raises(Refused):
        measured(tmp_path, "wide", declare(tmp_path, "wide", wide()), "wide.csv")
    (found,) = load_findings(DeclaredRun(tmp_path / "runs/wide"))
    assert (found.rule, found.rows, found.values) == ("leaves with fewer records than gq1 needs", 2, ("0", "8"))


def test_a_process_holds_few_bytes_of_a_leaf(tmp_path: Path) -> None:
    """What it reads of the others lies in files."""
    held = []
    for number, leaves in enumerate((10_000, 30_000)):
        at = np.arange(leaves)
        columns = {"block": at, "county": at // 3000, "tract": at // 100, "code": at % 100}
        texts = {name: Texts.of_numbers(own) for name, own in (columns | dict.fromkeys(QUARTERS, at * 0)).items()}
        equal = Counts.of(np.repeat(at, 3), np.tile(np.arange(3), leaves), np.ones(3 * leaves, np.int64))
        run = DeclaredRun(tmp_path / f"runs/{number}")
        run.create()
        run.keep_design(DeclaredDesign(PublicTables(json.dumps(wide()), texts, (), {}, (equal,))))
        tracemalloc.start()
        declared = run.declared
        assert declared.released is not None
        declared.released.of(3, 100, 200)
        declared.hierarchy.codes(3, np.arange(100))
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert (held[1] - held[0]) / 20_000 < 10


def has_the_other_counts(own: pd.DataFrame, inputs: Path) -> None:
    other, kind = pd.read_parquet(inputs / "redistricting/parquet/block.parquet"), own["relgq"].astype(int)
    own = own.assign(
        hhgq=np.searchsorted([3, 5], kind, side="right"), votingage=(own["age"].astype(int) > 3).astype(int)
    )
    keys = ["county", "tract", "code", "hhgq", "votingage", "race"]
    sums = (each.astype(dict.fromkeys(keys, int)).groupby(keys)["COUNT"].sum() for each in (own, other))
    pd.testing.assert_series_equal(*sums)


def test_the_release_has_the_counts_of_the_other_and_passes_its_check(staged: Path, inputs: Path) -> None:
    found = [each for each in checks(staged, read_manifest(staged)) if isinstance(each, Check)]
    assert [each for each in found if each.faults] == []
    assert {"answers of state", "declared figures"} <= {each.what for each in found}
    stated = read_manifest(staged)["statements"]
    assert "standard_errors" not in stated, "no estimator takes its few answers"
    expected = statements(staged, read_manifest(staged))
    assert expected["statements"] == stated
    assert expected["answers"] == read_manifest(staged)["answers"]
    own = pd.read_parquet(staged / "parquet/block.parquet")
    has_the_other_counts(own, inputs)
    assert not ((own["relgq"].astype(int) == 1) & (own["age"].astype(int) < 3)).any()


@pytest.mark.parametrize("change", ["answer twice", "another law", "another count", "a zero"])
def test_a_changed_release_is_found(staged: Path, tmp_path: Path, change: str) -> None:
    copied = Path(shutil.copytree(staged, tmp_path / "copied"))
    file = copied / ("measurements" if change[:2] == "an" and "count" not in change else "parquet") / "block.parquet"
    table = pd.read_parquet(file)
    if change == "answer twice":
        table = pd.concat([table, table[-1:]])
    elif change == "another law":
        table["variance_numerator"] = "1"
    elif change == "another count":
        table["COUNT"] += table.index == 0
    else:
        table = table.assign(
            **{name: table[name].where(table.index > 0, to) for name, to in (("relgq", "1"), ("age", "0"))}
        )
    table.to_parquet(file)
    assert any(each.faults for each in checks(copied, read_manifest(staged)) if isinstance(each, Check))


def test_what_was_read_is_released_and_more_on_request(
    staged: Path, run: DeclaredRun, inputs: Path, tmp_path: Path
) -> None:
    answers, stated = all_answers(run), read_manifest(staged)
    table = pd.read_parquet(staged / "measurements/tract.parquet")
    defined = sum(own.size for (level, _), own in answers.items() if level == "tract")
    assert (stated["measurements"], stated["answers"]["tract"]) == ("read", {"defined": defined, "read": len(table)})
    spine = run.declared.hierarchy.spine
    codes = run.declared.hierarchy.codes(spine.levels.index("tract"))
    place = {own: at for at, own in enumerate(zip(*(each.texts().tolist() for each in codes.values()), strict=True))}
    columns = [table[name].tolist() for name in ("county", "tract", "query", "coordinate", "value")]
    for county, tract, query, coordinate, value in zip(*columns, strict=True):
        assert answers["tract", query][place[county, tract], coordinate] == value
    more = measured(inputs, "wide-above", declare(inputs, "above", wide(measurements="above county")), "wide.csv")
    out = released(more, tmp_path)
    assert read_manifest(out)["measurements"] == "above county"
    read = sum(level["read"] for level in read_manifest(out)["answers"].values())
    report = " ".join((out / "report.html").read_text("utf-8").split())
    assert all(words in report for words in (f"the estimation read {read:,}.", "rounded as in the production runs: "))
    values = pd.read_parquet(out / "measurements/county.parquet").set_index("query")["value"]
    assert {len(own) for own in values["detailed"]} == {run.declared.declaration.product.cells}
    assert "coordinate" in pd.read_parquet(out / "measurements/tract.parquet")
    expected = statements(out, read_manifest(out))["answers"]
    assert [level for level, own in expected.items() if isinstance(own["read"], Unshown)] == ["state", "county"]
    assert [each for each in checks(out, read_manifest(out)) if isinstance(each, Check) and each.faults] == []


def other_blocks(leaves: pd.DataFrame, _rows: pd.DataFrame) -> None:
    leaves.loc[0, "code"] = 99


def fewer_blocks(leaves: pd.DataFrame, _rows: pd.DataFrame) -> None:
    leaves.loc[len(leaves)] = [12, 1, 6, 12, 0, 0, 0, 0, 0, 0]


def no_facilities(leaves: pd.DataFrame, _rows: pd.DataFrame) -> None:
    leaves[QUARTERS] = 0


def many_facilities(leaves: pd.DataFrame, _rows: pd.DataFrame) -> None:
    leaves["gq1"] *= 50


@pytest.mark.parametrize("change", [other_blocks, fewer_blocks, no_facilities, many_facilities])
def test_public_tables_that_contradict_the_release_are_refused(
    inputs: Path, tmp_path: Path, change: Callable[[pd.DataFrame, pd.DataFrame], object]
) -> None:
    write(tmp_path, change)
    shutil.copytree(inputs / "redistricting", tmp_path / "redistricting")
    with pytest.raises(Faulty) as faults:
        read_declared(declare(tmp_path, "wide", wide()))
    assert [each.column for each in faults.value.args] == ["equal.0.release"]


def impossible(_leaves: pd.DataFrame, rows: pd.DataFrame) -> None:
    rows.loc[0, ["RELGQ", "AGE"]] = 1, 0


def unknown(_leaves: pd.DataFrame, rows: pd.DataFrame) -> None:
    rows.loc[0, "RELGQ"] = 7


def undeclared(leaves: pd.DataFrame, rows: pd.DataFrame) -> None:
    rows.loc[0, ["block", "RELGQ"]] = int(leaves.index[leaves["gq1"] == 0][0]), 3


@pytest.mark.parametrize("change", [impossible, unknown, undeclared])
def test_records_that_cannot_be_are_findings_and_nothing_is_charged(
    inputs: Path, tmp_path: Path, change: Callable[[pd.DataFrame, pd.DataFrame], object]
) -> None:
    write(tmp_path, change)
    shutil.copytree(inputs / "redistricting", tmp_path / "redistricting")
    with pytest.raises(Refused, match="does not pass validation"):
        measured(tmp_path, "wide", declare(tmp_path, "wide", wide()), "wide.csv")
    assert Ledger(tmp_path / "ledger.sqlite").books().runs == {}
    assert len(load_findings(RunDirectory(tmp_path / "runs/wide"))) == 1


def test_the_largest_family_of_the_nation_fits_one_worker_of_8_gib() -> None:
    """The States with their AIAN parts, 87 below the US; the DHC's households have the most possible cells."""
    _, there = fit(ClusterSettings(workers=1, memory_limit="8 GiB"))
    assert there >= WIDE_BYTES + WIDE_UNKNOWN * 87 * (1_578_528 - 466_956)


def test_a_plan_says_what_is_drawn(inputs: Path) -> None:
    found = explain(read_declared(declare(inputs, "explained", wide()))[1])
    assert found.feasibility.startswith("inherited")
    one, other = (read_declared(declare(inputs, "explained", wide()))[1] for _ in range(2))
    assert one is other, "a process assembles a declaration once"
    assert "only those that the estimation reads are drawn" in " ".join(found.remarks)
    declared = read_declared(declare(inputs, "all", wide(measurements="all")))[1]
    assert explain(declared).memory - found.memory == 4 * 8 * 12 * declared.widths["block"]
    with pytest.raises(Faulty, match="measurements"):
        read_declared(declare(inputs, "wrong", wide(measurements="some")))


def test_errors_of_a_wide_table_are_those_of_its_tables_and_of_few_sums(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The widest are left out: of all blocks they are more numbers than the release has."""
    for name in ("blocks.csv", "wide.csv"):
        shutil.copyfile(inputs / name, tmp_path / name)
    shutil.copytree(inputs / "redistricting", tmp_path / "redistricting")
    published = {
        "races": {"title": "Sex by race", "universe": "in households", "by": "sex*race", "where": {"relgq": "0-2"}}
    }
    run = DeclaredRun(tmp_path / "runs/errors")
    run.create()
    write_mark(tmp_path, ["wide.csv"], generator="a test", version="1")
    declaration = declare(tmp_path, "errors", wide(publish={"tables": published}))
    count(run, str(tmp_path / "wide.csv"), read_declared(declaration)[0])
    monkeypatch.setattr(accuracy, "WIDEST", 12)
    errors, words = accuracy.measure_errors(run, HERE, [4])
    assert {*errors["quantity"]} == {*words} == {"races", "gqtype", "hhgq*age3", "sex*age6", "relgq"}
    own, records = load_estimates(run, run.branch, "block"), pd.read_csv(tmp_path / "wide.csv")
    relgq, sex, _, race = np.unravel_index(own.cell, run.declared.declaration.product.shape)
    inside, shape = relgq < 3, (12, 2, 3)
    found = np.zeros(shape, int)
    np.add.at(found, (own.row[inside], sex[inside], race[inside]), own.count[inside])
    true, records = np.zeros(shape, int), records[records["RELGQ"] < 3]
    spine, own = run.declared.hierarchy.spine, run.declared.hierarchy.column("block")
    place = {own[leaf]: leaf for leaf in range(spine.blocks)}
    np.add.at(true, (records["block"].astype(str).map(place), records["SEX"] - 1, records["RACE"] - 1), 1)
    of_all = errors[errors["size"] == "all"].set_index(["level", "quantity"])
    assert of_all["mae"]["block", "races"] == pytest.approx(np.abs(found - true).mean())
    assert of_all["n"]["state", "races"] == 6


def test_in_memory_a_wide_declaration_is_refused_and_others_have_the_counts_of_a_release(inputs: Path) -> None:
    records = pd.read_csv(inputs / "wide.csv")
    with pytest.raises(Refused, match="wide declaration"):
        das_flows.top_down(records, declare(inputs, "memory", wide()))
    dense = declare(inputs, "dense", wide(counts=[], passes=[], budget="1/10"))
    has_the_other_counts(das_flows.top_down(records, dense).levels["block"], inputs)


def test_sums_whose_cells_are_zeros_are_refused_without_counts(inputs: Path) -> None:
    zeros = [{"where": {"relgq": "3-4", "race": "1"}}]
    with pytest.raises(Faulty, match="where every cell is a zero") as faults:
        read_declared(declare(inputs, "zeros", wide(counts=[], zeros=zeros)))
    assert [each.column for each in faults.value.args] == ["equal.0.release"]


def test_the_declaration_of_the_dhc_has_the_blocks_on_their_spine(inputs: Path, tmp_path: Path) -> None:
    """The table of leaves makes the optimized spine of the DHC; a table of facilities with faults is refused."""
    synthesize_example(tmp_path / "made", Options(seed=4, places={"dhc": "dhc"}))
    out = tmp_path / "declared"
    out.mkdir()
    kept = {"redistricting": ToKeep("redistricting", inputs / "redistricting")}
    (path, _), blocks = write_dhc_declarations(tmp_path / "made/dhc", "us", out, kept)
    declaration, _ = read_declaration(read_raw(str(path)))
    assert declaration is not None
    leaves = pd.read_csv(out / "blocks.txt", sep="|", dtype=str)
    assert len(leaves) == blocks == len(leaves[leaves["state"] != "72"])
    hierarchy, faults = make_hierarchy(declaration, {name: leaves[name].tolist() for name in leaves.columns.tolist()})
    assert hierarchy is not None, faults
    settings = settings_for("dhc-persons")
    geography, _ = read_geography(tmp_path / "made/dhc/GRF-C.txt", settings, extra=str(tmp_path / "made/dhc/prims.csv"))
    code = leaves[[*BLOCK_COLUMNS]].agg("".join, axis=1).astype(int).to_numpy()
    there = np.isin(short_codes(geography.geocode), code)
    types = [name for name in leaves.columns.tolist() if name.startswith("gq")]
    facilities = leaves[types].astype(int).to_numpy()[np.argsort(code)]
    kinds = np.array([min(int(name[2]), 7) for name in types])
    present = [facilities[:, kinds == kind].sum(axis=1) > 0 for kind in range(1, 8)]
    spine = optimized(replace(geography.take(there), gq=gq_pattern(present)), settings)
    assert all(map(np.array_equal, spine.starts, hierarchy.spine.starts))
    assert (out / "redistricting/manifest.json").exists()
    settings = DeclaredSettings.new(data="", declaration=str(path), out="", runs_folder="", ledger="", run_id="run")
    assert settings.charged_states() == tuple(sorted({*leaves["state"]})) == ("31", "46")
    (tmp_path / "made/dhc/quarters.csv").write_text("tabblk,hu\n3100,1\n", "utf-8")
    with pytest.raises(Refused, match=r"quarters\.csv"):
        write_dhc_declarations(tmp_path / "made/dhc", "us", tmp_path, kept)


@pytest.mark.parametrize(
    ("keys", "key", "read", "left_out", "charged"),
    [
        (["72|001|000100|1001"], BLOCK_COLUMNS, {"72", "00", "99"}, {"01", "44"}, ("72",)),
        (
            ["31|001|000100|1001", "46|001|000100|1001"],
            BLOCK_COLUMNS,
            {"31", "46", "44", "x"},
            {"72"},
            ("31", "46"),
        ),
        (["31|001|000100|1001", "72|001|000100|1001"], BLOCK_COLUMNS, {"31", "44", "72"}, set(), ("31", "72")),
        (["440|01|000100|1001"], BLOCK_COLUMNS, {"44"}, {"72"}, EVERYWHERE),
        (["72"], ("zone",), {"44", "72"}, set(), EVERYWHERE),
    ],
)
def test_a_run_of_blocks_leaves_out_records_of_the_other_jurisdiction_and_charges_its_states(
    keys: list[str], key: tuple[str, ...], read: set[str], left_out: set[str], charged: tuple[str, ...]
) -> None:
    """A block of another state of the same one, and what is no state, is a finding."""
    form = SimpleNamespace(leaves=SimpleNamespace(key=key), record_key=key)
    leaves = {key[0]: Texts.of([own.partition("|")[0] for own in keys])}
    declared: Any = SimpleNamespace(declaration=SimpleNamespace(form=form), hierarchy=SimpleNamespace(leaves=leaves))
    states = states_read(declared)
    assert {state for state in read | left_out if states is None or is_checked(states, state)} == read
    assert charged_states(states_of(declared)) == charged


@pytest.mark.parametrize(("axis", "values"), [("relgq", ["1", "0", "2-41"]), ("age", ["0-114", ["115", "116"]])])
def test_other_cells_than_the_dhcs_have_no_microdata(axis: str, values: list[Any]) -> None:
    raw = read_raw(find_declaration("dhc-persons-us"))
    raw["axes"][axis]["values"] = values
    declaration, faults = read_declaration(raw)
    assert declaration is not None, faults
    assert not microdata_of(declaration)


def blocks_of(declaration: Declaration, keys: list[str]) -> Hierarchy:
    """The hierarchy of blocks as far as their microdata go, in this order."""
    columns = zip(*(key.split("|") for key in keys), strict=True)
    leaves = {name: Texts.of(own) for name, own in zip(BLOCK_COLUMNS, columns, strict=True)}
    spine = Spine(("Block",), np.arange(len(keys)), (np.arange(len(keys)),), (), 1)
    return Hierarchy(declaration, spine, leaves, RowIndex.of([*leaves.values()])[0])


def test_microdata_have_the_bureaus_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declaration, _ = read_declaration(read_raw(find_declaration("dhc-persons-us")))
    assert declaration is not None
    assert microdata_of(declaration)
    wrong = blocks_of(declaration, ["44|001|030100|1000", "RI|1|1|1", "44|001|0301.00|1"])
    assert [*unwritable_blocks(wrong)] == ["RI|1|1|1", "44|001|0301.00|1"]
    shape = declaration.product.shape
    cells = np.ravel_multi_index(([0, 2, 18, 41], [0, 1, 1, 0], [30, 31, 40, 115], [0, 1, 0, 0], [0, 1, 62, 5]), shape)
    blocks = Estimates(7, 0, np.array([0, 2, 4]), cells, np.array([1, 2, 3, 4]))
    hierarchy = blocks_of(declaration, ["44|001|030100|1000", "44|001|030100|2001"])
    declared = SimpleNamespace(declaration=declaration, hierarchy=hierarchy, copied={})
    monkeypatch.setattr(dhc_microdata, "load_estimates", lambda *of: blocks.only(*of[-2:]))
    monkeypatch.setattr(dhc_microdata, "BLOCKS_EACH", 1)
    dhc_microdata.write_microdata(SimpleNamespace(declared=declared, branch=None), tmp_path)  # type: ignore[arg-type]
    table = pd.read_parquet(tmp_path / "mdf/persons.parquet")
    described = microdata_table(declaration).columns
    assert [*table] == [column.name for column in described]
    for column in described:
        assert not column.codes or set(table[column.name]) <= column.codes.keys()
    assert table["TABBLKGRPCE"].tolist() == ["1", "1", "2", "2"]
    own = table[["RTYPE", "GQTYPE", "RELSHIP", "QSEX", "QAGE", "CENHISP", "CENRACE", "LIVE_ALONE", "COUNT"]]
    assert own.to_numpy().tolist() == [
        ["3", "000", "20", "1", "30", "1", "01", "1", 1],
        ["3", "000", "21", "2", "31", "2", "02", "2", 2],
        ["5", "101", "37", "2", "40", "1", "63", "9", 3],
        ["5", "997", "38", "1", "115", "1", "06", "9", 4],
    ]
