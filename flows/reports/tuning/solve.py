"""The budget of a level that makes a margin of error small enough: `das tune --solve`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import log10
from typing import Any

from flows.reports.figures import BUDGETS, LONGEST_SHOWN, digits, up
from flows.reports.terminal import refusing
from flows.reports.tuning.plan import BudgetPlan
from flows.reports.tuning.tuning import MARGINS
from privacy.accounting.composition import LevelBudget, rounded_up
from privacy.analyses.margin_budgets import least
from privacy.analyses.tuning import CELLS, level_laws, loss, multiplicity_stability
from privacy.noise.laws import UNITS, Law
from privacy.noise.margins import margin_of_error, suppression_threshold
from spine.settings import Jurisdiction
from tasks.lifecycle.errors import Refused
from tasks.population_groups.levels import Level, named_level

LARGEST_MARGIN = 10**6


QUESTIONS = "'County, Detailed: total of 23 ages <= 20', 'count of 500 within 10%' or 'total of a county within 20'"
REGIONS = {"town": "Place", "city": "Place", "tribal area": "AIANNH", "counties": "County", "country": "Nation"}
STATISTICS = {"count": "count", "total": "count", "group": "count"}  # in the asker's words: one count of step 2
PUBLISHED = Fraction(19, 20)  # the chance with which a group of the size in the answer is published


@dataclass(frozen=True)
class Question:
    """Which budget gives a statistic, a key of MARGINS, a margin of at most so many counts.

    level: None for every level that is measured.
    """

    level: Level | None
    statistic: str
    margin: int


def read_question(text: str, jurisdiction: Jurisdiction = "us") -> Question:
    """Return the question of `LEVEL: STATISTIC <= COUNTS`, or of words as in QUESTIONS. Raises Refused."""
    parts = re.fullmatch(r"(?:(.+):)?(.+?)(?:<=|≤|\bwithin\b|±)\s*([0-9.]+)\s*(%?)[a-z ]*", text.strip(), re.I)
    if parts is None:
        raise Refused(f"a question is {QUESTIONS}, not {text[:LONGEST_SHOWN]!r}")
    words, size = " ".join(parts[2].split()), None
    level = named_level(parts[1]) if parts[1] else None
    if level is None and (
        place := re.fullmatch(r"(.+?) (?:of|in) (?:an?|the) ([a-z ]+?)(, regional|, detailed)?", words, re.I)
    ):
        words, region = place[1], REGIONS.get(place[2].casefold(), place[2])
        level = named_level(f"{'PR-' * (jurisdiction == 'pr')}{region}{place[3] or ', Detailed'}")
    if sized := re.fullmatch(r"(\w+) of ([0-9,]+)(?: persons)?", words):
        words, size = sized[1], int(sized[2].replace(",", ""))
    if parts[4] and size is None:
        raise Refused("a share needs the size that it is of: 'count of 500 within 10%'")
    with refusing():
        margin = int(Fraction(parts[3]) * Fraction(size or 0, 100) if parts[4] else Fraction(parts[3]))
    if not 1 <= margin <= LARGEST_MARGIN:
        raise Refused(f"a margin to solve for is from 1 to {LARGEST_MARGIN:,} counts, not {margin}")
    return Question(level, STATISTICS.get(words.casefold()) or _statistic(words), margin)


def _statistic(text: str) -> str:
    """Return the key of a statistic by its name in the tables, by its key, or by `T1 at age23`. Raises Refused."""
    names = {words.casefold(): name for name, words in MARGINS.items()} | {name: name for name in MARGINS}
    name = " ".join(text.casefold().split())
    name = names.get(re.sub("^(t1|total) (at|of) age", "total_at_age", name), "")
    if not name:
        raise Refused(f"unknown statistic {text.strip()[:LONGEST_SHOWN]!r}: one of {'; '.join(MARGINS.values())}")
    return name


def solve(plan: BudgetPlan, question: Question) -> dict[str, Any]:
    """Return the least budget that answers a question, to six digits and proved, and what else it moves.

    Without a level: of each level, by the largest of their stabilities.
    """
    (stage, cells), on = _query(question.statistic), [level for level in plan.levels if level not in plan.off]
    levels = [question.level] if question.level else on
    with refusing():
        usual = multiplicity_stability(plan.race_codes)
        stability = max(plan.stability(level) if level in plan.levels else usual for level in levels)

    def laws(budget: Fraction) -> dict[str, Law]:
        return level_laws(plan.definition, LevelBudget(budget, stability), plan.gamma)

    def meets(budget: Fraction) -> bool:
        return budget > 0 and margin_of_error(laws(budget)[stage], cells) <= question.margin

    variance = Fraction(question.margin) ** 2 / (4 * cells)
    one = laws(Fraction(1))[stage].variance()  # falls as the budget for rho, as its square for epsilon
    guess = Fraction(one) / variance if plan.definition == "zcdp" else Fraction((one / float(variance)) ** 0.5)
    if not BUDGETS[0] <= guess <= BUDGETS[1]:
        raise Refused(f"a margin of {question.margin:,} takes a budget near 10^{round(log10(guess))}: choose another")
    with refusing():
        budget = least(meets, guess)
        found = laws(Fraction(digits(budget)))
        margin = margin_of_error(laws(budget)[stage], cells)
    then = {level: plan.levels[level] for level in on} | dict.fromkeys(levels, Fraction(digits(budget)))
    sums = [
        loss(plan.definition, [*budgets], plan.delta)
        for budgets in ((plan.levels[level] for level in on), then.values())
    ]
    below = any(not level.nation_or_state for level in levels)
    return {
        "level": question.level.name if question.level else "each level",
        "statistic": MARGINS[question.statistic],
        "target": question.margin,
        "unit": UNITS[plan.definition],
        "budget": digits(budget),
        "epsilon": loss(plan.definition, [Fraction(digits(budget))], plan.delta)[1],
        "delta": float(plan.delta),
        "margin": margin,
        "stability": stability,
        "gamma": str(plan.gamma),
        "release": {
            when: {"budget": str(total), "epsilon": epsilon}
            for when, (total, epsilon) in zip(("now", "then"), sums, strict=True)
        },
        "margins": {
            "count": margin_of_error(found["stage_2"]),
            "total_at_age23": margin_of_error(found["stage_2"], 46),
        },
        **(_published(found["stage_2"], plan.chance) if below else {}),
    }


def _published(noise: Law, chance: Fraction) -> dict[str, int]:
    """Return the noisy total up to which a total alone is suppressed, and from which size it is published as a rule."""
    threshold = suppression_threshold(noise, chance)
    return {"suppressed_up_to": threshold, "published_from": threshold + 1 - noise.quantile(1 - PUBLISHED)}


def _query(statistic: str) -> tuple[str, int]:
    """Return a statistic's query and how many of its answers are added up."""
    if statistic.startswith("total_at_"):
        return "stage_2", CELLS[statistic.removeprefix("total_at_")]
    return {"total_only": "total_only", "step_1": "stage_1", "count": "stage_2"}[statistic], 1


def sentence(solved: dict[str, Any]) -> str:
    """Return what the number means, and what else it moves, for a person."""
    unit, release = solved["unit"], solved["release"]
    of_release = [f"{unit} {rounded_up(Fraction(each['budget']))}" for each in release.values()]
    if unit == "rho":
        of_release = [
            f"{text}, epsilon {up(each['epsilon'])}" for text, each in zip(of_release, release.values(), strict=True)
        ]
    said = [
        f"the least {unit} of {solved['level']} that gives its {solved['statistic']} a margin of error of at most "
        f"{solved['target']:,} at 95% (stability {solved['stability']}, gamma {solved['gamma']})"
        + (f"; by itself epsilon {up(solved['epsilon'])} at delta {solved['delta']:g}" if unit == "rho" else ""),
        f"the release then spends {of_release[1]}; now {of_release[0]}",
        f"with it a count is within ±{solved['margins']['count']:,}, a total of 23 ages within "
        f"±{solved['margins']['total_at_age23']:,}",
    ]
    if "published_from" in solved:
        said.append(
            f"below the state a group is left out up to a noisy total of {solved['suppressed_up_to']:,}; from "
            f"{solved['published_from']:,} persons on it is published in 19 of 20 cases at least"
        )
    return "\n".join(said)
