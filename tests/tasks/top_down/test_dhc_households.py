"""The DHC's housing units and households: a chain of releases, each with the counts of the one before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from declared_runs import measured, share_read_of_all_noise
from dhc_county import KEY, Begun, Chain, chain, make, redistricting, without_noise
from dhca_inputs import HERE

from flows.commands.show import open_release
from flows.reports.show import terminal
from flows.reports.show.tables import views
from flows.reports.show.view import Reading
from privacy.accounting.ledger import Ledger
from spine.dhc_households import COLUMNS, TENURES
from tasks.errors import Refused
from tasks.releases.check import Check
from tasks.releases.manifest import read_manifest
from tasks.releases.tidy import tidy_files
from tasks.top_down.check.declaration import checks
from tasks.top_down.declared import block_declarations as dhc
from tasks.top_down.declared.dhc_fields import FIELDS, units_table
from tasks.top_down.declared.public_tables import Faulty, read_declared
from tasks.top_down.declared.release import rounding_words
from tasks.top_down.declared.wide import estimate

pytestmark = pytest.mark.usefixtures("untidy")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A folder with the records, the households among them, and the release of occupancy. Copy before you change it."""
    folder = tmp_path_factory.mktemp("begun")
    return folder, make(folder), redistricting(folder)


@pytest.fixture(scope="module")
def noisy(begun: Begun, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """With tables/, of which pages are made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.releases.describe.tidy_files", tidy_files)
        return chain(tmp_path_factory.mktemp("noisy"), begun)


def counts(release: Path, names: list[str], level: str = "Block", **renamed: str) -> pd.Series:
    table = pd.read_parquet(release / f"parquet/{level}.parquet").rename(columns=renamed)
    return table.astype(dict.fromkeys(names, str)).groupby(names)["COUNT"].sum()


def test_without_noise_both_histograms_are_the_truth(begun: Begun, tmp_path: Path) -> None:
    """At all levels: a level is the sums of the one below, and blocks are those of the records."""
    own = chain(tmp_path, begun, without_noise)
    axes = ["hhsex", "hhage", "hhspan", "hhrace", "elderly", "ten", "hhtype"]
    columns = dict(zip(["HHSEX", "HHLDRAGE", "HHSPAN", "HHRACE", "ELDERLY", "TEN", "HHTYPE"], axes, strict=True))
    block = dict(zip(KEY, ["state", "TABBLKCOU", "TABTRACTCE", "TABBLK"], strict=True))
    records = own.households.rename(columns=columns | block)
    records["ten"] = records["ten"].replace({"3": "3-4", "4": "3-4"})
    for level, keys in (("Block", [*block.values()]), ("County", ["state", "TABBLKCOU"]), ("US", [])):
        true = records.groupby([*keys, *axes]).size()
        assert counts(own.release, [*keys, *axes], level).to_dict() == true.to_dict()
    units = pd.read_csv(tmp_path / "units.csv", sep="|", dtype=str).rename(
        columns=block | {"TEN": "ten", "VACS": "vacs"}
    )
    names = [*block.values(), "ten", "vacs"]
    assert counts(own.units, names).to_dict() == units.groupby(names).size().to_dict()
    assert [each for each in checks(own.release, read_manifest(own.release)) if getattr(each, "faults", ())] == []


def test_pages_have_the_tables_of_a_named_county_in_words(noisy: Chain) -> None:
    """Its microdata are a table of the release, and make no regions beside the named units."""
    pages = open_release(noisy.release)
    counties = {unit.name for code, unit in pages.units.items() if code.column == "County"}
    assert counties
    assert all(name.endswith((" County", " County, AIAN areas")) for name in counties)
    assert (pages.regions, pages.finds) == (set(), "Place")
    page = pages.view(pages.address(min(counties), None, None))
    shown = {one.title: one for one in page.tables}
    size = shown["Tenure by household size by County; universe: occupied housing units"]
    asked = [
        (one.title, bool(one.chosen)) for one in size.columns if one.title in ("Tenure", "Household size", "County")
    ]
    assert asked == [("County", True), ("County", True), ("Tenure", False), ("Household size", False)]
    text = terminal.table(Reading(page, pages.about(pages.confidence)))
    assert text.columns == ["table", "row", "count"]
    assert any(row[1].startswith("owned with a mortgage or loan, ") for row in text.rows)
    listed = pages.view({"view": "tables"}).by_subject
    levels = [one.level for one in listed["Tenure by household size; universe: occupied housing units"]]
    assert levels == [name.replace("_", " ") for name in COLUMNS]
    said = views.without_noise(read_manifest(noisy.release))
    assert "the counts by tenure in every Block that declared has published" in said
    assert "no household has age of the householder: 60 to 64 and the oldest of 60 and over: nobody" in said


@pytest.mark.parametrize("anchored", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_lazy_noise_gives_the_release_of_all_noise(noisy: Chain, tmp_path: Path, anchored: bool) -> None:
    run = noisy.run
    if anchored:
        data, units = noisy.folder / "made/dhc", noisy.units
        kept = {"units": dhc.ToKeep("units", units)}
        (path,), _ = dhc.write_dhc_declarations(data, "us", tmp_path, kept, anchored=True)
        shutil.copyfile(noisy.folder / "households.csv", tmp_path / "households.csv")
        run = measured(tmp_path, "households", str(path), "households.csv", "household")
        estimate(run, HERE)
    said = rounding_words(run.declared.declaration, str)
    assert [words in said for words in ("rounded in two steps", "close to the sums of all")] == [anchored] * 2
    assert (0.05 if anchored else 0) < share_read_of_all_noise(run, tmp_path / "again") < 0.1, "all of the top's cells"


def test_tenures_and_occupied_units_are_those_of_the_releases_before(noisy: Chain) -> None:
    block = ["state", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
    units = (
        counts(noisy.units, [*block, "ten"])
        .rename({"3": "3-4", "4": "3-4"}, level="ten")
        .groupby(level=[*range(5)])
        .sum()
    )
    own = counts(noisy.release, [*block, "ten"])
    assert own.to_dict() == units[units.index.get_level_values("ten") != "0"].to_dict()
    occupied = counts(noisy.first, [*block, "HH_STATUS"]).xs("1", level="HH_STATUS")
    assert own.groupby(level=[*range(4)]).sum().to_dict() == occupied.to_dict()
    found = [each for each in checks(noisy.release, read_manifest(noisy.release)) if isinstance(each, Check)]
    assert [each for each in found if each.faults] == []
    assert {"mdf/units.parquet", "declared figures", "answers of Block"} <= {each.what for each in found}
    solved = read_manifest(noisy.release)["solved"].values()
    assert {name for level in solved for name in (*level["least_squares"], *level["rounding"])} == {"own", "flow"}


def test_microdata_are_functions_of_the_cells(noisy: Chain) -> None:
    table = pd.read_parquet(noisy.release / "mdf/units.parquet")
    described = units_table(noisy.run.declared.declaration).columns
    assert [*table] == [column.name for column in described]
    for column in described:
        assert not (column.codes and column.name != "GQTYPE") or {*table[column.name]} <= column.codes.keys()
    assert [*table][7:-1] == [*FIELDS]
    by_tenure = table.groupby("TEN")["COUNT"].sum()
    units = counts(noisy.units, ["ten"])
    assert all(by_tenure.get(code, 0) == units.get(code, 0) for code in TENURES)
    assert 0 < units["4"] < units["3"]
    vacant = table[(table["RTYPE"] == "2") & (table["TEN"] == "0")].groupby("VACS")["COUNT"].sum()
    assert vacant.to_dict() == {code: n for code, n in counts(noisy.units, ["vacs"]).items() if code != "0"}
    quarters = pd.read_csv(noisy.folder / "made/dhc/quarters.csv").filter(regex="^gq").sum()
    own = table[table["RTYPE"] == "4"].groupby("GQTYPE")["COUNT"].sum()
    assert own.to_dict() == {name[2:]: n for name, n in quarters.items() if n}
    for _, block in table[table["TEN"].isin(["3", "4"])].groupby(KEY, sort=False):
        assert block["TEN"].is_monotonic_increasing, "the last renters of a block pay no rent"
    alone = table[table["HHSIZE"] == "1"]
    assert {*alone["CPLT"], *alone["UPART"], *alone["MULTG"]} <= {"0"}, "if noise leaves anybody alone"
    assert {*alone["HHT"]} <= {"4", "6"}
    assert (table["HHT2"].isin(["01", "02"]) == table["CPLT"].isin(["1", "2"])).all()


def test_changed_microdata_are_found(noisy: Chain, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(noisy.release, tmp_path / "copied"))
    table = pd.read_parquet(copied / "mdf/units.parquet")
    table.loc[0, "P18"] = "1" if table.loc[0, "P18"] == "0" else "0"
    table.to_parquet(copied / "mdf/units.parquet", index=False)
    wrong = [each.what for each in checks(copied, read_manifest(copied)) if getattr(each, "faults", ())]
    assert wrong == ["mdf/units.parquet"]


def another_block(table: pd.DataFrame) -> None:
    table.loc[0, "TABBLK"] = "9999"


def more_units(table: pd.DataFrame) -> None:
    table["hu"] += 1


@pytest.mark.parametrize(
    ("folder", "change", "key"),
    [
        ("mine/dhc-units-us.json", another_block, "equal.0.release"),
        ("mine/dhc-units-us.json", more_units, None),
        ("mine/dhc-households-us.json", another_block, "equal.0.release"),
        ("mine/dhc-households-us.json", more_units, "copied"),
    ],
)
def test_public_tables_that_contradict_the_release_are_refused(
    noisy: Chain, tmp_path: Path, folder: str, change: Callable[[pd.DataFrame], object], key: str | None
) -> None:
    name, _, file = folder.partition("/")
    shutil.copytree(noisy.folder / name, tmp_path / name)
    blocks = pd.read_csv(tmp_path / name / "blocks.txt", sep="|", dtype=str)
    blocks["hu"] = blocks["hu"].astype(int)
    change(blocks)
    blocks.to_csv(tmp_path / name / "blocks.txt", sep="|", index=False)
    with pytest.raises(Faulty) as faults:
        read_declared(str(tmp_path / name / file))
    assert key is None or key in [each.column for each in faults.value.args]


@pytest.mark.parametrize(
    "change",
    [
        {"HHLDRAGE": "9", "ELDERLY": "0"},  # nobody is younger than the householder is old
        {"HHTYPE": "1144101"},  # a couple of one person
        {"TABBLK": "9999"},
    ],
)
def test_impossible_households_are_refused_and_nothing_is_charged(
    noisy: Chain, tmp_path: Path, change: dict[str, Any]
) -> None:
    noisy.households.iloc[:3].assign(**change).to_csv(tmp_path / "households.csv", sep="|", index=False)
    with pytest.raises(Refused, match="does not pass validation"):
        measured(
            tmp_path, "households", str(noisy.folder / "mine/dhc-households-us.json"), "households.csv", "household"
        )
    assert Ledger(tmp_path / "ledger.sqlite").books().runs == {}
