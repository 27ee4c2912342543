"""Targets, aims and limits of `das tda tune`, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from flows.reports.figures import LONGEST_SHOWN
from privacy.noise.margins import Z95
from spine.forecast.precision import Weights
from spine.forecast.search import Row
from tasks.errors import Refused
from tasks.releases.pages.words import level_title
from tasks.top_down.accuracy.forecast import RunForecast

NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
MET = re.compile(rf"{NUMBER} ?% of (.+): (.+)", re.I)
GOAL = "largest group within 5 points"
ERROR = re.compile(rf"(.+): (.+?)(?: (error|margin))? ?(?:<=|≤|at most) ?{NUMBER}", re.I)
EXAMPLES = "'95% of places: largest group within 5 points', 'tract: total error <= 2' or 'tract: total margin <= 10'"
OTHER_WORDS = {  # for levels, besides their names in files and their titles; some are for two
    "cbg": ("block group", "block groups"),
    "obg": ("block group", "block groups"),
    "place": ("town", "towns", "city", "cities"),
    "mcd": ("mcds", "county subdivision", "county subdivisions", "town", "towns"),
}


@dataclass(frozen=True)
class Target:
    """A target of `--solve`: its words, and whether a forecast meets it with some weights.

    aim: the row whose error the target is about. part: of a target that counts areas, the share that must meet it.
    """

    words: str
    holds: Callable[[RunForecast, Weights], bool]
    aim: Row
    part: float | None = None


def read_target(text: str, rows: Collection[Row]) -> Target:
    """Return the target of a question in words; rows: the levels and quantities that are predicted. Raises Refused."""
    asked = " ".join(text.split())
    if met := MET.fullmatch(asked):
        part, level = float(met[1]) / 100, _level(met[2], rows)
        if met[3].casefold() != GOAL:
            raise Refused(f"areas are counted by '{GOAL}', not {met[3][:LONGEST_SHOWN]!r}")
        if not 0 < part < 1:
            raise Refused(f"a share of areas is between 0% and 100%, not {met[1]}%")
        words = f"{met[1]}% of areas ({level}) of 500 and more persons have their largest group within 5 points"
        return Target(
            words, lambda forecast, weights: forecast.targets(weights)[level].share >= part, (level, "race"), part
        )
    if found := ERROR.fullmatch(asked):
        row, most = read_row(f"{found[1]}: {found[2]}", rows), float(found[4])
        if most <= 0:
            raise Refused(f"an error to solve for is above 0, not {found[4]}")
        if (found[3] or "error").casefold() == "margin":
            words = f"{row[0]}: {row[1]}, mean margin of error at 95% at most {found[4]}"
            return Target(words, lambda forecast, weights: Z95 * forecast.mean_deviations(weights)[row] <= most, row)
        words = f"{row[0]}: {row[1]}, mean absolute error at most {found[4]}"
        return Target(words, lambda forecast, weights: forecast.mean_errors(weights)[row] <= most, row)
    raise Refused(f"a target is {EXAMPLES}, not {asked[:LONGEST_SHOWN]!r}")


def read_row(text: str, rows: Collection[Row]) -> Row:
    """Return the level and quantity of `LEVEL: QUANTITY`. Raises Refused."""
    level_text, colon, quantity = text.rpartition(":")
    if not colon:
        raise Refused(f"{text[:LONGEST_SHOWN]!r} is not 'LEVEL: QUANTITY', as 'tract: total'")
    row = (_level(level_text, rows), " ".join(quantity.split()).casefold())
    if row not in rows:
        known = dict.fromkeys(quantity for level, quantity in rows if level == row[0])
        raise Refused(f"unknown quantity {quantity.strip()!r} of {row[0]}: one of {', '.join(known)}")
    return row


def read_aim(text: str, rows: Collection[Row]) -> tuple[Row, float]:
    """Return the row and weight of `LEVEL: QUANTITY[=WEIGHT]`. Raises Refused."""
    name, equals, weight = text.rpartition("=")
    return (read_row(name, rows), _positive(weight, "weight")) if equals else (read_row(text, rows), 1.0)


def read_limit(text: str, rows: Collection[Row]) -> tuple[Row, float]:
    """Return the row and largest ratio of `LEVEL: QUANTITY<=RATIO`. Raises Refused."""
    name, sign, ratio = text.replace("≤", "<=").rpartition("<=")
    if not sign:
        raise Refused(f"a limit is 'LEVEL: QUANTITY <= RATIO', as 'aian: total <= 1.1', not {text[:LONGEST_SHOWN]!r}")
    return read_row(name, rows), _positive(ratio, "ratio")


def _positive(text: str, what: str) -> float:
    if not re.fullmatch(NUMBER, text.strip()) or not float(text) > 0:
        raise Refused(f"a {what} is a positive number, not {text.strip()[:LONGEST_SHOWN]!r}")
    return float(text)


def _level(text: str, rows: Collection[Row]) -> str:
    """Return the level of words for it. Raises Refused."""
    named, levels = " ".join(text.split()).casefold(), dict.fromkeys(level for level, _ in rows)
    found = [
        level
        for level in levels
        if named in (level.casefold(), *OTHER_WORDS.get(level, ()))
        or named in (level_title(level).casefold(), level_title(level, several=True).casefold())
    ]
    if len(found) == 1:
        return found[0]
    known = f"write {', '.join(map(level_title, found or levels))}"
    raise Refused(f"{'more than one' if found else 'unknown'} level {text.strip()[:LONGEST_SHOWN]!r}: {known}")
