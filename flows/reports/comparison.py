"""`das compare`: budgets of both mechanisms at the same margins of error, and the (epsilon, delta) of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from flows.reports.figures import digits, near, up
from flows.reports.terminal import refusing
from privacy.accounting.composition import LevelBudget, disjoint, query_budgets, rounded_up, spend
from privacy.analyses.comparison import Analysis, analyses
from privacy.analyses.comparison_tables import COMPARISON, DELTA, GAMMA, LOSSES, STABILITY, PrintedTable
from privacy.analyses.loss_distributions import LARGEST_EPSILON, LEAST_DELTA
from privacy.analyses.margin_budgets import least_budget, recipe_budget, recipe_margin
from privacy.noise.laws import UNITS, Definition, law
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhca.level_budgets import Setting
from tasks.pages.text_table import TextTable

MECHANISMS: dict[Definition, str] = {"puredp": "geometric", "zcdp": "discrete Gaussian"}
OTHER: dict[Definition, Definition] = {"puredp": "zcdp", "zcdp": "puredp"}
RECIPE = "recipe: the paper's formula, unrounded. least: proved to meet the target, rounded up."
MISSES = "The recipe's margin is one above its target: eq. (35) rounds a margin down that has to be rounded up."
UNEXPLAINED = "The printed 13.2 follows from no reading that the paper states: eq. (39) as written gives 13.57."
MARGINS = (
    "Margins at 95%, in counts: of a count measured in step 2, by the paper's formula and exact; of a TotalOnly group, "
    "exact. The last column is the least budget with which the other mechanism has the exact margin of step 2."
)
NOTES = (
    "Rounded up. unbounded: one record added or removed; bounded: one replaced. order: the Rényi order (unbounded).",
    "* no bound: Lemma 8 integrates over the real line, but the law is on the integers, so it understates the loss.",
)
PLD = (
    "PLD: privacy-loss distributions (dp-accounting), rounded up. For the geometric law TotalOnly is the "
    "worst case of any mixture of groups; for the Gaussian no reading is proved to be."
)
NO_PLD = f"No privacy-loss distributions: floating point needs delta >= {LEAST_DELTA:g}, epsilon <= {LARGEST_EPSILON}."
Answer = tuple[dict[str, Any], list[TextTable]]  # the data for --json, and the tables


def of_targets(page: PrintedTable, gamma: Fraction, stability: int, delta: Fraction) -> Answer:
    """Return the budgets that meet margin targets, as printed, by recipe and the least, and their losses."""
    on_page = gamma == GAMMA and stability == STABILITY
    shares = {"step 2": Fraction(1), "total": 1 / (1 - gamma)}
    tables: list[TextTable] = []
    sets: dict[str, list[Analysis]] = {"recipe": [], "least": []}
    data: dict[str, Any] = {"gamma": float(gamma), "stability": stability, "delta": float(delta), "budgets": {}}
    for definition, mechanism in MECHANISMS.items():
        with refusing():
            recipes = {level: recipe_budget(definition, target, stability) for level, target in page.targets.items()}
            leasts = {level: least_budget(definition, target, stability) for level, target in page.targets.items()}
            attained = {level: margin_of_error(law(definition, recipes[level], stability)) for level in recipes}
        budgets = page.budgets.get(definition, {}) if on_page else {}
        printed = {
            level: {"step 2": budgets[target].step_2, "total": budgets[target].total}
            for level, target in page.targets.items()
            if budgets
        }
        shown = ["printed"] * bool(printed) + ["recipe", "least"]
        columns = ["level", "target", *(f"{kind}, {which}" for kind in shares for which in shown), "recipe attains"]

        rows = [
            [
                level,
                str(target),
                *_cells(recipes[level], leasts[level], printed.get(level, {}), shares),
                str(attained[level]),
            ]
            for level, target in page.targets.items()
        ]
        sums = {kind: str(sum(Decimal(row[kind]) for row in printed.values())) for kind in shares if printed}
        recipe, least = (sum(each.values(), Fraction(0)) for each in (recipes, leasts))
        rows.append(["total", "", *_cells(recipe, least, sums, shares), ""])
        notes = [RECIPE, *[MISSES] * any(attained[level] > target for level, target in page.targets.items())]
        notes += [f"printed: {page.name}."] * bool(printed)
        title = f"Budgets for a margin of error, {mechanism} ({UNITS[definition]})"
        tables.append(TextTable(title, columns, rows, notes))
        data["budgets"][definition] = [
            {
                "level": level,
                "target": target,
                "recipe_attains": attained[level],
                "budgets": {
                    kind: ({"printed": printed[level][kind]} if printed else {})
                    | {"recipe": float(recipes[level] * share), "least": float(leasts[level] * share)}
                    for kind, share in shares.items()
                },
            }
            for level, target in page.targets.items()
        ]
        for which, found in (("recipe", recipes), ("least", leasts)):
            levels = [LevelBudget(budget / (1 - gamma), stability) for budget in found.values()]
            sets[which] += analyses(definition, levels, gamma, delta)
    losses = LOSSES if on_page and page is COMPARISON and delta == DELTA else {}
    title = f"(epsilon, {float(delta):g}) of these budgets"
    tables.append(_analyses_table(title, sets, losses, [UNEXPLAINED] * bool(losses)))
    data |= {"analyses": _analyses_json(sets, losses), "notes": [note for one in tables for note in one.notes]}
    return data, tables


def _cells(recipe: Fraction, least: Fraction, printed: Mapping[str, str], shares: Mapping[str, Fraction]) -> list[str]:
    """Return the budgets of a row: of step 2 and in total, printed, recipe and least."""
    cells = []
    for kind, share in shares.items():
        cells += [*([printed[kind]] if printed else []), near(recipe * share), digits(least * share)]
    return cells


def of_setting(settings: Sequence[Setting], delta: Fraction) -> Answer:
    """Return the margins of a configuration or a release, and what the other mechanism needs for them."""
    tables, jurisdictions = [], []
    spends = [spend(each.definition, (level.budget for level in each.levels.values())) for each in settings]
    both = disjoint(spends)
    for setting, spent in zip(settings, spends, strict=True):
        own, other, place = setting.definition, OTHER[setting.definition], setting.jurisdiction.upper()
        rows, levels, needed = [], [], []
        for level, measured in setting.levels.items():
            queries = query_budgets(measured.budget, setting.gamma)
            with refusing():
                noise = law(own, queries["stage_2"], measured.stability)
                recipe, margin = recipe_margin(noise), margin_of_error(noise)
                alone = margin_of_error(law(own, queries["total_only"], measured.stability))
                least = least_budget(other, margin, measured.stability) / (1 - setting.gamma)
            needed.append(LevelBudget(least, measured.stability))
            budgets = [near(measured.budget), str(measured.stability), near(queries["stage_2"])]
            rows.append([level.name, *budgets, str(recipe), str(margin), str(alone), digits(least)])
            facts = {"level": level.name, "budget": str(measured.budget), "stability": measured.stability}
            facts |= {"margin_by_recipe": recipe, "margin": margin, "margin_total_only": alone}
            levels.append(facts | {"least_of_other": float(least)})
        total = digits(sum((level.budget for level in needed), Fraction(0)))
        rows.append(["total", rounded_up(spent.charged), *[""] * 5, total])
        columns = ["level", UNITS[own], "stability", "step 2", "margin, recipe", "margin, exact", "margin, TotalOnly"]
        columns += [f"{MECHANISMS[other]}: least {UNITS[other]}"]
        title = f"Budgets and margins of error, {MECHANISMS[own]}: {place}, {setting.source}"
        tables.append(TextTable(title, columns, rows, [MARGINS]))
        with refusing():
            results = analyses(own, list(setting.levels.values()), setting.gamma, delta)
            results += analyses(other, needed, setting.gamma, delta)
        together = []
        if len(settings) > 1 and setting is settings[-1]:
            known = "; ".join(f"{row.sentence}, {row.words}" for row in both.rows(delta))
            together = [f"US and Puerto Rico together, since a person is in one of them: {known}."]
        title = f"(epsilon, {float(delta):g}) at these margins: {place}"
        tables.append(_analyses_table(title, {"": results}, {}, together))
        jurisdictions.append(
            {
                "source": setting.source,
                "region": setting.jurisdiction,
                "definition": own,
                "unit": UNITS[own],
                "spent": spent.as_json(delta),
                "levels": levels,
                "analyses": _analyses_json({"configuration": results}, {}),
            }
        )
    data: dict[str, Any] = {"delta": float(delta), "regions": jurisdictions}
    return data | ({"both_regions": both.as_json(delta)} if len(settings) > 1 else {}), tables


def _analyses_table(
    title: str, sets: Mapping[str, Sequence[Analysis]], printed: Mapping[str, str], notes: Sequence[str]
) -> TextTable:
    """Return a row per analysis: the printed figure, then for each named set of budgets a figure per relation."""
    prefixes = [f"{name}, " if name else "" for name in sets]
    columns = ["analysis", *(["printed"] if printed else [])]
    columns += [f"{prefix}{relation}" for prefix in prefixes for relation in ("unbounded", "bounded")]
    rows = []
    for same in _by_analysis(sets):
        analysis = next(iter(same.values()))
        row = [f"{MECHANISMS[analysis.definition]}: {analysis.label}{'*' * (analysis.standing == 'paper')}"]
        row += [printed.get(analysis.name, "")] if printed else []
        for name in sets:
            row += [up(same[name].unbounded), up(same[name].bounded)] if name in same else ["", ""]
        rows.append([*row, "" if analysis.order is None else f"{analysis.order:.4g}"])
    with_pld = all(any(analysis.name.startswith("pld") for analysis in results) for results in sets.values())
    verdicts = [_saving(name, results) for name, results in sets.items()]
    return TextTable(title, [*columns, "order"], rows, [*NOTES, PLD if with_pld else NO_PLD, *verdicts, *notes])


def _analyses_json(sets: Mapping[str, Sequence[Analysis]], printed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the table for `--json`."""
    plain = []
    for same in _by_analysis(sets):
        analysis = next(iter(same.values()))
        figures = {
            name: {"unbounded": one.unbounded, "bounded": one.bounded, "order": one.order} for name, one in same.items()
        }
        row = {"mechanism": analysis.definition, "analysis": analysis.name, "label": analysis.label}
        row |= {"standing": analysis.standing}
        row |= {"printed": printed[analysis.name]} if analysis.name in printed else {}
        plain.append(row | {"figures": figures})
    return plain


def _by_analysis(sets: Mapping[str, Sequence[Analysis]]) -> list[dict[str, Analysis]]:
    """Return the analyses by name of the set, one dictionary per kind of analysis."""
    rows: dict[tuple[str, str], dict[str, Analysis]] = {}
    for name, results in sets.items():
        for analysis in results:
            rows.setdefault((analysis.definition, analysis.name), {})[name] = analysis
    return list(rows.values())


def _saving(name: str, results: Sequence[Analysis]) -> str:
    """Return how the mechanisms compare by their sharpest bounds; of the two readings by PLD, by the larger."""
    sharpest = {}
    for definition in MECHANISMS:
        rows = [analysis for analysis in results if analysis.definition == definition]
        readings = [analysis.unbounded for analysis in rows if analysis.name.startswith("pld")]
        others = [
            analysis.unbounded for analysis in rows if analysis.is_epsilon_bound and not analysis.name.startswith("pld")
        ]
        sharpest[definition] = min([*others, max(readings)] if readings else others)
    ratio = sharpest["zcdp"] / sharpest["puredp"]
    budgets = f"With the {name} budgets" if name else "At these margins"
    side = "below" if ratio < 1 else "above"
    return f"{budgets} the discrete Gaussian's epsilon is {abs(1 - ratio):.1%} {side} the geometric one's."
