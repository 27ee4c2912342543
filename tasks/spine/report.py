"""The report of a spine, spine.html: one file, no script, legible in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spine.entities import entities as entities_of
from spine.entities import in_aian
from spine.geography import Geography
from spine.settings import SpineSettings
from tasks.inputs.names import name_of_state, names_of_2020, title_of_states
from tasks.inputs.regions import Region
from tasks.lifecycle.files import read_object
from tasks.pages import render
from tasks.pages.words import best_in_words, level_title, query_title
from tasks.spine.first_pass import SPINES, SpinePlan, build
from tasks.spine.summary import NAMES

SETTINGS = {
    "pl94-persons": "redistricting persons",
    "pl94-units": "redistricting housing units",
    "dhc-persons": "DHC persons",
    "dhc-units": "DHC housing units",
}


def write_report(
    path: Path,
    summary: Any,
    plan: SpinePlan,
    entities: pd.DataFrame,
    classes: pd.DataFrame,
    levels: pd.DataFrame,
    state_paths: Sequence[Path],
    county: int,
) -> None:
    """Write the report of a spine: its tables, its charts and the drawing of one county."""
    from tasks.spine import plots  # and with it matplotlib, which nothing else of a run needs

    state = next(p for p in state_paths if int(p.stem) == county // 1000)
    states = [name_of_state(f"{int(code):02d}") for code in summary.states]
    html = render(
        "tasks.spine",
        "report.html",
        figure=_figure,
        share_of=lambda share: float(Fraction(share)),
        summary=summary,
        marginals=plan.marginals,
        spines=SPINES,
        names=NAMES,
        classes=_with_medians(classes, entities, plan.marginals[0]),
        settings_of=SETTINGS.get(summary.product, summary.product),
        levels=levels.to_dict("records"),
        distances=plots.by_class(classes, "osed_mean", "mean distance from the spine, geounits", "mean distance"),
        errors=plots.by_class(
            classes, f"se_mean_{plan.marginals[0]}", f"mean standard error of {query_title(plan.marginals[0])}", "error"
        ),
        fanouts=plots.fanouts(levels),
        county=names_of_2020().get(Region.named("COUNTY", f"{county:05d}"), f"County {county:05d}"),
        states=states,
        where=title_of_states(states),
        best=_best(classes, plan.marginals[0]),
        hierarchy=_hierarchy(state, plan, county),
        settings=_settings(plan.settings),
    )
    path.write_text(html)


def _with_medians(classes: pd.DataFrame, entities: pd.DataFrame, marginal: str) -> list[dict[Any, Any]]:
    """Return the rows of classes with the median standard error of a marginal, by spine."""
    inside = entities[~entities["outside"]].groupby("class")
    medians = {f"median_{spine}": inside[f"se_{marginal}_{spine}"].median() for spine in SPINES}
    return [
        row | {name: median[row["class"]] for name, median in medians.items()} for row in classes.to_dict("records")
    ]


def _best(classes: pd.DataFrame, marginal: str) -> str:
    """Return in words on which spine each class of areas has the least mean standard error of a marginal."""
    means = classes.set_index("class")[[f"se_mean_{marginal}_{spine}" for spine in SPINES]].dropna()
    rows = {level_title(str(name), several=True): row for name, row in zip(means.index, means.to_numpy(), strict=True)}
    return best_in_words(
        {name: dict(zip(map(NAMES.__getitem__, SPINES), row, strict=True)) for name, row in rows.items()}
    )


def _hierarchy(state: Path, plan: SpinePlan, county: int) -> str:
    from tasks.spine import plots

    geography = read_object(state, Geography)
    family = entities_of(geography, "pme", plan.settings)
    assert family is not None
    inside = geography.county == county
    entity = np.where(family.outside[family.of_block], -1, family.of_block)
    spines = build(geography, plan)
    aian = in_aian(geography, plan.settings)
    return plots.hierarchies(
        {name: plots.hierarchy_of(spines[name], inside, entity, aian) for name in ("conventional", "optimized")}
    )


def _settings(settings: SpineSettings) -> list[tuple[str, str, str]]:
    sources = SpineSettings.sources()
    return [(name, _words(value), sources[name]) for name, value in settings.described().items()]


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _figure(value: Any) -> str:
    """Return counts with commas and other figures to three digits; an empty text for no value."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, str | Fraction):
        return str(value)
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
