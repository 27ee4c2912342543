"""Published microdata becomes the inputs that it was made of, in every layout, and is marked and entered as public."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from dhca_inputs import HERE
from public_microdata import GEOGRAPHY, ppmf, records, write
from top_down_inputs import begin, country, design, finish, settings_with
from typer.testing import CliRunner

from flows.cli import app
from flows.execution.runner import InProcess, release_truth
from privacy.accounting.ledger import Account, Ledger
from tasks.errors import Refused
from tasks.records.marks import read_mark
from tasks.releases.manifest import read_manifest
from tasks.top_down.published.microdata.make_inputs import NO_GEOGRAPHY, NO_TYPES, MadeInputs, make_inputs
from tasks.top_down.published.nmf.census_2020 import MOVED

pytestmark = pytest.mark.usefixtures("untidy")
BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
PPMF = (
    [*BLOCK, "RTYPE", "GQTYPE", "QAGE", "CENHISP", "CENRACE", "GQTYPE_PL", "VOTING_AGE", *GEOGRAPHY],
    [*BLOCK, "RTYPE", "GQTYPE", "VACS", "HH_STATUS", *GEOGRAPHY],
)
MDF = ([*BLOCK, "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"], [*BLOCK, "RTYPE", "HH_STATUS"])
DHC = ([*BLOCK, "RTYPE", "GQTYPE", "QAGE", "CENHISP", "CENRACE"], [*BLOCK, "RTYPE", "GQTYPE", "VACS"])
LAYOUTS = {  # columns of persons and units, delimiter, ending
    "ppmf, commas": (*PPMF, ",", ".csv"),
    "ppmf, zip": (*PPMF, ",", ".zip"),
    "ppmf, parquet": (*PPMF, ",", ".parquet"),
    "redistricting mdf, pipes": (*MDF, "|", ".txt"),
    "dhc mdf, pipes, gzip": (*DHC, "|", ".txt.gz"),
}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return country(tmp_path_factory.mktemp("public"), ("23", "46"))


@pytest.fixture(scope="module")
def published(synthetic: Path) -> dict[str, pd.DataFrame]:
    return ppmf(synthetic)


def make(
    folder: Path, published: dict[str, pd.DataFrame], layout: str = "ppmf, commas", **options: object
) -> MadeInputs:
    persons, units, delimiter, ending = LAYOUTS[layout]
    folder.mkdir(parents=True, exist_ok=True)
    sources = [
        str(write(published[name].sample(frac=1, random_state=1), folder / f"{name}{ending}", columns, delimiter))
        for name, columns in (("persons", persons), ("units", units))
    ]
    return make_inputs(sources, folder / "data", publisher="somebody", **options)  # type: ignore[arg-type]


def test_rows_with_a_count_are_as_many_records(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame]
) -> None:
    """As the mdf/ of a release: a row is a cell of a block, with its COUNT, which may be 0."""
    cells = {
        name: published[name].groupby(columns).size().rename("COUNT").reset_index()
        for name, columns in zip(("persons", "units"), MDF, strict=True)
    }
    cells["persons"] = pd.concat([cells["persons"], cells["persons"].head(3).assign(COUNT=0)])
    sources = [str(write(table, tmp_path / f"{name}.parquet")) for name, table in cells.items()]
    made = make_inputs(sources, tmp_path / "data", publisher="somebody")
    for product, columns in zip(("persons", "units"), MDF, strict=True):
        found, expected = (sorted_records(data, product, columns) for data in (made.data, synthetic))
        pd.testing.assert_frame_equal(found, expected)
    assert (made.persons, made.units) == (len(published["persons"]), len(published["units"]))


def sorted_records(data: Path, product: str, columns: list[str]) -> pd.DataFrame:
    return records(data, product)[columns].sort_values(columns, ignore_index=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_are_what_the_microdata_was_made_of(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame], layout: str
) -> None:
    made = make(tmp_path, published, layout)
    for product, columns in zip(("persons", "units"), MDF, strict=True):
        found, expected = (sorted_records(data, product, columns) for data in (made.data, synthetic))
        pd.testing.assert_frame_equal(found, expected)
    assert (made.data / "states.csv").read_text() == (synthetic / "states.csv").read_text()
    found, expected = (pd.read_csv(data / "quarters.csv").sort_values("tabblk") for data in (made.data, synthetic))
    typed = "mdf" not in layout or "dhc" in layout
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True))
    assert (NO_TYPES in made.notes, NO_GEOGRAPHY in made.notes) == (not typed, "ppmf" not in layout)
    assert (made.data / "GRF-C.txt").exists() == ("ppmf" in layout)
    mark = read_mark(made.data)
    assert mark is not None
    assert (mark.name, mark.source) == ("PUBLIC", f"declared published by somebody: {', '.join(sources_of(layout))}")
    assert set(mark.digests) == {path.name for path in made.data.iterdir()} - {"PUBLIC.json"}


def sources_of(layout: str) -> list[str]:
    return [f"{name}{LAYOUTS[layout][3]}" for name in ("persons", "units")]


HERE_BLOCK = "44,007,010200,2,2003"  # one household of two persons, a vacant unit, a nursing home of two residents
PPMF_GEOGRAPHY = (
    "TABBLKST,TABBLKCOU,TABTRACTCE,TABBLK,TABBLKGRPCE,AIANNHCE,AIANNHFP,AIANNHNS,AIHHTLI,ANRCFP,ANRCNS,AREALAND,"
    "AREAWATER,AREAWATERCSTL,AREAWATERGRLK,AREAWATERINLD,AREAWATERTSEA,CBSAFP,CD116FP,CNECTAFP,CONCITFP,CONCITNS,"
    "COUNTYFS,COUNTYNS,COUSUBFP,COUSUBFS,COUSUBNS,CSAFP,DIVISIONCE,ESTATEFP,ESTATENS,INTPTLAT,INTPTLON,LWBLKTYP,MEMI,"
    "METDIVFP,NECTADIVFP,NECTAFP,NMEMI,PCICBSA,PCINECTA,PLACEFP,PLACEFS,PLACENS,PUMA,REGIONCE,SDELMLEA,SDSECLEA,"
    "SDUNILEA,SLDLST,SLDUST,STATENS,SUBMCDFP,SUBMCDNS,TBLKGRPCE,TRIBALSUBCE,TRIBALSUBFP,TRIBALSUBNS,TTRACTCE,UACE,"
    "UATYP,UGACE,UR,VTDST,ZCTA5CE"
)
PPMF_HERE = (
    "44,007,010200,2003,2,9999,99999,99999999,9,99999,99999999,52397,0,0,0,0,0,39300,01,999,99999,99999999,N,01219781,"
    "59000,F,01219781,148,1,99999,99999999,+41.8200000,-071.4000000,L,1,99999,99999,77200,9,Y,Y,59000,A,01219781,00101,1,"
    "99999,99999,00900,003,006,01219835,99999,99999999,9,999,99999,99999999,999999,72505,U,99999,U,,02908"
)
MDF_BLOCK, MDF_PIPES = "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLKGRPCE|TABBLK", HERE_BLOCK.replace(",", "|")
DEMO_BLOCK = "VINTAGE,TABBLKST,TABBLKCOU,TABTRACT,TABBLKGRP,TABBLK"
COMMENTS = "# Classification: C_U_I\n# Created: 2019\n# PLB allocation over geographic levels and queries:\n#state|1\n"


def mdf(
    persons: str, of_persons: Sequence[str], units: str, of_units: Sequence[str], above: str = ""
) -> tuple[str, list[str], str, list[str]]:
    """Return the columns and rows of a microdata detail file, persons and units, from those after the block's."""
    head = f"{above}SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|{MDF_BLOCK}"
    return (
        f"{head}|EPNUM|{persons}",
        [f"MPD|1.1.0|{MDF_PIPES}|{number}|{row}" for number, row in enumerate(of_persons)],
        f"{head}|{units}",
        [f"MUD|1.1.0|{MDF_PIPES}|{row}" for row in of_units],
    )


FORMS = {  # the columns and codes that the Bureau's programs and public readers of its files name: persons, units
    "2020 PPMF": (
        "EPNUM,RTYPE,GQTYPE,RELSHIP,QSEX,QAGE,CENHISP,CENRACE,LIVE_ALONE,NUMRACE,PGQSHRT,GQTYPE_PL,VOTING_AGE,"
        + PPMF_GEOGRAPHY,
        [
            f"{number},{rest},{PPMF_HERE}"
            for number, rest in enumerate(
                ["3,000,20,1,17,2,01,0,1,0,0,1", "3,000,21,2,45,1,63,0,6,0,0,2", *["5,301,37,2,91,1,01,0,1,3,3,2"] * 2],
                1,
            )
        ],
        "RTYPE,GQTYPE,TEN,VACS,HHSIZE,HHT,HHT2,CPLT,UPART,MULTG,THHLDRAGE,THHSPAN,THHRACE,PAOC,TP18,TP60,TP65,TP75,PAC,"
        "HHSEX,TENSHORT,HH_STATUS," + PPMF_GEOGRAPHY,
        [
            f"{unit},{PPMF_HERE}"
            for unit in (
                "2,000,3,0,2,1,02,1,5,0,2,1,04,4,0,0,0,0,4,1,2,1",
                "2,000,0,5,0,0,00,0,0,0,0,0,00,0,0,0,0,0,0,0,0,2",
                "4,301,0,0,0,0,00,0,0,0,0,0,00,0,0,0,0,0,0,0,0,0",
            )
        ],
    ),
    "MDF of the redistricting program": mdf(
        "RTYPE|GQTYPE_PL|VOTING_AGE|CENHISP|CENRACE",
        ["3|0|1|2|01", "3|0|2|1|63", *["5|3|2|1|01"] * 2],
        "RTYPE|HH_STATUS",
        ["2|1", "2|2", "4|0"],
    ),
    "MDF of the DHC": mdf(
        "RTYPE|GQTYPE|RELSHIP|QSEX|QAGE|CENHISP|CENRACE|LIVE_ALONE",
        ["3|000|20|1|017|2|01|0", "3|000|21|2|045|1|63|0", *["5|301|37|2|091|1|01|0"] * 2],
        "RTYPE|GQTYPE|TEN|VACS|HHSIZE|HHT|HHT2|CPLT|UPART|MULTG",
        ["2|000|3|0|2|1|02|1|5|0", "2|000|0|1|0|0|00|0|0|0", "4|301|0|0|0|0|00|0|0|0"],
    ),
    "demonstration of October 2019": mdf(
        "RTYPE|GQTYPE|RELSHIP|QSEX|QAGE|CENHISP|CENRACE|CITIZEN",
        ["3|000|99|1|17|2|01|9", "3|000|99|2|45|1|63|9", *["5|301|99|2|91|1|01|9"] * 2],
        "RTYPE|GQTYPE|TEN|VACS|HHSIZE",
        ["2|000|9|0|2", "2|000|0|9|0", "4|301|0|0|0"],
        above=COMMENTS,
    ),
    "demonstration of May 2020": (
        "VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK,RTYPE,GQTYPE,QSEX,QAGE,CENHISP,CENRACE",
        [f"20200527,{HERE_BLOCK},{rest}" for rest in ("3,000,1,17,2,01", "3,000,2,45,1,63", *["5,301,2,91,1,01"] * 2)],
        "VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK,RTYPE,GQTYPE,TEN,VACS",
        [f"20200527,{HERE_BLOCK},{rest}" for rest in ("2,000,9,0", "2,000,0,9", "4,301,0,0")],
    ),
    "demonstration of 2021": (
        f"{DEMO_BLOCK},RTYPE,GQTYPE_PL,VOTING_AGE,CENHISP,CENRACE",
        [f"20210428_eps12-2,{HERE_BLOCK},{rest}" for rest in ("3,0,1,2,01", "3,0,2,1,63", *["5,3,2,1,01"] * 2)],
        f"{DEMO_BLOCK},RTYPE,HH_STATUS",
        [f"20210428_eps12-2,{HERE_BLOCK},{rest}" for rest in ("2,1", "2,2", "4,0")],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_was_published_is_read(tmp_path: Path, form: str) -> None:
    persons, people, units, places = FORMS[form]
    (tmp_path / "P.csv").write_text("\n".join([persons, *people]) + "\n")
    (tmp_path / "U.csv").write_text("\n".join([units, *places]) + "\n")
    made = make_inputs([str(tmp_path / "P.csv"), str(tmp_path / "U.csv")], tmp_path / "data", publisher="somebody")
    assert (made.persons, made.units, made.states) == (4, 3, ("44",))
    assert (made.data / "quarters.csv").read_text().splitlines()[1] == "440070102002003,2,0,0,1,0,0,0,0"
    found = records(made.data, "persons")[["RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"]]
    assert sorted(map("".join, found.to_numpy())) == ["301201", "302163", "532101", "532101"]
    units_made = records(made.data, "units")[["RTYPE", "HH_STATUS"]]
    assert sorted(map("".join, units_made.to_numpy())) == ["21", "22", "40"]
    (tmp_path / "P.csv").write_text("\n".join([persons, people[0], people[1].replace("63", "64")]) + "\n")
    with pytest.raises(Refused, match=f"P.csv, line {3 + persons.count(chr(10))}: CENRACE is not 1 to 63"):
        make_inputs([str(tmp_path / "P.csv"), str(tmp_path / "U.csv")], tmp_path / "bad", publisher="somebody")


def test_of_an_archive_by_state_only_the_chosen_are_opened(tmp_path: Path) -> None:
    persons, people, units, places = FORMS["2020 PPMF"]
    with zipfile.ZipFile(tmp_path / "2020_ppmf_bystate.zip", "w") as archive:
        for name, lines in (("person", [persons, *people]), ("unit", [units, *places])):
            archive.writestr(f"2020_ppmf_bystate/2020_ppmf_{name}_44.csv", "\n".join(lines) + "\n")
            archive.writestr(f"2020_ppmf_bystate/2020_ppmf_{name}_45.csv", "no table\n")
    sources = [str(tmp_path / "2020_ppmf_bystate.zip")]
    made = make_inputs(sources, tmp_path / "data", publisher="somebody", states=(44,))
    assert (made.persons, made.units, made.states) == (4, 3, ("44",))
    with pytest.raises(Refused, match=r"person_45.csv is not published microdata"):
        make_inputs(sources, tmp_path / "every", publisher="somebody")


def test_states_are_chosen_while_reading_and_counts_are_the_records(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame]
) -> None:
    made = make(tmp_path, published, states=(46,))
    chosen = {name: table[table["TABBLKST"] == "46"] for name, table in published.items()}
    assert (made.states, made.persons, made.units) == (("46",), len(chosen["persons"]), len(chosen["units"]))
    code, expected = (table[BLOCK].agg("".join, axis=1) for table in (records(made.data, "persons"), chosen["persons"]))
    assert code.value_counts().to_dict() == expected.value_counts().to_dict()


def test_a_run_on_public_data_is_entered_and_not_charged(tmp_path: Path, published: dict[str, pd.DataFrame]) -> None:
    data = make(tmp_path, published).data
    run = begin(tmp_path, data, design(products=("persons",)))
    assert run.validated.mark == "PUBLIC"
    assert [mark for _, mark in Ledger(tmp_path / "ledger.sqlite").books().marked.values()] == ["PUBLIC"]
    staged = finish(run, tmp_path)
    manifest = read_manifest(staged)
    assert "published, noisy database" in manifest["PUBLIC"]
    assert "SYNTHETIC" not in manifest
    assert manifest["PUBLIC"] in (staged / "report.html").read_text()


def test_records_that_were_charged_are_never_public(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame]
) -> None:
    """The mark covers other files than the confidential ones; the records of a state are known all the same."""
    confidential = tmp_path / "confidential"
    confidential.mkdir()
    for path in synthetic.iterdir():
        if path.suffix != ".json":
            (confidential / path.name).write_bytes(path.read_bytes())
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(10)))
    begin(tmp_path, confidential, design(), account="census")
    data = make(tmp_path / "marked", published).data
    settings = settings_with(tmp_path, data, design(), "truth")
    settings.directory.create()
    with pytest.raises(Refused, match="charged for as confidential before, so its mark as synthetic or public data is"):
        release_truth(settings, HERE)
    settings_with(tmp_path, data, design(), "another").directory.create()
    with pytest.raises(Refused, match="charged for as confidential before"):
        InProcess(settings_with(tmp_path, data, design(), "another"), HERE, before="measure").run()


BAD = {
    "no product": (lambda t: {"units": t["units"]}, "there are no records of persons"),
    "another table": (lambda t: t | {"persons": t["persons"].drop(columns="RTYPE")}, "it lacks the columns RTYPE"),
    "a word": (lambda t: t | {"persons": t["persons"].assign(CENRACE="White")}, "line 2: CENRACE is not 1 to 63"),
    "a race": (lambda t: t | {"persons": t["persons"].assign(CENRACE="64")}, r"persons.csv, line 2: CENRACE is not 1"),
    "short rows": (lambda t: t | {"persons": t["persons"].assign(CENHISP='1"\n1,2"')}, "persons.csv"),
    "a blank": (lambda t: t | {"persons": t["persons"].assign(CENHISP="")}, "line 2: CENHISP is blank"),
    "types": (lambda t: t | {"persons": t["persons"].assign(RTYPE="5")}, "RTYPE contradicts GQTYPE_PL"),
    "a state without units": (
        lambda t: t | {"units": t["units"][t["units"]["TABBLKST"] == "23"]},
        "state 46 has records of persons but not of units",
    ),
    "twice": (
        lambda t: t | {"persons": t["persons"].rename(columns={"EPNUM": "x", "GQTYPE": "RTYPE"})},
        "RTYPE is there",
    ),
    "units gone": (lambda t: t | {"units": t["units"].iloc[::20]}, "files from one release"),
}


@pytest.mark.parametrize("fault", BAD)
def test_what_is_no_microdata_is_refused_and_leaves_nothing(
    tmp_path: Path, published: dict[str, pd.DataFrame], fault: str
) -> None:
    change, words = BAD[fault]
    sources = []
    for name, table in change(dict(published)).items():
        columns = [column for column in table.columns if column != "EPNUM"]
        sources.append(str(write(table, tmp_path / f"{name}.csv", columns)))
    with pytest.raises(Refused, match=words):
        make_inputs(sources, tmp_path / "new/data", publisher="somebody")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["cut.csv.gz", "cut.zip", "cut.parquet", "folder", "missing.csv"])
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, published: dict[str, pd.DataFrame], kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif not kind.startswith("missing"):
        whole = write(published["persons"], path, PPMF[0]).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Refused, match=rf"{kind}.* (cannot be read|holds no microdata files|is not a zip archive)"):
        make_inputs([str(path)], tmp_path / "data", publisher="somebody")


def test_the_command_asks_before_it_marks(tmp_path: Path, published: dict[str, pd.DataFrame]) -> None:
    sources = [str(write(table, tmp_path / f"{name}.csv")) for name, table in published.items()]
    words = ["tda", "public", *sources, str(tmp_path / "data")]
    asked = CliRunner().invoke(app, words)
    assert isinstance(asked.exception, Refused)
    assert "without a terminal, add --yes" in str(asked.exception)
    assert not (tmp_path / "data").exists()
    done = CliRunner().invoke(app, [*words, "--yes", "--only-state", "46"])
    assert done.exit_code == 0
    assert "blocks of state(s) 46, marked public" in done.output


def test_every_moved_block_has_a_place_of_its_own() -> None:
    assert len(set(MOVED.values())) == 15
