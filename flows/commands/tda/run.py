"""`das tda run`: the TopDown Algorithm from files to release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.fields import Chosen, Settings, check_needed, with_options
from flows.commands.options import RunOptions
from flows.commands.runner import FlowCommand, summary_lines
from flows.commands.tda.declared import DeclarationOption, is_declared, run_declared
from flows.execution.systems import SYSTEMS
from flows.execution.top_down_settings import TopDownSettings
from flows.reports.terminal import err

if TYPE_CHECKING:
    from privacy.accounting.composition import Spend
    from tasks.top_down.run_plan import Design


@with_options
def run(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(TopDownSettings, needed=False)],
    declaration: DeclarationOption = None,
    *,
    options: RunOptions,
) -> None:
    """Release a private database of persons and housing units by block.

    OUT gets microdata, histograms of every geounit, the noisy measurements with their variances, manifest.json and
    report.html. Persons and units are charged together, before any noise is drawn. The declared state totals, housing
    units and group quarters by block are published unchanged.

    With --declaration, DATA is a table of any records, and OUT gets histograms by the levels and axes of that file.

    If a run stops, --resume ID continues it without spending again; its id is printed at the start.

    **Example:** `das tda run data/ out/ --account census-2020`

    **Example:** `das tda run ri/ out/ --spine conventional --only-state 44 --mdf-text`

    **Example:** `das tda run records.csv out/ --declaration districts.toml --account census-2024`
    """
    if is_declared(options, declaration):
        options.start_ahead("tasks.top_down.declared.release")
        run_declared(context, options, chosen, declaration)
        return
    options.start_ahead("tasks.top_down.input.histograms", "tasks.top_down.release.stage_release")
    COMMAND.run(context, options, chosen)


def _new_runs(options: RunOptions, chosen: Chosen) -> list[TopDownSettings]:
    from flows.execution.settings import new_run_id
    from flows.reports.curator import spend_table

    check_needed(TopDownSettings, chosen)
    run_id = options.run_id or new_run_id("tda", chosen.get("jurisdiction", "us"))
    settings = options.new_settings(TopDownSettings, run_id, chosen)
    spends = planned_spends(settings.design())
    table = spend_table(spends)
    if len(spends) > 1:
        table.caption = "The US level is measured if all 50 states and D.C. are there."
        table.caption_justify = "left"
    err.print(table)
    return [settings]


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


COMMAND = FlowCommand(SYSTEMS["top-down"], _new_runs, _details, lambda facts: facts[0], _summary)
