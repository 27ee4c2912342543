"""The workbook of `das tune`: the budgets with live sums and margins, and every table of the terminal as values."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from flows.reports.tuning.plan import BudgetPlan
from privacy.accounting.composition import spend
from privacy.analyses.margin_budgets import RECIPE_Z
from privacy.noise.laws import UNITS
from tasks.releases.pages.text_table import TextTable

NOTES = (
    "Change the yellow cells: sums, sigma or scale of the noise and margins by the papers' formula follow. A count of "
    "step 2 is a total published alone or a sex-by-age cell.",
    "Exact margins, thresholds and the sheet Figures are values of the budgets that the workbook was written with.",
)
PARAMETER = {"zcdp": "=SQRT({s}/(2*(1-gamma)*{b}))", "puredp": "={s}/((1-gamma)*{b})"}
RECIPE = {  # SafeTab-P, section 6.1; eq. (35) of the comparison paper
    "zcdp": f"=INT({float(RECIPE_Z)}*{{d}}+1E-9)",
    "puredp": "=MAX(0,INT({d}*LN(40/(1+EXP(-1/{d})))-1+1E-9))",
}


def workbook(plan: BudgetPlan, answered: Mapping[str, Any], tables: Iterable[TextTable]) -> bytes:
    """Return the bytes of an .xlsx file of a plan, its answers and their tables."""
    import xlsxwriter

    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True}) as book:
        formats = {
            "title": book.add_format({"bold": True, "font_size": 14}),
            "heading": book.add_format({"bold": True, "text_wrap": True, "valign": "bottom", "bottom": 1}),
            "input": book.add_format({"bg_color": "#fff2cc", "color": "#1a1a1a", "border": 1}),
        }
        _budgets(book, plan, answered, formats)
        _figures(book, tables, formats)
    return content.getvalue()


def _budgets(book: Any, plan: BudgetPlan, answered: Mapping[str, Any], formats: Mapping[str, Any]) -> None:
    """Write a row per level: budget and stability to change, figures derived from them, and the exact figures."""
    sheet, unit = book.add_worksheet("Budgets"), UNITS[plan.definition]
    sheet.set_column(0, 0, 30)
    sheet.set_column(1, 7, 14)
    sheet.write(0, 0, f"Tuning SafeTab-P, {plan.source}", formats["title"])
    for row, note in enumerate(NOTES, 1):
        sheet.write(row, 0, note)
    sheet.write(3, 0, "gamma, the share of step 1")
    sheet.write(3, 1, float(plan.gamma), formats["input"])
    book.define_name("gamma", "=Budgets!$B$4")
    noise = {"zcdp": "sigma", "puredp": "scale"}[plan.definition]
    derived = [f"{noise} of a count of step 2", "its margin by the papers' formula"]
    exact = ["its exact margin", "suppressed up to T"]
    sheet.write_row(5, 0, ["level", "is", unit, "stability", *derived, *exact], formats["heading"])
    for row, level in enumerate(answered["levels"], 7):  # as the sheet numbers them
        sheet.write(row - 1, 0, level["level"])
        for column, value in enumerate(("on" if level["on"] else "off", _number(level["budget"]), level["stability"])):
            sheet.write(row - 1, column + 1, value, formats["input"])
        cells = {"b": f"C{row}", "s": f"D{row}", "d": f"E{row}"}
        own = float(level["stability"] / ((1 - plan.gamma) * Fraction(level["budget"])))
        parameter = (own / 2) ** 0.5 if plan.definition == "zcdp" else own
        sheet.write_formula(row - 1, 4, PARAMETER[plan.definition].format_map(cells), None, parameter)
        sheet.write_formula(row - 1, 5, RECIPE[plan.definition].format_map(cells), None, level["margin_by_recipe"])
        sheet.write(row - 1, 6, level["margins"]["count"])
        sheet.write(row - 1, 7, level["threshold"] if level["suppressible"] else "never")
    last = 6 + len(answered["levels"])
    relations = spend(plan.definition, [Fraction(1)]).relations  # their figures are multiples of the sum of budgets
    for row, (relation, spent) in enumerate(zip(relations, answered["spent"]["relations"], strict=True), last + 1):
        sheet.write(row, 0, f"spent: {relation.sentence}")
        total = f'={relation.figure}*SUMIF(B7:B{last},"on",C7:C{last})'
        sheet.write_formula(row, 2, total, None, spent["decimal"])
    sheet.freeze_panes(6, 1)


def _figures(book: Any, tables: Iterable[TextTable], formats: Mapping[str, Any]) -> None:
    """Write the tables one below the other."""
    sheet, row = book.add_worksheet("Figures"), 0
    sheet.set_column(0, 0, 30)
    for table in tables:
        sheet.write(row, 0, table.title, formats["title"])
        sheet.write_row(row + 1, 0, table.columns, formats["heading"])
        for cells in table.rows:
            sheet.write_row(row + 2, 0, [_number(cell) for cell in cells])
            row += 1
        for note in table.notes:
            sheet.write(row + 2, 0, note)
            row += 1
        row += 4


def _number(text: str) -> float | str:
    """Return a figure of a table as a number; words are unchanged."""
    try:
        return float(Fraction(text.replace(",", "")))
    except ValueError:
        return text
