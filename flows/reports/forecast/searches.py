"""The shares of persons that were typed, or that a search finds, with what it finds on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any

from flows.reports.figures import digits, near, pair, share
from flows.reports.forecast.options import Search
from flows.reports.forecast.questions import read_aim, read_limit, read_row, read_target
from flows.reports.forecast.tables import every_area, front_table
from spine.allocations import Allocation
from spine.forecast.precision import Weights
from spine.forecast.search import FACTORS, FRONT, Aims, front, least_factor, scaled
from tasks.errors import Refused
from tasks.releases.pages.text_table import TextTable
from tasks.top_down.accuracy.forecast import OWN_LEVELS, QUANTITIES, RunForecast
from tasks.top_down.areas import OFF_SPINE, TABULATED

Progress = Callable[[str, int, int], None]  # called with a stage's name, done, in all
UNIT = 10_000  # found shares are multiples of 1 / this
OF_ALL_ROWS = (
    'The shares of --best are the best for all rows together, not for this target. --aim "{aim}" seeks those for it '
    "alone: usually a smaller budget, with larger errors elsewhere, which --limit and --keep hold down."
)
Searched = tuple[Allocation, dict[str, Any], list[TextTable]]  # the shares, and what else was found: data and tables


def check_words(allocation: Allocation, search: Search) -> None:
    """Refuse, before any block is read, unknown names, shares without sense, and options that contradict each other."""
    changed(allocation, search.level or [], search.query or [])
    if (search.aim or search.limit or search.keep) and not (search.best or search.pareto):
        raise Refused("--aim, --limit and --keep are for --best: add it")
    if (search.best or search.pareto) and allocation.definition != "zcdp":
        raise Refused("shares are found under zCDP alone: under pure DP a bypass depends on them")
    _kept(allocation, search.keep or [])
    rows = set(product((*OWN_LEVELS.values(), *TABULATED, *OFF_SPINE), QUANTITIES))
    for text in search.aim or ():
        read_aim(text, rows)
    for text in search.limit or ():
        read_limit(text, rows)
    if search.solve is not None:
        read_target(search.solve, rows)
    if search.pareto is not None and len(aims := {read_row(text, rows) for text in search.pareto}) == 1:
        raise Refused(f"--pareto is between two different aims, not {': '.join(*aims)!r} twice")


def searched(forecast: RunForecast, allocation: Allocation, progress: Progress, search: Search) -> Searched:
    """Change shares as typed, then search as asked: between two aims, for the best shares, for the least budget.

    Raises Refused for a kind of area that the blocks lack, or a target out of reach.
    """
    data, shown = dict[str, Any](), list[TextTable]()
    allocation = changed(allocation, search.level or [], search.query or [])
    kept = _kept(allocation, search.keep or [])
    if search.pareto is not None:
        data["pareto"] = list(_front(forecast, allocation, progress, search.pareto, kept))
        shown.append(front_table(data["pareto"]))
    if search.best:
        rows = forecast.mean_errors(forecast.weights(allocation))
        aims = Aims(
            dict(read_aim(text, rows) for text in search.aim) if search.aim else dict.fromkeys(rows, 1.0),
            dict(read_limit(text, rows) for text in search.limit or ()),
        )
        allocation = as_allocation(forecast.best(allocation, aims, kept), allocation, "das tda tune --best")
        after = forecast.mean_errors(forecast.weights(allocation))
        ratios = {row: after[row] / rows[row] for row in (*aims.rows, *aims.limits) if rows[row] > 0}
        data["best"] = [
            {"row": ": ".join(row), "aim": row in aims.rows, "limit": aims.limits.get(row), "ratio": ratio}
            for row, ratio in ratios.items()
        ]
    if search.solve is not None:
        allocation, data["solved"] = _solved(forecast, allocation, search.solve)
        figures = [data["solved"]["target"], f"{data['solved']['budget']} {data['solved']['unit']}"]
        shown.append(TextTable("The least budget", ["target", "budget"], [figures], data["solved"]["notes"], words=2))
        if search.best and not search.aim:
            data["solved"]["notes"].append(OF_ALL_ROWS.format(aim=data["solved"]["aim"]))
    return allocation, data, shown


def _kept(allocation: Allocation, typed: Sequence[str]) -> list[str]:
    """Return the levels that keep their shares. Raises Refused for an unknown name."""
    return [_named(name, allocation.levels, "level") for name in typed]


def _front(
    forecast: RunForecast, allocation: Allocation, progress: Progress, aims: tuple[str, str], kept: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the predicted errors of two aims, and the shares, from the first aim alone to the second alone."""
    start = forecast.weights(allocation)
    first, second = (read_row(text, forecast.mean_errors(start)) for text in aims)
    progress("points between two aims", 0, FRONT)
    for at, weights in enumerate(front(forecast.mean_errors, start, first, second, forecast.fixed_levels(kept)), 1):
        progress("points between two aims", at, FRONT)
        errors = forecast.mean_errors(weights)
        shares = as_allocation(weights, allocation, "das tda tune --pareto")
        yield {": ".join(first): errors[first], ": ".join(second): errors[second], "allocation": shares.as_file()}


def _solved(forecast: RunForecast, allocation: Allocation, text: str) -> tuple[Allocation, dict[str, Any]]:
    """Return the allocation with the least budget that meets a target, and the target in words. Raises Refused."""
    weights = forecast.weights(allocation)
    target, notes = read_target(text, forecast.mean_errors(weights)), []
    if target.part is not None:
        found = forecast.targets(weights).get(target.aim[0])
        if found is None:
            raise Refused(f"{target.words}: there is no such area with 500 persons")
        notes += [every_area([(target.aim[0], found.areas)], target.part)] * (found.areas * (1 - target.part) < 1)
    factor = least_factor(lambda each: target.holds(forecast, scaled(weights, each)))
    if factor is None:
        most = near(FACTORS[1] * float(allocation.budget), 3)
        raise Refused(f"{target.words}: not met with a budget of {most} either; other shares may meet it")
    allocation = replace(allocation, budget=Fraction(digits(Fraction(factor) * allocation.budget)))
    unit = "rho" if allocation.definition == "zcdp" else "epsilon"
    figures = {"target": target.words, "budget": str(float(allocation.budget)), "unit": unit}
    return allocation, figures | {"aim": ": ".join(target.aim), "notes": notes}


def changed(allocation: Allocation, levels: Sequence[str], queries: Sequence[str]) -> Allocation:
    """Return an allocation with typed shares, exactly; the other shares of the same sum keep their proportions.

    levels: `LEVEL=SHARE`; queries: `LEVEL: QUERY=SHARE`. Raises Refused for a name that is not there, or no share.
    """
    found = dict(allocation.levels)
    typed = {
        _named(level, found, "level"): share(value, level)
        for level, value in (pair(text, "--level") for text in levels)
    }
    allocation = replace(allocation, levels=_with_shares(found, typed, "--level"))
    by_level: dict[str, dict[str, Fraction]] = {}
    for text in queries:
        name, value = pair(text, "--query")
        level, colon, query = name.partition(":")
        if not colon:
            raise Refused(f"--query is 'LEVEL: QUERY=SHARE', as 'Tract: total=.4', not {text!r}")
        at = _named(level, found, "level")
        by_level.setdefault(at, {})[_named(query, allocation.queries[at], f"query of {at}")] = share(value, name)
    asked = {
        level: _with_shares(dict(allocation.queries[level]), of_level, f"--query, {level}")
        for level, of_level in by_level.items()
    }
    return replace(allocation, queries={**allocation.queries, **asked})


def _named(text: str, known: Mapping[str, object], what: str) -> str:
    """Return the name that was typed, in any case."""
    names = {name.casefold(): name for name in known}
    found = names.get(text.strip().casefold().replace(" ", "_")) or names.get(text.strip().casefold())
    if found is None:
        raise Refused(f"unknown {what} {text.strip()!r}: one of {', '.join(known)}")
    return found


def _with_shares(shares: dict[str, Fraction], typed: Mapping[str, Fraction], option: str) -> dict[str, Fraction]:
    """Return shares with sum 1: the typed ones, and the others scaled to the rest."""
    rest, others = 1 - sum(typed.values(), Fraction(0)), [name for name in shares if name not in typed]
    if rest < 0 or (rest == 0) != (not others):
        total = float(1 - rest)
        raise Refused(
            f"{option}: the shares add up to {total:.6g}; with the others, which are positive, they must be 1"
        )
    before = sum((shares[name] for name in others), Fraction(0))
    return {name: typed[name] if name in typed else shares[name] * rest / before for name in shares}


def as_allocation(weights: Weights, like: Allocation, source: str) -> Allocation:
    """Return found weights as an allocation of the same budget, in shares of one part in UNIT."""
    levels = _rounded({level: sum(queries.values()) for level, queries in weights.items()})
    asked = {level: _rounded(queries) for level, queries in weights.items()}
    return replace(like, levels=levels, queries=asked, source=source)


def _rounded(parts: Mapping[str, float]) -> dict[str, Fraction]:
    """Return shares of one part in UNIT, each at least one, by largest remainder."""
    whole = sum(parts.values())
    exact = {name: max(part / whole * UNIT, 1.0) for name, part in parts.items()}
    scale = (UNIT - len(exact)) / sum(value - 1 + 1e-12 for value in exact.values())
    exact = {name: 1 + (value - 1) * scale for name, value in exact.items()}
    found = {name: floor(value) for name, value in exact.items()}
    for name in sorted(exact, key=lambda each: found[each] - exact[each])[: UNIT - sum(found.values())]:
        found[name] += 1
    return {name: Fraction(number, UNIT) for name, number in found.items()}
