"""The workbook of `das tune`: SafeTEx as a spreadsheet of live formulas."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import numpy as np

from flows.reports.terminal import refusing
from flows.reports.tuning.plan import BudgetPlan
from flows.reports.tuning.tuning import CURVE
from flows.reports.tuning.workbook_charts import suppression_sheet, trade_off_sheet
from flows.reports.tuning.workbook_loss import LossSheet
from flows.reports.tuning.workbook_noise import Inputs, NoiseCells, NoiseSheet
from flows.reports.tuning.workbook_sheet import EXP, IF, INT, IS_NUMBER, LN, MAX, ROUND_UP, SQRT, Formula, Sheet
from flows.reports.tuning.workbook_sums import SumsSheet
from privacy.accounting.composition import spend
from privacy.analyses.tuning import CELLS
from tasks.detailed_dhca.details import AGES_NAMES, TABLE_NAMES
from tasks.population_groups.levels import Level

TABLES = ("age4", "age9", "age23")
FIRST = 14  # the row of the first level
COLUMNS = {
    "level": "level", "is": "is", "budget": "budget (rho or epsilon)", "own": "own stability (or empty)",
    "stability": "stability",
    "total_only": "margin: TotalOnly", "step_1": "margin: step 1", "count": "margin: count of step 2",
    "recipe": "the paper's margin of a count",
    **{f"total_at_{name}": f"margin: total of {AGES_NAMES[name]}" for name in TABLES},
    "estimate_total": "estimate's margin: total",
    **{f"estimate_{name}": f"estimate's margin: total of {AGES_NAMES[name]}" for name in TABLES},
    "size_total_only": "from: TotalOnly", "size_total": "from: total",
    **{f"size_{name}": f"from: {TABLE_NAMES[name]}" for name in TABLES}, "threshold": "suppressed up to T",
    "with": "release with it", "without": "release without it",
    "epsilon_with": "epsilon with it", "epsilon_without": "epsilon without it",
}  # fmt: skip
_AT = {name: number for number, name in enumerate(COLUMNS)}
NOTES = (
    "Change the yellow cells. Margins in counts, at 95%; sizes in persons; epsilons at delta.",
    "Noise laws are exact and discrete (sheets Noise and Sums). A count of step 2 is a total published alone or a "
    "sex-by-age cell; the total of 4, 9 or 23 ages is the sum of 8, 18 or 46 cells.",
    "Estimates (das run --estimates): a normal approximation, for zCDP only. das tune prints exact margins for both.",
    "A target as a share is margin / average count of a statistic (a cell has 1/8, 1/18 or 1/46 of the group). "
    "A target in counts is met at any size (0) or never. Nation and state are never suppressed.",
)


def workbook(plan: BudgetPlan) -> bytes:
    """Return the workbook, starting from this plan: the bytes of an .xlsx file.

    Raises
    ------
    Refused
        where the noise of a query is wider or narrower than the workbook covers.
    """
    import xlsxwriter

    content = io.BytesIO()
    book = xlsxwriter.Workbook(content, {"in_memory": True})
    with refusing(), np.errstate(all="ignore"):  # both branches of every IF are evaluated
        _Workbook(book, plan).write()
    book.close()
    return content.getvalue()


class _Workbook:
    """The sheet "Tune", with the others behind it."""

    def __init__(self, book: Any, plan: BudgetPlan) -> None:
        self.book, self.plan = book, plan
        self.sheet = Sheet(book, "Tune")
        self.yellow = book.add_format({"bg_color": "#fff2cc", "color": "#1a1a1a", "border": 1})
        self.figures = book.add_format({"num_format": "0.000"})
        self.suppression, self.trade_off = Sheet(book, "Suppression"), Sheet(book, "Trade-off")
        self.inputs = self._inputs()
        self.noise, self.sums = NoiseSheet(book, self.inputs), SumsSheet(book, self.inputs)
        self.loss = LossSheet(book, self.inputs)
        self.end = FIRST + len(plan.levels) - 1
        self.total = self._sum()

    def write(self) -> None:
        """Write all sheets."""
        self.sheet.headings(FIRST - 1, list(COLUMNS.values()))
        levels = [(level.name, self._level(row, level)) for row, level in enumerate(self.plan.levels, FIRST)]
        self._spent()
        shown = next((i for i, level in enumerate(self.plan.levels) if not level.nation_or_state), 0)
        suppression_sheet(self.book, self.suppression, self.inputs, self.noise, levels, shown)
        usual = self.sheet.put(3, 4, MAX(2, self.inputs.race_codes) + 1)
        self.sheet.put(3, 3, "its stability")
        trade_off_sheet(self.book, self.trade_off, self.noise, usual, self.inputs.gamma, CURVE)
        self.sheet.sheet.set_column(0, 0, 30)
        self.sheet.sheet.set_column(1, len(COLUMNS) - 1, 11)
        self.sheet.sheet.freeze_panes(FIRST, 1)

    def _inputs(self) -> Inputs:
        plan, sheet = self.plan, self.sheet
        sheet.put(0, 0, f"SafeTEx: tuning SafeTab-P, {plan.source}", form=sheet.title)
        rows: list[tuple[str, float | str, dict[str, Any]]] = [
            ("privacy definition", plan.definition, {"validate": "list", "source": ["zcdp", "puredp"]}),
            ("gamma, the share of step 1", float(plan.gamma), _between(1e-6, 1 - 1e-6)),
            ("race multiplicity", plan.race_codes, _between(1, 8, "integer")),
            ("target error", float(plan.target), _between(1e-9, 1e9)),
            ("target is", "share" if plan.relative else "counts", {"validate": "list", "source": ["share", "counts"]}),
            ("chance that size 0 is suppressed", float(plan.chance), _between(0.5, 1 - 1e-12)),
            ("delta", float(plan.delta), _between(1e-300, 1 - 1e-12)),
        ]  # fmt: skip
        cells = []
        for row, (name, value, allowed) in enumerate(rows, 1):
            sheet.put(row, 0, name)
            cells.append(sheet.put(row, 1, value, form=self.yellow))
            sheet.sheet.data_validation(row, 1, row, 1, allowed)
        for row, note in enumerate(NOTES, 1):
            sheet.put(row + 3, 6, note)
        return Inputs(*cells)

    def _level(self, row: int, level: Level) -> NoiseCells:
        """Write the row of a level; returns the noise of its step 2."""
        plan, inputs = self.plan, self.inputs

        def put(name: str, content: Formula | float | str, form: Any = None) -> Formula:
            return self.sheet.put(row, _AT[name], content, form)

        put("level", level.name)
        state = put("is", "off" if level in plan.off else "on", form=self.yellow)
        self.sheet.sheet.data_validation(row, 1, row, 1, {"validate": "list", "source": ["on", "off"]})
        budget = put("budget", float(plan.levels[level]), form=self.yellow)
        self.sheet.sheet.data_validation(row, 2, row, 2, _between(1e-9, 1e6))
        own = put("own", (plan.stabilities or {}).get(level, ""), form=self.yellow)
        stability = put("stability", IF(IS_NUMBER(own), own, MAX(2, inputs.race_codes) + 1))
        shares: dict[str, Formula | float] = {"total_only": 1, "step_1": inputs.gamma, "count": 1 - inputs.gamma}
        noise = {
            name: self.noise.query(f"{level.name}, {COLUMNS[name]}", budget, share, stability)
            for name, share in shares.items()
        }
        margins = {name: put(name, query.margin) for name, query in noise.items()}
        cell = noise["count"]
        at = cell.parameter
        geometric = MAX(0, INT(at * (LN(40) - LN(1 + EXP(-1 / at))) - 1))
        put("recipe", IF(inputs.zcdp, INT(1.96 * SQRT(at) + 1e-9), geometric))
        for name, cells in CELLS.items():
            if name != "total":
                put(f"total_at_{name}", self.sums.margin(f"{level.name}, {name}", cell, cells))
            put(f"estimate_{name}", self._estimate(noise["step_1"], cell, cells))
            put(f"size_{name}", self._size(margins["count"], cells))
        put("size_total_only", self._size(margins["total_only"], 1))
        put("threshold", "never" if level.nation_or_state else cell.threshold)
        without = self.total - IF(state.equals("on"), budget, 0)
        for side, release in (("with", without + budget), ("without", without)):
            spent = put(side, release)
            put(f"epsilon_{side}", self.loss.epsilon(f"{side} {level.name}", spent), self.figures)
        return cell

    def _estimate(self, step_1: NoiseCells, step_2: NoiseCells, cells: int) -> Formula:
        """Return the margin of a total of `cells` cells, pooled by inverse variance."""
        variance = 1 / (1 / step_1.variance + 1 / (cells * step_2.variance)) + Formula("1/12", 1 / 12)
        return IF(self.inputs.zcdp, ROUND_UP(1.96 * SQRT(variance) - 0.5), "das tune")

    def _size(self, margin: Formula, cells: int) -> Formula:
        """Return the population from which a statistic of `cells` meets the target."""
        target = self.inputs.target
        relative, absolute = ROUND_UP(cells * margin / target - 1e-9), IF(margin <= target, 0, "never")
        return IF(IS_NUMBER(margin), IF(self.inputs.kind.equals("share"), relative, absolute), margin)

    def _sum(self) -> Formula:
        """Return the sum of the budgets of the levels that are on."""
        state, budget = (self.sheet.cells((FIRST, _AT[what]), (self.end, _AT[what])) for what in ("is", "budget"))
        total = sum(float(budget) for level, budget in self.plan.levels.items() if level not in self.plan.off)
        return Formula(f'SUMIF({state},"on",{budget})', total)

    def _spent(self) -> None:
        self.sheet.sheet.write_row(
            FIRST - 5, 0, ["the release spends", "budget", "epsilon at delta"], self.sheet.heading
        )
        for row, relation in enumerate(spend(self.plan.definition, [Fraction(1)]).relations, FIRST - 4):
            self.sheet.put(row, 0, relation.sentence)
            spent = self.sheet.put(row, 1, int(relation.figure or 0) * self.total)
            self.sheet.put(row, 2, self.loss.epsilon(relation.key, spent), self.figures)


def _between(low: float, high: float, kind: str = "decimal") -> dict[str, Any]:
    return {"validate": kind, "criteria": "between", "minimum": low, "maximum": high}
