"""`das compare` from margin targets: printed budget, the paper's recipe and the least one, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from flows.reports.analyses_table import MECHANISMS, analyses_json, analyses_table
from flows.reports.figures import digits, near
from flows.reports.terminal import refusing
from privacy.accounting.composition import LevelBudget
from privacy.analyses.comparison import Analysis, analyses
from privacy.analyses.comparison_tables import COMPARISON, DELTA, GAMMA, LOSSES, STABILITY, PrintedBudget, PrintedTable
from privacy.analyses.margin_budgets import least_budget, recipe_budget
from privacy.noise.laws import UNITS, Definition, law
from privacy.noise.margins import margin_of_error
from tasks.pages.text_table import TextTable

RECIPE = "recipe: the paper's formula, unrounded. least: proved to meet the target, rounded up."
MISSES = "The recipe's margin is one above its target: eq. (35) rounds a margin down that has to be rounded up."
DOUBLED = (
    "Printed bounded figures are twice the rounded unbounded ones (.318 and .016, where .317 and .015 are nearer)."
)
UNEXPLAINED = "The printed 13.2 follows from no reading that the paper states: eq. (39) as written gives 13.57."
WHICH = ("recipe", "least")


@dataclass(frozen=True)
class Row:
    """One level: its target margin, its budgets for step 2 by recipe and the least, and what the paper prints."""

    level: str
    target: int
    recipe: Fraction
    least: Fraction
    attained: int
    printed: Mapping[str, str]

    def cells(self, kinds: Mapping[str, Fraction]) -> list[str]:
        """Return the row of a table: per kind of budget printed, recipe, least."""
        return [self.level, str(self.target), *_cells(self.printed, self.recipe, self.least, kinds), str(self.attained)]

    def json(self, kinds: Mapping[str, Fraction]) -> dict[str, Any]:
        """Return the form that --json prints."""
        budgets = {
            kind: ({"printed": self.printed[kind]} if self.printed else {})
            | {"recipe": float(self.recipe * share), "least": float(self.least * share)}
            for kind, share in kinds.items()
        }
        return {"level": self.level, "target": self.target, "recipe_attains": self.attained, "budgets": budgets}


def of_targets(
    table: PrintedTable, gamma: Fraction, stability: int, delta: Fraction
) -> tuple[dict[str, Any], list[TextTable]]:
    """Return the data for `--json` and the tables: budgets of both mechanisms, and what those guarantee at delta."""
    on_page = gamma == GAMMA and stability == STABILITY
    kinds = {"step 2": Fraction(1), "total": 1 / (1 - gamma)}
    if table.bounded:
        kinds |= {f"bounded {kind}": 2 * share for kind, share in kinds.items()}
    tables: list[TextTable] = []
    sets: dict[str, list[Analysis]] = {which: [] for which in WHICH}
    data: dict[str, Any] = {"gamma": float(gamma), "stability": stability, "delta": float(delta), "budgets": {}}
    for definition in MECHANISMS:
        printed = table.budgets.get(definition, {}) if on_page else {}
        rows = [_row(definition, level, target, stability, printed) for level, target in table.targets.items()]
        for part in [kinds] if not table.bounded else [_half(kinds, bounded=False), _half(kinds, bounded=True)]:
            tables.append(_table(definition, rows, part, table.name if printed else ""))
        data["budgets"][definition] = [row.json(kinds) for row in rows]
        for which in WHICH:
            levels = [LevelBudget(getattr(row, which) / (1 - gamma), stability) for row in rows]
            sets[which] += analyses(definition, levels, gamma, delta)
    losses = LOSSES if on_page and table is COMPARISON and delta == DELTA else {}
    compared = analyses_table(f"(epsilon, {float(delta):g}) of these budgets", sets, losses)
    tables.append(
        TextTable(compared.title, compared.columns, compared.rows, [*compared.notes, *[UNEXPLAINED] * bool(losses)])
    )
    data |= {"analyses": analyses_json(sets, losses), "notes": [note for one in tables for note in one.notes]}
    return data, tables


def _row(definition: Definition, level: str, target: int, stability: int, page: Mapping[int, PrintedBudget]) -> Row:
    with refusing():
        recipe = recipe_budget(definition, target, stability)
        attained = margin_of_error(law(definition, recipe, stability))
        least = least_budget(definition, target, stability)
    printed = {"step 2": page[target].step_2, "total": page[target].total} if page else {}
    printed |= {f"bounded {kind}": str(2 * Decimal(text)) for kind, text in printed.items()}
    return Row(level, target, recipe, least, attained, printed)


def _half(kinds: Mapping[str, Fraction], *, bounded: bool) -> dict[str, Fraction]:
    return {kind: share for kind, share in kinds.items() if kind.startswith("bounded") == bounded}


def _table(definition: Definition, rows: Sequence[Row], kinds: Mapping[str, Fraction], source: str) -> TextTable:
    printed = {kind: str(sum(Decimal(row.printed[kind]) for row in rows)) for kind in kinds} if source else {}
    recipe, least = (sum((getattr(row, which) for row in rows), Fraction(0)) for which in WHICH)
    total = ["total", "", *_cells(printed, recipe, least, kinds), ""]
    shown = ["printed", *WHICH] if source else WHICH
    columns = ["level", "target", *(f"{kind}, {which}" for kind in kinds for which in shown), "recipe attains"]
    notes = [
        RECIPE,
        *[MISSES] * any(row.attained > row.target for row in rows),
        *[f"printed: {source}."] * bool(source),
        *[DOUBLED] * ("bounded total" in printed),
    ]
    title = f"Budgets for a margin of error, {MECHANISMS[definition]} ({UNITS[definition]})"
    return TextTable(title, columns, [*(row.cells(kinds) for row in rows), total], notes)


def _cells(printed: Mapping[str, str], recipe: Fraction, least: Fraction, kinds: Mapping[str, Fraction]) -> list[str]:
    cells = []
    for kind, share in kinds.items():
        cells += [*([printed[kind]] if printed else []), near(recipe * share), digits(least * share)]
    return cells
