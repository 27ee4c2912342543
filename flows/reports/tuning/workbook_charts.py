"""The sheets of the workbook with charts: suppression of one level (Figures 1 and 2), margins over budgets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flows.reports.tuning.workbook_noise import COLUMNS, Inputs, Law, NoiseCells, NoiseSheet
from flows.reports.tuning.workbook_sheet import EXP, IF, MAX, NORMAL, PI, ROUND, SQRT, Formula, Sheet

PARTS = [i / 20 for i in range(51)]  # true sizes, as parts of T
QUERIES = 3  # rows of a level in the sheet "Noise", first: TotalOnly, step 1, step 2
BLUE, ORANGE = "#3b82c4", "#d9722e"
_FIRST = 8
_NAMES = ["n / T", "true size n (persons)", "u", "P(X > u)", "E[X; X > u]", "P(suppressed)"]
_NAMES += ["bias (counts)", "bias / T", "eq. (13) (counts)", "eq. (13) / T"]


def suppression_sheet(
    book: Any, sheet: Sheet, inputs: Inputs, sums: NoiseSheet, levels: Sequence[tuple[str, NoiseCells]], shown: int
) -> None:
    """Write Figures 1 and 2 for the level chosen in the sheet: by the exact law and by eq. (13)."""
    put, names, noise = sheet.put, [name for name, _ in levels], levels[shown][1]
    put(0, 0, "Suppression of totals: SafeTab-P, Figures 1 and 2, by the exact law", form=sheet.title)
    put(1, 0, "level")
    level = put(1, 1, names[shown], form=book.add_format({"bg_color": "#fff2cc", "color": "#1a1a1a", "border": 1}))
    put(2, 0, "its number")
    listed = sheet.cells((_FIRST, len(_NAMES) + 1), (_FIRST + len(names) - 1, len(_NAMES) + 1))
    sheet.sheet.write_column(_FIRST, len(_NAMES) + 1, names)
    sheet.sheet.data_validation(1, 1, 1, 1, {"validate": "list", "source": f"={listed}"})
    place = put(2, 1, Formula(f"MATCH({level},{listed},0)", shown + 1))
    parameters = []
    for row, (name, column) in enumerate(COLUMNS.items(), 3):
        put(row, 0, name)
        whole = sums.sheet.cells((1, column), (QUERIES * len(names), column))
        parameters.append(put(row, 1, Formula(f"INDEX({whole},{QUERIES}*{place})", getattr(noise, name).value)))
    sheet.headings(_FIRST - 1, _NAMES)
    for row, part in enumerate(PARTS, _FIRST):
        _suppression(sheet, row, part, Law(inputs.zcdp, sums.counts, *parameters[:2]), parameters[2])
    over = (_FIRST, _FIRST + len(PARTS) - 1)
    axis = "true size of the group (fraction of T)"
    sheet.sheet.insert_chart("N2", _chart(book, sheet, over, 0, {5: BLUE}, axis, "probability of suppression"))
    sheet.sheet.insert_chart("N22", _chart(book, sheet, over, 0, {7: BLUE, 9: ORANGE}, axis, "bias (fraction of T)"))
    sheet.sheet.set_column(0, 0, 13, book.add_format({"num_format": "0.00"}))
    sheet.sheet.set_column(1, 2, 13)
    sheet.sheet.set_column(len(_NAMES) + 1, len(_NAMES) + 1, 20)
    sheet.sheet.set_column(3, len(_NAMES) - 1, 13, book.add_format({"num_format": "0.000000"}))


def _suppression(sheet: Sheet, row: int, part: float, law: Law, threshold: Formula) -> None:
    """Write the row of one true size. With u = max(T - n, n - T - 1) all sums are of positive terms."""

    def put(column: int, content: Formula) -> Formula:
        return sheet.put(row, column, content)

    size, whole = put(1, ROUND(part * threshold)), MAX(1, threshold)
    put(0, size / whole)
    u = put(2, MAX(threshold - size, size - threshold - 1))
    tail = put(3, law.beyond(u))
    moment = put(4, law.moment_beyond(u, tail))
    put(5, IF(threshold >= size, 1 - tail, tail))
    bias = put(6, moment / IF(threshold >= size, tail, 1 - tail))
    put(7, bias / whole)
    sigma = SQRT(law.parameter)
    v = (threshold - size) / sigma
    printed = put(8, IF(law.zcdp, sigma * EXP(-(v**2) / 2) / SQRT(2 * PI) / NORMAL(-v), bias))
    put(9, printed / whole)


def trade_off_sheet(
    book: Any, sheet: Sheet, sums: NoiseSheet, stability: Formula, gamma: Formula, budgets: Sequence[Fraction]
) -> None:
    """Write margins of error over the budget of one level."""
    sheet.headings(0, ["budget (rho or epsilon)", "margin: TotalOnly", "margin: count of step 2"])
    sheet.put(0, 4, "stability")
    groups = sheet.put(0, 5, stability)
    for row, budget in enumerate(budgets, 1):
        spent = sheet.put(row, 0, float(budget))
        for column, share in ((1, 1), (2, 1 - gamma)):
            sheet.put(row, column, sums.query(f"budget {float(budget):g}", spent, share, groups).margin)
    axis = "budget of a level (rho or epsilon)"
    chart = _chart(
        book, sheet, (1, len(budgets)), 0, {1: ORANGE, 2: BLUE}, axis, "margin of error at 95% (counts)", True
    )
    sheet.sheet.insert_chart("H2", chart)
    sheet.sheet.set_column(0, 5, 13)


def _chart(
    book: Any,
    sheet: Sheet,
    rows: tuple[int, int],
    x: int,
    series: dict[int, str],
    axis: str,
    name: str,
    log: bool = False,
) -> Any:
    chart = book.add_chart({"type": "scatter", "subtype": "straight"})
    first, last = rows
    for column, colour in series.items():
        chart.add_series(
            {
                "name": [sheet.name, first - 1, column],
                "categories": [sheet.name, first, x, last, x],
                "values": [sheet.name, first, column, last, column],
                "line": {"color": colour, "width": 2},
            }
        )
    scale = {"log_base": 10} if log else {"min": 0}
    chart.set_x_axis({"name": axis, **scale, "major_gridlines": {"visible": True, "line": {"color": "#bbbbbb"}}})
    chart.set_y_axis({"name": name, **scale, "crossing": "min"})
    chart.set_title({"none": True})
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 620, "height": 370})
    return chart
