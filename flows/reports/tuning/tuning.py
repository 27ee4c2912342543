"""The answers of `das tune` for its tables; the page and the workbook compute their own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flows.reports.terminal import refusing
from flows.reports.tuning.plan import BudgetPlan
from privacy.accounting.composition import LevelBudget, spend
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
from tasks.population_groups.levels import Level

FRACTIONS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2))  # of T, as true sizes
CURVE = [Fraction(digit, 10) * Fraction(10) ** power for power in (-2, -1, 0, 1) for digit in (1, 2, 5)]


def answers(plan: BudgetPlan) -> dict[str, Any]:
    """Return all answers as plain data: budgets and sums as exact text, None for a size that does not exist."""
    with refusing():
        budgets = plan.levels
        on = [level for level in budgets if level not in plan.off]
        spent = spend(plan.definition, [budgets[level] for level in on]).as_json(plan.delta)
        levels = []
        for level, budget in budgets.items():
            others = [budgets[other] for other in on if other != level]
            (with_it, epsilon_with), (without_it, epsilon_without) = (
                loss(plan.definition, spending, plan.delta) for spending in ([*others, budget], others)
            )
            levels.append(
                {
                    "level": level.name,
                    "on": level in on,
                    "budget": str(budget),
                    **_level(plan, level, plan.level_budget(level)),
                    "with_it": {"budget": str(with_it), "epsilon": epsilon_with},
                    "without_it": {"budget": str(without_it), "epsilon": epsilon_without},
                }
            )
        curves = {
            stability: [
                {"budget": str(budget), "margins": _margins(margins(level_laws(plan.definition, level, plan.gamma)))}
                for budget in CURVE
                for level in [LevelBudget(budget, stability)]
            ]
            for stability in sorted({plan.stability(level) for level in budgets})
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
        "spent": spent,
        "levels": levels,
        "trade_off": curves,
    }


def _level(plan: BudgetPlan, level: Level, budget: LevelBudget) -> dict[str, Any]:
    laws = level_laws(plan.definition, budget, plan.gamma)
    for drawn in laws.values():
        check_law(drawn)  # refuse what a run would refuse; sums over such a law would take minutes
    level_margins = margins(laws)
    answer = {
        "stability": budget.stability,
        "margins": _margins(level_margins),
        "margins_of_estimates": estimate_margins(laws),
        "deviation": laws["stage_2"].variance() ** 0.5,
        "margin_by_recipe": recipe_margin(laws["stage_2"]),
    }
    if plan.relative:
        sizes: dict[str, Any] = {**sizes_for_relative_error(level_margins.cell, plan.target)}
        sizes["total_only"] = sizes_for_relative_error(level_margins.total_only, plan.target)["total"]
    else:
        sizes = {**sizes_for_margin(level_margins.cell, int(plan.target))}
        sizes["total_only"] = sizes_for_margin(level_margins.total_only, int(plan.target))["total"]
        need = least_budget(plan.definition, int(plan.target), budget.stability) / (1 - plan.gamma)
        answer["least_budget_for_target"] = float(need)
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
