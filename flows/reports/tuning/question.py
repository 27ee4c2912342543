"""A question of `das tune --solve` in words: "count of 500 within 10%", "County, Detailed: total of 23 ages <= 20"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from flows.reports.figures import LONGEST_SHOWN, near
from flows.reports.tuning.plan import BudgetPlan
from flows.reports.tuning.tuning import MARGINS
from tasks.lifecycle.errors import Refused
from tasks.population_groups.levels import ALL_LEVELS, Level, named_level

LARGEST_MARGIN = 10**6

QUESTIONS = (
    "'County, Detailed: total of 23 ages <= 20', 'count of 500 within 10%' or 'total of a county, detailed within 20'"
)
NUMBER = r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?|\.\d+"
ASKED = re.compile(rf"(?:(.+):)?(.+?)(?:<=|≤|\bwithin\b|±)\s*({NUMBER})(.*)", re.I)
PLACE = re.compile(
    r"\b(?:of|in) (?:an?|the|every|each) ([a-z]+(?: areas?)?)(?:,? (regional|detailed)\b)?,?(?: |$)", re.I
)
SHARES, COUNTS = ("%", "percent", "per cent"), ("", "person", "persons", "people", "count", "counts")
REGIONS = {"town": "place", "city": "place", "tribal area": "aiannh", "counties": "county", "country": "nation"}
WITHOUT_ARTICLE = re.compile(
    rf"\b(of|in) (?={'|'.join([*REGIONS, *{level.geography for level in ALL_LEVELS}])}\b)", re.I
)
STATISTICS = {"count": "count", "total": "count", "group": "count"}  # in the asker's words: one count of step 2


@dataclass(frozen=True)
class Question:
    """Which budget gives a statistic, a key of MARGINS, a margin of at most so many counts.

    level: None for every level that is measured. size: of the group, in persons, where the question names one.
    """

    level: Level | None
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

    Raises Refused, also where a word is left over or a kind of region has several levels in the plan.
    """
    parts = ASKED.fullmatch(WITHOUT_ARTICLE.sub(r"\1 a ", " ".join(text.split())))
    if parts is None:
        raise Refused(f"a question is {QUESTIONS}, not {text[:LONGEST_SHOWN]!r}")
    named, words, number, unit = parts[1], parts[2].strip(), parts[3].replace(",", ""), parts[4].strip().casefold()
    level = named_level(named) if named else None
    if unit not in SHARES + COUNTS:
        shown = text.strip()[:LONGEST_SHOWN]
        raise Refused(f"I do not understand {unit[:LONGEST_SHOWN]!r} in {shown!r}: write {number}% or {number} persons")
    if level is None and (place := PLACE.search(f"{words} ")):
        words = (words[: place.start()] + words[place.end() :]).strip()
        level = _level_of(place[1], place[2], plan, f"{words} within {number}{'%' * (unit in SHARES)}")
    words, size = re.sub("^(an?|the) ", "", words, flags=re.I), None
    if sized := re.fullmatch(rf"(?:(.+) of )?({NUMBER})(?: persons| people)?", words):
        words, size = sized[1] or "count", int(Fraction(sized[2].replace(",", "")))
    if unit in SHARES and not size:
        raise Refused("a share needs the size that it is of: 'count of 500 within 10%'")
    margin = int(Fraction(number) * (Fraction(size or 0, 100) if unit in SHARES else 1))
    if not 1 <= margin <= LARGEST_MARGIN:
        raise Refused(f"a margin to solve for is from 1 to {LARGEST_MARGIN:,} counts, not {margin}")
    return Question(level, STATISTICS.get(words.casefold()) or _statistic(words), margin, size)


def _level_of(place: str, iterations: str | None, plan: BudgetPlan, rest: str) -> Level:
    """Return the level of a kind of region, `county` or `tribal area`: the only one, or that of these iterations.

    rest: the question without the place, for a refusal that names the levels.
    """
    region = REGIONS.get(place.casefold(), place.casefold())
    of_region = [
        level
        for level in ALL_LEVELS
        if level.jurisdiction == plan.jurisdiction
        and level.geography.removeprefix("PR-").casefold() == region
        and (iterations or level.iterations).casefold() == level.iterations.casefold()
    ]
    levels = [level for level in of_region if level in plan.levels] or of_region
    if not levels:
        raise Refused(
            f"unknown population group level {place!r}: one of {'; '.join(level.name for level in plan.levels)}"
        )
    if len(levels) > 1:
        names = " or ".join(level.name for level in levels)
        raise Refused(f"{place!r} is {names}: write " + " or ".join(f"'{level.name}: {rest}'" for level in levels))
    return levels[0]


def _statistic(text: str) -> str:
    """Return the key of a statistic by its name in the tables, by its key, or by `T1 at age23`. Raises Refused."""
    names = {words.casefold(): name for name, words in MARGINS.items()} | {name: name for name in MARGINS}
    name = " ".join(text.casefold().split())
    name = names.get(re.sub("^(t1|total) (at|of) age", "total_at_age", name), "")
    if not name:
        raise Refused(f"unknown statistic {text.strip()[:LONGEST_SHOWN]!r}: one of {'; '.join(MARGINS.values())}")
    return name
