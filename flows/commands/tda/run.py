"""`das tda run`: the TopDown Algorithm from files to release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.fields import with_options
from flows.commands.options import OUT, RunOptions
from flows.commands.runner import FlowCommand, summary_lines
from flows.commands.tda.options import ROUND, DataArgument, Estimator, InputOptions, Kind, Rounding, TextOption
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import err

if TYPE_CHECKING:
    from flows.execution.top_down_settings import TopDownSettings
    from privacy.accounting.composition import Spend
    from tasks.top_down.run_plan import Design


@with_options
def run(
    context: typer.Context,
    data: DataArgument = None,
    release: Annotated[Path | None, OUT] = None,
    spine: Annotated[Kind, typer.Option(help="The geographic spine that is measured.")] = Kind.optimized,
    us_level: Annotated[
        bool | None, typer.Option("--us-level/--no-us-level", help="Measure the US.", show_default="with all states")
    ] = None,
    definition: Annotated[
        Literal["zcdp", "puredp"], typer.Option(help="Discrete Gaussian or two-sided geometric noise.")
    ] = "zcdp",
    persons_budget: Annotated[str | None, typer.Option(help="Another rho (puredp: epsilon), exact.")] = None,
    units_budget: Annotated[str | None, typer.Option(help="Another rho (puredp: epsilon), exact.")] = None,
    persons_allocation: Annotated[str | None, typer.Option(help="JSON file of budget and shares.")] = None,
    units_allocation: Annotated[str | None, typer.Option(help="JSON file of budget and shares.")] = None,
    estimator: Annotated[
        Estimator,
        typer.Option(
            help="topdown: as the 2020 program; gls: least squares that also uses the measurements below a level."
        ),
    ] = Estimator.topdown,
    rounding: Annotated[Rounding, ROUND] = "program",
    mdf_text: TextOption = False,
    measurements: Annotated[
        Literal["parquet", "nmf", "none"],
        typer.Option(
            help="Release the noisy measurements: parquet, das-flows' layout; nmf, that of the Census Bureau's files; "
            "or none: once left out, they are gone for good."
        ),
    ] = "parquet",
    *,
    inputs: InputOptions,
    options: RunOptions,
) -> None:
    """Release a private database of persons and housing units by block.

    OUT gets microdata, histograms of every geounit, the noisy measurements with their variances, manifest.json and
    report.html. Persons and units are charged together, before any noise is drawn. The declared state totals, housing
    units and group quarters by block are published unchanged.

    If a run stops, --resume ID continues it without spending again; its id is printed at the start.

    **Example:** `das tda run data/ out/ --account census-2020`

    **Example:** `das tda run ri/ out/ --spine conventional --only-state 44 --mdf-text`
    """
    options.start_ahead("tasks.top_down.input.histograms", "tasks.top_down.release.stage_release")

    from flows.execution.settings import new_run_id
    from flows.execution.top_down_settings import TopDownSettings
    from flows.reports.curator import spend_table

    def begin() -> list[TopDownSettings]:
        if data is None or release is None:
            raise typer.BadParameter("DATA and OUT are needed, or --resume ID")
        settings = options.new_settings(
            TopDownSettings,
            options.run_id or new_run_id("tda", inputs.jurisdiction),
            release,
            data=data,
            **vars(inputs),
            spine=spine,
            nation=us_level,
            definition=definition,
            persons_budget=persons_budget,
            units_budget=units_budget,
            persons_allocation=persons_allocation,
            units_allocation=units_allocation,
            estimator=estimator,
            rounding=rounding,
            microdata="text" if mdf_text else "parquet",
            measurements=measurements,
        )
        spends = planned_spends(settings.design())
        table = spend_table(spends)
        if len(spends) > 1:
            table.caption, table.caption_justify = (
                "The US level is measured if all 50 states and D.C. are there.",
                "left",
            )
        err.print(table)
        return [settings]

    COMMAND.run(context, options, begin)


def planned_spends(design: Design) -> dict[str, Spend]:
    """Return what a run will spend, with the US level and without it where that depends on the states of the data."""
    from tasks.top_down.spend import planned_spend

    if design.jurisdiction == "pr":
        return {"PR": planned_spend(design, nation=False)}
    decided = (True, False) if design.nation is None else (design.nation,)
    return {"with the US" if nation else "states alone": planned_spend(design, nation=nation) for nation in decided}


def _details(_settings: TopDownSettings, manifest: Mapping[str, Any]) -> dict[str, Any]:
    if not manifest:
        return {}
    products = manifest["products"]
    return {
        "states": manifest["states"],
        "geounits": {product: facts["geounits"] for product, facts in products.items()},
        "failed_parents": {product: len(facts["failed"]) for product, facts in products.items()},
    }


def _summary(runs: list[dict[str, Any]]) -> str:
    from tasks.pages.words import level_title

    (facts,) = runs
    lines = summary_lines("TOP DOWN", facts)
    for product, geounits in facts.get("geounits", {}).items():
        counts = ", ".join(
            f"{number:,} {level_title(level, several=number != 1).lower()}" for level, number in geounits.items()
        )
        lines.append(f"   {product:<8} {counts}")
        if geounits["State"] > len(facts["states"]):
            lines.append("            those inside and outside AIAN areas are counted apart")
        if failed := facts["failed_parents"][product]:
            lines.append(f"            {failed} parents were not solved by the first method: see manifest.json")
    if facts.get("release"):
        lines.append(f"   report   {facts['release']}/report.html")
    return "\n".join(lines)


COMMAND = FlowCommand(SYSTEMS["top-down"], _details, lambda facts: facts[0], _summary)
