"""The budget of a level that makes a margin of error small enough: `das tune --solve`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import log10
from typing import Any

from flows.reports.figures import BUDGETS, LONGEST_SHOWN, digits
from flows.reports.terminal import refusing
from flows.reports.tuning.plan import BudgetPlan
from flows.reports.tuning.tables import MARGINS
from privacy.accounting.composition import LevelBudget
from privacy.analyses.margin_budgets import least
from privacy.analyses.tuning import CELLS, level_laws, multiplicity_stability
from privacy.noise.laws import UNITS, Law
from privacy.noise.margins import margin_of_error
from tasks.lifecycle.errors import Refused
from tasks.population_groups.levels import Level, named_level

LARGEST_MARGIN = 10**6


@dataclass(frozen=True)
class Question:
    """Which budget of a level gives one of its statistics, a key of MARGINS, a margin of at most so many counts."""

    level: Level
    statistic: str
    margin: int


def read_question(text: str) -> Question:
    """Return the question of `LEVEL: STATISTIC <= MARGIN`. Raises Refused."""
    parts = re.fullmatch(r"(.+):(.+?)(?:<=|≤)\s*([0-9]+)\s*", text)
    if parts is None:
        example = "County, Detailed: total of 23 ages <= 20"
        raise Refused(f"a question is LEVEL: STATISTIC <= COUNTS, as {example!r}, not {text[:LONGEST_SHOWN]!r}")
    margin = int(parts[3])
    if not 1 <= margin <= LARGEST_MARGIN:
        raise Refused(f"a margin to solve for is from 1 to {LARGEST_MARGIN:,} counts, not {parts[3]}")
    return Question(named_level(parts[1]), _statistic(parts[2]), margin)


def _statistic(text: str) -> str:
    """Return the key of a statistic by its name in the tables, by its key, or by `T1 at age23`. Raises Refused."""
    names = {words.casefold(): name for name, words in MARGINS.items()} | {name: name for name in MARGINS}
    name = " ".join(text.casefold().split())
    name = names.get(re.sub("^(t1|total) (at|of) age", "total_at_age", name), "")
    if not name:
        raise Refused(f"unknown statistic {text.strip()[:LONGEST_SHOWN]!r}: one of {'; '.join(MARGINS.values())}")
    return name


def solve(plan: BudgetPlan, question: Question) -> dict[str, Any]:
    """Return the least budget that answers a question, to six digits and proved, with the parameters that it is for."""
    level, (stage, cells) = question.level, _query(question.statistic)
    with refusing():
        stability = plan.stability(level) if level in plan.levels else multiplicity_stability(plan.race_codes)

    def noise(budget: Fraction) -> Law:
        return level_laws(plan.definition, LevelBudget(budget, stability), plan.gamma)[stage]

    def meets(budget: Fraction) -> bool:
        return budget > 0 and margin_of_error(noise(budget), cells) <= question.margin

    variance = Fraction(question.margin) ** 2 / (4 * cells)
    one = noise(Fraction(1)).variance()  # falls as the budget for rho, as its square for epsilon
    guess = Fraction(one) / variance if plan.definition == "zcdp" else Fraction((one / float(variance)) ** 0.5)
    if not BUDGETS[0] <= guess <= BUDGETS[1]:
        raise Refused(f"a margin of {question.margin:,} takes a budget near 10^{round(log10(guess))}: choose another")
    with refusing():
        budget = least(meets, guess)
        margin = margin_of_error(noise(budget), cells)
    return {
        "level": level.name,
        "statistic": MARGINS[question.statistic],
        "target": question.margin,
        "unit": UNITS[plan.definition],
        "budget": digits(budget),
        "margin": margin,
        "stability": stability,
        "gamma": str(plan.gamma),
    }


def _query(statistic: str) -> tuple[str, int]:
    """Return a statistic's query and how many of its answers are added up."""
    if statistic.startswith("total_at_"):
        return "stage_2", CELLS[statistic.removeprefix("total_at_")]
    return {"total_only": "total_only", "step_1": "stage_1", "count": "stage_2"}[statistic], 1


def sentence(solved: dict[str, Any]) -> str:
    """Return what the number means, for a person."""
    return (
        f"the least {solved['unit']} of {solved['level']} that gives its {solved['statistic']} a margin of error of at "
        f"most {solved['target']} at 95% (stability {solved['stability']}, gamma {solved['gamma']})"
    )
