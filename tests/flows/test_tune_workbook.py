"""The workbook of `das tune`: recalculated by LibreOffice with other inputs, it says what Python says."""

from __future__ import annotations

import io
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from functools import cache

import openpyxl
import pytest
from conftest import lacking

from flows.reports.tuning.plan import BudgetPlan, first_plan
from flows.reports.tuning.tuning import answers
from flows.reports.tuning.workbook import COLUMNS, FIRST, workbook
from privacy.analyses.suppression import continuous_bias, published_bias, suppression_probability
from privacy.analyses.tuning import level_laws
from privacy.noise.margins import suppression_threshold
from tasks.lifecycle.errors import Refused
from tasks.population_groups.levels import named_level

INPUTS = {
    name: f"B{row}" for row, name in enumerate(("definition", "gamma", "race", "target", "kind", "chance", "delta"), 2)
}
AT = {name: number for number, name in enumerate(COLUMNS, 1)}


def recalculated(content: bytes, folder, changes) -> openpyxl.Workbook:
    """The workbook after a spreadsheet program has changed these cells of the sheet "Tune" and computed all others."""
    if shutil.which("soffice") is None:
        lacking("LibreOffice")
    book = openpyxl.load_workbook(io.BytesIO(content))  # keeps formulas and drops their values
    for place, value in changes.items():
        book["Tune"][place] = value
    book.save(folder / "changed.xlsx")
    command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", "xlsx"]
    subprocess.run([*command, "--outdir", folder / "out", folder / "changed.xlsx"], check=True, capture_output=True)
    return openpyxl.load_workbook(folder / "out/changed.xlsx", data_only=True)


def place(plan: BudgetPlan, name: str, column: str) -> str:
    row = FIRST + 1 + list(plan.levels).index(named_level(name))
    return f"{openpyxl.utils.get_column_letter(AT[column])}{row}"


def assert_same(book: openpyxl.Workbook, other: openpyxl.Workbook) -> None:
    """Cell by cell; numbers to 1e-9."""
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                value, expected = cell.value, other[sheet.title][cell.coordinate].value
                if isinstance(value, int | float):
                    value, expected = value, pytest.approx(expected, rel=1e-9, abs=1e-12)
                assert value == expected, (sheet.title, cell.coordinate)


def assert_shows(book: openpyxl.Workbook, plan: BudgetPlan) -> None:
    """The sheets "Tune", "Suppression" and "Trade-off" against `answers`, which are exact."""
    result, tune = answers(plan), book["Tune"]
    for row, level in enumerate(result["levels"], FIRST + 1):
        shown = {name: tune.cell(row, number).value for name, number in AT.items()}
        assert shown["level"] == level["level"]
        assert shown["stability"] == level["stability"]
        assert {name: shown[name] for name in level["margins"]} == level["margins"]
        for name, margin in level["margins_of_estimates"].items():  # the workbook's are by the normal law
            approximate = shown[f"estimate_{name}"]
            assert approximate == "das tune" if plan.definition == "puredp" else abs(approximate - margin) <= 1
        sizes = {name: "never" if size is None else size for name, size in level["sizes"].items()}
        assert {name: shown[f"size_{name}"] for name in sizes} == sizes
        assert shown["recipe"] == level["margin_by_recipe"]
        assert shown["threshold"] == (level["threshold"] if level["suppressible"] else "never")
        for side in ("with", "without"):
            spent = level[f"{side}_it"]
            assert shown[side] == pytest.approx(float(Fraction(spent["budget"])), rel=1e-12)
            assert shown[f"epsilon_{side}"] == pytest.approx(spent["epsilon"], rel=1e-9)
    for row, relation in enumerate(result["spent"]["relations"], FIRST - 3):
        assert tune.cell(row, 1).value == relation["sentence"]
        assert tune.cell(row, 2).value == pytest.approx(relation["decimal"], rel=1e-12)
        assert tune.cell(row, 3).value == pytest.approx(relation["epsilon_at_delta"], rel=1e-9)
    sheet = book["Suppression"]
    level = named_level(sheet["B2"].value)
    noise = level_laws(plan.definition, plan.level_budget(level), plan.gamma)["stage_2"]
    threshold = suppression_threshold(noise, plan.chance)
    assert sheet["B6"].value == threshold
    rows = list(sheet.iter_rows(min_row=9, max_row=59, max_col=10, values_only=True))
    assert (rows[0][1], rows[-1][1]) == (0, pytest.approx(2.5 * threshold, abs=0.5))
    for part, size, _, _, _, suppressed, bias, _, printed, _ in rows:
        assert part == pytest.approx(size / threshold)
        assert suppressed == pytest.approx(suppression_probability(noise, threshold, size), rel=1e-9)
        assert bias == pytest.approx(published_bias(noise, threshold, size), rel=1e-9)
        if plan.definition == "zcdp":
            sigma = float(noise.sigma_squared) ** 0.5
            assert printed == pytest.approx(continuous_bias(sigma, threshold, size), rel=1e-6)
    stability = max(2, plan.race_codes) + 1
    curve = {float(Fraction(point["budget"])): point["margins"] for point in result["trade_off"][stability]}
    for budget, alone, count in book["Trade-off"].iter_rows(
        min_row=2, max_row=len(curve) + 1, max_col=3, values_only=True
    ):
        assert (alone, count) == (curve[budget]["total_only"], curve[budget]["count"])


LEVELS = {"usa-2": "2.134", "county-2": ".159", "usa-1": ".008", "place-1": ".008"}
PLAN = first_plan(None, [f"{name}={budget}" for name, budget in LEVELS.items()], None, None)


@cache
def content() -> bytes:
    return workbook(PLAN)


def test_the_values_beside_the_formulas():
    """What is shown before any recalculation, for both definitions and kinds of target."""
    for plan in (
        first_plan(None, None, None, None),
        replace(first_plan(None, ["state-2=8.3", "tract-1=.6"], "puredp", None), target=Fraction(20), relative=False),
    ):
        book = openpyxl.load_workbook(io.BytesIO(workbook(plan)), data_only=True)
        assert_shows(book, plan)


def test_a_changed_rho_changes_the_margins(tmp_path):
    changes = {
        place(PLAN, "county-2", "budget"): 0.6, place(PLAN, "usa-1", "is"): "off", place(PLAN, "place-1", "own"): 5,
        INPUTS["gamma"]: 0.25, INPUTS["race"]: 3, INPUTS["target"]: 0.05, INPUTS["chance"]: 0.99, INPUTS["delta"]: 1e-6,
    }  # fmt: skip
    plan = replace(
        PLAN.of_multiplicity(3).without(["usa-1"]),
        levels=PLAN.levels | {named_level("county-2"): Fraction("0.6")},
        stabilities={named_level("place-1"): 5},
        gamma=Fraction(1, 4),
        target=Fraction(1, 20),
        chance=Fraction("0.99"),
        delta=Fraction(1, 10**6),
    )
    book = recalculated(content(), tmp_path, changes)
    before = openpyxl.load_workbook(io.BytesIO(content()), data_only=True)["Tune"]
    cell = place(PLAN, "county-2", "count")
    assert (before[cell].value, book["Tune"][cell].value) == (11, 4)
    assert_shows(book, plan)
    assert_same(book, openpyxl.load_workbook(io.BytesIO(workbook(plan)), data_only=True))


@pytest.mark.slow
def test_the_other_definition_and_a_target_in_counts(tmp_path):
    budgets = {"usa-2": "8.319", "county-2": "2.598", "usa-1": ".5932", "place-1": ".05"}
    levels = [f"{name}={budget}" for name, budget in budgets.items()]
    plan = replace(first_plan(None, levels, "puredp", None), target=Fraction(20), relative=False)
    changes = {INPUTS["definition"]: "puredp", INPUTS["kind"]: "counts", INPUTS["target"]: 20}
    changes |= {place(PLAN, level.slug, "budget"): float(budget) for level, budget in plan.levels.items()}
    book = recalculated(content(), tmp_path, changes)
    assert_shows(book, plan)
    assert_same(book, openpyxl.load_workbook(io.BytesIO(workbook(plan)), data_only=True))


@pytest.mark.slow
def test_what_the_workbook_cannot_tell_it_says(tmp_path):
    plan = first_plan(None, ["usa-2=1", "county-2=1"], None, None)
    changes = {place(plan, "usa-2", "budget"): 1e-6, place(plan, "county-2", "budget"): 100}
    tune = recalculated(workbook(plan), tmp_path, changes)["Tune"]
    result = [
        [tune[place(plan, name, quantity)].value for quantity in ("count", "total_at_age4")]
        for name in ("usa-2", "county-2")
    ]
    assert result == [["too wide", "too wide"], [0, "too narrow"]]


@pytest.mark.parametrize("levels", [["usa-2=1e-6"], ["usa-2=100"]])
def test_a_plan_that_the_workbook_does_not_cover_is_refused(levels):
    with pytest.raises(Refused, match=r"the workbook covers sigma\^2 from 0.1"):
        workbook(first_plan(None, levels, None, None))
