"""The pages that every release has by its description: tables, found, filtered, sorted, summed, mapped, taken away."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl, quote

import pandas as pd
import pytest
from declarations import BASE, declared
from dhca_inputs import truth_here
from show_release import inputs, serving, with_estimates

from flows.commands.show import open_release
from flows.reports.show import database, rendering
from flows.reports.show.maps.view import MapView
from flows.reports.show.margins import most_cells
from flows.reports.show.scope import Scope
from flows.reports.show.tables import table
from flows.reports.show.tables.table import DEPENDENT, UNKNOWN, Selection, Sum
from flows.reports.show.tables.views import TableList, without_noise
from flows.reports.show.view import RELEASED, NotThere, refusing_malformed
from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from tasks.errors import Refused
from tasks.releases.datapackage import PACKAGE_FILE
from tasks.releases.pages import number
from tasks.top_down.declared.explain import declared_unchanged
from tests.flows.conftest import bottom_up, printed
from tests.flows.test_description import hostile, package_of
from tests.flows.test_show import das, get


def view(release: Path, address: str, **asked: str) -> Any:
    return open_release(release).view({"view": address, **asked})


def test_every_release_lists_its_tables(released: Path, top_down_released: Path, bottom_up_released: Path) -> None:
    for release, name in (
        (released, "t2-county-2"),
        (top_down_released, "histograms-persons-state"),
        (bottom_up_released, "by-sex"),
    ):
        listed = view(release, "tables")
        assert isinstance(listed, TableList)
        names = [table.name for table in listed.tables]
        assert name in names
        assert not any(one.endswith("-text") for one in names)  # the Parquet has the same rows, and margins
        (found,) = [table for table in listed.tables if table.name == name]
        assert found.rows == view(release, f"table/{name}").page.total
    found = view(released, "tables", q="sex tract detailed").tables
    assert [table.name for table in found] == ["t2-tract-2"]


def test_the_first_page_of_every_release_is_a_picture_and_a_search_box(
    released: Path, top_down_released: Path, bottom_up_released: Path
) -> None:
    """Its points are the largest counts of the table that it names; prose is folded, codes are explained."""
    for release, explained in (
        (released, {"AIANNH", "Regional", "Detailed"}),
        (top_down_released, {"spine", "declared"}),
        (bottom_up_released, set()),
    ):
        pages = open_release(release)
        shown = pages.view({"view": "overview"})
        chart, address = shown.picture.chart, shown.picture.address
        table = pages.view(dict(parse_qsl(f"view={address}")))
        at = next(at for at, column in enumerate(table.columns) if column.role == "count")
        largest = [number(row[at]) for row in table.page.rows[: len(chart["rows"])]]
        assert [row["note"] for row in chart["rows"]] == largest
        about = pages.about(RELEASED) | {"finds": pages.finds}
        text = rendering.html(shown, about, "?view=overview", "x.csv")
        opened, _, folded = text.partition("<details>")
        assert 'type="search" size="28"' in opened
        assert '<svg class="dots"' in opened
        assert 'class="reading"' not in opened
        assert not shown.reading or 'class="reading"' in folded
        assert {word for word in explained if f"<dt>{word}</dt>" in text} == explained


def test_rows_are_filtered_by_codes_and_words_found_and_sorted(released: Path) -> None:
    rows = pd.read_parquet(released / "parquet/t2/county-2.parquet")
    of_2001 = rows.ITERATION_CODE == "2001"
    for asked, expected in (
        ({}, rows),
        ({"by_SEX": "2"}, rows[rows.SEX == "2"]),
        ({"by_SEX": "female"}, rows[rows.SEX == "2"]),
        ({"by_REGION_ID": "autauga county"}, rows[rows.REGION_ID == "01001"]),
        ({"by_REGION_ID": "02*"}, rows[rows.REGION_ID.str[:2] == "02"]),
        (
            {"by_ITERATION_CODE": "2001", "by_AGESTART": "*"},
            rows[of_2001 & (rows.AGESTART == "*")],
        ),
        ({"by_SEX": "female,1"}, rows),
        ({"q": "autauga"}, rows[rows.REGION_ID == "01001"]),
        ({"q": "female autauga"}, rows[(rows.REGION_ID == "01001") & (rows.SEX == "2")]),
        ({"q": "Iteration 2002"}, rows[rows.ITERATION_CODE == "2002"]),
        ({"q": "1' OR '1'='1"}, rows[:0]),
    ):
        found = view(released, "table/t2-county-2", format="csv", **asked)
        assert sorted(map(tuple, found.page.rows)) == sorted(expected.itertuples(index=False, name=None)), asked
    for words, message in (
        ("1' OR '1'='1", "no iteration matches"),
        ("no such", "no iteration matches 'no such'"),
        ("Iteration", "several iterations match 'Iteration'"),
    ):
        with pytest.raises(NotThere, match=message):
            view(released, "table/t2-county-2", by_ITERATION_CODE=words)
    counts = [row[6] for row in view(released, "table/t2-county-2", sort="COUNT").page.rows]
    assert counts == sorted(rows.COUNT)[:100]
    assert [row[6] for row in view(released, "table/t2-county-2").page.rows] == sorted(rows.COUNT, reverse=True)[:100]
    regions = [row[0] for row in view(released, "table/t2-county-2", sort="-REGION_ID").page.rows]
    assert regions == sorted(rows.REGION_ID, reverse=True)[:100]


def test_a_sum_has_the_margin_of_the_law_of_the_sum(released: Path, bottom_up_released: Path) -> None:
    """The cells of a group sum to its total with the total's margin; cells of a histogram to those of a marginal."""
    totals = pd.read_parquet(released / "parquet/t1/county-2.parquet")
    with_cells = pd.read_parquet(released / "parquet/t2/county-2.parquet")[
        ["REGION_ID", "ITERATION_CODE"]
    ].drop_duplicates()
    group = totals.merge(with_cells).iloc[0]
    by = {"by_REGION_ID": group.REGION_ID, "by_ITERATION_CODE": group.ITERATION_CODE}
    cells = view(released, "table/t2-county-2", **by)
    assert (cells.sum.total, cells.sum.margin) == (group.COUNT, group.MOE)
    assert cells.sum.rows == cells.page.total - 2  # the sums of both sexes are left out
    assert f"± {group.MOE}, by the law of the sum" in cells.summed
    both = view(released, "table/t2-county-2", by_AGESTART="*", **by)
    assert (both.sum.rows, both.sum.total, both.sum.margin) == (2, group.COUNT, group.MOE)
    for sex, count, margin in pd.read_parquet(bottom_up_released / "parquet/by-sex.parquet").itertuples(index=False):
        assert view(bottom_up_released, "table/histogram", by_SEX=sex).sum == Sum(4, count, margin)
    (total,) = pd.read_parquet(bottom_up_released / "parquet/total.parquet").itertuples(index=False)
    assert view(bottom_up_released, "table/by-sex").sum == Sum(2, *total)


def test_a_sum_without_a_known_law_says_so(released: Path, top_down_released: Path, tmp_path: Path) -> None:
    everybody = view(released, "table/t1-county-2")
    assert (everybody.sum, everybody.summed) == (
        None,
        "Not summed: a record counts in several rows: choose one Iteration.",
    )
    clipped = view(bottom_up(tmp_path, clip=True), "table/histogram").sum
    assert (clipped.margin, clipped.why) == (None, DEPENDENT)
    histogram = view(top_down_released, "table/histograms-persons-tabulation-county")
    assert (histogram.sum.margin, histogram.sum.why) == (None, UNKNOWN)
    assert histogram.summed.endswith(f"; {UNKNOWN}.")


def test_a_sum_of_exact_counts_is_exact(tmp_path: Path) -> None:
    place = truth_here(tmp_path, *inputs().write(tmp_path))
    shown = view(place, "table/t1-county-2", by_ITERATION_CODE="2001")
    assert (shown.sum.margin, shown.sum.why) == (None, "")
    assert shown.reading.startswith("These are exact counts")


@pytest.mark.parametrize("cells", [1, 2, 3, 46, 1000])
def test_the_draws_of_a_row_follow_from_its_margin(cells: int) -> None:
    noise = law("puredp", 1, 2)
    margin = margin_of_error(noise, cells)
    most = most_cells(noise, margin)
    assert margin_of_error(noise, most) == margin < margin_of_error(noise, most + 1)
    assert most >= cells
    assert most_cells(noise, margin_of_error(noise) - 1) == 0


def test_codes_have_the_words_of_what_they_refer_to(released: Path, top_down_released: Path) -> None:
    shown = view(released, "table/t1-county-2")
    assert shown.words["REGION_ID"]["01001"] == "Autauga County"
    assert shown.words["ITERATION_CODE"]["2001"] == "Iteration 2001"
    cells = view(top_down_released, "table/histograms-persons-tabulation-county", format="csv")
    assert cells.words["cell"]["126"] == "households, 18 and over, not Hispanic, White alone"
    columns, rows = cells.table()
    assert columns == ["geounit", "geounit_NAME", "cell", "cell_NAME", "count"]
    assert all(row[3] for row in rows)
    assert {row[1] for row in rows if row[0] == "23001"} == {"Androscoggin County"}


def test_a_table_with_points_has_a_map_of_its_sums(released: Path) -> None:
    shown = view(released, "table/t1-county-2", by_ITERATION_CODE="2001")
    assert shown.map == "table-map/t1-county-2&by_ITERATION_CODE=2001"
    assert view(released, "table/t1-county-2").map == ""  # of all iterations there is no map
    map_of = view(released, "table-map/t1-county-2", by_ITERATION_CODE="2001")
    assert isinstance(map_of, MapView)
    rows = pd.read_parquet(released / "parquet/t1/county-2.parquet")
    expected = rows[rows.ITERATION_CODE == "2001"].set_index("REGION_ID")
    assert {row.id: (row.count, row.margin) for row in map_of.page.rows if row.count is not None} == {
        code: (row.COUNT, row.MOE) for code, row in expected.iterrows()
    }
    assert {row.id for row in map_of.page.rows} == {"01001", "01003", "02001"}  # a county without a row, too
    assert map_of.drawing.symbols
    assert {row.address for row in map_of.page.rows} == {f"group/COUNTY/{row.id}/2001" for row in map_of.page.rows}
    with pytest.raises(NotThere, match="choose one Iteration"):
        view(released, "table-map/t1-county-2")
    with pytest.raises(NotThere, match="no regions that a map can show"):
        view(released, "table-map/tabulated-iterations")


def test_a_region_and_a_named_code_have_their_rows_in_all_tables(released: Path, bottom_up_released: Path) -> None:
    shown = view(released, "region/COUNTY/01001")
    assert [one.name for one in shown.tables] == ["t1-county-1", "t1-county-2"]
    assert (
        "Sex by age of population groups: County, Detailed",
        "table/t2-county-2&by_REGION_ID=01001&by_REGION_TYPE=COUNTY",
    ) in shown.others
    rows = pd.read_parquet(released / "parquet/t1/county-2.parquet")
    assert shown.tables[1].page.total == sum(rows.REGION_ID == "01001")
    around = dict(shown.around)
    assert around["In"] == [("Alabama", "region/STATE/01"), ("United States", "region/USA/1")]
    assert ("Tract 01001000100", "region/TRACT/01001000100") in around["2 tracts within it"]
    assert around_of_state(released)["Maps"]  # of the largest group, in the counties
    code = view(released, "code/ITERATION_CODE/2001")
    assert {one.name for one in code.tables} >= {"t1-county-2", "t1-tract-2"}
    assert {row[2] for one in code.tables for row in one.page.rows} == {"2001"}
    county = view(bottom_up_released, "region/COUNTY/44003")
    assert [one.name for one in county.tables] == ["histogram"]
    (found,) = view(bottom_up_released, "find", q="kent").kinds
    assert [one.address for one in found.first] == ["region/COUNTY/44003"]
    with pytest.raises(NotThere, match="is not a region of this release"):
        view(released, "region/COUNTY/99999")


def around_of_state(release: Path) -> dict[str, Any]:
    return dict(view(release, "region/STATE/01").around)


def test_a_histogram_has_a_table_of_its_named_counts(top_down_released: Path) -> None:
    name = "histograms-persons-tabulation-county"
    cells = pd.read_parquet(top_down_released / "histograms/persons/tabulation/County/46.parquet")
    named = pd.read_csv(top_down_released / "cells/persons-counts.csv", sep="|")
    both = cells.merge(named.rename(columns={"count": "statistic"}), on="cell")
    expected = both.groupby(["geounit", "statistic"])["count"].sum().to_dict()
    rows = view(top_down_released, f"table/{name}-counts", format="csv").page.rows
    assert {(code, of): count for code, of, count in rows if code[:2] == "46"} == expected
    with pytest.raises(NotThere, match="choose one Count of"):
        view(top_down_released, f"table-map/{name}-counts")


def test_the_terminal_prints_any_table(released: Path, top_down_released: Path) -> None:
    text = printed("show", released, "--table", "t1-usa-1")
    assert "Not summed: a record counts in several rows" in text
    assert printed("show", released, "--table", "tabulated-iterations", "--format", "csv").count("\n") > 10
    assert "Blocks" in printed("show", top_down_released, "--table", "measurements-blocks")
    with pytest.raises(Refused, match="'nothing' is not a table of this release; nearest: "):
        das(released, "--table", "nothing")


@pytest.mark.ci
def test_a_description_that_somebody_changed_is_shown_or_refused(bottom_up_released: Path, tmp_path: Path) -> None:
    release = Path(shutil.copytree(bottom_up_released, tmp_path / "release"))
    shown = 0
    for changed in islice(hostile(package_of(release)), 0, None, 5):
        (release / PACKAGE_FILE).write_text(json.dumps(changed))
        try:
            with refusing_malformed(release):
                pages = open_release(release)
                for asked in (
                    {"view": "overview"},
                    {"view": "table/histogram", "by_SEX": "2", "q": "x", "sort": "-COUNT"},
                ):
                    rendering.html(pages.view(asked), pages.about(RELEASED), "?view=overview", "")
        except (Refused, NotThere):
            continue
        shown += 1
    assert shown > 5


def test_a_page_explains_its_columns(page: str) -> None:
    text = get(page, "/?view=table/t2-county-2&by_SEX=2")[2]
    assert "the margin of error at 95% of the noise in the count" in text
    assert '<option value="2" selected>female</option>' in text
    assert get(page, "/?view=overview")[2].count('href="?view=tables"') == 1


def test_a_bottom_up_release_has_the_names_of_its_regions(bottom_up_released):
    names = [line.split("|")[1:] for line in (bottom_up_released / "names.csv").read_text().splitlines()[1:]]
    assert ["45001", "Abbeville"] in names  # next to the domain; the others are the program's
    assert [code for code, _ in names] == ["44001", "44003", "45001", "44", "45", "46"]
    with serving(bottom_up_released) as page:
        _, _, rows = get(page, "/?view=table/histogram&by_COUNTY=kent%20county&sort=SEX&format=csv")
        assert [row.split(",")[:2] for row in rows.splitlines()] == [["COUNTY", "COUNTY_NAME"]] + [
            ["44003", "Kent County"]
        ] * 2
        assert 'Abbeville</a> <span class="code">45001</span>' in get(page, "/?view=table/histogram")[2]


def test_a_copy_says_why_a_long_table_has_no_page(histogram, monkeypatch):
    monkeypatch.setattr("flows.reports.show.tables.views.MOST_COPIED", 599)
    das(histogram, "--export", str(histogram.with_name("short")))
    assert not (histogram.with_name("short") / "table-histogram.html").exists()
    assert "Tables without a link have too many rows" in (histogram.with_name("short") / "index.html").read_text()


def test_a_bottom_up_release_is_shown_by_its_margins(histogram):
    result = json.loads(das(histogram, "--json"))
    assert [(table["name"], table["rows"]) for table in result["tables"]] == [("histogram", 600), ("total", 1)]
    assert "Negative counts were set to 0" in result["reading"]
    das(histogram, "--export", str(histogram.with_name("copy")))  # which has nothing to find
    assert not (histogram.with_name("copy") / "find.html").exists()
    assert "without a link" not in (histogram.with_name("copy") / "index.html").read_text()
    with serving(histogram) as page:
        status, _, text = get(page, "/?view=table/histogram&by_SEX=2&page=2")
        assert (status, text.count("<tr>")) == (200, 101)
        assert "page 2 of 3" in text
        assert "198.75" in text  # the grid's quarters are not rounded away
        _, _, rows = get(page, "/?view=table/histogram&by_COUNTY=00007&format=csv")
        assert rows.splitlines() == ["COUNTY,SEX,COUNT,MOE", "00007,1,6.75,2.5", "00007,2,6.75,2.5"]
        _, _, rows = get(page, "/?view=table/histogram&format=csv")
        assert len(rows.splitlines()) == 601
        injected = quote("1' OR '1'='1")
        assert get(page, f"/?view=table/histogram&by_SEX={injected}&format=csv")[2] == "COUNTY,SEX,COUNT,MOE\n"
        for view in ("table/nothing", "table/..%2Ftotal", "table-map/histogram", "region/STATE/01"):
            assert get(page, f"/?view={view}")[0] == 404
    assert "00299" in das(histogram, "--table", "histogram")
    with pytest.raises(Refused, match="table of this release; nearest: "):
        das(histogram, "--table", "nothing")
    for words, said in (
        (["--region", "Alabama"], "no region matches 'Alabama'"),
        (["--table", "total", "--region", "Alabama"], "total has no regions: leave --region out"),
        (["--scope", "county-2"], "no tables of this"),
    ):
        with pytest.raises(Refused, match=said):
            das(histogram, *words)


CHOSEN = [{"REGION_ID": code} for code in ("01", "02", "none")]  # a code, several, words, a range
CHOSEN += [{"ITERATION_CODE": "1002"}, {"REGION_ID": "01,02", "ITERATION_CODE": "1002"}, {"REGION_ID": "0*"}, {}]


def asked_in_a_copy(released, monkeypatch, answer):
    """Compare the answers for a copy with those for pages alone; return the selections, the answers, the queries."""
    asked = open_release(released).tables["t2-state-1"]
    selections = [asked.select(by, text) for by in CHOSEN for text in ("", "alone")]
    expected = [answer(asked, selection) for selection in selections]
    asked.database.copies = True
    queries = Mock(side_effect=asked.database.ask)
    monkeypatch.setattr(asked.database, "ask", queries)
    assert [answer(asked, selection) for selection in selections] == expected
    return selections, expected, [call.args[0] for call in queries.call_args_list]


@pytest.mark.parametrize("most", [database.MOST_ROWS_GROUPED, 1])
def test_a_copy_asks_for_the_rows_of_all_its_pages_at_once(released, monkeypatch, most):
    """Also where there are too many to keep: rows, and the regions in them."""
    monkeypatch.setattr(database, "MOST_ROWS_GROUPED", most)
    selections, _, queries = asked_in_a_copy(released, monkeypatch, lambda table, own: table.rows(own, "", slice(2, 7)))
    of_one = sum(bool(selection.codes) and not selection.several for selection in selections)
    assert of_one
    alone = len(selections) - of_one * (most > 1)
    assert sum(", * FROM" not in query for query in queries) == alone
    _, regions, queries = asked_in_a_copy(released, monkeypatch, lambda table, own: table.regions(own))
    assert max(map(len, regions)) > 1
    assert sum("DISTINCT" in query for query in queries) == alone


@pytest.mark.parametrize("most", [table.MOST_NUMBERS, 1])
def test_a_copy_counts_the_rows_of_all_its_pages_at_once(released, monkeypatch, most):
    """Also where there are too many codes to keep, or a text is sought."""
    monkeypatch.setattr(table, "MOST_NUMBERS", most)
    selections, numbers, queries = asked_in_a_copy(released, monkeypatch, lambda table, own: table.number(own))
    assert any(numbers)
    by_codes = sum("GROUP BY ALL" in query for query in queries)
    of_codes = sum(bool(selection.codes) for selection in selections)
    assert by_codes == 3  # by region, by iteration, by both
    assert len(queries) == by_codes + len(selections) - of_codes * (most > 1)


def test_a_scope_has_the_rows_of_its_state_or_level(released, top_down_released, bottom_up_released):
    state = open_release(released, Scope.named("01")).tables
    rows = pd.read_parquet(released / "parquet/t2/county-2.parquet")
    assert state["t2-county-2"].number(Selection()) == sum(rows.REGION_ID.str[:2] == "01")
    assert state["t1-usa-1"].number(Selection()) == len(pd.read_parquet(released / "parquet/t1/usa-1.parquet")) > 0
    regions = {row[1] for row in state["tabulated-regions"].rows(Selection(), "", slice(0, 10**6))}
    assert {code[:2] for code in regions} == {"01", "1"}
    level = open_release(released, Scope.named("county-2")).tables
    assert [name for name in level if name.startswith("t")] == [
        "t1-county-2", "t2-county-2", "tabulated-regions", "tabulated-iterations", "tabulated-hierarchy",
    ]  # fmt: skip
    maine = open_release(top_down_released, Scope.named("Maine")).tables["histograms-persons-tabulation-county"]
    assert {row[0][:2] for row in maine.rows(Selection(), "", slice(0, 10**6))} == {"23"}
    (by_sex,) = [one for one in open_release(bottom_up_released, Scope.named("46")).tables if "hist" in one]
    assert by_sex == "histogram"


def test_margins_of_tables_are_told_at_any_confidence_where_their_law_is_known(released, bottom_up_released, tmp_path):
    usual = view(released, "table/t2-county-2").page.rows
    again = view(released, "table/t2-county-2", confidence="90").page.rows
    (_, *others) = view(bottom_up_released, "tables", confidence="90").tables
    rows = view(with_estimates(released, tmp_path / "copy"), "table/estimates-t2-county-2", confidence="90").page.rows
    assert {row[6] for row in rows} == {None}  # of an estimate the release has no law
    with_law = open_release(released).tables["t2-county-2"]
    for before, after in zip(usual, again, strict=True):
        law, cells = with_law._law_of(before[-1])
        assert before[:-1] == after[:-1]
        assert after[-1] == margin_of_error(law, cells, Fraction(1, 10)) <= before[-1] == margin_of_error(law, cells)
    assert all(table.least_margin is not None for table in others if table.name.startswith("by"))
    header = printed("show", released, "--table", "t1-usa-1", "--confidence", "90", "--format", "csv").splitlines()[0]
    assert "MOE_90" in header.split(",")


def test_of_a_declaration_without_figures_the_list_of_places_is_public_and_every_count_has_noise() -> None:
    bare = {"totals": [], "counts": [], "zeros": []}
    said = declared_unchanged(declared(BASE | bare))
    known = "the list of zone units, and of those on the levels above them"
    assert without_noise({"declared_unchanged": said}) == f"Public: {known}. Every count has noise."
    said = declared_unchanged(declared(BASE | bare | {"totals": BASE["totals"]}))
    assert without_noise({"declared_unchanged": said}) == (
        "Without noise, because declared: the number of persons of every region (regions.csv). "
        f"Public: {known}. Every other count has noise."
    )
    assert without_noise({}) == ""
