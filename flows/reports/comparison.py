"""`das compare`: budgets of both mechanisms at the same margins of error, and the (epsilon, delta) of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

from flows.reports.figures import digits, near, up
from privacy.accounting.composition import LevelBudget, disjoint, query_budgets, spend
from privacy.analyses.comparison import LARGEST_EPSILON, LEAST_DELTA, Analysis, analyses
from privacy.analyses.comparison_tables import COMPARISON, DELTA, GAMMA, LOSSES, STABILITY, PrintedTable
from privacy.analyses.margin_budgets import least_budget, recipe_budget
from privacy.noise.laws import UNITS, Definition, law
from privacy.noise.margins import margin_of_error
from tasks.errors import Refused, refusing
from tasks.releases.pages.text_table import TextTable
from tasks.safetab.persons.level_budgets import Setting

LARGEST_MARGIN = 10_000  # counts; with wider noise, exact laws take too many seconds
MECHANISMS: dict[Definition, str] = {"puredp": "geometric", "zcdp": "discrete Gaussian"}
RECIPE = "recipe: the paper's formula, unrounded. least: proved to meet the target, rounded up."
MISSES = "The recipe's margin is one above its target: eq. (35) rounds down a margin that must be rounded up."
UNEXPLAINED = "The printed 13.2 follows from no reading that the paper states: eq. (39) as written gives 13.57."
NOTES = (
    "Rounded up. unbounded: one record added or removed; bounded: one replaced. order: the Rényi order (unbounded).",
    "* no bound: Lemma 8 integrates over the real line, but the law is on the integers, so it understates the loss.",
)
PLD = (
    "PLD: privacy-loss distributions (dp-accounting), rounded up. For the geometric law TotalOnly is the "
    "worst case of any mixture of groups, a bound; every other reading is one only if all groups are of its kind."
)
NO_PLD = f"No privacy-loss distributions: floating point needs delta >= {LEAST_DELTA:g}, epsilon <= {LARGEST_EPSILON}."
Comparison = tuple[dict[str, Any], list[TextTable]]  # the data for --json, and the tables


@dataclass(frozen=True)
class Case:
    """Margin targets at which to compare the mechanisms.

    targets: by level the margin, in counts, and the stability. stated: stated budgets by mechanism and level, for step
    2 and in total; `word` says where they come from. losses: printed figures by analysis.
    """

    targets: Mapping[str, tuple[int, int]]
    gamma: Fraction
    word: str
    stated: Mapping[Definition, Mapping[str, Mapping[str, str]]]
    losses: Mapping[str, str] = field(default_factory=dict)


def compare_targets(page: PrintedTable, gamma: Fraction, stability: int, delta: Fraction) -> Comparison:
    """Return the budgets that meet margin targets, as printed, by recipe and the least, and their losses."""
    on_page = gamma == GAMMA and stability == STABILITY
    printed = {
        definition: {
            level: {"step 2": budgets[target].step_2, "total": budgets[target].total}
            for level, target in page.targets.items()
        }
        for definition, budgets in page.budgets.items()
        if on_page
    }
    losses = LOSSES if on_page and page is COMPARISON and delta == DELTA else {}
    targets = {level: (target, stability) for level, target in page.targets.items()}
    notes = [f"printed: {page.name}."] * bool(printed) + [UNEXPLAINED] * bool(losses)
    case = Case(targets, gamma, "printed", printed, losses)
    data, tables = _compare(case, delta, {}, "of these budgets", notes)
    return data | {"stability": stability, "delta": float(delta)}, tables


def compare_settings(settings: Sequence[Setting], delta: Fraction) -> Comparison:
    """Return the same for the margins and budgets of a configuration or a release, by jurisdiction."""
    tables, jurisdictions = [], []
    spends = [spend(each.definition, (level.budget for level in each.levels.values())) for each in settings]
    both = disjoint(spends)
    for setting, spent in zip(settings, spends, strict=True):
        own, targets, budgets = setting.definition, {}, {}
        for level, measured in setting.levels.items():
            step_2 = query_budgets(measured.budget, setting.gamma)["stage_2"]
            with refusing():
                margin = max(1, margin_of_error(law(own, step_2, measured.stability)))
            if margin > LARGEST_MARGIN:
                what = f"{setting.source}: the margin of error of {level.name} is {margin:,} counts"
                raise Refused(f"{what}, and what is compared has at most {LARGEST_MARGIN:,}")
            targets[level.name] = margin, measured.stability
            budgets[level.name] = {"step 2": near(step_2), "total": near(measured.budget)}
        with refusing():
            sets = {"configured": analyses(own, list(setting.levels.values()), setting.gamma, delta)}
        notes = [f"configured: {setting.source}, whose exact margins are the targets."]
        if len(settings) > 1 and setting is settings[-1]:
            known = "; ".join(f"{row.sentence}, {row.words}" for row in both.rows(delta))
            notes.append(f"US and Puerto Rico together, since a person is in one of them: {known}.")
        case = Case(targets, setting.gamma, "configured", {own: budgets})
        data, found = _compare(case, delta, sets, f"of these budgets: {setting.jurisdiction.upper()}", notes)
        tables += found
        facts = {"source": setting.source, "region": setting.jurisdiction, "definition": own, "unit": UNITS[own]}
        jurisdictions.append(facts | {"spent": spent.as_json(delta)} | data)
    all_data: dict[str, Any] = {"delta": float(delta), "regions": jurisdictions}
    return all_data | ({"both_regions": both.as_json(delta)} if len(settings) > 1 else {}), tables


def _compare(
    case: Case, delta: Fraction, stated: Mapping[str, list[Analysis]], of_what: str, more: Sequence[str]
) -> Comparison:
    """Return the budgets of both mechanisms by level, and the losses of these budgets and of stated ones."""
    shares = {"step 2": Fraction(1), "total": 1 / (1 - case.gamma)}
    tables: list[TextTable] = []
    sets: dict[str, list[Analysis]] = {**stated, "recipe": [], "least": []}
    data: dict[str, Any] = {"gamma": float(case.gamma), "budgets": {}}
    for definition, mechanism in MECHANISMS.items():
        stating = case.stated.get(definition, {})
        shown = [case.word] * bool(stating) + ["recipe", "least"]
        columns = ["level", "target", *(f"{kind}, {which}" for kind in shares for which in shown), "recipe attains"]
        rows: list[list[str]] = []
        plain: list[dict[str, Any]] = []
        found: dict[str, list[LevelBudget]] = {"recipe": [], "least": []}
        for level, (target, stability) in case.targets.items():
            with refusing():
                budgets = {
                    "recipe": recipe_budget(definition, target, stability),
                    "least": least_budget(definition, target, stability),
                }
                attained = margin_of_error(law(definition, budgets["recipe"], stability))
            own = stating.get(level, {})
            rows.append([level, str(target), *_cells(budgets, own, shares), str(attained)])
            each = {
                kind: ({case.word: own[kind]} if own else {})
                | {which: float(budget * share) for which, budget in budgets.items()}
                for kind, share in shares.items()
            }
            plain.append({"level": level, "target": target, "stability": stability, "recipe_attains": attained})
            plain[-1]["budgets"] = each
            for which, budget in budgets.items():
                found[which].append(LevelBudget(budget / (1 - case.gamma), stability))
        totals = {kind: str(sum(Decimal(row[kind]) for row in stating.values())) for kind in shares if stating}
        sums = {which: sum((each.budget for each in levels), Fraction(0)) for which, levels in found.items()}
        steps = {which: total * (1 - case.gamma) for which, total in sums.items()}
        rows.append(["total", "", *_cells(steps, totals, shares), ""])
        misses = any(row["recipe_attains"] > row["target"] for row in plain)
        title = f"Budgets for a margin of error, {mechanism} ({UNITS[definition]})"
        tables.append(TextTable(title, columns, rows, [RECIPE, *[MISSES] * misses]))
        data["budgets"][definition] = plain
        for which, levels in found.items():
            sets[which] += analyses(definition, levels, case.gamma, delta)
    tables.append(_analyses_table(f"(epsilon, {float(delta):g}) {of_what}", sets, case.losses, more))
    data |= {"analyses": _analyses_json(sets, case.losses), "notes": [note for one in tables for note in one.notes]}
    return {"conclusion": _conclusion(sets["least"], len(case.targets), delta)} | data, tables


def _conclusion(least: Sequence[Analysis], levels: int, delta: Fraction) -> str:
    """Say which mechanism has the smaller proved epsilon at the same margins, and by how much, rounded down."""
    proved = {
        definition: min(one.unbounded for one in least if one.definition == definition and one.is_epsilon_bound)
        for definition in MECHANISMS
    }
    better, worse = sorted(MECHANISMS, key=lambda definition: proved[definition])
    saved = floor(1000 * (1 - Fraction(repr(proved[better])) / Fraction(repr(proved[worse])))) / 10
    return (
        f"At the same margins of error ({levels} level{'s' * (levels > 1)}) the {MECHANISMS[better]} mechanism needs "
        f"the smaller proved epsilon: {up(proved[better])} at delta {float(delta):g}, at least {saved:.1f}% below "
        f"{up(proved[worse])} for the {MECHANISMS[worse]} mechanism (least budgets, one record added or removed). "
        "Under the tables each mechanism has its sharpest figure, proved for both or not."
    )


def _cells(budgets: Mapping[str, Fraction], stated: Mapping[str, str], shares: Mapping[str, Fraction]) -> list[str]:
    """Return the budgets in a row, for step 2 and in total: stated, by recipe and the least."""
    cells = []
    for kind, share in shares.items():
        stating = [stated[kind]] if stated else []
        cells += [*stating, near(budgets["recipe"] * share), digits(budgets["least"] * share)]
    return cells


def _analyses_table(
    title: str, sets: Mapping[str, Sequence[Analysis]], printed: Mapping[str, str], notes: Sequence[str]
) -> TextTable:
    """Return a row per analysis: the printed figure, then for each named set of budgets a figure per relation."""
    columns = ["analysis", *(["printed"] if printed else [])]
    columns += [f"{name}, {relation}" for name in sets for relation in ("unbounded", "bounded")]
    rows = []
    for same in _by_analysis(sets):
        analysis = next(iter(same.values()))
        row = [f"{MECHANISMS[analysis.definition]}: {analysis.label}{'*' * (analysis.standing == 'paper')}"]
        row += [printed.get(analysis.name, "")] if printed else []
        for name in sets:
            row += [up(same[name].unbounded), up(same[name].bounded)] if name in same else ["", ""]
        rows.append([*row, "" if analysis.order is None else f"{analysis.order:.4g}"])
    with_pld = all(any(analysis.name.startswith("pld") for analysis in results) for results in sets.values())
    verdicts = [_saving(name, results) for name, results in sets.items() if name != "configured"]
    return TextTable(title, [*columns, "order"], rows, [*NOTES, PLD if with_pld else NO_PLD, *verdicts, *notes])


def _analyses_json(sets: Mapping[str, Sequence[Analysis]], printed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the table's rows for `--json`."""
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
    """Compare the mechanisms by their sharpest figures; of the two PLD readings the larger counts."""
    sharpest = {}
    for definition in MECHANISMS:
        rows = [analysis for analysis in results if analysis.definition == definition]
        readings = [analysis for analysis in rows if analysis.name.startswith("pld")]
        larger = [max(readings, key=lambda one: one.unbounded)] if readings else []
        bounds = [analysis for analysis in rows if analysis.is_epsilon_bound]
        sharpest[definition] = min([*bounds, *larger], key=lambda one: one.unbounded)
    ratio = sharpest["zcdp"].unbounded / sharpest["puredp"].unbounded
    side = "below" if ratio < 1 else "above"
    unproved = "" if sharpest["zcdp"].is_epsilon_bound else ", by PLD, which is proved for the geometric one alone"
    return (
        f"With the {name} budgets the discrete Gaussian's epsilon is {abs(1 - ratio):.1%} {side} the geometric one's"
        f"{unproved}."
    )
