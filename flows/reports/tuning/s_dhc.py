"""`das tune` for the budgets of the S-DHC: the noise of every query, what a run spends, and budgets for a margin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from privacy.analyses.margin_budgets import least_budget
from privacy.noise.margins import margin_of_error
from privacy.s_dhc.stability import spend
from tasks.lifecycle.errors import Refused
from tasks.pages.text_table import TextTable
from tasks.s_dhc.configuration import Configuration, TableQuery, read_configuration

ALPHA_90 = Fraction(1, 10)


def is_s_dhc(source: Path | None) -> bool:
    """Return whether a source is a config.json of the S-DHC."""
    try:
        found = json.loads(source.read_text()) if source is not None and source.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False  # whoever reads it says why
    return isinstance(found, dict) and {"privacy_budget", "tau"} <= found.keys()


def tuned(source: Path, margin: int | None, total: Fraction | None, delta: Fraction) -> dict[str, Any]:
    """Return the noise of every query of a config.json and what a run spends; budgets scaled to a sum.

    margin: where given, also the least budget with which a query has this margin of error at 95%.
    """
    configuration = read_configuration(source)
    configuration.spend()  # refuses infinite budgets
    queries = list(configuration.queries())
    if total is not None:
        scale = total / sum(each.query.budget for each in queries)
        queries = [replace(each, query=replace(each.query, budget=each.query.budget * scale)) for each in queries]
    spent = spend(configuration.definition, configuration.stability, [each.query for each in queries])
    return {
        "source": str(source),
        "definition": configuration.definition,
        "stability": configuration.stability,
        "spent": spent.as_json(delta),
        "queries": [_row(configuration, each, margin) for each in queries],
    }


def _row(configuration: Configuration, each: TableQuery, margin: int | None) -> dict[str, Any]:
    definition, stability = configuration.definition, configuration.stability
    law = each.query.law(definition, stability)
    least = {} if margin is None else {"least_budget": _least(configuration, each, margin)}
    return {
        "query": each.query.name.removeprefix("sdhc/"),
        "tau": each.query.tau,
        "budget": float(each.query.budget),
        "deviation": law.variance() ** 0.5,
        "margin": margin_of_error(law),
        "margin_90": margin_of_error(law, 1, ALPHA_90),
        **least,
    }


def _least(configuration: Configuration, each: TableQuery, margin: int) -> float:
    scale = each.query.scale(configuration.definition, configuration.stability)
    try:
        return float(least_budget(configuration.definition, margin, scale))
    except ValueError as error:
        raise Refused(str(error)) from None


def tables(answers: Mapping[str, Any]) -> list[TextTable]:
    """Return the answers as tables: what a run spends, and the noise of every query."""
    spent = [
        [each["sentence"], f"{each['decimal']:g}", f"{each['epsilon_at_delta']:.3f}"]
        for each in answers["spent"]["relations"]
    ]
    names = {
        "query": "query",
        "tau": "tau",
        "budget": "budget",
        "deviation": "std. deviation",
        "margin": "margin 95%",
        "margin_90": "margin 90%",
        "least_budget": "least budget for the margin",
    }
    found = [name for name in names if name in answers["queries"][0]]
    rows = [[_text(row[name]) for name in found] for row in answers["queries"]]
    charged = f"Charged: {answers['spent']['charged']['decimal']:g}, stability {answers['stability']}."
    return [
        TextTable("What a run spends", ["neighbouring data", "spent", "epsilon"], spent, [charged]),
        TextTable("Noise of each query", [names[name] for name in found], rows),
    ]


def _text(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:,.6g}"
