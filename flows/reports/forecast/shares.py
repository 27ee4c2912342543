"""The shares of an allocation as a person changes them, and as a search finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

from flows.reports.figures import digits, pair, share
from spine.allocations import Allocation
from spine.forecast.counts import Weights
from tasks.errors import Refused

UNIT = 10_000  # found shares are multiples of 1 / this


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


def with_budget(allocation: Allocation, factor: float) -> Allocation:
    """Return an allocation with its budget times a factor, rounded up to six digits."""
    return replace(allocation, budget=Fraction(digits(Fraction(factor) * allocation.budget)))
