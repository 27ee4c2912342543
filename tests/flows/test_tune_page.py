"""The page of `das tune` in a real browser: a slider moves, the numbers change, and they are those of Python."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from flows.reports.tuning.page import page
from flows.reports.tuning.plan import BudgetPlan, first_plan
from flows.reports.tuning.solve import Question, read_question, solve
from flows.reports.tuning.tuning import answers
from privacy.accounting.attacker import detection
from privacy.accounting.composition import LevelBudget
from privacy.accounting.conversions import epsilon
from privacy.analyses.tuning import (
    level_laws,
    margins,
    published_bias,
    sizes_for_relative_error,
    suppression_probability,
)
from privacy.noise.margins import suppression_threshold
from tasks.safetab.configuration import NEVER
from tasks.safetab.levels import named_level
from tasks.safetab.persons.details import AGES_NAMES, CELLS_OF

NATION, COUNTY, TRACT = (named_level(name) for name in ("usa-2", "county-2", "tract-2"))


@pytest.fixture
def fresh(sized, tmp_path):
    """A browser on the page of production's plan."""
    (tmp_path / "tune.html").write_text(page(first_plan(None, None, None, None)))
    chromium = sized(1300)
    chromium.get_log("browser")  # what pages of other tests said
    chromium.get((tmp_path / "tune.html").as_uri())
    yield chromium
    assert chromium.get_log("browser") == []


def slide(driver, element, value):
    """Move a slider as a hand does: the value, then the event."""
    driver.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", element, value
    )


def by_id(driver, name):
    return driver.find_element("id", name)


def read(driver):
    """What the page shows: its rows, what is spent, and the epsilon of that."""
    return driver.execute_script(
        """const text = (id) => document.getElementById(id).textContent;
        const rows = [...document.querySelectorAll("#levels tr")].map((row) => Object.fromEntries([
          ["level", row.cells[0].textContent],
          ...[...row.querySelectorAll("[data-out]")].map((cell) => [cell.dataset.out, cell.textContent])]));
        const relations = [...document.querySelectorAll("[data-relation]")];
        const figure = (relation, number) => relation.querySelectorAll("b")[number].textContent;
        const spent = Object.fromEntries(relations.map((each) => [each.dataset.relation, +figure(each, 0)]));
        return [rows, spent, figure(relations[0], 1)]"""
    )


def number(text):
    words = {"any": 0, "never": None, "–": "–"}
    return words[text] if text in words else int(text.replace(",", ""))


def assert_shows(driver, plan: BudgetPlan):
    result = answers(plan)
    levels, spent, epsilon_shown = read(driver)
    assert [level["level"] for level in levels] == [level["level"] for level in result["levels"]]
    for shown, exact in zip(levels, result["levels"], strict=True):
        assert {name: number(shown[name]) for name in exact["margins"]} == exact["margins"]
        assert {name: number(shown[f"size-{name}"]) for name in exact["sizes"]} == exact["sizes"]
        assert int(shown["stability"]) == exact["stability"]
        assert number(shown["threshold"]) == (exact["threshold"] if exact["suppressible"] else "–")
        for side, key in (("with", "with_it"), ("without", "without_it")):
            assert 0 <= float(shown[side]) - exact[key]["epsilon"] <= 0.001
    relations = {each["relation"]: each for each in result["spent"]["relations"]}
    assert spent == {key: pytest.approx(each["decimal"], rel=1e-6) for key, each in relations.items()}
    if plan.definition == "zcdp":
        assert 0 <= float(epsilon_shown) - relations["added_or_removed"]["epsilon_at_delta"] <= 0.001


def test_it_starts_with_production(fresh):
    plan = first_plan(None, None, None, None)
    assert_shows(fresh, plan)
    assert read(fresh)[1:] == [{"added_or_removed": 4.944, "replaced": 9.888}, "25.363"]


def test_sliders_move_the_numbers_to_what_python_says(fresh):
    plan = first_plan(None, None, None, None)
    slide(fresh, by_id(fresh, "race-codes"), 3)
    plan = plan.with_multiplicity(3)
    assert_shows(fresh, plan)
    slide(fresh, by_id(fresh, "gamma"), 0.25)
    plan = replace(plan, gamma=Fraction("0.25"))
    assert_shows(fresh, plan)
    row = fresh.find_element("css selector", 'tr[data-level="county-2"]')
    slide(fresh, row.find_element("css selector", "input[type=range]"), -0.5)
    budget = Fraction(row.find_element("css selector", "input[type=number]").get_attribute("value"))
    assert budget == Fraction("0.3162")
    plan = replace(plan, levels=plan.levels | {COUNTY: budget})
    assert_shows(fresh, plan)
    slide(fresh, by_id(fresh, "chance"), 3)
    plan = replace(plan, chance=Fraction("0.999"))
    assert_shows(fresh, plan)
    fresh.find_element("css selector", 'tr[data-level="usa-2"] input[type=checkbox]').click()
    plan = plan.without(["usa-2"])
    assert_shows(fresh, plan)
    target = by_id(fresh, "target")
    target.clear()
    target.send_keys("0.05")
    assert_shows(fresh, replace(plan, target=Fraction("0.05")))
    slide(fresh, by_id(fresh, "relative"), "no")
    assert_shows(fresh, replace(plan, target=Fraction(10), relative=False))


def test_pure_dp_and_its_budgets_for_the_same_margins(fresh):
    slide(fresh, by_id(fresh, "definition"), "puredp")
    values = [
        Fraction(box.get_attribute("value"))
        for box in fresh.find_elements("css selector", "#levels input[type=number]")
    ]
    plan = first_plan(None, None, None, None)
    assert values[0] == Fraction("8.319")  # the least with the margin of rho = 2.134, which is 3
    assert values == list(first_plan(None, None, "puredp", None).levels.values())  # as the terminal has them
    assert_shows(fresh, replace(plan, definition="puredp", levels=dict(zip(plan.levels, values, strict=True))))


def test_the_total_scales_all_budgets_that_are_on(fresh):
    slide(fresh, by_id(fresh, "total"), 0)
    assert read(fresh)[1]["added_or_removed"] == pytest.approx(1, abs=1e-5)
    first = fresh.find_element("css selector", 'tr[data-level="usa-2"] input[type=number]').get_attribute("value")
    assert float(first) == pytest.approx(2.134 / 4.944, rel=1e-5)


def test_a_wrong_number_is_marked_and_changes_nothing(fresh):
    box = fresh.find_element("css selector", 'tr[data-level="usa-2"] input[type=number]')
    for name, text in ((box, "-1"), (by_id(fresh, "delta"), "2"), (by_id(fresh, "target"), "0")):
        slide(fresh, name, text)
        assert "wrong" in name.get_attribute("class")
    assert_shows(fresh, first_plan(None, None, None, None))


def test_both_codes_agree_over_the_range_of_the_parameters(fresh):
    """Margins, sizes and thresholds the same; probabilities, biases and epsilons to 1e-11."""
    choose = random.Random(20)
    cases = [
        {
            "definition": choose.choice(["zcdp", "puredp"]),
            "budget": float(f"{10 ** choose.uniform(-3.3, 1.7):.4g}"),
            "stability": choose.randint(3, 9),
            "gamma": choose.choice([0.01, 0.1, 0.5, 0.9]),
            "chance": choose.choice([0.5, 0.9, 0.9999]),
        }
        for _ in range(80)
    ]
    by_page = fresh.execute_script(
        """return arguments[0].map((one) => {
          const {definition, gamma, chance} = one;
          const plan = {definition, gamma, chance, cells: START.cells, target: 0.1, relative: true};
          const told = levelAnswers(plan, one);
          const points = [0, 0.5, 1, 1.5, 2].map((part) => Math.floor(part * told.threshold)).map((n) => [
            n, suppressionProbability(told.noise, told.threshold, n), publishedBias(told.noise, told.threshold, n)]);
          return {margins: told.margins, sizes: told.sizes, threshold: told.threshold, points,
                  epsilon: epsilonOf(one.budget, 1e-10), right: detection(one.definition, one.budget)};
        })""",
        cases,
    )
    for case, result in zip(cases, by_page, strict=True):
        level = LevelBudget(Fraction(str(case["budget"])), case["stability"])
        laws = level_laws(case["definition"], level, Fraction(str(case["gamma"])))
        of_level, noise = margins(laws, CELLS_OF), laws["stage_2"]
        sums = {f"total_at_{name}": margin for name, margin in of_level.totals.items() if name != "total"}
        assert result["margins"] == {
            "total_only": of_level.total_only,
            "step_1": of_level.stage_1,
            "count": of_level.cell,
            **sums,
        }, case
        tenth = Fraction(1, 10)
        alone = sizes_for_relative_error(of_level.total_only, tenth, {"total_only": 1})
        assert result["sizes"] == sizes_for_relative_error(of_level.cell, tenth, CELLS_OF) | alone
        threshold = suppression_threshold(noise, Fraction(str(case["chance"])))
        assert result["threshold"] == threshold
        for size, suppressed, bias in result["points"]:
            assert suppressed == pytest.approx(suppression_probability(noise, threshold, size), rel=1e-11)
            assert bias == pytest.approx(published_bias(noise, threshold, size), rel=1e-11)
        assert result["right"] == pytest.approx(detection(case["definition"], float(level.budget)), abs=2e-9)
        assert result["epsilon"] == pytest.approx(epsilon(level.budget, Fraction(1, 10**10)), rel=1e-11)


@pytest.mark.parametrize(
    ("cells", "within", "kind", "question"),
    [
        ("1", "10", "share", "count of 500 in a county, detailed within 10%"),
        ("46", "20", "counts", "County, Detailed: total of 23 ages <= 20"),
    ],
)
def test_a_question_has_the_answer_of_the_command(fresh, cells, within, kind, question):
    for name, value in (("asked", cells), ("within", within), ("within-kind", kind), ("asked-level", "county-2")):
        slide(fresh, by_id(fresh, name), value)
    plan = first_plan(None, None, None, None)
    target, (solved,) = (found := solve(plan, read_question(question, plan)))["target"], found["levels"]
    meets = "meets" if solved["now"]["met"] else "does not meet"
    said = by_id(fresh, "answer").text
    with_ages = solved.get("budget_with_age23")
    assert bool(with_ages) == (kind == "share")
    unknown = f" of a group without a table by age, rho {with_ages} for one with 23 ages" if with_ages else ""
    assert f"rho {solved['budget'].rstrip('0')} for a margin of {target}{unknown}; " in said
    assert f"the level has {solved['now']['margin']} now, which {meets} it." in said
    spent = float(Fraction(solved["release"]["budget"]))
    assert f"With this level alone changed the release spends rho {spent:.7g}, epsilon" in said
    by_id(fresh, "take").click()
    row = fresh.find_element("css selector", 'tr[data-level="county-2"] input[type=number]')
    assert row.get_attribute("value") == solved["budget"].rstrip("0")


THRESHOLDS = {NATION: (NEVER,) * 3, COUNTY: (20, 200, 4000), TRACT: (5, 60, NEVER)}


def test_the_total_of_a_group_has_the_budget_and_the_table_of_the_command(fresh, tmp_path):
    """Over levels with thresholds, both definitions, and sizes on both sides of each threshold and near it."""
    cases = []
    for definition, gamma in (("zcdp", "0.1"), ("puredp", "0.1"), ("zcdp", "0.5")):
        plan = replace(first_plan(None, None, None, None), definition=definition, gamma=Fraction(gamma))
        plan = replace(plan, thresholds=THRESHOLDS, stabilities={NATION: 9, COUNTY: 9, TRACT: 5})
        for level in THRESHOLDS:
            for size in (12, 60, 195, 205, 500, 3900, 4100, 30000):
                for share in (5, 20):
                    if (wanted := size * share // 100) >= 1:
                        solved = solve(plan, Question((level,), "count", wanted, size))["levels"][0]
                        cases.append((plan, level, size, wanted, solved))
    (tmp_path / "tune.html").write_text(page(plan))
    fresh.get((tmp_path / "tune.html").as_uri())
    by_page = fresh.execute_script(
        """return arguments[0].map(({definition, gamma, slug, size, wanted}) => {
          const level = START.levels.find((one) => one.slug === slug);
          return leastOfGroup({definition, gamma, cells: START.cells}, level, size, wanted);
        })""",
        [
            {"definition": of.definition, "gamma": float(of.gamma), "slug": level.slug, "size": size, "wanted": wanted}
            for of, level, size, wanted, _ in cases
        ],
    )
    assert len({solved["table"] for *_, solved in cases}) == 4
    for (_, level, size, wanted, solved), (budget, cells) in zip(cases, by_page, strict=True):
        expected = float(solved["budget"]), CELLS_OF[solved["table"]]
        assert (budget, cells) == expected, (level, size, wanted)


def test_the_answer_names_the_table_that_the_group_gets(fresh, tmp_path):
    plan = replace(first_plan(None, None, None, None), thresholds=THRESHOLDS)
    (tmp_path / "tune.html").write_text(page(plan))
    fresh.get((tmp_path / "tune.html").as_uri())
    for name, value in (("asked", "1"), ("within", "10"), ("within-kind", "share"), ("asked-level", "county-2")):
        slide(fresh, by_id(fresh, name), value)
    (solved,) = solve(plan, read_question("count of 500 in a county, detailed within 10%", plan))["levels"]
    said = by_id(fresh, "answer").text
    assert said.startswith(
        f"rho {solved['budget'].rstrip('0')} for a margin of 50; the level has {solved['now']['margin']}"
    )
    assert f" With it a group of 500 most likely gets a table of {AGES_NAMES[solved['table']]}. " in said


def test_charts_have_named_axes_with_units_in_the_colours_of_the_page(fresh):
    fresh.find_element("css selector", "#fractions").click()
    labels = [chart.get_attribute("aria-label") for chart in fresh.find_elements("css selector", "svg")]
    assert labels == [
        "probability of suppression over true size n of the group (fraction of T)",
        "bias (fraction of T) over true size n of the group (fraction of T)",
        "margin of error at 95% (counts) over budget of the level (rho), stability 9",
        "level over population of the group (persons), for a margin of 0.1 of the count",
    ]
    colours = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        fresh.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        text = fresh.find_element("css selector", "svg text")
        colours.append((text.value_of_css_property("fill"), by_body(fresh)))
    assert colours[0] == ("rgb(27, 31, 36)", "rgba(255, 255, 255, 1)")
    assert colours[1] == ("rgb(231, 234, 238)", "rgba(20, 23, 27, 1)")
    fresh.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def by_body(driver):
    return driver.find_element("css selector", "body").value_of_css_property("background-color")


def test_the_page_needs_no_network():
    text = page(first_plan(None, None, None, None))
    assert "{{" not in text
    assert text.count("http") == 1  # the name of SVG
    for reference in ("src=", "href=", "@import", "fetch("):
        assert reference not in text


def test_a_source_s_name_is_text_to_the_page():
    plan = replace(first_plan(None, None, None, None), source="<script>alert(1)</script>")
    assert "<script>alert" not in page(plan)
