"""`das tune` for the other systems: the spend of a run, and the noise, margins and least budget of every query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from flows.reports.figures import LONGEST_SHOWN, digits, near, up
from flows.reports.losses import PRODUCTION, read_households
from flows.reports.tuning.solve import REGIONS, read_asked
from privacy.accounting.composition import Spend, rounded_up
from privacy.analyses.margin_budgets import least_budget
from privacy.bottom_up.mechanism import sampled_epsilon
from privacy.noise.laws import UNITS, Definition, law
from privacy.noise.margins import margin_of_error
from privacy.noise.sampler import check_law
from privacy.s_dhc.stability import spend
from privacy.tables.histogram import Groups, Histogram
from tasks.bottom_up.declared_histogram import read_declared_histogram
from tasks.errors import Refused, refusing
from tasks.releases.pages.text_table import TextTable
from tasks.s_dhc.budgets import read_budgets
from tasks.safetab.parameters import planned_spend, stability_parts

SAMPLE = 0.25  # the share of the long form of 1960 (Clark, Dajani 2019)
COUNTED = {"count": "", "total": "", "households": "", "persons": "", "renters": ": T4", "owners": ": T4"}
ALPHAS = {"margins": Fraction(1, 20), "margins_90": Fraction(1, 10)}


@dataclass(frozen=True)
class TunedQuery:
    """A query: its noise is `law(definition, budget, stability)` in each cell.

    cells: the numbers of cells that its published counts sum. facts: further known facts.
    """

    name: str
    budget: Fraction
    stability: int
    cells: tuple[int, ...] = (1,)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemQueries:
    """The queries of a system's configuration, and the spend of a run of them, by jurisdiction if there are two.

    grid: the unit of a count. notes: about the spend.
    """

    source: str
    definition: Definition
    spent: Mapping[str, Spend]
    queries: tuple[TunedQuery, ...]
    grid: Fraction = Fraction(1)
    notes: tuple[str, ...] = ()


def households(source: Path | None) -> SystemQueries:
    """Return the design of the Detailed DHC-B, a query for each level and table; by default the production's."""
    configuration, iterations = read_households(source)
    spent: dict[str, Spend] = {}
    queries = []
    for jurisdiction in configuration.jurisdictions:
        spent[jurisdiction] = planned_spend(configuration, jurisdiction)
        for level in configuration.levels(jurisdiction):
            stability = sum(stability_parts(configuration, iterations, level))
            for table in configuration.tables(level):
                budget = configuration.table_budget(table.key, level)
                facts = {"thresholds": configuration.thresholds[table.key][level]}
                cells = tuple(table.widths.tolist())
                queries.append(TunedQuery(f"{level.name}: {table.name.upper()}", budget, stability, cells, facts))
    return SystemQueries(str(source or PRODUCTION), configuration.privacy_defn, spent, tuple(queries))


def s_dhc(source: Path, total: Fraction | None) -> SystemQueries:
    """Return the design of the Supplemental DHC, from a configuration or a release, with budgets scaled to a sum."""
    budgets = read_budgets(source)
    scale = 1 if total is None else total / sum(query.budget for query in budgets.queries)
    stated = [replace(query, budget=query.budget * scale) for query in budgets.queries]
    queries = [
        TunedQuery(
            query.name.removeprefix("sdhc/"),
            query.budget,
            query.scale(budgets.definition, budgets.stability),
            facts={"tau": query.tau},
        )
        for query in stated
    ]
    spent = {"run": spend(budgets.definition, budgets.stability, stated)}
    return SystemQueries(str(source), budgets.definition, spent, tuple(queries))


def bottom_up(source: Path, epsilon: Fraction) -> SystemQueries:
    """Return the design of a declaration: the histogram, and its marginals by up to two axes, levels or recodes."""
    declared = read_declared_histogram(source)
    mechanism = declared.mechanism(epsilon)
    named = [names for count in range(3) for names in combinations(declared.names, count)]
    marginals = {
        ", ".join(groups.names) or "the total": _cells_summed(declared.histogram, groups)
        for groups in map(declared.histogram.groups, named)
        if len(dict(groups.parts)) == len(groups.names)
    }
    queries = [
        TunedQuery(name, epsilon, mechanism.sensitivity, (cells,))
        for name, cells in {"the histogram": 1, **marginals}.items()
    ]
    spent = {"run": mechanism.spend}
    return SystemQueries(str(source), "puredp", spent, tuple(queries), declared.grid, (_sample_note(epsilon),))


def _sample_note(epsilon: Fraction) -> str:
    """Return the saving from the secrecy of a sample, and its conditions (docs/elsewhere.md)."""
    return (
        f"Of a table that is a secret {SAMPLE:.0%} sample a person added to the population or removed costs epsilon "
        f"{up(sampled_epsilon(float(epsilon), SAMPLE))} in place of {near(epsilon)}, and one replaced twice that, if "
        "each person was drawn with this chance independently of all others, nobody learns who was, and no weight or "
        "total depends on it. Samples of whole households, or of every fourth person, do not qualify. The ledger "
        "charges in full."
    )


def _cells_summed(histogram: Histogram, groups: Groups) -> int:
    """Return the most cells that a count of a marginal sums; structural zeros are not taken off."""
    sizes = dict(zip(histogram.names, histogram.shape, strict=True))
    return prod((sizes | {axis: int(np.bincount(part).max()) for axis, part in groups.parts}).values())


def asked_of(text: str, design: SystemQueries) -> tuple[SystemQueries, int]:
    """Return the queries that a question of `das tune --solve` is about, and its margin. Raises Refused."""
    asked = read_asked(text)
    table = COUNTED.get(asked.words.casefold())
    if table is None:
        raise Refused(f"unknown count {asked.words[:LONGEST_SHOWN]!r}: one of {', '.join(COUNTED)}")
    place = asked.place and REGIONS.get(asked.place.casefold(), asked.place.casefold())
    chosen = [
        query
        for query in design.queries
        for level, _, iterations in [query.name.partition(":")[0].casefold().partition(", ")]
        if query.name.endswith(table)
        and query.name.casefold().startswith((asked.named or "").strip().casefold())
        and place in (None, level.removeprefix("pr-"))
        and (asked.iterations or iterations).casefold() == iterations
    ]
    if not chosen:
        known = "; ".join(query.name for query in design.queries)
        raise Refused(f"no query is asked for in {text[:LONGEST_SHOWN]!r}: they are {known}")
    return replace(design, queries=tuple(chosen)), asked.margin


def sentence(answered: Mapping[str, Any], margin: int) -> str:
    """Return which queries have the margin already, in words."""
    rows = answered["queries"]
    met = [row["query"] for row in rows if max(row["margins"]) <= margin]
    which = f" ({'; '.join(met)})" if 0 < len(met) < len(rows) else ""
    return (
        f"{len(met)} of {len(rows)} queries have every count within {margin:,} at 95% with the budgets of "
        f"{answered['source']} already{which}. The least budgets for it are in the last column of the second table."
    )


def answers(design: SystemQueries, margin: int | None, delta: Fraction) -> dict[str, Any]:
    """Return the spend of a run and the noise of each query; with `margin` also the least budgets for it."""
    with refusing():
        queries = [_answer(design, query, margin) for query in design.queries]
    return {
        "source": design.source,
        "definition": design.definition,
        "notes": design.notes,
        "spent": {name: spent.as_json(delta) for name, spent in design.spent.items()},
        "queries": queries,
    }


def _answer(design: SystemQueries, query: TunedQuery, margin: int | None) -> dict[str, Any]:
    noise = law(design.definition, query.budget, query.stability)
    with refusing(query.name):
        check_law(noise)
    margins = {
        name: [float(margin_of_error(noise, cells, alpha) * design.grid) for cells in query.cells]
        for name, alpha in ALPHAS.items()
    }
    least = {}
    if margin is not None:
        steps = int(margin / design.grid)
        least["least_budget"] = [
            float(digits(least_budget(design.definition, steps, query.stability, cells=cells))) for cells in query.cells
        ]
    return {
        "query": query.name,
        "budget": query.budget,
        "stability": query.stability,
        "deviation": noise.variance() ** 0.5 * float(design.grid),
        "cells": query.cells,
        **margins,
        **least,
        **query.facts,
    }


def tables(answered: Mapping[str, Any]) -> Iterator[TextTable]:
    """Yield the answers as tables: the spend of a run, and the noise of every query."""
    unit = UNITS[answered["definition"]]
    several = len(answered["spent"]) > 1
    relations = [
        [
            f"{name.upper()}: {each['sentence']}" if several else each["sentence"],
            f"{each['decimal']:.10g}",
            rounded_up(Fraction(each["epsilon_at_delta"]), 4),
        ]
        for name, spent in answered["spent"].items()
        for each in spent["relations"]
    ]
    yield TextTable("What a run spends", ["what changes", unit, "epsilon at delta"], relations, answered["notes"])
    titles = {
        "query": "query",
        "budget": unit,
        "stability": "stability",
        "tau": "tau",
        "deviation": "std. deviation",
        "cells": "cells summed",
        "margins": "margin 95%",
        "margins_90": "margin 90%",
        "least_budget": f"least {unit} for the margin",
        "thresholds": "thresholds",
    }
    shown = [name for name in titles if name in answered["queries"][0]]
    rows = [[_text(name, row[name]) for name in shown] for row in answered["queries"]]
    notes = ["Margins are exact, for a count that sums at most this many cells."]
    yield TextTable(f"Noise of each query: {answered['source']}", [titles[name] for name in shown], rows, notes)


def _text(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_text(name, each) for each in value)
    if name == "least_budget":
        return digits(Fraction(str(value)))
    if name in ("budget", "deviation"):
        return near(value, 7 if name == "budget" else 5)
    return "–" if value is None else value if isinstance(value, str) else f"{value:,.10g}"
