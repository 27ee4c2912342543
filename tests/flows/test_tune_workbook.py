"""The workbook of `das tune`: recalculated by LibreOffice with other budgets, its sums and margins are Python's."""

from __future__ import annotations

import io
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction

import openpyxl
import pytest

from flows.reports.tuning.plan import first_plan
from flows.reports.tuning.tuning import answers, tables
from flows.reports.tuning.workbook import workbook
from privacy.noise.laws import law
from tasks.safetab.levels import named_level
from tests.conftest import lacking


@pytest.mark.parametrize("definition", ["zcdp", pytest.param("puredp", marks=pytest.mark.ci)])
def test_changed_budgets_are_followed(tmp_path, definition):
    if shutil.which("soffice") is None:
        lacking("LibreOffice")
    plan, county = first_plan(None, None, definition, None), named_level("county-2")
    answered = answers(plan)
    book = openpyxl.load_workbook(io.BytesIO(workbook(plan, answered, tables(answered))))
    sheet = book["Budgets"]
    rows = {sheet.cell(row, 1).value: row for row in range(7, sheet.max_row + 1)}
    county_row, off_row = rows["County, Detailed"], rows["Nation, Regional"]
    assert sheet.cell(county_row, 7).value == 11
    sheet.cell(county_row, 3).value, sheet.cell(off_row, 2).value = 0.5, "off"
    book.save(tmp_path / "changed.xlsx")
    command = ["soffice", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to", "xlsx"]
    subprocess.run([*command, "--outdir", tmp_path / "out", tmp_path / "changed.xlsx"], check=True, capture_output=True)
    changed = openpyxl.load_workbook(tmp_path / "out/changed.xlsx", data_only=True)["Budgets"]
    levels = {**plan.levels, county: Fraction(1, 2)}
    expected = answers(replace(plan, levels=levels, off=frozenset([named_level("usa-1")])))
    for level in expected["levels"]:
        row = rows[level["level"]]
        noise = law(definition, (1 - plan.gamma) * Fraction(level["budget"]), level["stability"])
        parameter = noise.sigma_squared**0.5 if definition == "zcdp" else noise.scale
        assert changed.cell(row, 5).value == pytest.approx(float(parameter))
        assert changed.cell(row, 6).value == level["margin_by_recipe"]
    for at, relation in enumerate(expected["spent"]["relations"]):
        assert changed.cell(7 + len(levels) + 1 + at, 3).value == pytest.approx(relation["decimal"])


def test_the_tables_of_the_terminal_are_values():
    plan = first_plan(None, ["County, Detailed=.159"], None, None)
    answered = answers(plan)
    sheet = openpyxl.load_workbook(io.BytesIO(workbook(plan, answered, tables(answered))))["Figures"]
    assert sheet["A1"].value.startswith("Margins of error at 95%")
    assert [cell.value for cell in sheet[3]][:6] == ["County, Detailed", 0.159, 9, 10, 33, 11]
