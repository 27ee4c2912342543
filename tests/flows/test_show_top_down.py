"""`das show` of a TopDown release: tables against the microdata, geounits, a copy."""

from __future__ import annotations

import json
import shutil
from functools import cache, partial
from math import ceil, floor
from pathlib import Path

import pandas as pd
import pytest
from show_release import copied_to, differences, enter, faults, serving, urlopen, with_margins
from top_down_inputs import read

from flows.commands.show import open_release
from flows.reports.show.top_down import TopDownPages
from flows.reports.show.view import RELEASED, NotThere
from privacy.noise.margins import Z95
from tasks.errors import Refused
from tasks.geography.regions import Region
from tests.flows.conftest import printed

COUNTY = Region("COUNTY", "46003")
WIDTHS = {"STATE": 2, "COUNTY": 5, "TRACT": 11, "BLOCK_GROUP": 12, "BLOCK": 15}


@pytest.fixture(scope="module")
def place(top_down_released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_margins(Path(shutil.copytree(top_down_released, tmp_path_factory.mktemp("margins") / "release")))


@pytest.fixture(scope="module")
def release(place: Path) -> TopDownPages:
    return open_release(place)


@pytest.fixture(scope="module")
def page(place: Path):
    with serving(place) as address:
        yield address


def microdata(place: Path, product: str) -> pd.DataFrame:
    rows = read(place, f"mdf/*_{product}.parquet")
    return rows.assign(block=rows.TABBLKST + rows.TABBLKCOU + rows.TABTRACTCE + rows.TABBLK)


das = partial(printed, "show")


def tables_of(release: TopDownPages, region: Region, table: str = "") -> dict[str, dict[str, list[int]]]:
    """The tables of a geounit: its rows by label."""
    return {one.name: dict(one.rows) for one in release.region(region, {"table": table}).tables}


def test_tables_are_those_of_the_microdata(release, place):
    persons, units = microdata(place, "persons"), microdata(place, "units")
    blocks = sorted({block for block in units.block if block[:2] == "46"})
    for kind, width in WIDTHS.items():
        for code in sorted({block[:width] for block in blocks})[:6]:
            region = Region(kind, code)
            own, homes = (one[one.block.str[:width] == code] for one in (persons, units))
            hispanic, adult = own.CENHISP == "2", own.VOTING_AGE == "2"
            tables = tables_of(release, region)
            columns = [own, own[hispanic], own[adult], own[hispanic & adult]]
            assert tables["race"]["all persons"] == [one.COUNT.sum() for one in columns]
            assert tables["race"]["Asian alone"] == [one[one.CENRACE == "04"].COUNT.sum() for one in columns]
            several = [one[one.CENRACE.astype(int) > 6].COUNT.sum() for one in columns]
            assert tables["race"]["two or more races"] == several
            students = own[own.GQTYPE_PL == "5"]
            quarters = tables["quarters"]["college or university student housing"]
            assert quarters[:2] == [students.COUNT.sum(), students[students.VOTING_AGE == "2"].COUNT.sum()]
            housing = homes[homes.RTYPE == "2"]
            assert tables["quarters"]["households"][2] == housing.COUNT.sum() == tables["housing"]["housing units"][0]
            assert tables["housing"]["occupied"] == [housing[housing.HH_STATUS == "1"].COUNT.sum()]


def test_the_combinations_of_races_are_in_the_order_of_cenrace(release, place):
    persons = microdata(place, "persons")
    (table,) = release.region(COUNTY, {"table": "races"}).tables
    own = persons[persons.block.str[:5] == COUNTY.id].groupby("CENRACE").COUNT.sum()
    labels = [label for label, _ in table.rows]
    assert (len(labels), len(set(labels)), labels[6]) == (63, 63, "White + Black or African American")
    assert {f"{number + 1:02d}": of[0] for number, (_, of) in enumerate(table.rows) if of[0]} == own.to_dict()


@pytest.mark.ci
def test_every_geounit_is_the_sum_of_what_lies_in_it(release):
    whole = "race", "all persons"

    @cache
    def persons(region: Region) -> list[int]:
        return tables_of(release, region)[whole[0]][whole[1]]

    links: set[str] = set()
    for state in release.states:
        blocks = release._codes("BLOCK", state)
        for kind in ("STATE", "COUNTY", "TRACT", "BLOCK_GROUP"):
            for code in {block[: WIDTHS[kind]] for block in blocks}:
                region = Region(kind, code)
                inside = [persons(Region("BLOCK", block)) for block in blocks if block.startswith(code)]
                assert persons(region) == [sum(column) for column in zip(*inside, strict=True)]
                links |= {link for _, around in release.region(region, {}).around for _, link in around}
    assert all(release.view({"view": link}) for link in links if link.startswith("region/"))
    nation = [persons(Region("STATE", state)) for state in release.states]
    assert persons(Region("USA", "1")) == [sum(column) for column in zip(*nation, strict=True)]


def test_margins_stand_beside_the_counts_where_the_release_has_them(release):
    view = release.region(COUNTY, {})
    assert [(one.count, one.released, one.margin) for one in view.margins] == [
        ("total", view.totals["persons"], 3.25),
        ("Hispanic", 7, None),
        ("P0020002", 7, None),
    ]
    first, cells = view.margin_tables().items()
    assert (first[0], [words for words, _ in first[1]]) == ("", ["persons", "Hispanic persons"])
    assert (cells[0][:3], [words for words, _ in cells[1]]) == ("P2.", ["Hispanic"])
    (race, *_), (_, hispanic, *_) = view.tables, view.tables[0].margins[0]
    assert (race.name, race.margins[0][0].margin, hispanic.why) == ("race", 3.25, "not covered")
    assert race.margins[1] == [None] * 4  # no estimate of a race
    assert (*(one.outside(RELEASED) for one in view.margins[:2]), view.outside[:10]) == (False, True, "is outside")
    one = view.margins[0]
    assert one.interval(RELEASED) == (ceil(one.estimate - Z95 * one.error), floor(one.estimate + Z95 * one.error))
    assert view.total_margin == 3.25
    assert "1.96 standard errors" in view.margin
    counties = release.view({"view": "table/margins-persons-tabulation-county", "by_count": "total"})
    assert {row[3] for row in counties.page.rows} == {3.25}
    assert "for other areas, but not for this one" in release.region(Region("TRACT", "46003000100"), {}).margin


@pytest.mark.parametrize(("folder", "is_named"), [("measurements/", True), ("nmf/", True), ("mdf/", False)])
def test_a_page_without_margins_names_das_tda_areas_where_the_release_has_measurements(place, folder, is_named):
    pages = open_release(place)
    kept = [name for name in pages.manifest["files"] if not name.startswith("measurements/")]
    pages.manifest = {**pages.manifest, "files": [*kept, f"{folder}some.parquet"]}
    assert ("das tda areas" in pages.region(Region("TRACT", "46003000100"), {}).margin) == is_named


def test_geounits_are_found_by_code_and_name(release):
    def found(text: str) -> list[str]:
        (geounits,) = release.find(text, RELEASED).kinds
        return [one.address.removeprefix("region/") for one in geounits.first]

    assert found("46003") == ["COUNTY/46003"]
    assert found("aurora") == found("Aurora County, South Dakota")[:1] == ["COUNTY/46003"]
    assert found("a reservation") == ["AIANNH/2430"]
    assert found("South Dakota") == ["STATE/46"]
    assert found("county/46001") == ["COUNTY/46001"]
    block = release._codes("BLOCK", "46003")[0]
    assert (found(block), found(block[:12])) == ([f"BLOCK/{block}"], [f"BLOCK_GROUP/{block[:12]}"])
    assert found("99999") == found("Atlantis") == found("") == found("460030001009999") == []
    for region in (Region("COUNTY", "99999"), Region("BLOCK", "46003"), Region("MOON", "46003"), Region("PLACE", "1")):
        with pytest.raises(NotThere):
            release.region(region, {})


def test_the_terminal_and_files_have_the_same_tables(place, page):
    result = json.loads(das(place, "--region", "46003", "--json"))
    total = result["totals"]["persons"]
    text = das(place, "--region", "46003", "--table", "quarters")
    assert "households" in text
    assert "standard errors of the unbiased estimate" in text.replace("\n", " ")
    assert "but not for this one" in das(place, "--region", "46003000100").replace("\n", " ")
    lines = das(place, "--region", "46003", "--format", "csv").splitlines()
    first = 'COUNTY/46003,"Race, Hispanic origin, voting age",all persons'
    assert lines[1] == f"{first},all ages,{total},3.25,{total + 0.5},1.658,"
    assert lines[2].startswith(f"{first},Hispanic,")
    assert lines[2].endswith(",,-1.25,2.0,not covered")
    with urlopen(f"{page}?view=region/COUNTY/46003&format=csv") as answer:
        assert answer.read().decode().splitlines() == lines
    address = f"{page}?view=table/histograms-persons-tabulation-county-counts&by_statistic=total&format=json"
    listed = json.loads(urlopen(address).read())
    assert {code: count for code, _, count in listed["page"]["rows"]}["46003"] == total
    for words, said in (
        (["--iteration", "1002"], "Detailed DHC-A"),
        (["--table", "race"], "'race' is not a table of this release"),
        (["--region", "46003", "--table", "T1"], "is not a table"),
        (["--region", "county"], "several regions match"),
        (["--region", "Atlantis"], "no region matches"),
        (["--scope", "44"], "no state 44"),
        (["--scope", "county-2"], "is a state"),
    ):
        with pytest.raises(Refused, match=said):
            das(place, *words)


@pytest.mark.slow
def test_a_copy_has_the_pages_and_tables_that_are_served(place, tmp_path):
    copy = copied_to(place, tmp_path / "copy")
    assert differences(place, copy) == []
    assert not list(copy.glob("region-BLOCK-*.html"))
    assert list(copy.glob("region-BLOCK_GROUP-*.html"))
    assert list(copy.glob("region-COUNTY-46003-table=races.html"))


def test_pages_are_accessible(page, sized):
    browser = sized(1400)
    enter(browser, page)
    counts = "histograms-persons-tabulation-county-counts&by_statistic=total"
    views = ["overview", "region/COUNTY/46003", f"table-map/{counts}", "region/COUNTY/46003&table=races"]
    wide = [*views, f"table/{counts}", "find&q=46003", "region/STATE/46", "region/PLACE/4610000", "no/such/view"]
    for screen, shown in (((1400,), wide), ((400, "dark"), views), ((1070, "light", "print"), views)):
        browser = sized(*screen)
        for view in shown:
            browser.get(f"{page}?view={view}")
            assert (view, faults(browser)) == (view, [])


@pytest.mark.ci
def test_a_release_has_its_names_and_a_copy_of_one_state_holds_no_other(place, release, tmp_path):
    names = (place / "names.csv").read_text().splitlines()
    assert names[1] == "AIANNH|2430|A Reservation"
    assert {name.split("|")[1][:2] for name in names[2:]} == {"23", "46"}
    assert json.loads(das(place, "--region", "Aurora", "--json"))["title"] == "Aurora County"
    assert release.find("resrvation", RELEASED).nearest == "reservation"
    with pytest.raises(Refused, match=r"no region matches 'Aurorra'; nearest: .*46003 Aurora County"):
        das(place, "--region", "Aurorra")
    das(place, "--scope", "46", "--export", tmp_path / "copy")
    assert "Aurora County" in (tmp_path / "copy/static/index.js").read_text()
    pages = {tuple(path.stem.split("-")[1:3]) for path in (tmp_path / "copy").glob("region-*.html")}
    assert {code[:2] for kind, code in pages if kind != "AIANNH"} == {"46"}
    assert "one state" in (tmp_path / "copy/index.html").read_text()
