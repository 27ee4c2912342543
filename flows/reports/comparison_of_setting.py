"""`das compare` from a configuration or a release: its margins, and what the other mechanism needs for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flows.reports.analyses_table import MECHANISMS, analyses_json, analyses_table
from flows.reports.figures import digits, near
from flows.reports.terminal import refusing
from privacy.accounting.composition import LevelBudget, disjoint, query_budgets, rounded_up, spend
from privacy.analyses.comparison import analyses
from privacy.analyses.margin_budgets import least_budget, recipe_margin
from privacy.noise.laws import UNITS, Definition, law
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhca.level_budgets import Setting
from tasks.pages.text_table import TextTable

OTHER: dict[Definition, Definition] = {"puredp": "zcdp", "zcdp": "puredp"}
MARGINS = (
    "Margins at 95%, in counts: of a count measured in step 2, by the paper's formula and exact; of a TotalOnly group, "
    "exact. The last column is the least budget with which the other mechanism has the exact margin of step 2."
)


@dataclass(frozen=True)
class Row:
    """One level as it is measured, and the least budget of the other mechanism for the same margin in step 2."""

    level: str
    measured: LevelBudget
    step_2: Fraction
    recipe: int
    margin: int
    total_only: int
    other: LevelBudget

    def cells(self) -> list[str]:
        """Return the row of a table."""
        budgets = [near(self.measured.budget), str(self.measured.stability), near(self.step_2)]
        return [self.level, *budgets, *map(str, (self.recipe, self.margin, self.total_only)), digits(self.other.budget)]

    def json(self) -> dict[str, Any]:
        """Return the form that --json prints."""
        row = {"level": self.level, "budget": str(self.measured.budget), "stability": self.measured.stability}
        row |= {"margin_by_recipe": self.recipe, "margin": self.margin, "margin_total_only": self.total_only}
        return row | {"least_of_other": float(self.other.budget)}


def of_setting(settings: Sequence[Setting], delta: Fraction) -> tuple[dict[str, Any], list[TextTable]]:
    """Return the data for `--json` and the tables, jurisdiction by jurisdiction."""
    tables, jurisdictions, spends = [], [], []
    for setting in settings:
        own, other = setting.definition, OTHER[setting.definition]
        rows = [_row(setting, level.name, budget) for level, budget in setting.levels.items()]
        spends.append(spend(own, (row.measured.budget for row in rows)))
        needed = sum((row.other.budget for row in rows), Fraction(0))
        total = ["total", rounded_up(spends[-1].charged), *[""] * 5, digits(needed)]
        columns = ["level", UNITS[own], "stability", "step 2", "margin, recipe", "margin, exact", "margin, TotalOnly"]
        columns += [f"{MECHANISMS[other]}: least {UNITS[other]}"]
        where = f"{setting.jurisdiction.upper()}, {setting.source}"
        tables.append(
            TextTable(
                f"Budgets and margins of error, {MECHANISMS[own]}: {where}",
                columns,
                [*(row.cells() for row in rows), total],
                [MARGINS],
            )
        )
        with refusing():
            results = analyses(own, [row.measured for row in rows], setting.gamma, delta)
            results += analyses(other, [row.other for row in rows], setting.gamma, delta)
        title = f"(epsilon, {float(delta):g}) at these margins: {setting.jurisdiction.upper()}"
        tables.append(analyses_table(title, {"": results}, {}))
        facts = {
            "source": setting.source,
            "region": setting.jurisdiction,
            "definition": own,
            "unit": UNITS[own],
            "spent": spends[-1].as_json(delta),
        }
        levels = [row.json() for row in rows]
        jurisdictions.append(facts | {"levels": levels, "analyses": analyses_json({"configuration": results}, {})})
    data: dict[str, Any] = {"delta": float(delta), "regions": jurisdictions}
    if len(spends) > 1:
        both = disjoint(spends)
        data["both_regions"] = both.as_json(delta)
        last = tables[-1]
        known = "; ".join(f"{row.sentence}, {row.words}" for row in both.rows(delta))
        note = f"US and Puerto Rico together, since a person is in one of them: {known}."
        tables[-1] = TextTable(last.title, last.columns, last.rows, [*last.notes, note])
    return data, tables


def _row(setting: Setting, name: str, level: LevelBudget) -> Row:
    queries = query_budgets(level.budget, setting.gamma)
    with refusing():
        noise = law(setting.definition, queries["stage_2"], level.stability)
        margin = margin_of_error(noise)
        alone = margin_of_error(law(setting.definition, queries["total_only"], level.stability))
        need = least_budget(OTHER[setting.definition], margin, level.stability) / (1 - setting.gamma)
    other = LevelBudget(need, level.stability)
    return Row(name, level, queries["stage_2"], recipe_margin(noise), margin, alone, other)
