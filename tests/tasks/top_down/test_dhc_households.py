"""The DHC's housing units and households: a chain of releases, each with the counts of the one before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from declared_runs import declare, measured, released, share_read_of_all_noise
from dhca_inputs import HERE

from flows.commands.show import open_release
from flows.reports.show import terminal
from flows.reports.show.tables import views
from flows.reports.show.view import Reading
from privacy.accounting.ledger import Ledger
from spine.dhc_households import COLUMNS, TENURES, units_declaration
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.releases.check import Check
from tasks.releases.manifest import read_manifest
from tasks.releases.tidy import tidy_files
from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options
from tasks.top_down.check.declaration import checks
from tasks.top_down.declared import block_declarations as dhc
from tasks.top_down.declared.dhc_fields import FIELDS, units_table
from tasks.top_down.declared.public_tables import Faulty, read_declared
from tasks.top_down.declared.source import DeclaredRun
from tasks.top_down.declared.wide import estimate

pytestmark = pytest.mark.usefixtures("untidy")
KEY = list(BLOCK_COLUMNS)
BLOCKS = 4
RHO = 70  # of one answer: its noise is 0 but once in 10^15
STATUS = {"HH_STATUS": {"column": "HH_STATUS", "values": ["1", "2"], "labels": ["occupied", "vacant"]}}


def codes(records: pd.DataFrame) -> pd.Series:
    """Return the code of each record's block."""
    return reduce(add, (records[name] for name in KEY))


def make(folder: Path) -> pd.DataFrame:
    """Write a county of four blocks, and return its households: none in the first, one in the second, then renters."""
    synthesize_example(folder / "made", Options(seed=4, places={"dhc": "dhc"}))
    data = folder / "made/dhc"
    households, units = (pd.read_csv(data / f"{name}.txt", sep="|", dtype=str) for name in ("households", "units"))
    quarters = pd.read_csv(data / "quarters.csv", dtype=str)
    of_county = quarters[quarters["tabblk"].str[:5] == "31001"]["tabblk"].tolist()[:BLOCKS]
    assert len(of_county) == BLOCKS
    quarters = quarters[quarters["tabblk"].isin(of_county)]
    households, units = (own[codes(own).isin(of_county)] for own in (households, units))
    at, place = codes(households), codes(units)
    renters = at.eq(of_county[2])
    keep = at.ne(of_county[0]) & ~(at.eq(of_county[1]) & at.duplicated()) & (~renters | households["TEN"].ge("3"))
    households = households[keep]
    lost = place.eq(of_county[0]) | place.eq(of_county[1]) | (place.eq(of_county[2]) & units["TEN"].lt("3"))
    lost &= units["TEN"].ne("0")
    first = units[place.eq(of_county[1]) & units["TEN"].ne("0")].index[:1]
    units = units.assign(VACS=units["VACS"].mask(lost, "1"), TEN=units["TEN"].mask(lost, "0"))
    no_rent = units[place.eq(of_county[2]) & units["TEN"].eq("3")].index[::2]
    units.loc[no_rent, "TEN"] = "4"
    own = households[at[keep].eq(of_county[1])]["TEN"].iloc[0]
    units.loc[first, ["TEN", "VACS"]] = own, "0"
    units["HH_STATUS"] = units["TEN"].eq("0").map({True: "2", False: "1"})
    for name, table in (("households", households), ("units", units)):
        table.to_csv(folder / f"{name}.csv", sep="|", index=False)
    quarters.to_csv(data / "quarters.csv", index=False)
    return households


def without_noise(raw: dict[str, Any]) -> dict[str, Any]:
    """A declaration of histograms alone, whose answers have all the same share of a budget that leaves no noise."""
    raw = {key: own for key, own in raw.items() if key != "publish"} | {"histograms": ["US", "County", "Block"]}
    levels = [{**level, "share": f"1/{len(raw['levels'])}"} for level in raw["levels"]]
    queries = {level: dict.fromkeys(own, f"1/{len(own)}") for level, own in raw["queries"].items()}
    return {**raw, "levels": levels, "queries": queries, "budget": str(RHO * sum(map(len, queries.values())))}


def redistricting(folder: Path) -> Path:
    """Make a release of occupied and vacant units."""
    raw = {**without_noise(units_declaration("us")), "name": "first", "axes": STATUS}
    raw = {key: own for key, own in raw.items() if key not in ("recodes", "zeros", "equal")}
    place = folder / "first"
    place.mkdir()
    dhc.pa.csv.write_csv(dhc._block_table(folder / "made/dhc", "us"), place / "blocks.txt", dhc.PIPES)
    return released(measured(folder, "first", declare(place, "first", raw), "units.csv", "household"), place)


def changed(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), "utf-8")
    return str(path)


@dataclass
class Chain:
    """A folder with records and declarations, the runs, and their releases: of occupancy, units, households."""

    folder: Path
    households: pd.DataFrame
    first: Path
    units: Path
    run: DeclaredRun
    release: Path


Begun = tuple[Path, pd.DataFrame, Path]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A folder with the records, the households among them, and the release of occupancy. Copy before you change it."""
    folder = tmp_path_factory.mktemp("begun")
    return folder, make(folder), redistricting(folder)


def chain(folder: Path, begun: Begun, change: Callable[[dict[str, Any]], dict[str, Any]] = lambda raw: raw) -> Chain:
    """All three releases. change: of the last two's declarations."""
    source, households, first = begun
    shutil.copytree(source, folder, dirs_exist_ok=True)
    first = folder / first.relative_to(source)
    mine = folder / "mine"
    mine.mkdir()
    kept = {"redistricting": dhc.ToKeep("redistricting", first), "units": dhc.ToKeep("units/declared")}
    (_, of_units, own), blocks = dhc.write_dhc_declarations(folder / "made/dhc", "us", mine, kept)
    assert blocks == BLOCKS
    units = released(measured(folder, "units", changed(of_units, change), "units.csv", "household"), mine)
    shutil.copytree(units, mine / "units/declared")
    run = measured(folder, "households", changed(own, change), "households.csv", "household")
    return Chain(folder, households, first, units, run, released(run, folder / "own"))


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
