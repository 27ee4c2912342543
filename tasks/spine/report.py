"""The report of a spine, spine.html: one file, no script, legible in light and dark."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spine.settings import SpineSettings
from tasks.geography.names import name_of_state, title_of_states
from tasks.releases.pages import render
from tasks.releases.pages.dots import FEWEST, Series, dots
from tasks.releases.pages.words import level_title, query_title
from tasks.spine.first_pass import SPINES, SpinePlan

SETTINGS = {
    "pl94-persons": "redistricting persons",
    "pl94-units": "redistricting housing units",
    "dhc-persons": "DHC persons",
    "dhc-units": "DHC housing units",
}
COMPARED = {"conventional": "ring", "optimized": "circle"}


def write_report(
    path: Path,
    summary: Any,
    plan: SpinePlan,
    entities: pd.DataFrame,
    classes: pd.DataFrame,
    levels: pd.DataFrame,
) -> None:
    """Write the report of a spine: its tables and its charts."""
    states, sources = [name_of_state(code) for code in summary.states], SpineSettings.sources()
    html = render(
        "tasks.spine",
        "report.html",
        figure=_figure,
        share_of=lambda share: float(Fraction(share)),
        summary=summary,
        marginals=plan.marginals,
        spines=tuple(SPINES),
        names=SPINES,
        classes=_with_medians(classes, entities, plan.marginals[0]),
        settings_of=SETTINGS.get(summary.product, summary.product),
        levels=levels.to_dict("records"),
        distances=_by_class(classes, "osed_mean", "mean distance from the spine, geounits", "mean distance"),
        errors=_by_class(
            classes, f"se_mean_{plan.marginals[0]}", f"mean standard error of {query_title(plan.marginals[0])}", "error"
        ),
        fanouts=_fanouts(levels),
        states=states,
        where=title_of_states(states),
        settings=[
            (name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value), sources[name])
            for name, value in plan.settings.described().items()
        ],
    )
    path.write_text(html, "utf-8")


def _with_medians(classes: pd.DataFrame, entities: pd.DataFrame, marginal: str) -> list[dict[Any, Any]]:
    """Return the rows of classes with the median standard error of a marginal, by spine."""
    inside = entities[~entities["outside"]].groupby("class")
    medians = {f"median_{spine}": inside[f"se_{marginal}_{spine}"].median() for spine in SPINES}
    return [
        row | {name: median[row["class"]] for name, median in medians.items()} for row in classes.to_dict("records")
    ]


def _by_class(classes: pd.DataFrame, column: str, unit: str, what: str) -> dict[str, Any]:
    """Return the picture of a mean over each class of areas on the two spines; column: the mean's name in `classes`."""
    known = classes.dropna(subset=[f"{column}_{which}" for which in COMPARED])
    found = known[known["entities"] >= FEWEST].to_dict("records")
    series = {
        f"{SPINES[which]} spine": Series(mark, [row[f"{column}_{which}"] for row in found])
        for which, mark in COMPARED.items()
    }
    rows = [{"name": level_title(row["class"], several=True), "note": f"{row['entities']:,} areas"} for row in found]
    less = sum(row[f"{column}_optimized"] < row[f"{column}_conventional"] for row in found)
    finding = f"The optimized spine has the smaller {what} for {less} of {len(rows)} classes of {FEWEST} areas or more."
    return dots(rows, series, f"{unit} (a step to the right is ten times as much)", least=0.01, finding=finding)


def _fanouts(levels: pd.DataFrame) -> dict[str, Any]:
    rows = levels[levels["fanout_max"].notna() & (levels["spine"] == "optimized")].to_dict("records")
    marks = {"median": ("circle", "p50"), "95 of 100 have at most": ("box", "p95"), "largest": ("bar", "max")}
    series = {name: Series(mark, [row[f"fanout_{of}"] for row in rows]) for name, (mark, of) in marks.items()}
    named = [{"name": level_title(str(row["level"]))} for row in rows]
    widest = max(rows, key=lambda row: float(row["fanout_max"]), default=None)
    finding = widest and f"{widest['fanout_max']:,.0f} children is the most that a geounit of the optimized spine has."
    return dots(
        named, series, "children of a geounit (a step to the right is ten times as many)", finding=finding or ""
    )


def _figure(value: Any) -> str:
    """Return counts with commas and other figures to three digits; an empty text for no value."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, str | Fraction):
        return str(value)
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
