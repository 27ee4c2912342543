"""The answers of `das tune` and their tables: margins, sizes, suppression, bias, privacy loss, the trade-off curve.

The page computes its own answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from flows.reports.figures import digits, near, up
from flows.reports.tuning.plan import BudgetPlan
from privacy.accounting.composition import LevelBudget, read_spend, spend
from privacy.analyses.margin_budgets import least_budget, recipe_margin
from privacy.analyses.tuning import (
    LevelMargins,
    estimate_margins,
    level_laws,
    loss,
    margins,
    published_bias,
    sizes_for_margin,
    sizes_for_relative_error,
    suppression_probability,
)
from privacy.noise.laws import UNITS
from privacy.noise.margins import suppression_threshold
from privacy.noise.sampler import check_law
from tasks.errors import Refused, refusing
from tasks.releases.pages.text_table import TextTable
from tasks.safetab.configuration import NEVER
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import AGES_NAMES, BY_AGE, CELLS_OF, FINEST, TABLE_NAMES

MARGINS = {
    "total_only": "TotalOnly total",
    "step_1": "step 1 total",
    "count": "count of step 2",
    **{f"total_at_{name}": f"total of {AGES_NAMES[name]}" for name in BY_AGE},
}
SHARE_MET = (
    "A target that is a share of the count is met by a table of sex by age if the margin of its cells is at most this "
    "share of its average cell, which is the group divided by the number of its cells: "
    f"{', '.join(f'{CELLS_OF[name]} for {AGES_NAMES[name]}' for name in BY_AGE)}."
)
COUNTS_MET = (
    "A target in counts does not depend on the size of a group: all counts of a level have the same noise, so either "
    "groups of every size (0 and more) meet it, or no group ever does."
)
AGES_FROM = "Ages from: the noisy total of step 1 from which a group has this many (thresholds of config.json)."
NOT_MEASURED = "–"  # the figures of a level that a set of parameters does not measure
AT = ("0", "T/2", "T", "3T/2", "2T")
FRACTIONS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2))  # true sizes, as fractions of T
CURVE = [Fraction(digit, 10) * Fraction(10) ** power for power in (-2, -1, 0, 1) for digit in (1, 2, 5)]


def answers(plan: BudgetPlan) -> dict[str, Any]:
    """Return all answers as plain data, with budgets and sums as exact text, and None for a missing size."""
    with refusing():
        on = [level for level in plan.levels if level not in plan.off]
        of_release = spend(plan.definition, [plan.levels[level] for level in on]).as_json(plan.delta)
        levels = []
        for level, budget in plan.levels.items():
            others = [plan.levels[other] for other in on if other != level]
            levels.append(
                {
                    "level": level.name,
                    "on": level in on,
                    "budget": str(budget),
                    **_level(plan, level),
                    **({"ages_from": plan.thresholds[level]} if level in plan.thresholds else {}),
                    "with_it": spent(plan, [*others, budget]),
                    "without_it": spent(plan, others),
                }
            )
        curves = {
            stability: [
                {
                    "budget": str(budget),
                    "margins": _margins(margins(level_laws(plan.definition, level, plan.gamma), CELLS_OF)),
                }
                for budget in CURVE
                for level in [LevelBudget(budget, stability)]
            ]
            for stability in sorted({plan.stability(level) for level in plan.levels})
        }
    return {
        "source": plan.source,
        "definition": plan.definition,
        "unit": UNITS[plan.definition],
        "gamma": str(plan.gamma),
        "race_codes": plan.race_codes,
        "target": {"relative" if plan.relative else "margin": str(plan.target)},
        "zero_suppression_chance": str(plan.chance),
        "delta": float(plan.delta),
        "spent": of_release,
        "levels": levels,
        "trade_off": curves,
    }


def spent(plan: BudgetPlan, budgets: Sequence[Fraction]) -> dict[str, Any]:
    """Return the spend of a release with these budgets of levels."""
    total, epsilon = loss(plan.definition, budgets, plan.delta)
    return {"budget": str(total), "epsilon": epsilon}


def _level(plan: BudgetPlan, level: Level) -> dict[str, Any]:
    budget = plan.level_budget(level)
    laws = level_laws(plan.definition, budget, plan.gamma)
    for drawn in laws.values():
        with refusing(level.name):
            check_law(drawn)  # refuse what a run would refuse; sums over such a law would take minutes
    level_margins = margins(laws, CELLS_OF)
    answer = {
        "stability": budget.stability,
        "margins": _margins(level_margins),
        "margins_of_estimates": estimate_margins(laws, CELLS_OF),
        "deviation": laws["stage_2"].variance() ** 0.5,
        "margin_by_recipe": recipe_margin(laws["stage_2"]),
    }
    sizes: dict[str, int | None] = {}
    for margin, cells in ((level_margins.cell, CELLS_OF), (level_margins.total_only, {"total_only": 1})):
        if plan.relative:
            sizes |= sizes_for_relative_error(margin, plan.target, cells)
        else:
            sizes |= sizes_for_margin(margin, int(plan.target), cells)
    if not plan.relative:
        need = least_budget(plan.definition, int(plan.target), budget.stability) / (1 - plan.gamma)
        answer["least_budget_for_target"] = float(digits(need))
    noise, threshold = laws["stage_2"], suppression_threshold(laws["stage_2"], plan.chance)
    suppression = [
        {
            "size": size,
            "suppressed": suppression_probability(noise, threshold, size),
            "bias": published_bias(noise, threshold, size),
        }
        for size in (round(part * threshold) for part in FRACTIONS)
    ]
    return answer | {
        "sizes": sizes,
        "suppressible": not level.nation_or_state,
        "threshold": threshold,
        "suppression": suppression,
    }


def _margins(level_margins: LevelMargins) -> dict[str, int]:
    """Return the margins of a level; a T1 total with a table is a sum of cells."""
    sums = {f"total_at_{name}": margin for name, margin in level_margins.totals.items() if name != "total"}
    return {
        "total_only": level_margins.total_only,
        "step_1": level_margins.stage_1,
        "count": level_margins.cell,
        **sums,
    }


def tables(answers: Mapping[str, Any]) -> list[TextTable]:
    """Return the tables of a plan's answers."""
    measured = [level for level in answers["levels"] if level["on"]]
    shown = [make(answers, measured) for make in (_margins_table, _estimates, _sizes)]
    shown = [*shown, *_detail(measured), *_suppression(measured), _loss(answers)]
    return [*shown, *(_curve(answers, stability) for stability in answers["trade_off"])]


def _margins_table(answers: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> TextTable:
    columns = ["level", answers["unit"], "stability", *MARGINS.values(), "count of step 2, recipe"]
    rows = []
    for level in measured:
        figures = [str(level["margins"][name]) for name in MARGINS]
        budget = near(Fraction(level["budget"]))
        rows.append([level["level"], budget, str(level["stability"]), *figures, str(level["margin_by_recipe"])])
    notes = [
        "Exact, in counts. A count of step 2 is a total published alone or a sex-by-age cell. The total of a table by "
        "age is the sum of its cells.",
        "recipe: floor(1.96 sigma), or eq. (35) of the comparison paper; it can be too small by one.",
    ]
    return TextTable(f"Margins of error at 95%: {answers['source']}", columns, rows, notes)


def _estimates(answers: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> TextTable:
    columns = [f"{name}, {kind}" for name in AGES_NAMES.values() for kind in ("count", "estimate")]
    rows = []
    for level in measured:
        counts = [level["margins"]["count"], *(level["margins"][f"total_at_{name}"] for name in BY_AGE)]
        pairs = zip(counts, level["margins_of_estimates"].values(), strict=True)
        rows.append([level["level"], *(str(margin) for pair in pairs for margin in pair)])
    notes = ["An estimate (das run --estimates) combines both noisy answers. Near a threshold its margin is wider."]
    if answers["unit"] == "epsilon" and Fraction(answers["gamma"]) > Fraction(1, 10):
        notes.append(
            "Under pure DP with a gamma above 0.1 a run may combine less, so that margins hold: see its manifest."
        )
    return TextTable("Margins of error of totals at 95%, as counts and as estimates", ["level", *columns], rows, notes)


def _sizes(answers: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> TextTable:
    relative = "relative" in answers["target"]
    target = Fraction(next(iter(answers["target"].values())))
    columns = ["level", *TABLE_NAMES.values(), "TotalOnly total", *([] if relative else [f"least {answers['unit']}"])]
    rows = []
    for level in measured:
        sizes = [level["sizes"][name] for name in (*TABLE_NAMES, "total_only")]
        need = [] if relative else [near(level["least_budget_for_target"], 6)]
        shown = ["never" if size is None else f"{size:,}" if size else "any" for size in sizes]
        rows.append([level["level"], *shown, *need])
    if relative:
        title = f"Population from which the margin of error is at most {float(target):.4g} of the count"
        notes = [f"In persons. {SHARE_MET}"]
    else:
        title = f"Population from which the margin of error is at most {target} counts"
        notes = [f"{COUNTS_MET} The last column is the least budget that meets it."]
    return TextTable(title, columns, rows, notes)


def ages_from(levels: Iterable[Sequence[int] | None]) -> dict[str, list[str]]:
    """Return the columns of the totals from which a group has a table by age; levels: None for unknown thresholds."""
    texts = [
        ["–"] * len(BY_AGE) if one is None else ["never" if at >= NEVER else f"{at:,}" for at in one] for one in levels
    ]
    names = [f"{AGES_NAMES[name]} from" for name in BY_AGE]
    return {name: [row[number] for row in texts] for number, name in enumerate(names)}


def _detail(measured: Iterable[Mapping[str, Any]]) -> list[TextTable]:
    """Return the table of the totals at which a group gets more ages, if a file has them."""
    known = [level for level in measured if "ages_from" in level]
    if not known:
        return []
    columns = ages_from(level["ages_from"] for level in known)
    cells = zip(*columns.values(), strict=True)
    rows = [[level["level"], *texts] for level, texts in zip(known, cells, strict=True)]
    return [TextTable("Total from which a group is published by sex and age", ["level", *columns], rows, [AGES_FROM])]


def _suppression(measured: Iterable[Mapping[str, Any]]) -> list[TextTable]:
    chances, biases = [], []
    for level in (level for level in measured if level["suppressible"]):
        name, threshold = level["level"], str(level["threshold"])
        points = level["suppression"]
        chances.append([name, threshold, *(f"{point['suppressed']:.6f}" for point in points)])
        biases.append([name, threshold, *(f"{point['bias']:.3f}" for point in points)])
    if not chances:
        return []
    columns = [f"n = {at}" for at in AT]
    note = "Groups below the state with a total alone; n is the true size, T the threshold of eq. (12)."
    lean = "In counts: E[X | n + X > T], exact; the paper's eq. (13) is that of continuous noise."
    return [
        TextTable("Probability of suppression (Figure 1)", ["level", "T", *columns], chances, [note]),
        TextTable("Bias of a published total (Figure 2)", ["level", "T", *columns], biases, [lean]),
    ]


def _loss(answers: Mapping[str, Any]) -> TextTable:
    unit, zcdp = answers["unit"], answers["unit"] == "rho"
    at = f"epsilon at {answers['delta']:g}"
    columns = ["level", "is", unit, f"{unit} with it", f"{unit} without it"]
    columns += [f"{at}, with it", f"{at}, without it"] if zcdp else []
    rows = []
    for level in answers["levels"]:
        sides = [level["with_it"], level["without_it"]]
        budgets = [near(Fraction(side["budget"])) for side in sides]
        epsilons = [up(side["epsilon"]) for side in sides] if zcdp else []
        rows.append(
            [level["level"], "on" if level["on"] else "off", near(Fraction(level["budget"])), *budgets, *epsilons]
        )
    relations = read_spend(answers["spent"]).rows(answers["delta"])
    notes = [f"The release spends, for {row.sentence}, {row.words}." for row in relations]
    title = f"Privacy loss of the release with and without each level ({relations[0].sentence})"
    return TextTable(title, columns, rows, notes)


def _curve(answers: Mapping[str, Any], stability: int) -> TextTable:
    rows = [
        [near(Fraction(point["budget"])), *(f"{point['margins'][name]:,}" for name in MARGINS)]
        for point in answers["trade_off"][stability]
    ]
    title = f"Margins of error over the {answers['unit']} of a level, stability {stability}"
    return TextTable(title, [answers["unit"], *MARGINS.values()], rows)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> TextTable:
    """Return the levels whose figures differ between the answers of two plans; `11 → 14` for a figure that differs.

    Raises Refused if one is in rho and the other in epsilon.
    """
    if first["unit"] != second["unit"]:
        raise Refused(
            f"{first['source']} is in {first['unit']}, {second['source']} in {second['unit']}: see das compare"
        )
    sides = [
        {level["level"]: _figures(level, first["unit"]) for level in one["levels"] if level["on"]}
        for one in (first, second)
    ]
    names = list(dict.fromkeys(name for side in sides for name in side))
    heads = list(dict.fromkeys(head for side in sides for figures in side.values() for head in figures))
    pairs = {name: [[side.get(name, {}).get(head, NOT_MEASURED) for side in sides] for head in heads] for name in names}
    rows = [
        [name, *(a if a == b else f"{a} → {b}" for a, b in found)]
        for name, found in pairs.items()
        if any(a != b for a, b in found)
    ]
    notes = [
        f"{len(names) - len(rows)} of {len(names)} levels are the same.",
        *([SHARE_MET] * ("relative" in first["target"])),
    ]
    for one in (first, second):
        row = read_spend(one["spent"]).rows(one["delta"])[0]
        notes.append(f"{one['source']}: the release spends, for {row.sentence}, {row.words}.")
    return TextTable(f"{first['source']} → {second['source']}", ["level", *heads], rows, notes)


def _figures(level: Mapping[str, Any], unit: str) -> dict[str, str]:
    """Return the figures of a level to compare, by column heading."""
    sizes = {f"size for {words}": level["sizes"][name] for name, words in AGES_NAMES.items()}
    ages = ages_from([level["ages_from"]]) if "ages_from" in level else {}
    return {
        unit: near(Fraction(level["budget"])),
        "stability": str(level["stability"]),
        "margin of a count": f"{level['margins']['count']:,}",
        f"margin of {AGES_NAMES[FINEST]}": f"{level['margins'][f'total_at_{FINEST}']:,}",
        **{name: "never" if size is None else f"{size:,}" for name, size in sizes.items()},
        "suppressed up to": f"{level['threshold']:,}" if level["suppressible"] else "never",
        **{name: texts[0] for name, texts in ages.items()},
    }
