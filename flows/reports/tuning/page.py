"""The page of `das tune`: one file that needs no network, with sliders over the same functions in JavaScript."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.resources import files
from typing import Any, get_args

from flows.reports.tuning.plan import BudgetPlan, budgets_of
from flows.reports.tuning.tuning import COUNTS_MET, SHARE_MET
from privacy.accounting.composition import spend
from privacy.noise.laws import Definition
from tasks.errors import refusing
from tasks.releases.pages import render
from tasks.safetab.configuration import NEVER
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import AGES_NAMES, BY_AGE, CELLS_OF


def page(plan: BudgetPlan) -> str:
    """Return the page, starting from this plan."""
    here = files("flows.reports.tuning")
    scripts = {name: (here / f"{name}.js").read_text("utf-8") for name in ("laws", "charts", "page")}
    scripts = {name: text.replace('"use strict";\n', "") for name, text in scripts.items()}
    with refusing():
        start = json.dumps(_start(plan)).replace("<", "\\u003c")
    relations = spend(plan.definition, [Fraction(1)]).relations  # their figures are multiples of the sum of budgets
    ages = [(CELLS_OF[name], AGES_NAMES[name]) for name in BY_AGE]
    facts = {"source": plan.source, "ages": ages, "relations": relations, "target": f"{SHARE_MET} {COUNTS_MET}"}
    return render("flows.reports.tuning", "page.html", start=start, **facts, **scripts)


def _start(plan: BudgetPlan) -> dict[str, Any]:
    budgets = {definition: budgets_of(plan, definition) for definition in get_args(Definition)}
    return {
        "definition": plan.definition,
        "gamma": float(plan.gamma),
        "raceCodes": plan.race_codes,
        "target": float(plan.target),
        "relative": plan.relative,
        "chance": float(plan.chance),
        "delta": float(plan.delta),
        "ages": AGES_NAMES,
        "cells": CELLS_OF,
        "levels": [
            {
                "name": level.name,
                "slug": level.slug,
                "on": level not in plan.off,
                "suppressible": not level.nation_or_state,
                "stability": (plan.stabilities or {}).get(level),
                "thresholds": _thresholds(plan, level),
                "budgets": {definition: float(of[level]) for definition, of in budgets.items()},
            }
            for level in plan.levels
        ],
    }


def _thresholds(plan: BudgetPlan, level: Level) -> list[int | None] | None:
    """Return the noisy totals of step 1 from which a group has a table by age, None for never; None where unknown."""
    if level not in plan.thresholds:
        return None
    return [None if threshold >= NEVER else threshold for threshold in sorted(plan.thresholds[level])]
