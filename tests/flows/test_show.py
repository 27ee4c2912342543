"""`das show`: what its views say of a release, its page over HTTP, its terminal form, and what it refuses."""

from __future__ import annotations

import csv
import http.client
import io
import json
import re
import shutil
import socket
from collections import Counter
from contextlib import closing
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import openpyxl
import pytest
from dhca_inputs import ETHNICITY, RACE, read_release, truth_here
from show_release import entered, inputs, serving, urlopen, with_estimates
from typer.testing import CliRunner

from flows.cli import app
from flows.commands.show import open_release
from flows.commands.show import show as show_command
from flows.reports.show.detailed_dhca import DetailedDhcaPages
from flows.reports.show.group import Group
from flows.reports.show.scope import Scope
from flows.reports.show.search import Code, Index, Vocabulary
from flows.reports.show.view import RELEASED, Confidence, NotThere
from flows.reports.terminal import err
from privacy.noise.margins import margin_of_error
from tasks.errors import Refused
from tasks.geography.names import NAMES
from tasks.geography.regions import Region
from tasks.releases.manifest import read_law, require_release
from tasks.releases.pages.text_table import as_csv
from tasks.releases.release_database import ReleaseDatabase
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import CELLS_OF
from tests.flows.conftest import printed

STATE, COUNTY, TWIN = Region("STATE", "01"), Region("COUNTY", "01001"), Region("COUNTY", "02001")
ITERATIONS = {row[0]: row for row in RACE if row[1] != "0"} | {
    row[0]: (row[0], row[1], "", row[2], row[3]) for row in ETHNICITY if row[1] != "0"
}


@pytest.fixture(scope="module")
def release(released: Path) -> DetailedDhcaPages:
    return open_release(released)


@pytest.fixture(scope="module")
def counts(released: Path) -> dict[tuple[str, str, str], int]:
    """T1 of the release: (type, region, iteration) to count."""
    return {(kind, region, code): int(count) for region, kind, code, count in read_release(released, "t1")}


@pytest.fixture(scope="module")
def published(release: DetailedDhcaPages, counts: dict[tuple[str, str, str], int]) -> list[Group]:
    """The groups that have a count."""
    return [release.group(Region(kind, region), code, RELEASED) for kind, region, code in counts]


das = partial(printed, "show")


def tabulated(region: Region, code: str) -> bool:
    """Whether a group is in the domain, by the parameters."""
    detailed_only, coarse_only = (flag == "True" for flag in ITERATIONS[code][3:5])
    return not coarse_only if region.type in ("USA", "STATE") else not detailed_only


def test_units_whose_codes_hold_a_slash_have_addresses_of_their_own() -> None:
    assert Code.nested("town", ["a/b", "c"]) != Code.nested("town", ["a", "b/c"]) == Code("town", "a/b~2fc")
    assert Code.nested("town", ["~2f"]) != Code.nested("town", ["/"])


def test_every_group_has_its_count_or_the_reason_why_not(release, counts):
    seen = Counter()
    for region in release.regions:
        for code in ITERATIONS:
            result = release.group(region, code, RELEASED)
            expected = "published" if (region.type, region.id, code) in counts else "suppressed"
            assert result.status == (expected if tabulated(region, code) else "not tabulated")
            assert result.count == counts.get((region.type, region.id, code))
            seen[result.status] += 1
    assert set(seen) == {"published", "suppressed", "not tabulated"}


def test_margins_and_laws_are_those_of_the_published_rows(release, published):
    names = {"total": "total", "age4": "sex by 4 ages", "age9": "sex by 9 ages", "age23": "sex by 23 ages"}
    some = published[::7]
    assert {row.shape for row in some} == set(names.values())
    for row in some:
        kind, region, code = row.parts
        shape = next(name for name, words in names.items() if words == row.shape)
        law, cells = read_law(row.noise), row.noise["cells"]
        assert row.margin == margin_of_error(law, cells)
        assert cells == CELLS_OF[shape] == max(1, len(release.cells(row, RELEASED)) - 2)
        level = Level(kind, release.iterations[code].level)
        words = release.group_view(Region(kind, region), code, RELEASED).why_no_more
        if level.nation_or_state and release.iterations[code].total_only:
            assert "tabulated as a total alone" in words
        else:
            more = dict(zip(names, (*release.manifest["levels"][str(level)]["thresholds"], None), strict=True))
            first = margin_of_error(read_law(release.manifest["levels"][str(level)]["queries"]["stage_1"]), 1)
            said = f" (a separate answer, ± {first}, not published) of {more[shape]} or more."
            assert words.endswith(said) if more[shape] else not words


def test_coterminous_regions_have_one_count(release, counts):
    """State 02 is made of one county: their tables are one."""
    codes = [code for kind, region, code in counts if (kind, region) == ("COUNTY", TWIN.id) and tabulated(STATE, code)]
    assert codes
    for code in codes:
        assert len({counts[*region, code] for region in (("COUNTY", TWIN.id), ("STATE", "02"))}) == 1
        others = dict(release.group_view(Region("STATE", "02"), code, RELEASED).coterminous)
        assert f"group/{TWIN.key}/{code}" in others.values()


@pytest.mark.slow
def test_estimates_stand_beside_the_counts_where_the_release_has_them(released, tmp_path, counts, release):
    copy = with_estimates(released, tmp_path / "copy")
    estimated = open_release(copy)
    left_out = tables = 0
    for (kind, region, code), count in counts.items():
        result = estimated.group_view(Region(kind, region), code, RELEASED)
        assert release.group(Region(kind, region), code, RELEASED).estimate is None
        if result.group.estimate is None:
            left_out += 1
        else:
            assert (result.group.estimate, result.group.estimate_margin) == (count + 1, result.group.margin)
        for row in result.pyramid.rows() if result.pyramid and result.group.estimate is not None else ():
            assert (row.male.estimate, row.female.estimate_margin) == (row.male.count + 1, row.female.margin)
            tables += 1
    assert left_out == len({(kind, release.iterations[code].level) for kind, _, code in counts})
    assert tables
    rows = [row.split(",") for row in as_csv(*estimated.group_view(COUNTY, "1002", RELEASED).table()).splitlines()]
    assert rows[0][-2:] == ["ESTIMATE", "ESTIMATE_MOE"]
    both = [(int(row[rows[0].index("COUNT")]), int(row[-2])) for row in rows[1:] if row[-2]]
    assert both
    assert all(estimate == count + 1 for count, estimate in both)
    text = das(copy, "--region", "COUNTY/01001", "--iteration", "1002")
    assert text.count("estimate") >= 3  # of the total, by sex and age, of the groups around it
    assert "estimate" not in das(released, "--region", "COUNTY/01001", "--iteration", "1002")
    with serving(copy) as page:
        text = get(page, "/?view=group/COUNTY/01001/1002")[2]
        assert "<strong>Estimate " in text
        assert 'class="estimate"' in text
        assert "table/estimates-t1-county-1" in get(page, "/?view=code/ITERATION_CODE/1002&format=json")[2] or text


def test_a_state_or_a_level_alone_says_the_same_of_what_it_holds(released, release):
    state, level = (open_release(released, Scope.named(name)) for name in ("Alabama", "county-2"))
    assert {region.id[:2] for region in state.regions if region.type != "USA"} == {"01"}
    assert {region.type for region in level.regions} == {"COUNTY"}
    for code in list(release.iterations)[::3]:
        assert state.group_view(COUNTY, code, RELEASED) == release.group_view(COUNTY, code, RELEASED)
        if release.iterations[code].level == 2:
            assert level.group(COUNTY, code, RELEASED).count == release.group(COUNTY, code, RELEASED).count
    assert state.group_view(Region("USA", "1"), "1002", RELEASED).inside == []  # the other states are not there


def test_names_and_codes_find_regions_and_iterations(release):
    index = release.index
    assert index.region("Alabama") == STATE
    assert index.region("county/01001") == index.region("01001") == COUNTY
    assert index.code("iteration 2001") == index.code("2001") == Code("ITERATION_CODE", "2001")
    for text in ("Iteration 1002, Alabama", "how many iteration 1002 in Alabama", "alabama 1002"):
        (groups,) = release.find(text, RELEASED).kinds
        ((address, count),) = ((one.address, one.count) for one in groups.first)
        assert address == "group/STATE/01/1002"
        assert count.startswith(f"{release.group(STATE, '1002', RELEASED).count:,} ± ")
    assert [kind.total for kind in release.find("nobody in Alabama", RELEASED).kinds] == [0, 0]
    (many,) = release.find("iteration tract 01001", RELEASED).kinds
    assert many.total == len(index.codes_named("iteration")) * len(index.regions_named("tract 01001"))
    assert 0 < len(many.first) < many.total
    assert {region.id[:2] for region in index.regions_named("tract alab")} == {"01"}
    for text, said in (("Atlantis", "no region matches"), ("county", "several regions match")):
        with pytest.raises(NotThere, match=said):
            index.region(text)


def test_the_iteration_of_a_name_comes_before_others_with_that_word():
    names = {"1705": "Cherokee Alabama alone", "1706": "Cherokee alone", "2907": "Cherokee Nation alone"}
    names |= {"2908": "Cherokee alone or in any combination"}
    index = Index({}, {Code("ITERATION_CODE", code): name for code, name in names.items()})
    assert [one.code for one in index.codes_named("cherokee")] == ["1706", "2908", "1705", "2907"]
    assert [one.code for one in index.codes_named("Cherokee alone")] == ["1706"]


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_release_has_the_names_of_2020_and_those_that_its_geography_has(released, tmp_path):
    names = dict(line.split("|")[1:] for line in (released / "names.csv").read_text().splitlines()[1:])
    assert names["01001"] == "Autauga County"
    assert names["0100500"] == "Añasco town"  # of a file: without what would steer a terminal
    assert "names.csv" in json.loads((released / "manifest.json").read_text())["files"]
    title = json.loads(das(released, "--region", "anasco", "--iteration", "1002", "--json"))["title"]
    assert title == "Iteration 1002, Añasco town"
    assert "Autauga County" in das(released, "--region", "Autauga", "--format", "csv")
    copy = Path(shutil.copytree(released, tmp_path / "copy"))
    with (copy / "names.csv").open("a") as file:
        file.write("COUNTY|01001|Elsewhere\n")
    (found,) = NAMES.check(copy, {"names.csv": ""})
    assert found.faults == ("1 lines are not a region's only line, with a name",)
    assert json.loads(das(copy, "--json"))["changed"] == ["names.csv was changed"]


def test_margins_are_told_at_any_confidence_by_their_exact_laws(released, release):
    usual = [release.group_view(one, "1002", RELEASED) for one in (STATE, COUNTY)]
    for before in usual:
        group = before.group
        after = release.group_view(Region(*group.parts[:2]), "1002", Confidence("90"))
        law, cells = read_law(group.noise), group.noise["cells"]
        assert after.group.margin == margin_of_error(law, cells, Fraction(1, 10)) < group.margin
        for one, other in zip(before.pyramid.rows(), after.pyramid.rows(), strict=True):
            of = cells // 2 if one.label == "all ages" else 1
            assert one.male.margin == margin_of_error(law, of)
            assert other.male.margin == margin_of_error(law, of, Fraction(1, 10))
        assert "at least 90 of 100 runs" in after.reading
    columns, *_ = das(released, "--region", "Alabama", "--format", "csv", "--confidence", "99.5").splitlines()
    assert "MOE_99.5" in columns.split(",")
    for text in ("49", "100", "ninety", "1/2"):
        with pytest.raises(Refused, match="is not a confidence from 50"):
            das(released, "--region", "Alabama", "--confidence", text)


def test_a_page_keeps_its_confidence(page):
    _, _, text = get(page, "/?view=group/STATE/01/1002&confidence=90")
    assert "Whiskers are the 90% margins" in text
    links = re.findall(r'<a [^>]*href="([?][^"]*)"', text)
    assert links
    assert all("confidence=90" in link for link in links if "confidence=95" not in link)
    assert text.count('name="confidence" value="90"') == text.count('method="get"') == 1
    assert '"confidence":"90"' in get(page, "/?view=group/STATE/01/1002&confidence=90&format=json")[2]
    assert get(page, "/?view=overview&confidence=49")[0] == 404


def test_all_regions_of_an_iteration_with_all_ages_are_taken_away_at_once(page, released):
    text = get(page, "/?view=group/STATE/01/1002")[2]
    assert "?view=table/t1-county-1&amp;by_ITERATION_CODE=1002&amp;by_REGION_ID=01*" in text
    address = "/?view=table/t2-county-1&by_ITERATION_CODE=1002&by_REGION_ID=01*"
    assert "?view=table/t2-county-1&amp;by_ITERATION_CODE=1002&amp;by_REGION_ID=01*" in text
    header, *rows = csv.reader(get(page, address + "&format=csv")[2].splitlines())
    names = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX", "COUNT")
    shown = sorted(tuple(row[header.index(name)] for name in names) for row in rows)
    expected = [row for row in read_release(released, "t2") if row[0][:2] == "01" and row[1:3] == ("COUNTY", "1002")]
    assert [row for row in shown if row[-1]] == sorted(map(tuple, expected)) != []
    with urlopen(f"{page}{address[1:]}&format=xlsx") as answer:
        content = io.BytesIO(answer.read())
    assert 'filename="table-t2-county-1.xlsx"' in answer.headers["content-disposition"]
    data = openpyxl.load_workbook(content)["data"]  # on paper: all columns on a page, their names on every page
    assert (data.page_setup.orientation, data.page_setup.fitToHeight, data.print_title_rows) == (
        "landscape",
        0,
        "$1:$1",
    )
    book = openpyxl.load_workbook(content, read_only=True)
    lines = book["data"].iter_rows(values_only=True)
    assert [["" if cell is None else str(cell) for cell in line] for line in lines] == [header, *rows]
    about = dict(book["about"].iter_rows(values_only=True))
    assert about["margins (MOE)"] == "at 95% confidence"
    assert about["mark 1"].startswith("SYNTHETIC")
    assert about["view"] == "Iteration 1002: counties of Alabama"
    assert about["table"] == "Sex by age of population groups: County, Regional"


@pytest.mark.ci
def test_regions_without_a_count_are_taken_away_with_the_reason(page, release, counts):
    """Of one iteration every listed region is in the file, and a region with a total alone is not called suppressed."""
    kinds = Counter()
    for code, name, kind in product([*ITERATIONS][1::3], ("t1", "t2"), ("STATE", "COUNTY", "TRACT")):
        table = f"{name}-{kind.lower()}-{ITERATIONS[code][1]}"
        rows = list(
            csv.DictReader(get(page, f"/?view=table/{table}&by_ITERATION_CODE={code}&format=csv")[2].splitlines())
        )
        assert {row["REGION_ID"] for row in rows} == {one.id for one in release.regions if one.type == kind}
        for row in rows:
            region = Region(kind, row["REGION_ID"])
            group = release.group(region, code, RELEASED)
            alone = name == "t2" and group.shape == "total"
            assert row["STATUS"] == ("with a total alone" if alone else group.status)
            assert (row["COUNT"] == "") == (row["STATUS"] != "published") == bool(row["WHY"])
            assert row["REGION_ID_NAME"] == release.names.get(region, "")
            kinds[row["STATUS"]] += 1
    assert kinds.keys() == {"published", "suppressed", "not tabulated", "with a total alone"}
    code = next(code for code in ITERATIONS if release.group(TWIN, code, RELEASED).status == "suppressed")
    text = get(page, f"/?view=code/ITERATION_CODE/{code}")[2]
    assert re.search(rf"\d suppressed: [^(]*{release.name(TWIN)}[^(]* \(a noisy total of at most \d+\)", text)


def test_totals_say_which_groups_have_ages_and_from_which_size(release, counts):
    for region in (STATE, COUNTY):
        view = release.view({"view": f"region/{region.key}"})
        for table in view.tables:
            at = [column.name for column in table.columns].index("ITERATION_CODE")
            groups = [release.group(region, row[at], RELEASED) for row in table.page.rows]
            cells = {"total": "none", "sex by 4 ages": "4", "sex by 9 ages": "9", "sex by 23 ages": "23"}
            assert table.ages == [cells[group.shape] for group in groups]
            alone = table.ages.count("none")
            assert table.about_ages.startswith(f"{alone} of {len(groups)} groups have a total alone" if alone else "")
    columns, rows = view.table()
    assert {row[columns.index("AGES")] for row in rows} <= {"none", "4", "9", "23"}


def test_a_name_that_two_have_leads_to_either(page, released, tmp_path):
    text = get(page, "/?view=table/t1-county-1&by_ITERATION_CODE=iteration")[2]
    assert "<h1>Which of these?</h1>" in text
    assert "?view=table/t1-county-1&amp;by_ITERATION_CODE=1002" in text
    with pytest.raises(Refused, match=r"of one, as `das show .* --region COUNTY/01001 --iteration 1002` or `das show"):
        show_command(released, region="county", iteration="1002")


def test_a_region_has_a_page_of_every_iteration_also_of_one_without_a_row_there(release):
    for region in sorted(release.regions)[::20]:
        views = [
            release.view({"view": f"region/{region.key}", "by_ITERATION_CODE": code}) for code in release.iterations
        ]
        assert all(view.code == region.id for view in views)


def test_iterations_are_browsed_by_the_regional_one_that_has_all_their_codes(release):
    codes = {row[0]: (row[2] if len(row) == 6 else "", set(row[-1].split())) for row in (*RACE, *ETHNICITY)}
    view = release.view({"view": "iterations"})
    assert [heading for heading, *_ in view.kinds] == ["Alone", "Alone or in any combination", "Hispanic or Latino"]
    listed = {(above.code, one.code) for _, regional, _ in view.kinds for above, below in regional for one in below}
    assert listed == {
        (above, below)
        for above in ("1001", "1002", "1003", "1004", "3001")
        for below in set(codes) - {"0001", "0002", "3000", above}
        if codes[above][0] == codes[below][0] and codes[below][1] <= codes[above][1]
    }
    around = [dict(release.view({"view": f"code/ITERATION_CODE/{code}"}).around) for code in ("2001", "3001")]
    assert ("Iteration 1001", "code/ITERATION_CODE/1001") in around[0]["In"]
    assert [words for words, _ in around[1]["2 Detailed iterations in it"]] == ["Iteration 3002", "Iteration 3003"]


def test_a_place_is_not_corrected_into_a_tribe():
    words = Vocabulary(["Graton Rancheria alone", "Providence", "Teton"])
    assert (words.corrected("Cranston"), words.corrected("Tiverton"), words.corrected("provdence")) == (
        "",
        "",
        "providence",
    )


def test_a_typing_error_finds_the_nearest_name_and_says_so(release):
    found = release.find("Autagua", RELEASED)
    assert (found.nearest, found.kinds[0].first[0].name) == ("autauga", "Autauga County")
    ((group,),) = (kind.first for kind in release.find("iteration 1002 in Albama", RELEASED).kinds)
    assert group.address == "group/STATE/01/1002"
    assert release.find("iteration 1002 in Albama", RELEASED).nearest == "iteration 1002 alabama"
    assert release.find("Xyzzyx", RELEASED).nearest == ""
    with pytest.raises(NotThere, match=r"no region matches 'Autagua'; nearest: COUNTY/01001 Autauga County$"):
        release.index.region("Autagua")


# -- over HTTP --------------------------------------------------------------------------------------------------------


def get(page: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Ask for a path below the page as it stands, as one who has been let in."""
    place = urlsplit(page)
    with closing(http.client.HTTPConnection(place.netloc)) as connection:
        connection.request("GET", place.path.rstrip("/") + path, headers=entered(page) | headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def test_only_this_machine_s_names_are_answered(page):
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert get(page, "/", Host=host)[0] == 400
    port = urlsplit(page).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert get(page, "/", Host=host)[0] == 200


def test_no_path_leads_to_a_file(page, released):
    for path in (
        "/manifest.json",
        "/static/../manifest.json",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/parquet/t1/usa-1.parquet",
        "//etc/passwd",
        "/static/find.js",
    ):
        assert get(page, path)[0] == 404
    assert get(page, "/report.html")[2] == (released / "report.html").read_text()


def test_what_is_asked_is_text_to_the_page(page):
    script = "<script>alert(1)</script>"
    for view in (f"find&q={quote(script)}", quote(f"region/COUNTY/{script}"), quote(script)):
        status, headers, text = get(page, f"/?view={view}")
        assert status in (200, 404)
        assert script not in text
        assert "script-src" not in headers["content-security-policy"]  # none at all
        assert headers["content-security-policy"].startswith("default-src 'none'")
    for query in ("region/COUNTY/01001&page=-1", "region/COUNTY/01001&page=99999999999", "group/COUNTY/01001/'--"):
        assert get(page, f"/?view={quote(query, safe='/&=')}")[0] in (200, 404)


def test_every_view_is_there_as_data_and_as_csv(page, released, counts):
    with urlopen(f"{page}?view=region/COUNTY/01001&format=csv") as answer:
        assert answer.headers["content-disposition"] == 'attachment; filename="region-COUNTY-01001.csv"'
        header, *rows = answer.read().decode().splitlines()
    assert header.startswith("TABLE,REGION_ID,REGION_ID_NAME,REGION_TYPE,REGION_TYPE_NAME,ITERATION_CODE,")
    assert header.endswith(",COUNT,MOE,AGES")
    expected = {code: count for (kind, region, code), count in counts.items() if (kind, region) == ("COUNTY", "01001")}
    rows = csv.DictReader([header, *rows])
    assert {row["ITERATION_CODE"]: int(row["COUNT"]) for row in rows} == expected
    with urlopen(f"{page}?view=group/COUNTY/01001/1002&format=json") as answer:
        result = json.load(answer)
    assert result == json.loads(das(released, "--region", "COUNTY/01001", "--iteration", "1002", "--json"))
    assert result["group"]["count"] == expected["1002"]


# -- in the terminal --------------------------------------------------------------------------------------------------


def test_the_terminal_has_the_same_views(released, release, counts):
    text = das(released, "--region", "Alabama", "--iteration", "1002")
    assert f"{counts['STATE', '01', '1002']:,}" in text
    assert "not the errors of the census itself" in text.replace("\n", " ")
    assert "SYNTHETIC" in text
    assert "Iteration 1002, Alabama" in text
    assert "all ages" in text
    assert text.count("─\n") == 1  # one table
    for words in (["--region", "Alabama"], ["--iteration", "1002"]):
        assert len(das(released, *words).splitlines()) > 6
    code = next(code for code in ITERATIONS if release.group(TWIN, code, RELEASED).status == "suppressed")
    folded = " ".join(das(released, "--iteration", code).split())
    assert re.search(r"\d suppressed: [^(]* \(a noisy total of at most \d+\)\.", folded)
    assert "Suppressed:" not in folded
    header, *lines = das(released, "--region", "Alabama", "--format", "csv").splitlines()
    assert header.startswith("TABLE,REGION_ID,REGION_ID_NAME,REGION_TYPE,")
    rows = csv.DictReader([header, *lines])
    assert {row["ITERATION_CODE"]: int(row["COUNT"]) for row in rows} == {
        code: count for (kind, region, code), count in counts.items() if (kind, region) == ("STATE", "01")
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--region", "Atlantis"], "no region matches 'Atlantis'$"),
        (["--iteration", "Klingon"], r"no iteration matches 'Klingon'; it has \d+, among them: 1\d\d\d \w+"),
        (
            ["--region", "county", "--iteration", "1002"],
            "several regions match 'county': COUNTY/01001.*; give the code of one, as",
        ),
        (["--scope", "Narnia"], "neither a state"),
    ],
)
def test_names_that_nobody_has_are_refused(released, words, said):
    with pytest.raises(Refused, match=said):
        das(released, *words)


def test_folders_that_are_no_release_are_refused(tmp_path, released):
    with pytest.raises(Refused, match="it is not a release"):
        das(tmp_path, "--json")
    shutil.copytree(released, tmp_path / "out/us")
    with pytest.raises(Refused, match="holds releases but is not one itself; name one of them: us"):
        das(tmp_path / "out", "--json")
    (tmp_path / "manifest.json").write_text('{"release": 1}')
    with pytest.raises(Refused, match="is not the manifest of a release"):
        das(tmp_path, "--json")
    manifest = json.loads((released / "manifest.json").read_text()) | {"release": "A new kind"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(Refused, match="does not know: A new kind"):
        das(tmp_path, "--json")
    with pytest.raises(Refused, match="File name too long"):
        require_release(Path("x" * 5000))


def test_a_changed_release_says_so_loudly(tmp_path, released):
    copy = tmp_path / "copy"
    shutil.copytree(released, copy)
    (copy / "t1/usa-1.csv").write_text("REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n")
    (copy / "report.html").unlink()
    said = CliRunner().invoke(app, ["show", str(copy), "--region", "Alabama"])
    assert "THIS RELEASE WAS CHANGED after it was made" in said.output
    result = json.loads(das(copy, "--json"))["changed"]
    assert result == ["report.html is missing", "t1/usa-1.csv was changed"]
    with serving(copy) as address:
        with urlopen(f"{address}?view=group/STATE/01/1002") as answer:
            assert "THIS RELEASE WAS CHANGED" in answer.read().decode()
        with pytest.raises(HTTPError):
            urlopen(f"{address}report.html")


@pytest.mark.parametrize("name", ["parquet/t1/usa-1.parquet", "parquet/t2/county-2.parquet", "tabulated/regions.csv"])
def test_a_release_that_lost_a_file_is_refused(tmp_path, released, name):
    copy = tmp_path / "copy"
    shutil.copytree(released, copy)
    if name.endswith("parquet"):
        (copy / name).write_bytes(b"PAR1")
        with pytest.raises(Refused, match="cannot be read"):
            das(copy, "--json")
    (copy / name).unlink()
    with pytest.raises(Refused, match=f"{name} is missing"):
        das(copy, "--json")


def test_a_port_in_use_is_refused(released):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Refused, match="cannot be used"):
            das(released, "--port", taken.getsockname()[1], "--no-browser")


def test_exact_counts_are_shown_as_such(tmp_path):
    place = truth_here(tmp_path, *inputs().write(tmp_path))
    result = json.loads(das(place, "--region", "Alabama", "--iteration", "1002", "--json"))
    assert (result["group"]["margin"], result["group"]["noise"]) == (0, None)
    assert result["reading"].startswith("These are exact counts")
    assert "NOT PRIVATE" in das(place, "--region", "Alabama")
    with err.capture() as said:
        das(place, "--export", tmp_path / "copy", "--scope", "usa-1")
    assert ("open" in said.get(), "web server" in said.get()) == (True, False)
    assert (tmp_path / "copy").stat().st_mode & 0o77 == 0


def test_a_copy_reads_each_table_once(tmp_path, released, monkeypatch):
    asked, parse = Counter(), ReleaseDatabase._parse

    def counted(self, query, given):
        asked[query] += "read_parquet" in query or "read_csv" in query
        return parse(self, query, given)

    monkeypatch.setattr(ReleaseDatabase, "_parse", counted)
    das(released, "--export", tmp_path / "copy", "--scope", "usa-1")
    of_files = {query: times for query, times in asked.items() if times}
    assert of_files
    assert all(query.startswith("CREATE TABLE") and times == 1 for query, times in of_files.items())


def test_a_copy_goes_into_a_new_folder(tmp_path, released):
    das(released, "--export", tmp_path / "copy", "--scope", "usa-1")
    assert (tmp_path / "copy/index.html").is_file()
    with pytest.raises(Refused, match="is not empty"):
        das(released, "--export", tmp_path / "copy")
