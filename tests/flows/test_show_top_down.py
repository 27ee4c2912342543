"""`das show` of a TopDown release: tables against the microdata, three kinds of geounit, a copy."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from fractions import Fraction
from functools import partial
from math import ceil, floor
from pathlib import Path

import pandas as pd
import pytest
from show_release import copied_to, differences, enter, faults, serving, urlopen, with_margins
from top_down_inputs import read

from flows.reports.show.scope import Scope
from flows.reports.show.top_down import views
from flows.reports.show.top_down.geounits import Geounit
from flows.reports.show.top_down.release import TopDownRelease
from flows.reports.show.view import NotThere, read_manifest
from privacy.noise.laws import DiscreteGaussian
from privacy.noise.margins import margin_of_error
from tasks.lifecycle.errors import Refused
from tests.flows.conftest import printed

COUNTY = Geounit("tabulation", "County", "46", "46003")


@pytest.fixture(scope="module")
def place(top_down_released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_margins(Path(shutil.copytree(top_down_released, tmp_path_factory.mktemp("margins") / "release")))


@pytest.fixture(scope="module")
def release(place: Path) -> TopDownRelease:
    return TopDownRelease(place, read_manifest(place), Scope())


@pytest.fixture(scope="module")
def page(place: Path):
    with serving(place) as address:
        yield address


def microdata(place: Path, product: str) -> pd.DataFrame:
    rows = read(place, f"mdf/*_{product}.parquet")
    return rows.assign(block=rows.TABBLKST + rows.TABBLKCOU + rows.TABTRACTCE + rows.TABBLK)


das = partial(printed, "show")


def every(release: TopDownRelease, states: tuple[str, ...] = ("46",)) -> list[Geounit]:
    """The geounits of all kinds and levels of a state."""
    return [
        row.geounit
        for kind in release.kinds
        for level in release.levels(kind)
        for state in states
        if release.is_listed(kind, level, state)
        for row in release.rows(kind, level, state)
    ]


def test_tables_are_those_of_the_microdata(release, place):
    persons, units = microdata(place, "persons"), microdata(place, "units")
    for level, width in (("State", 2), ("County", 5), ("Tract", 11), ("Block_Group", 12), ("Block", 15)):
        for row in release.rows("tabulation", level, "46"):
            code = row.geounit.code
            own, homes = (one[one.block.str[:width] == code] for one in (persons, units))
            hispanic, adult = own.CENHISP == "2", own.VOTING_AGE == "2"
            tables = {one.name: dict(one.rows) for one in views.geounit(release, row.geounit).tables}
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
            assert (row.sums["persons"], row.sums["occupied"]) == (own.COUNT.sum(), tables["housing"]["occupied"][0])


def test_the_combinations_of_races_are_in_the_order_of_cenrace(release, place):
    persons = microdata(place, "persons")
    (table,) = views.geounit(release, COUNTY, "races").tables
    own = persons[persons.block.str[:5] == COUNTY.code].groupby("CENRACE").COUNT.sum()
    labels = [label for label, _ in table.rows]
    assert (len(labels), len(set(labels)), labels[6]) == (63, 63, "White + Black or African American")
    assert {f"{number + 1:02d}": of[0] for number, (_, of) in enumerate(table.rows) if of[0]} == own.to_dict()


@pytest.mark.slow
def test_every_geounit_is_the_sum_of_what_lies_in_it(release):
    geounits = every(release)
    assert {one.kind for one in geounits} == {"tabulation", "entities", "spine_persons", "spine_units"}
    for one in geounits:
        view = views.geounit(release, one)
        assert all(number for _, lists in view.inside for _, number, _ in lists)
        for level in release.levels_inside(one)[:1]:
            below = release.rows(one.kind, level, one.state, "starts_with({code}, ?)", [one.code])
            for name, own in view.totals.sums.items():
                counts = [row.sums[name] for row in below]
                assert own == (None if None in counts else sum(counts))
        for above in view.above:
            assert release.exists(Geounit(*above.key.split("/")))
        if one.level == "Block":  # on two spines and as a tabulation block
            assert len(view.same) == 2
            others = [views.geounit(release, Geounit(*other.key.split("/"))) for other in view.same]
            assert {other.totals.sums["persons"] for other in others} >= {view.totals.sums["persons"]} - {None}
    nation = views.geounit(release, release.top)
    states = [release.rows("tabulation", "State", state)[0] for state in release.states]
    assert nation.totals.sums["persons"] == sum(state.sums["persons"] for state in states)


def test_noisy_answers_have_the_margin_of_their_exact_law(release, place):
    county = next(one for one in every(release) if (one.kind, one.level) == ("spine_persons", "County"))
    answers = {one.query: one for one in views.geounit(release, county).answers}
    measured = read(place, f"measurements/persons/County/{county.state}.parquet")
    measured = measured[measured.geounit == county.code].set_index("query")
    for query, row in measured.iterrows():
        exact = Fraction(int(row.variance_numerator), int(row.variance_denominator))
        assert answers[query].margin == margin_of_error(DiscreteGaussian(exact))
        assert answers[query].answers == len(row.value)
    assert answers["total"].first == measured.loc["total"].value[0]
    assert "has no margin of error" in views.geounit(release, county).margin


def test_margins_stand_beside_the_counts_where_the_release_has_them(release):
    view = views.geounit(release, COUNTY)
    assert [(one.count, one.released, one.margin) for one in view.margins] == [
        ("total", view.totals.sums["persons"], 3.25),
        ("Hispanic", 7, None),
        ("P0020002", 7, None),
    ]
    first, cells = view.margin_tables().items()
    assert (first[0], [words for words, _ in first[1]]) == ("", ["persons", "Hispanic persons"])
    assert (cells[0][:3], [words for words, _ in cells[1]]) == ("P2.", ["Hispanic"])
    (race, *_), (_, hispanic, *_) = view.tables, view.tables[0].margins[0]
    assert (race.name, race.margins[0][0].margin, hispanic.why) == ("race", 3.25, "not covered")
    assert race.margins[1] == [None] * 4  # no estimate of a race
    assert (view.margins[0].outside, view.margins[1].outside, view.outside[:10]) == (False, True, "is outside")
    one = view.margins[0]
    assert one.interval == (ceil(one.estimate - 1.96 * one.error), floor(one.estimate + 1.96 * one.error))
    assert view.totals.margin == 3.25
    assert "1.96 standard errors" in view.margin
    counties = views.listing(release, "tabulation", "County", "46")
    assert (counties.margins, {row.margin for row in counties.page.rows}) == (True, {3.25})
    tracts = views.listing(release, "tabulation", "Tract", "46")
    assert (tracts.margins, {row.margin for row in tracts.page.rows}) == (False, {None})
    assert "has no margin of error" in tracts.margin


def test_geounits_are_found_by_code_and_name(release):
    def found(text: str) -> list[str]:
        (geounits,) = views.find(release, text).kinds
        return [one.address.removeprefix("geounit/") for one in geounits.first]

    assert found("46003") == ["tabulation/County/46/46003"]
    assert found("aurora") == found("Aurora County, South Dakota")[:1] == ["tabulation/County/46/46003"]
    assert found("a reservation") == ["entities/aian/23/2430", "entities/aian/46/2430"]
    assert found("South Dakota") == ["tabulation/State/46/46"]
    assert found("tabulation/County/46/46001") == ["tabulation/County/46/46001"]
    blocks = release.rows("spine_persons", "Block", "46")
    assert found(blocks[0].geounit.code)[0] == blocks[0].geounit.key
    assert found("99999") == found("Atlantis") == found("") == []
    for key in (
        "tabulation/County/46/99999",
        "tabulation/County/99/46003",
        "spine_units/Moon/46/1",
        "x/County/46/46003",
    ):
        with pytest.raises(NotThere):
            views.geounit(release, Geounit(*key.split("/")))


def test_the_terminal_and_files_have_the_same_tables(place, page):
    result = json.loads(das(place, "--region", "46003", "--json"))
    total = result["totals"]["sums"]["persons"]
    text = das(place, "--region", "46003", "--table", "quarters")
    assert "households" in text
    assert "standard errors of the unbiased estimate" in text.replace("\n", " ")
    assert "has no margin of error" in das(place, "--region", "46003000100").replace("\n", " ")
    lines = das(place, "--region", "46003", "--format", "csv").splitlines()
    assert lines[1] == f"tabulation/County/46/46003,race,all persons,all ages,{total},,,"
    with urlopen(f"{page}?view=geounit/tabulation/County/46/46003&format=csv") as answer:
        assert answer.read().decode().splitlines() == lines
    assert "South Dakota" in das(place, "--json")
    listed = json.loads(urlopen(f"{page}?view=listing/tabulation/County/46&format=json").read())
    assert Counter({row["geounit"]["code"]: row["sums"]["persons"] for row in listed["page"]["rows"]})["46003"] == total
    for words, said in (
        (["--iteration", "1002"], "Detailed DHC-A"),
        (["--table", "race"], "'race' is not a table of this release"),
        (["--region", "46003", "--table", "T1"], "is not a table"),
        (["--region", "2430"], "several geounits match"),
        (["--region", "Atlantis"], "no geounit matches"),
        (["--scope", "44"], "no state 44"),
        (["--scope", "county-2"], "is a state"),
    ):
        with pytest.raises(Refused, match=said):
            das(place, *words)


@pytest.mark.slow
def test_a_copy_has_the_pages_and_tables_that_are_served(place, tmp_path):
    copy = copied_to(place, tmp_path / "copy")
    assert differences(place, copy) == []
    assert len(list(copy.glob("geounit-spine_units-*.html"))) > 3
    assert "<circle" in (copy / "map-tabulation-County-46.html").read_text()
    assert not list(copy.glob("geounit-*-Block-*.html"))  # lists have them
    assert list(copy.glob("listing-tabulation-Block-46-in=*.html"))


def test_pages_are_accessible(release, page, sized):
    browser = sized(1400)
    enter(browser, page)
    spine = next(f"geounit/{one.key}" for one in every(release) if one.kind == "spine_persons")
    county = f"geounit/{COUNTY.key}"
    views = ["overview", county, "listing/tabulation/Block/46", "map/tabulation/County/46", f"{county}&table=races"]
    wide = [*views, spine, "find&q=46003", "geounit/tabulation/State/46/46", "no/such/view"]
    for screen, shown in (((1400,), wide), ((400, "dark"), views), ((1070, "light", "print"), views)):
        browser = sized(*screen)
        for view in shown:
            browser.get(f"{page}?view={view}")
            assert (view, faults(browser)) == (view, [])


def test_a_release_has_its_names_and_a_copy_of_one_state_holds_no_other(place, release, tmp_path):
    names = (place / "names.csv").read_text().splitlines()
    assert names[1] == "AIANNH|2430|A Reservation"
    assert {name.split("|")[1][:2] for name in names[2:]} == {"23", "46"}
    assert json.loads(das(place, "--region", "Aurora", "--json"))["title"] == "Aurora County"
    assert views.find(release, "resrvation").nearest == "reservation"
    with pytest.raises(Refused, match=r"no geounit matches 'Aurorra'; nearest: .*46003 Aurora County"):
        das(place, "--region", "Aurorra")
    das(place, "--scope", "46", "--export", tmp_path / "copy")
    assert "Aurora County" in (tmp_path / "copy/static/index.js").read_text()
    assert {path.name.split("-")[3] for path in (tmp_path / "copy").glob("geounit-*.html")} == {"46"}
    assert "one state" in (tmp_path / "copy/index.html").read_text()
