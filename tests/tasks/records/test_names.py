"""Names of regions: those that ship, and every layout of file in which a geography may have them."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import Refused
from tasks.geography import public_regions
from tasks.geography.blocks.pl94 import PL94_FIELDS
from tasks.geography.names import ALL_STATES, NAMES, Names, coverage, names_of_2020
from tasks.geography.points import POINTS
from tasks.geography.public_regions import GAZETTEERS, HEADER_LEVELS, keep_regions, read_regions, write_regions
from tasks.geography.region_files import DIGITS
from tasks.geography.regions import Region
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.files import open_file
from tasks.synth.nation import tallies


def test_the_counties_are_those_of_2020():
    names = names_of_2020()
    assert Counter(region.type for region in names) == {"STATE": 51, "COUNTY": 3143, "PR-STATE": 1, "PR-COUNTY": 78}
    counties = Counter(region.id[:2] for region in names if region.type.endswith("COUNTY"))
    assert counties == {state: tally.counties for state, tally in tallies().items()}
    assert names[Region("COUNTY", "02063")] == "Chugach Census Area"
    assert Region("COUNTY", "02261") not in names  # Valdez-Cordova, until 2019
    assert names[Region("COUNTY", "09001")] == "Fairfield County"  # no planning region
    assert names[Region("PR-COUNTY", "72021")] == "Bayamón Municipio"


def names_in(geography: str) -> Names:
    return read_regions(geography)[0]


def header_row(**values: str) -> str:
    return "|".join(values.get(name, "") for name in PL94_FIELDS)


def test_names_come_from_headers_and_gazetteers(tmp_path):
    rows = [
        header_row(SUMLEV="050", GEOCOMP="00", GEOCODE="01001", NAME="Autauga County"),
        header_row(SUMLEV="160", GEOCOMP="00", GEOCODE="0100500", NAME="Añasco"),
        header_row(SUMLEV="250", GEOCOMP="00", AIANHH="0007", NAME="A Reservation (part)"),
        header_row(SUMLEV="050", GEOCOMP="00", GEOCODE="72001", NAME="Adjuntas Municipio"),
        header_row(SUMLEV="050", GEOCOMP="01", GEOCODE="01001", NAME="its urban part"),
        header_row(SUMLEV="750", GEOCOMP="00", GEOCODE="010010001001000", NAME="Block 1000"),
    ]
    (tmp_path / "algeo2020.pl").write_bytes("\n".join(rows).encode("latin-1"))
    with zipfile.ZipFile(tmp_path / "al2020.pl.zip", "w") as archive:
        archive.write(tmp_path / "algeo2020.pl", "algeo2020.pl")
    # layouts of the Gazetteer: one a type, tracts without a name, the last column padded, bars since 2025
    layouts = {
        "2020_Gaz_cousubs_national.txt": "USPS\tGEOID\tANSICODE\tNAME\tALAND\nCT\t0900104720\t1\tBethel town\t1\n",
        "2020_Gaz_aiannh_national.txt": "GEOID\tANSICODE\tNAME\tALAND \n2430R\t1\tNavajo Nation Reservation\t1\n",
        "2025_Gaz_place_national.txt": "USPS|GEOID|GEOIDFQ|ANSICODE|NAME|ALAND\nAL|0100124|160|1|Abbeville city|1\n",
        "2020_Gaz_tracts_national.txt": "USPS\tGEOID\tALAND\nAL\t01001020100\t9\n",
        "2025_Gaz_aiannhrt_national.txt": "GEOID|GEOIDFQ|ANSICODE|NAME\n2430T|1|1|Navajo Trust Land\n",
        "person-records.txt": "GEOID|NAME\n0100124|no file of names\n",
    }
    (tmp_path / "gazetteers").mkdir()
    for name, text in layouts.items():
        (tmp_path / "gazetteers" / name).write_text(text)
    with zipfile.ZipFile(tmp_path / "2020_Gaz_place_national.zip", "w") as archive:
        archive.writestr("2020_Gaz_place_national.txt", "USPS\tGEOID\tNAME\nAL\t0100124\tAbbeville city\n")
    assert names_in(str(tmp_path / "gazetteers/GRF-C.txt")) == {
        Region("COUSUB", "0900104720"): "Bethel town",
        Region("AIANNH", "2430"): "Navajo Nation Reservation",
        Region("PLACE", "0100124"): "Abbeville city",
    }
    assert names_in(str(tmp_path / "gazetteers/2020_Gaz_tracts_national.txt")) == {}
    expected = {
        Region("COUNTY", "01001"): "Autauga County",
        Region("PLACE", "0100500"): "Añasco",
        Region("AIANNH", "0007"): "A Reservation",
        Region("PR-COUNTY", "72001"): "Adjuntas Municipio",
    }
    assert names_in(str(tmp_path / "algeo2020.pl")) == names_in(str(tmp_path / "al2020.pl.zip")) == expected
    assert names_in(str(tmp_path)) == expected | {Region("PLACE", "0100124"): "Abbeville city"}


LETTERS = st.characters(codec="latin-1", exclude_categories=["C", "Z"], exclude_characters="|")
CODES = st.sampled_from(sorted(DIGITS)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.text("0123456789", min_size=DIGITS[kind], max_size=DIGITS[kind]))
)
REGION_NAMES = st.dictionaries(CODES, st.text(LETTERS, min_size=1, max_size=9), max_size=9)
LEVEL_OF = {kind: level for level, kind in HEADER_LEVELS.items()}
FILE_OF = {kind: word.strip("_") for word, kind in GAZETTEERS.items()}


@given(names=REGION_NAMES)
def test_every_layout_gives_the_names_that_were_written(names):
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        rows = [
            header_row(SUMLEV=LEVEL_OF[kind], GEOCODE=code, AIANHH=code[:4], GEOCOMP="00", NAME=name)
            for (kind, code), name in names.items()
        ]
        Path(one, "rigeo2020.pl").write_text("\n".join(rows), encoding="utf-8")
        for number, ((kind, code), name) in enumerate(names.items()):
            header, row = ["USPS", "GEOID", "NAME", "ALAND  "], ["RI", code, name, "1"]
            path = Path(two, f"202{number}_Gaz_{FILE_OF[kind]}_national.txt")
            between = "|\t"[number % 4 == 0]
            path.write_text("".join(between.join(line) + "\n" for line in (header, row)), encoding="utf-8")
        in_puerto_rico = lambda kind, code: code[:2] == "72" and kind not in ("AIANNH", "COUSUB")  # noqa: E731
        expected = {Region("PR-" * in_puerto_rico(*key) + key[0], key[1]): name for key, name in names.items()}
        assert names_in(one) == names_in(two) == expected
        NAMES.write_release(Path(one), expected, expected.__contains__)
        assert NAMES.of_release(Path(one), [NAMES.file]) == expected


def damaged(path: Path) -> None:
    path.write_text("no archive", encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("ri2020.pl.zip", damaged),
        ("names.csv", os.mkfifo),
        ("points.csv", os.mkfifo),
        ("rigeo2020.pl", Path.mkdir),
        ("rigeo2020.pl.gz", damaged),
    ],
)
def test_files_of_names_or_points_that_cannot_be_read_are_refused(
    tmp_path: Path, name: str, made: Callable[[Path], None]
):
    made(tmp_path / name)
    with pytest.raises(Refused, match=name):
        names_in(str(tmp_path))


def test_a_name_is_one_short_line_that_steers_no_terminal(tmp_path: Path):
    rows = ["USA|1|\x1b[31mRed\x07 \u202eland", f"STATE|44|{'x' * 999}", "STATE|45|\x07", "STATE|4b|x", "STATE", "|||"]
    (tmp_path / "names.csv").write_text("\n".join(["REGION_TYPE|REGION_ID|NAME", *rows]))
    expected = {Region("USA", "1"): "[31mRed land", Region("STATE", "44"): "x" * 200}
    assert names_in(str(tmp_path)) == NAMES.of_release(tmp_path, ["names.csv"]) == expected
    assert NAMES.of_release(tmp_path, []) == {}  # not of the release


def test_a_file_of_this_name_without_its_columns_or_regions_gives_nothing_to_a_release(tmp_path: Path):
    """It may be anybody's list, next to confidential records."""
    person, unit = "SMITH|4400719|John A., 12 Elm St", "HU|440070001001|41.82|-71.41"
    own = NAMES.header
    for text in (f"COUNTY|44007|nobody's\n{person}\n", f"{own}\n{person}\nCOUNTY|٤٤٠٠٧|name\nPLACE|44|short\n"):
        (tmp_path / NAMES.file).write_text(text)
        assert names_in(str(tmp_path)) == {}
    for first in (unit, POINTS.header):
        (tmp_path / POINTS.file).write_text(f"{first}\n{unit}\n")
        assert read_regions(str(tmp_path))[1] == {}


def test_a_nation_of_some_states_is_told_and_that_of_all_is_not():
    assert (
        coverage(["31", "46"])
        == "The run covers only Nebraska and South Dakota; its counts of the nation include no others."
    )
    assert "3 of the 50 states and D.C." in coverage(["31", "44", "46"])
    assert coverage([]) == coverage(["00"] * ALL_STATES) == ""


def test_a_file_with_both_facts_is_read_once_for_all_parts_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gazetteer = tmp_path / "data/2020_Gaz_counties_national.txt"
    gazetteer.parent.mkdir()
    rows = ["44007\tProvidence County\t+41.87\t-71.58", "72001\tAdjuntas Municipio\t18.18\t-66.76"]
    gazetteer.write_text("".join(f"{row}\n" for row in ["GEOID\tNAME\tINTPTLAT\tINTPTLONG  ", *rows]))
    opened: list[str] = []

    def count(path: str, **how: Any) -> Any:
        opened.append(path)
        return open_file(path, **how)

    monkeypatch.setattr(public_regions, "open_file", count)
    us, pr = (RunDirectory(tmp_path / "runs" / name) for name in ("a-us", "a-pr"))
    keep_regions(us, str(gazetteer.parent), [pr])
    assert len(opened) == 1
    gazetteer.unlink()  # a run goes on from what it has kept
    for run, kind, name, point in (
        (us, "COUNTY|44007", "Providence County", "41.87000|-71.58000"),
        (pr, "PR-COUNTY|72001", "Adjuntas Municipio", "18.18000|-66.76000"),
    ):
        keep_regions(run, str(gazetteer.parent))
        (out := tmp_path / run.id).mkdir()
        write_regions(run, out, {Region(*kind.split("|"))}.__contains__)
        assert (out / "names.csv").read_text() == f"REGION_TYPE|REGION_ID|NAME\n{kind}|{name}\n"
        assert (out / "points.csv").read_text() == f"REGION_TYPE|REGION_ID|LATITUDE|LONGITUDE\n{kind}|{point}\n"
