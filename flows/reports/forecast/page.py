"""The page of `das tda tune`: sliders over the shares, and the predicted errors before and after them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from spine.allocations import Allocation
from spine.forecast.surface import Surface, fit
from tasks.releases.pages import render
from tasks.releases.pages.words import level_title
from tasks.top_down.accuracy.forecast import RunForecast

ALONE = {"total": "total", "hispanic*cenrace": "Hispanic origin × race"}


def page(forecast: RunForecast, allocation: Allocation, source: str) -> str:
    """Return the page, which starts from an allocation of persons."""
    start = forecast.weights(allocation)
    surface = fit(forecast.mean_errors, start, forecast.predicted_levels)
    unit = "rho" if allocation.definition == "zcdp" else "epsilon"
    return page_of(_content(surface, forecast, allocation), source=source, off=f"{surface.off:.0%}", unit=unit)


def page_of(content: Mapping[str, Any], **words: str) -> str:
    """Return the page over a fitted surface; words: source, how near the surface is (`off`), and the budget's unit."""
    start = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    script = (files("flows.reports.forecast") / "page.js").read_text("utf-8").replace('"use strict";\n', "")
    return render("flows.reports.forecast", "page.html", start=start, page=script, **words)


def _content(surface: Surface, forecast: RunForecast, allocation: Allocation) -> dict[str, object]:
    """Return what the page computes with; `held`: the budget of the levels whose shares it does not move."""
    weights = forecast.weights(allocation)
    groups = [
        {
            "level": level_title(level),
            "kind": ALONE.get(names[0], "all others"),
            "budget": sum(weights[level][name] for name in names),
        }
        for level, names in surface.groups
    ]
    moved = {level for level, _ in surface.groups}
    return {
        "groups": groups,
        "held": sum(sum(queries.values()) for level, queries in weights.items() if level not in moved),
        "pairs": surface.pairs.tolist(),
        "rows": [
            {"level": level_title(level), "quantity": quantity, "coefficients": own.tolist()}
            for (level, quantity), own in zip(surface.rows, surface.coefficients, strict=True)
        ],
    }
