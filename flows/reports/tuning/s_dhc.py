"""`das tune` for the budgets of the S-DHC: the noise of every query, what a run spends, and budgets for a margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from privacy.accounting.composition import rounded_up
from privacy.analyses.margin_budgets import least_budget
from privacy.noise.margins import margin_of_error
from privacy.s_dhc.stability import Query, spend
from tasks.lifecycle.errors import Refused
from tasks.pages.text_table import TextTable
from tasks.s_dhc.budgets import Budgets, read_budgets

ALPHA_90 = Fraction(1, 10)


def tuned(source: Path, margin: int | None, total: Fraction | None, delta: Fraction) -> dict[str, Any]:
    """Return the noise of every query of a config.json or release and what a run spends; budgets scaled to a sum.

    margin: where given, also the least budget with which a query has this margin of error at 95%.
    """
    budgets = read_budgets(source)
    if total is not None:
        scale = total / sum(query.budget for query in budgets.queries)
        scaled = tuple(replace(query, budget=query.budget * scale) for query in budgets.queries)
        budgets = replace(budgets, queries=scaled)
    return {
        "source": str(source),
        "definition": budgets.definition,
        "stability": budgets.stability,
        "spent": spend(budgets.definition, budgets.stability, budgets.queries).as_json(delta),
        "queries": [_row(budgets, query, margin) for query in budgets.queries],
    }


def _row(budgets: Budgets, query: Query, margin: int | None) -> dict[str, Any]:
    law = query.law(budgets.definition, budgets.stability)
    least = {} if margin is None else {"least_budget": _least(budgets, query, margin)}
    return {
        "query": query.name.removeprefix("sdhc/"),
        "tau": query.tau,
        "budget": float(query.budget),
        "deviation": law.variance() ** 0.5,
        "margin": margin_of_error(law),
        "margin_90": margin_of_error(law, 1, ALPHA_90),
        **least,
    }


def _least(budgets: Budgets, query: Query, margin: int) -> float:
    scale = query.scale(budgets.definition, budgets.stability)
    try:
        return float(least_budget(budgets.definition, margin, scale))
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
    charged = (
        f"Charged: {rounded_up(Fraction(answers['spent']['charged']['exact']))}, stability {answers['stability']}."
    )
    return [
        TextTable("What a run spends", ["neighbouring data", "spent", "epsilon"], spent, [charged]),
        TextTable("Noise of each query", [names[name] for name in found], rows),
    ]


def _text(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:,.6g}"
