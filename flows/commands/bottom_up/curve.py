"""`das bottom-up curve`: the accuracy of simulated releases at several budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.bottom_up.noise import Epsilons, budgets, short
from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import Curator, ExactOptions
from flows.execution.bottom_up_settings import BottomUpSettings
from flows.reports.formats import Format, FormatOption, report
from flows.reports.terminal import refusing
from tasks.pages.text_table import TextTable

if TYPE_CHECKING:
    from privacy.analyses.accuracy_curve import Point

CHOSEN = ("table", "domain", "totals", "calibration", "clip")
ERRORS = ("l1", "l2", "a1", "a2", "a1_half")


@with_options
def curve(
    chosen: Annotated[Chosen, Settings(BottomUpSettings, CHOSEN, needed=False)],
    counts: Annotated[str | None, typer.Option(help="Counts instead of a table: `120,40,15,...`.")] = None,
    epsilon: Epsilons = None,
    replicates: Annotated[int, typer.Option(min=2, help="Simulated releases at each epsilon.")] = 20,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve into this file: .svg, .png or .pdf.")] = None,
    curator: Curator = False,
    form: FormatOption = Format.table,
    *,
    options: ExactOptions,
) -> None:
    """Replicate the mechanism at several epsilons: L1, L2 and the accuracy curve, with their closed forms.

    A1 = 1 - sum|t-c| / sum t, A2 = 1 - sum(t-c)^2 / sum t^2 for true counts t and released counts c. The figures come
    from exact counts and are NOT PRIVATE: use them only internally, to choose epsilon.

    **Example:** `das bottom-up curve --counts 120,40,15,900,300,60,5,0,20,10 --plot curve.svg`
    """
    from flows.commands.bottom_up.simulation import simulate_counts, simulate_table

    epsilons = budgets(epsilon)
    if counts is not None and "table" in chosen:
        raise typer.BadParameter("give TABLE and DOMAIN, or --counts")
    if counts is not None:
        simulation, unit = simulate_counts(counts), "records"
    elif "table" not in chosen or "domain" not in chosen:
        raise typer.BadParameter("TABLE and DOMAIN are needed, or --counts")
    else:
        simulation, unit = simulate_table(chosen, options, curator=curator)
    with refusing():
        simulation = replace(simulation, method=chosen["calibration"], clip=chosen["clip"])
        points = list(simulation.curve(epsilons, replicates))
    if plot:
        from flows.reports.bottom_up_chart import draw_curve
        from tasks.pages.charts import save

        save(lambda: draw_curve(points, simulation.expected, unit), plot)
    notes = [
        "NOT PRIVATE: computed from exact counts, for internal use in choosing epsilon.",
        f"{len(simulation.truth):,} cells, {replicates} replicates: mean ± standard error. L1 in {unit}, L2 squared.",
        "A1 = 1 - sum|t-c| / sum t, A2 = 1 - sum(t-c)² / sum t²; E: closed form. The slides call this a ROC curve; "
        "it shows accuracy over epsilon.",
    ]
    data = {"unit": unit, "cells": len(simulation.truth), "replicates": replicates, "notes": notes}
    data["points"] = [
        {"epsilon": float(point.epsilon), **{name: _errors(point, name) for name in ERRORS}} for point in points
    ]
    report(data, [_curve_table(points, notes)], form, as_json=options.as_json)


def _errors(point: Point, name: str) -> dict[str, Any]:
    closed = getattr(point.expected, name) if point.expected else None
    return {"mean": getattr(point.mean, name), "se": getattr(point.standard_error, name), "expected": closed}


def _curve_table(points: Sequence[Point], notes: list[str]) -> TextTable:
    names = {"l1": "L1", "l2": "L2", "a1": "A1", "a2": "A2"}
    head = ["epsilon", *(heading for name in names.values() for heading in (name, f"E {name}"))]
    rows = []
    for point in points:
        row = [short(point.epsilon)]
        for name in names:
            facts = _errors(point, name)
            form = "{:.5g}" if name.startswith("l") else "{:.5f}"
            spread = f"{facts['se']:.2g}"
            row += [
                f"{form.format(facts['mean'])} ± {spread}",
                "" if facts["expected"] is None else form.format(facts["expected"]),
            ]
        rows.append(row)
    return TextTable("Accuracy curve of the bottom-up mechanism", head, rows, notes)
