"""The page of `das tda tune`: sliders over the shares, and their predicted errors next to those of other shares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from spine.allocations import Allocation
from spine.forecast.precision import Weights
from spine.forecast.search import Predict
from spine.forecast.surface import Surface, fit
from tasks.releases.pages import render
from tasks.releases.pages.text_table import TextTable
from tasks.releases.pages.words import level_title
from tasks.top_down.accuracy.forecast import RunForecast

ALONE = {"total": "total", "hispanic*cenrace": "Hispanic origin × race"}
OTHERS, ALL = "all others", "all"  # kinds of queries besides


def page(
    forecast: RunForecast, allocation: Allocation, other: Allocation, source: str, fixed: Sequence[TextTable]
) -> str:
    """Return the page, whose sliders start from an allocation of persons, next to another allocation.

    fixed: tables of both allocations that do not follow the sliders.
    """
    now, before = forecast.weights(allocation), forecast.weights(other)
    surface = fit(forecast.mean_errors, now, forecast.predicted_levels)
    return page_of(
        content(surface, now, before, forecast.mean_errors(before), forecast.unpredicted_levels),
        fixed,
        source=source,
        before=other.source,
        outside=" and ".join(forecast.outside_trials(allocation)),
        off=f"{surface.off:.0%}",
        unit="rho" if allocation.definition == "zcdp" else "epsilon",
    )


def page_of(content: Mapping[str, Any], fixed: Sequence[TextTable] = (), **words: str) -> str:
    """Return the page over a fitted surface; words: the sources of blocks and of both allocations, `off`, the unit, and
    how the prediction is outside the model's trials.
    """
    start = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    script = (files("flows.reports.forecast") / "page.js").read_text("utf-8").replace('"use strict";\n', "")
    return render("flows.reports.forecast", "page.html", start=start, page=script, fixed=fixed, **words)


def content(
    surface: Surface, now: Weights, before: Weights, errors_before: Predict, unpredicted: Sequence[str]
) -> dict[str, object]:
    """Return what the page computes with: budgets and errors of two sets of weights, and the surface around `now`.

    unpredicted: measured levels that no predicted error depends on. They get a slider because they share the budget.
    """

    def groups() -> Iterator[dict[str, object]]:
        kinds = [(level, ALL, False) for level in unpredicted]
        kinds += [(level, ALONE.get(names[0], OTHERS), True) for level, names in surface.groups]
        for level, kind, predicted in kinds:
            budget, other = (_budget(weights[level], kind) for weights in (now, before))
            yield {"level": level_title(level), "kind": kind, "budget": budget, "before": other, "predicted": predicted}

    return {
        "groups": list(groups()),
        "whole": [sum(sum(queries.values()) for queries in weights.values()) for weights in (now, before)],
        "pairs": surface.pairs.tolist(),
        "rows": [
            {
                "level": level_title(row[0]),
                "quantity": row[1],
                "before": errors_before[row],
                "start": start,
                "coefficients": own.tolist(),
            }
            for row, start, own in zip(surface.rows, surface.start.tolist(), surface.coefficients, strict=True)
        ],
    }


def _budget(queries: Mapping[str, float], kind: str) -> float:
    return sum(own for query, own in queries.items() if kind in (ALL, ALONE.get(query, OTHERS)))
