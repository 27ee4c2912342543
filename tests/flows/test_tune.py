"""`das tune` as a person types it: figures, overrides, files, refusals."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from functools import partial

import dhcb_inputs
import openpyxl
import pytest
from dhca_inputs import BUDGETS, Inputs, configuration, write_config

from privacy.accounting.composition import LevelBudget
from privacy.analyses.tuning import level_laws
from privacy.noise.margins import margin_of_error
from tasks.safetab.levels import named_level


@pytest.fixture
def das(das):
    """Run `das tune ARGUMENTS`; returns (exit code, stdout, stderr)."""
    return partial(das, "tune")


def json_of(das, *arguments):
    code, out, _ = das(*arguments, "--json")
    assert code == 0
    return json.loads(out)


def level(data, name):
    return next(row for row in data["levels"] if row["level"] == name)


def test_production(das):
    data = json_of(das)
    first, last = data["spent"]["relations"]
    assert (first["exact"], last["exact"]) == ("618/125", "1236/125")  # 4.944, 9.888
    assert first["epsilon_at_delta"] == pytest.approx(25.3628184, abs=1e-6)
    county = level(data, "County, Detailed")
    assert county["margins"]["count"] == 11
    assert county["margins_of_estimates"] == {"total": 10, "age4": 23, "age9": 27, "age23": 30}
    assert county["margin_by_recipe"] == 10  # floor(1.96 sigma) falls short of 95%
    assert county["sizes"] == {"total": 110, "age4": 880, "age9": 1980, "age23": 5060, "total_only": 100}
    assert county["threshold"] == 21
    assert county["suppression"][2]["suppressed"] == pytest.approx(0.535571, abs=1e-6)
    assert county["suppression"][2]["bias"] / 21 == pytest.approx(0.22877, abs=1e-5)
    assert [len(data["levels"]), list(data["trade_off"])] == [11, ["9"]]
    assert not level(data, "Nation, Detailed")["suppressible"]


def test_tables_agree_with_json(das):
    code, out, _ = das("--format", "csv")
    assert code == 0
    tables = [list(csv.reader(io.StringIO(text))) for text in out.split("\n\n")]
    assert [len(table) - 1 for table in tables] == [11, 11, 11, 7, 7, 11, 12]
    found, estimates, sizes, suppressed, bias, loss, curve = (
        {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]} for table in tables
    )
    county = "County, Detailed"
    assert (found[county]["count of step 2"], found[county]["total of 23 ages"]) == ("11", "75")
    assert (estimates[county]["23 ages, count"], estimates[county]["23 ages, estimate"]) == ("75", "30")
    assert sizes[county]["sex by 9 ages"] == "1980"
    assert suppressed[county]["n = T"] == "0.535571"
    assert bias[county]["n = T"] == "4.804"
    assert (loss[county]["rho without it"], loss[county]["epsilon at 1e-10, without it"]) == ("4.785", "24.867")
    assert curve["0.1"]["count of step 2"] == "14"


def test_own_levels_multiplicity_total_and_switches(das):
    levels = ("--level", "Nation, Detailed=2", "--level", "County, Detailed=1/2", "--level", "usa-1=1")
    data = json_of(
        das, *levels, "--race-codes", 3, "--exclude-level", "usa-1", "--total", 5, "--gamma", ".2", "--chance", ".99"
    )
    assert [row["budget"] for row in data["levels"]] == ["4", "1", "2"]
    assert [row["on"] for row in data["levels"]] == [True, True, False]
    assert {row["stability"] for row in data["levels"]} == {4}
    assert data["spent"]["charged"]["exact"] == "5"
    off = level(data, "Nation, Regional")
    assert (off["with_it"]["budget"], off["without_it"]["budget"]) == ("7", "5")


@pytest.mark.parametrize(
    ("question", "stage", "cells"),
    [
        ("County, Detailed: total of 23 ages <= 20", "stage_2", 46),
        pytest.param("county-2: T1 at age4 ≤ 20", "stage_2", 8, marks=pytest.mark.slow),
        pytest.param("(County, Detailed): step 1 total <= 33", "stage_1", 1, marks=pytest.mark.ci),
        ("USA, 1: TotalOnly total <= 3", "total_only", 1),
    ],
)
@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_solve_answers_with_the_least_budget(das, question, stage, cells, definition):
    """One less in the sixth digit misses the margin, and the table has the same margin at that budget."""
    options = ("--definition", definition, "--gamma", "1/5")
    code, out, _ = das("--solve", question, *options)
    solved = json.loads(das("--solve", question, *options, "--json")[1])
    (answer,) = (row["budget"] for row in solved["levels"])
    unit = {"zcdp": "rho", "puredp": "epsilon"}[definition]
    assert (code, out.splitlines()[:2]) == (0, [solved["asked"], f"{unit} {answer}"])
    budget, target = Fraction(answer), int(question.split()[-1])
    one_less = budget - Fraction(10) ** -len(answer.partition(".")[2])
    for at, met in ((budget, True), (one_less, False)):
        laws = level_laws(definition, LevelBudget(at, 9), Fraction(1, 5))
        assert (margin_of_error(laws[stage], cells) <= target) is met


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("total of a county, detailed, within 1,020", "County, Detailed: count of step 2 <= 1020"),
        ("total in a tribal area within 20 persons", "AIANNH, Detailed: count of step 2 <= 20"),
        ("a group of 500 in a town, regional within 10 %", "Place, Regional: count of 500 within 10 per cent"),
        ("total of 23 ages in a county, regional ± 40", "County, Regional: total of 23 ages <= 40"),
        ("500 within 10 %", "count of 500 within 10 percent"),
        ("a county's detailed count of 500 within 10%", "County, Detailed: count of 500 within 10%"),
        ("the nation’s 500 people within 5%", "500 in the country within 5 %"),
        ("a county's count of 500 within 10%", "count of 500 in a county within 10%"),
        ("500 persons in a county within 10%", "count of 500 in a county within 10%"),
        ("count of 500 in a county ± 50", "count of 500 in a county within 10%"),
        ("count of 500 within 10% in a county", "count of 500 in a county within 10%"),
    ],
)
def test_a_question_in_words_is_the_same_question(das, words, question):
    answer = das("--solve", words, "--json")
    assert answer[0] == 0
    assert answer == das("--solve", question, "--json")


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("count of 500 within 10 percent", "Every level: a count of 500 persons, margin at most 50 (10%)"),
        ("count of 500 within 10", "Every level: a count of 500 persons, margin at most 10 (2%)"),
        ("county-1: total of 23 ages within 12.5", "County, Regional: a total of 23 ages, margin at most 12"),
        (
            "a county's count of 500 within 10%",
            "County, Regional and County, Detailed: a count of 500 persons, margin at most 50 (10%)",
        ),
    ],
)
def test_the_first_line_has_what_was_understood(das, question, asked):
    assert das("--solve", question)[1].splitlines()[0] == asked


def test_the_answer_for_every_level_keeps_the_others(das):
    """A row for each level, the release with this level alone changed; the least size is held against the exact law."""
    solved = json.loads(das("--solve", "count of 500 within 10%", "--json")[1])
    assert (solved["target"], len(solved["levels"]), solved["release_now"]["budget"]) == (50, 11, "618/125")
    for row in solved["levels"]:
        others = Fraction("4.944") - Fraction(row["now"]["budget"])
        assert Fraction(row["release"]["budget"]) == others + Fraction(row["budget"])
        assert (row["margin"], row["now"]["met"]) == (50, True)
    county = level(solved, "County, Detailed")
    noise = level_laws("zcdp", LevelBudget(Fraction(county["budget"]), 9), Fraction(1, 10))["stage_2"]
    threshold, size = county["suppressed_up_to"], county["published_from"]
    assert float(noise.cdf(threshold)) >= 0.9999 > float(noise.cdf(threshold - 1))
    assert float(noise.cdf(threshold - size)) <= 0.05 < float(noise.cdf(threshold - size + 1))
    said = das("--solve", "count of 500 within 10%")[1]
    assert "meet it at every level already (margins 3 to 49, without a table by age)" in said
    assert "meet it at 6 of 11 levels already (margins 3 to 49," in das("--solve", "count of 500 within 5%")[1]


def test_the_answer_for_an_unknown_table_begins_with_both_budgets(das):
    """A group of 500 may have a table of 23 ages, whose total takes 46 times the budget of a count."""
    question = "a county's count of 500 within 10%"
    (county, _) = json.loads(das("--solve", question, "--json")[1])["levels"]
    (finest,) = json.loads(das("--solve", "County, Detailed: total of 23 ages <= 50", "--json")[1])["levels"]
    assert county["budget_with_age23"] == finest["budget"]
    _, first, second, *_ = das("--solve", question)[1].splitlines()
    assert first.startswith(
        f"rho {county['budget']} for a group without a table by age; rho {finest['budget']} for one with 23 ages"
    )
    assert f"is within ±{county['margins']['total_at_age23']}, 69% of the group" in second
    assert "budget_with_age23" not in finest


def test_a_configuration_has_the_totals_from_which_a_group_gets_more_ages(das, tmp_path):
    own = {str(named_level("county-2")): [200, float("inf"), float("inf")]}
    path = write_config(tmp_path, thresholds_p=configuration()["thresholds_p"] | own)
    county = level(json_of(das, path), "County, Detailed")
    assert county["ages_from"][0] == 200
    rows = [row for row in csv.reader(io.StringIO(das(path, "--format", "csv")[1])) if row]
    starts = [number for number, row in enumerate(rows) if row[1:] == ["4 ages from", "9 ages from", "23 ages from"]]
    assert ["County, Detailed", "200", "never", "never"] in rows[starts[0] :]
    solved = level(json_of(das, path, "--solve", "county-2: count <= 9"), "County, Detailed")
    assert solved["ages_from"] == county["ages_from"]


def test_the_total_of_a_group_of_a_size_is_that_of_the_table_that_it_gets(das, tmp_path):
    """A group of 500 gets 23 ages: the sum of 46 cells must have the margin, not one count."""
    path, question = write_config(tmp_path), "total of a county, detailed, of 500 within 10%"
    (row,) = json_of(das, path, "--solve", question)["levels"]
    (finest,) = json_of(das, path, "--solve", "County, Detailed: total of 23 ages <= 50")["levels"]
    (single,) = json_of(das, path, "--solve", "County, Detailed: count <= 50")["levels"]
    assert row["table"] == "age23"
    assert row["chance"] > 0.5
    assert row["budget"] == finest["budget"]
    assert (row["now"]["margin"], row["margin"]) == (finest["now"]["margin"], 50)
    assert Fraction(single["budget"]) < Fraction(row["budget"]) / 40
    assert "a group of 500 most likely gets a table of 23 ages" in das(path, "--solve", question)[1]
    own = {str(named_level("county-2")): [200, float("inf"), float("inf")]}
    path = write_config(tmp_path, thresholds_p=configuration()["thresholds_p"] | own)
    (row,) = json_of(das, path, "--solve", question)["levels"]
    assert row["table"] == "age4"  # more are never published
    question = "total of a county, detailed, of 50 within 9 counts"
    (small,) = json_of(das, path, "--solve", question)["levels"]
    assert small["table"] == "total"
    assert "a group of 50 most likely gets a total alone" in das(path, "--solve", question)[1]


def test_a_target_in_counts_and_the_budget_that_meets_it(das):
    data = json_of(das, "--margin", 6)
    nation, county = level(data, "Nation, Detailed"), level(data, "County, Detailed")
    assert set(nation["sizes"].values()) == {0}
    assert set(county["sizes"].values()) == {None}
    assert county["least_budget_for_target"] == pytest.approx(0.406075 / 0.9, abs=1e-6)
    _, text, _ = das("--margin", 6)
    assert "at most 6 counts" in text
    assert "never" in text


@pytest.mark.ci
def test_pure_dp_has_production_s_margins(das):
    data, gaussian = json_of(das, "--definition", "puredp"), json_of(das)
    assert level(data, "Nation, Detailed")["margins"]["count"] == 3
    assert level(data, "County, Detailed")["margins"]["count"] == 11
    assert level(data, "County, Regional")["margins"]["count"] == 50  # Table 7's target; rho = .008 gives 49
    pure, other = (each["spent"]["relations"][0]["epsilon_at_delta"] for each in (data, gaussian))
    assert pure > other


def test_a_configuration(das, tmp_path):
    path = write_config(tmp_path, run_pr=True, max_race_codes=3, zero_suppression_chance=None)
    data = json_of(das, path)
    assert len(data["levels"]) == 12
    assert (data["gamma"], data["race_codes"], data["zero_suppression_chance"]) == ("1/4", 3, "9999/10000")
    assert level(data, "County, Detailed")["stability"] == 4
    assert len(json_of(das, path, "--jurisdiction", "pr")["levels"]) == 8
    assert {row["stability"] for row in json_of(das, path, "--race-codes", 8)["levels"]} == {9}


def test_stabilities_of_the_parameter_files_stay_until_the_multiplicity_is_set(das, tmp_path):
    params, _ = Inputs(config=configuration(max_race_codes=2)).write(tmp_path)
    own = {row["level"]: row["stability"] for row in json_of(das, params)["levels"]}
    assert set(own.values()) == {3}
    assert {row["stability"] for row in json_of(das, params, "--race-codes", 5)["levels"]} == {6}


def test_it_writes_a_page_and_a_workbook(das, tmp_path):
    page, book = tmp_path / "tune.html", tmp_path / "tune.xlsx"
    code, _, err = das("--level", "County, Detailed=.159", "--html", page, "--xlsx", book)
    assert code == 0
    assert "tune.html" in err
    assert "County, Detailed" in page.read_text()
    assert openpyxl.load_workbook(book).sheetnames == ["Budgets", "Figures"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--level", "Nation, Detailed=-1"), "the budget of Nation, Detailed is a positive number"),
        (("--level", "Nation, Detailed=0"), "the budget of Nation, Detailed is a positive number"),
        (("--level", "Nation, Detailed"), "a level is LEVEL=NUMBER"),
        (("--level", "Village, Detailed=1"), "unknown population group level"),
        (("--level", "usa-1=1", "--level", "pr-state-1=1"), "separate runs"),
        (("--level", "usa-1=1e-20"), "the budget of usa-1 is from 1e-09 to 1e+09"),
        (("--level", "usa-1=1e-9", "--definition", "puredp"), "the noise is too wide"),
        (("--exclude-level", "Village"), "unknown population group level"),
        (("--exclude-level", "pr-state-1"), "a level to switch off has no budget"),
        (("--level", "usa-1=1", "--exclude-level", "usa-1"), "all levels are off"),
        (("--total", "-1"), "total is a positive number"),
        (("--gamma", "1"), "gamma is a number strictly between 0 and 1"),
        (("--race-codes", "9"), "from 1 to 8"),
        (("--race-codes", "0"), "from 1 to 8"),
        (("--margin", "0"), "1 or more"),
        (("--margin", "3", "--relative-error", ".1"), "either --margin or --relative-error"),
        (("--relative-error", "-1"), "relative error is a positive number"),
        (("--chance", ".4"), "chance is a number from 0.5 to 1"),
        (("--chance", "1"), "chance is a number strictly between 0 and 1"),
        (("--delta", "2"), "delta is a number strictly between 0 and 1"),
        (("--jurisdiction", "pr"), "--jurisdiction needs a configuration"),
        (("nowhere.json",), "nowhere.json cannot be read"),
        (("nowhere.json", "--definition", "zcdp"), "has its own levels and definition"),
        (("--html", "/nowhere/tune.html"), "cannot be written"),
        (
            ("--solve", "County"),
            "a question is 'County, Detailed: total of 23 ages <= 20', 'count of 500 within 10%'",
        ),
        (("--solve", "County, Detailed: sex <= 3"), "unknown statistic 'sex': one of TotalOnly total;"),
        (("--solve", "Village, Detailed: total of 4 ages <= 3"), "unknown population group level"),
        (("--solve", "count within 10%"), "a share needs the size that it is of"),
        (("--solve", "total of a village within 10"), "unknown population group level"),
        (
            ("--solve", "count of 500 within 10 percentage"),
            "I do not understand 'percentage' in ",
        ),
        (("--solve", "count of 500 within 10% or so"), "I do not understand '% or so' in"),
        (("--solve", "county count of 500 within 10%"), 'or "a county\'s count of 500 within 10%"'),
        (("--solve", "count of 500 within 10,5"), "I do not understand ',5' in"),
        (("--solve", "usa-1: step 1 total <= 0"), "from 1 to 1,000,000 counts, not 0"),
        (("--solve", "usa-1: step 1 total <= 999999"), "takes a budget near 10^"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_options_are_refused_in_one_line(refused, arguments, message):
    refused(message, *arguments)


def test_bad_configurations_are_refused_in_one_line(refused, tmp_path):
    for changes, arguments, message in (
        ({"privacy_budget_p_level_2_usa": -1}, (), "must not be negative"),
        (dict.fromkeys(BUDGETS, 0), (), "no population group level of US has a budget"),
        ({}, ("--jurisdiction", "pr"), "has the jurisdictions us, not 'pr'"),
    ):
        refused(message, write_config(tmp_path, **changes), *arguments)


def test_households_have_the_budgets_of_production_and_no_option_that_would_be_passed_over(das, tmp_path):
    found = json_of(das, "--households")
    assert found["spent"]["us"]["charged"]["exact"] == "4447651/500000"
    for options in (("--gamma", "0.3"), ("--html", tmp_path / "page.html")):
        code, out, err = das("--households", *options)
        assert (code, out) == (2, "")
        assert f"{options[0]}: --households takes" in " ".join(err.split())
    whole = json_of(das, "--households", "--margin", 50)
    assert all(row["least_budget"] for row in whole["queries"])
    assert json_of(das, "--households", "--solve", "count of 500 within 10%") == whole
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "manifest.json").write_text("{}")
    code, out, err = das("--households", tmp_path)
    assert (code, out, "is a release: give its configuration" in " ".join(err.split())) == (1, "", True)


@pytest.mark.parametrize(
    ("question", "queries", "first"),
    [
        ("renters in a county within 20", 4, "2 of 4 queries have every count within 20 at 95%"),
        ("a county's count of 500 within 1%", 8, "0 of 8 queries have every count within 5 at 95%"),
        ("County, Detailed: total <= 50", ["County, Detailed: T3", "County, Detailed: T4"], "2 of 2 queries have"),
    ],
)
def test_a_question_about_households_is_answered_for_its_levels_and_first_in_words(das, question, queries, first):
    found = [row["query"] for row in json_of(das, "--households", "--solve", question)["queries"]]
    assert queries in (found, len(found))
    assert das("--households", "--solve", question)[1].startswith(first)


def test_a_configuration_of_the_other_safetab_is_refused_by_its_name(refused, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(dhcb_inputs.configuration()))
    refused("of the Detailed DHC-B: das ddhcb reads it, and das tune with --households", file)
    refused("of the Detailed DHC-A: das run reads it, and das tune", write_config(tmp_path), "--households")


def test_two_configurations_have_the_levels_that_differ(das, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    own = {str(named_level("county-2")): [200, float("inf"), float("inf")]}
    for folder in (first, second):
        folder.mkdir()
    files = [
        write_config(first),
        write_config(second, privacy_budget_p_level_2_usa=0.5, thresholds_p=configuration()["thresholds_p"] | own),
    ]
    rows = {row["level"]: row for row in json_of(das, files[0], "--against", files[1])}
    assert list(rows) == ["Nation, Detailed", "County, Detailed"]
    assert (rows["Nation, Detailed"]["rho"], rows["Nation, Detailed"]["margin of a count"]) == ("1 → 0.5", "5 → 7")
    assert (rows["County, Detailed"]["rho"], rows["County, Detailed"]["9 ages from"]) == ("1", "8 → never")
    assert json_of(das, files[0], "--against", files[0]) == []


def test_an_option_that_a_comparison_passes_over_is_refused(das, tmp_path):
    code, out, err = das("--against", write_config(tmp_path), "--solve", "count within 10")
    assert (code, out) == (2, "")
    assert "--solve: --against compares two sets of parameters" in " ".join(err.split())
