"""The budget of a level that makes a margin of error small enough: `das tune --solve`.

Questions are in words: "a county's count of 500 within 10%", "County, Detailed: total of 23 ages <= 20".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import log10
from typing import Any, NamedTuple

from flows.reports.figures import BUDGETS, LONGEST_SHOWN, digits, near, up
from flows.reports.tuning.plan import BudgetPlan
from flows.reports.tuning.tuning import AGES_FROM, MARGINS, ages_from, spent
from privacy.accounting.composition import LevelBudget, rounded_up
from privacy.analyses.margin_budgets import least
from privacy.analyses.tuning import level_laws
from privacy.noise.laws import UNITS, Law
from privacy.noise.margins import margin_of_error, suppression_threshold
from tasks.errors import Refused, refusing
from tasks.releases.pages.text_table import TextTable
from tasks.safetab.configuration import NEVER
from tasks.safetab.levels import ALL_LEVELS, Level, named_level
from tasks.safetab.persons.details import AGES_NAMES, CELLS_OF, FINEST, SHAPES

PUBLISHED = Fraction(19, 20)  # the probability with which a group of the answered size is published

OF_A_TABLE = (
    "The margin is of the group's total: the sum of the cells of the table that it most likely gets by its noisy total "
    "of step 1."
)
UNKNOWN_TABLE = (
    "for a group without a table by age; {unit} {budgets} for one with "
    f"{AGES_NAMES[FINEST]}, whose total is a sum of {CELLS_OF[FINEST]} cells. "
    "A config.json or a release as SOURCE says which table a group gets."
)
LARGEST_MARGIN = 10**6

QUESTIONS = (
    "'County, Detailed: total of 23 ages <= 20', 'count of 500 within 10%' or \"a county's count of 500 within 10%\""
)
NUMBER = r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?|\.\d+"
ASKED = re.compile(rf"(?:(.+):)?(.+?)(?:<=|≤|\bwithin\b|±)\s*({NUMBER})(.*)", re.I)
PLACE = re.compile(
    r"\b(?:of|in) (?:an?|the|every|each) ([a-z]+(?: areas?)?)(?:,? (regional|detailed)\b)?,?(?: |$)", re.I
)
SHARES, COUNTS = ("%", "percent", "per cent"), ("", "person", "persons", "people", "count", "counts")
REGIONS = {"town": "place", "city": "place", "tribal area": "aiannh", "counties": "county", "country": "nation"}
KINDS = "|".join([*REGIONS, *{level.geography for level in ALL_LEVELS}])
WITHOUT_ARTICLE = re.compile(rf"\b(of|in) (?=(?:{KINDS})\b)", re.I)
POSSESSIVE = re.compile(rf"^(?:(?:an?|the|every|each) )?({KINDS})['’]s (.+)", re.I)
STATISTICS = {"count": "count", "total": "count", "group": "count"}  # a user's words for one count of step 2


@dataclass(frozen=True)
class Question:
    """A question for the budget that gives a statistic, a key of MARGINS, a margin of at most `margin` counts.

    levels: those asked for; empty for every measured level. size: the group's size in persons, if the question names
        one.
    """

    levels: tuple[Level, ...]
    statistic: str
    margin: int
    size: int | None = None

    @property
    def asked(self) -> str:
        """The statistic and its margin in words, with the margin as a share of the size."""
        counted = "count" if self.size and self.statistic == "count" else MARGINS[self.statistic]
        of_size = f" of {self.size:,} persons" if self.size else ""
        share = f" ({near(Fraction(100 * self.margin, self.size), 3)}%)" if self.size else ""
        return f"a {counted}{of_size}, margin at most {self.margin:,}{share}"


def read_question(text: str, plan: BudgetPlan) -> Question:
    """Return the question of `LEVEL: STATISTIC <= COUNTS`, or of words as in QUESTIONS.

    A kind of region asks for all its levels in the plan. Raises Refused, also for an extra word.
    """
    asked, levels = read_asked(text), tuple[Level, ...]()
    if asked.place:
        levels = _levels_of(asked.place, asked.iterations, plan)
    if asked.named:
        levels = (named_level(asked.named),)
    return Question(levels, STATISTICS.get(asked.words.casefold()) or _statistic(asked.words), asked.margin, asked.size)


class Asked(NamedTuple):
    """The parts of a question: a level, or a kind of region and iterations, as typed; what is counted; its margin."""

    named: str | None
    place: str | None
    iterations: str | None
    words: str
    margin: int
    size: int | None


def read_asked(text: str) -> Asked:
    """Return the parts of a question, of any system. Raises Refused."""
    asked, place = " ".join(text.split()), None
    asked = WITHOUT_ARTICLE.sub(r"\1 a ", POSSESSIVE.sub(r"of a \1, \2", asked))
    if ":" not in asked and (place := PLACE.search(f"{asked} ")):
        asked = f"{asked[: place.start()]}{asked[place.end() :]}".strip()
    parts = ASKED.fullmatch(asked)
    if parts is None:
        raise Refused(f"a question is {QUESTIONS}, not {text[:LONGEST_SHOWN]!r}")
    named, words, number, unit = parts[1], parts[2].strip(), parts[3].replace(",", ""), parts[4].strip().casefold()
    if unit not in SHARES + COUNTS:
        shown = text.strip()[:LONGEST_SHOWN]
        raise Refused(f"I do not understand {unit[:LONGEST_SHOWN]!r} in {shown!r}: write {number}% or {number} persons")
    words, size = re.sub("^(an?|the) ", "", words, flags=re.I), None
    if sized := re.fullmatch(rf"(?:(.+) of )?({NUMBER})(?: persons| people)?", words):
        words, size = sized[1] or "count", int(Fraction(sized[2].replace(",", "")))
    if unit in SHARES and not size:
        raise Refused("a share needs the size that it is of: 'count of 500 within 10%'")
    margin = int(Fraction(number) * (Fraction(size or 0, 100) if unit in SHARES else 1))
    if not 1 <= margin <= LARGEST_MARGIN:
        raise Refused(f"a margin to solve for is from 1 to {LARGEST_MARGIN:,} counts, not {margin}")
    return Asked(named, place and place[1], place and place[2], words, margin, size)


def _levels_of(place: str, iterations: str | None, plan: BudgetPlan) -> tuple[Level, ...]:
    """Return the levels of a kind of region, `county` or `tribal area`, with these iterations, if given.

    Those that the plan lacks are left out if it has any. Raises Refused for an unknown kind.
    """
    region = REGIONS.get(place.casefold(), place.casefold())
    of_region = tuple(
        level
        for level in ALL_LEVELS
        if level.jurisdiction == plan.jurisdiction
        and level.geography.removeprefix("PR-").casefold() == region
        and (iterations or level.iterations).casefold() == level.iterations.casefold()
    )
    if not of_region:
        raise Refused(
            f"unknown population group level {place!r}: one of {'; '.join(level.name for level in plan.levels)}"
        )
    return tuple(level for level in of_region if level in plan.levels) or of_region


def _statistic(text: str) -> str:
    """Return the key of a statistic by its name in the tables, by its key, or by `T1 at age23`. Raises Refused."""
    names = {words.casefold(): name for name, words in MARGINS.items()} | {name: name for name in MARGINS}
    name = " ".join(text.casefold().split())
    name = names.get(re.sub("^(t1|total) (at|of) age", "total_at_age", name), "")
    if not name:
        shown, known = text.strip()[:LONGEST_SHOWN], "; ".join(MARGINS.values())
        raise Refused(f"unknown statistic {shown!r}: one of {known}; a question is {QUESTIONS}")
    return name


def solve(plan: BudgetPlan, question: Question) -> dict[str, Any]:
    """Return the least budget that answers a question, for its levels or for each level that is measured.

    It has six digits and is proved. The answer includes the level's present margin, and the spend of the release if
    only this level is changed. Raises Refused.
    """
    on = [level for level in plan.levels if level not in plan.off]
    least_of = cache(lambda asked, stability: _least(plan, asked, stability))
    with refusing():
        rows = [_row(plan, question, level, least_of) for level in question.levels or on]
    return {
        "asked": f"{' and '.join(level.name for level in question.levels) or 'Every level'}: {question.asked}",
        "source": plan.source,
        "statistic": MARGINS[question.statistic],
        "size": question.size,
        "target": question.margin,
        "unit": UNITS[plan.definition],
        "delta": float(plan.delta),
        "gamma": str(plan.gamma),
        "release_now": spent(plan, [plan.levels[level] for level in on]),
        "levels": rows,
    }


def _least_of_level(
    plan: BudgetPlan, question: Question, level: Level, least_of: Callable[[Question, int], Fraction]
) -> Fraction:
    """Return the least budget of a level for a question; for a group of a given size, for the table that it then gets.

    More ages need more budget. So this starts from a total by itself: the least budget for a table is the answer unless
    the group most likely gets more ages with it.
    """
    stability = plan.stability(level)
    asked = replace(question, levels=())
    while True:
        budget = least_of(asked, stability)
        likely = _question_of_table(plan, question, level, LevelBudget(budget, stability))
        if _cells(likely) <= _cells(asked):
            return budget
        asked = replace(likely, levels=())


def _question_of_table(plan: BudgetPlan, question: Question, level: Level, budget: LevelBudget) -> Question:
    """Return the question for the table that a group of its size most likely gets with a budget.

    It is the same question if it names no size or another statistic, or if the level's thresholds are unknown.
    """
    if not (chances := _chances(plan, question, level, budget)):
        return question
    detail = max(chances, key=lambda name: chances[name])
    return question if detail == SHAPES[0] else replace(question, statistic=f"total_at_{detail}")


def _chances(plan: BudgetPlan, question: Question, level: Level, budget: LevelBudget) -> dict[str, float]:
    """Return the probability of each table for a group of the question's size; its noisy total of step 1 decides."""
    if question.statistic != "count" or not question.size or level not in plan.thresholds:
        return {}
    noise = level_laws(plan.definition, budget, plan.gamma)["stage_1"]
    reached = [
        0.0 if threshold >= NEVER else 1 - float(noise.cdf(threshold - question.size - 1))
        for threshold in sorted(plan.thresholds[level])
    ]
    return {name: more - less for name, more, less in zip(SHAPES, [1.0, *reached], [*reached, 0.0], strict=True)}


def _cells(question: Question) -> int:
    cells: int = CELLS_OF.get(question.statistic.removeprefix("total_at_"), 1)
    return cells


def _least(plan: BudgetPlan, question: Question, stability: int) -> Fraction:
    """Return the least budget of a level with this stability, to six digits. Raises Refused."""

    def meets(budget: Fraction) -> bool:
        return budget > 0 and _margin(plan, question, LevelBudget(budget, stability)) <= question.margin

    noise, cells = _noise(plan, question, LevelBudget(Fraction(1), stability))
    variance, one = Fraction(question.margin) ** 2 / (4 * cells), noise.variance()
    # The variance falls as the budget for rho, as its square for epsilon.
    guess = Fraction(one) / variance if plan.definition == "zcdp" else Fraction((one / float(variance)) ** 0.5)
    if not BUDGETS[0] <= guess <= BUDGETS[1]:
        raise Refused(f"a margin of {question.margin:,} takes a budget near 10^{round(log10(guess))}: choose another")
    return Fraction(digits(least(meets, guess)))


def _margin(plan: BudgetPlan, question: Question, level: LevelBudget) -> int:
    """Return the margin of a question's statistic at a level's budget, in counts."""
    return margin_of_error(*_noise(plan, question, level))


def _noise(plan: BudgetPlan, question: Question, level: LevelBudget) -> tuple[Law, int]:
    """Return the noise of a question's statistic at a level's budget, and the number of answers that it sums."""
    laws = level_laws(plan.definition, level, plan.gamma)
    if question.statistic.startswith("total_at_"):
        return laws["stage_2"], CELLS_OF[question.statistic.removeprefix("total_at_")]
    return laws[{"total_only": "total_only", "step_1": "stage_1", "count": "stage_2"}[question.statistic]], 1


def _row(
    plan: BudgetPlan, question: Question, level: Level, least_of: Callable[[Question, int], Fraction]
) -> dict[str, Any]:
    """Return the effects of a level's least budget, next to its present budget, if any."""
    budget = _least_of_level(plan, question, level, least_of)
    others = [own for other, own in plan.levels.items() if other not in plan.off and other != level]
    changed = LevelBudget(budget, plan.stability(level))
    noise = level_laws(plan.definition, changed, plan.gamma)["stage_2"]
    chances, now, with_ages = _chances(plan, question, level, changed), None, {}
    if question.statistic == "count" and question.size and not chances:
        of_finest = least_of(replace(question, levels=(), statistic=f"total_at_{FINEST}"), changed.stability)
        with_ages = {f"budget_with_{FINEST}": digits(of_finest)}
    if level in plan.levels and level not in plan.off:
        present = plan.level_budget(level)
        margin = _margin(plan, _question_of_table(plan, question, level, present), present)
        now = {"budget": str(plan.levels[level]), "margin": margin, "met": margin <= question.margin}
    return {
        "level": level.name,
        "stability": changed.stability,
        "budget": digits(budget),
        "epsilon": spent(plan, [budget])["epsilon"],
        "margin": _margin(plan, _question_of_table(plan, question, level, changed), changed),
        **({"table": (likely := max(chances, key=chances.__getitem__)), "chance": chances[likely]} if chances else {}),
        **with_ages,
        "now": now,
        "release": spent(plan, [*others, budget]),
        "margins": {"count": margin_of_error(noise), f"total_at_{FINEST}": margin_of_error(noise, CELLS_OF[FINEST])},
        **({} if level.nation_or_state else _published(noise, plan.chance)),
        **({"ages_from": plan.thresholds[level]} if level in plan.thresholds else {}),
    }


def _published(noise: Law, chance: Fraction) -> dict[str, int]:
    """Return the total up to which a total alone is suppressed, and the size from which it is usually published."""
    threshold = suppression_threshold(noise, chance)
    return {"suppressed_up_to": threshold, "published_from": threshold + 1 - noise.quantile(1 - PUBLISHED)}


def result(solved: Mapping[str, Any]) -> str:
    """Return the answer in short: `rho 0.00753059`, and the budget for a table by age where the table is unknown."""
    least_budget = f"{solved['unit']} {_span(solved, 'budget')}"
    if not (finest := _span(solved, f"budget_with_{FINEST}")):
        return least_budget
    return f"{least_budget} {UNKNOWN_TABLE.format(unit=solved['unit'], budgets=finest)}"


def _span(solved: Mapping[str, Any], key: str) -> str:
    """Return the budget of all levels, or the range where levels differ in stability; empty if no level has it."""
    budgets = sorted({row[key] for row in solved["levels"] if key in row}, key=Fraction)
    return " to ".join(dict.fromkeys((*budgets[:1], *budgets[-1:])))


def sentence(solved: Mapping[str, Any]) -> str:
    """Compare the answer with the present budgets of the levels, in words."""
    rows = solved["levels"]
    who = rows[0]["level"] if len(rows) == 1 else "a level"
    needs = (
        f"For {solved['asked'].partition(': ')[2]}, {who} needs {solved['unit']} {_span(solved, 'budget')} at least."
    )
    if _span(solved, f"budget_with_{FINEST}"):
        total = max(row["margins"][f"total_at_{FINEST}"] for row in rows)
        part = near(Fraction(100 * total, solved["size"]), 2)
        needs += f" With it the total of a table of {AGES_NAMES[FINEST]} is within ±{total:,}, {part}% of the group."
    if len(rows) == 1 and "table" in rows[0]:
        needs += f" With it a group of {solved['size']:,} most likely gets {_table_of(rows[0])}."
    met = [row["now"]["met"] for row in rows if row["now"]]
    margins = sorted({row["now"]["margin"] for row in rows if row["now"]})
    if not met:
        return f"{needs} It is not measured now."
    span = f"margin{'s' * (len(margins) > 1)} {' to '.join(f'{margin:,}' for margin in margins[:1] + margins[1:][-1:])}"
    span += ", without a table by age" * bool(_span(solved, f"budget_with_{FINEST}"))
    if len(rows) == 1:
        return f"{needs} Its budget now {'meets it already' if met[0] else 'does not meet it'} ({span})."
    where = (
        "every level already" if all(met) else f"{sum(met)} of {len(met)} levels already" if any(met) else "no level"
    )
    return f"{needs} The budgets of {solved['source']} meet it at {where} ({span})."


def _table_of(row: Mapping[str, Any]) -> str:
    """Return the table that a group most likely gets, and in how many of 100 runs; rounded down, as a chance near 1."""
    name = "a total alone" if row["table"] == SHAPES[0] else f"a table of {AGES_NAMES[row['table']]}"
    return f"{name} ({int(1000 * row['chance']) / 10:g}% of runs)"


def table(solved: Mapping[str, Any]) -> TextTable:
    """Return the answer for each level: the least budget, the present margin, and the effects of changing only it."""
    unit, rows = solved["unit"], solved["levels"]
    columns = {
        "level": [row["level"] for row in rows],
        f"least {unit}": [row["budget"] for row in rows],
        f"{unit} now": [near(Fraction(row["now"]["budget"])) if row["now"] else "–" for row in rows],
        "margin now": [f"{row['now']['margin']:,}" if row["now"] else "–" for row in rows],
        "met now": [("yes" if row["now"]["met"] else "no") if row["now"] else "–" for row in rows],
        "suppressed up to": [f"{row['suppressed_up_to']:,}" if "suppressed_up_to" in row else "–" for row in rows],
        "published from": [f"{row['published_from']:,}" if "published_from" in row else "any" for row in rows],
    }
    if any("table" in row for row in rows):
        columns[f"table of {solved['size']:,}"] = [_table_of(row) if "table" in row else "–" for row in rows]
    if any("ages_from" in row for row in rows):
        columns |= ages_from([row.get("ages_from") for row in rows])
    columns[f"release's {unit} then"] = [rounded_up(Fraction(row["release"]["budget"])) for row in rows]
    if unit == "rho":
        columns["release's epsilon then"] = [up(row["release"]["epsilon"]) for row in rows]
    now = solved["release_now"]
    costs = f"{unit} {rounded_up(Fraction(now['budget']))}"
    costs += f", epsilon {up(now['epsilon'])} at delta {solved['delta']:g}" if unit == "rho" else ""
    notes = [
        f"then: with the least {unit} of this level, and every other level as it is. Now the release spends {costs}.",
        "published from: with the least budget a group below the state of this size is published in 95 of 100 runs; a "
        "noisy total up to T alone is suppressed.",
        *([OF_A_TABLE] if any("table" in row for row in rows) else []),
        *([AGES_FROM] if any("ages_from" in row for row in rows) else []),
        *dict.fromkeys(
            f"With {unit} {row['budget']} (stability {row['stability']}, gamma {solved['gamma']}) a count is within "
            f"±{row['margins']['count']:,}, a total of {AGES_NAMES[FINEST]} within "
            f"±{row['margins'][f'total_at_{FINEST}']:,}"
            + (f"; by itself it is epsilon {up(row['epsilon'])}." if unit == "rho" else ".")
            for row in rows
        ),
    ]
    title = "The least budget, and what it moves where one level alone is changed"
    return TextTable(title, list(columns), [list(row) for row in zip(*columns.values(), strict=True)], notes)
