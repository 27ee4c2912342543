"""`das sdhc run`: release the tables PH1 to PH8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.commands.fields import Chosen, Settings, check_needed, with_options
from flows.commands.options import RunOptions
from flows.commands.runner import FlowCommand, summary_lines
from flows.commands.s_dhc.options import jurisdiction_of, new_settings
from flows.execution.s_dhc_settings import SDhcSettings
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import err


@with_options
def run(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(SDhcSettings, needed=False)],
    *,
    options: RunOptions,
) -> None:
    """Release tables PH1 to PH8 of the Supplemental DHC: persons in households, with noise in every cell.

    The states are those of CONFIG: some of the US, or Puerto Rico. The whole budget is charged before any noise is
    drawn. If a run stops, --resume ID continues it without spending again; its id is printed at the start.

    **Example:** `das sdhc run config.json data/ out/ --estimates --account census-2020`
    """
    options.start_ahead("tasks.s_dhc.tabulate", "tasks.s_dhc.release")
    COMMAND.run(context, options, chosen)


def _new_runs(options: RunOptions, chosen: Chosen) -> list[SDhcSettings]:
    from flows.execution.settings import new_run_id
    from flows.reports.curator import spend_table

    check_needed(SDhcSettings, chosen)
    settings = new_settings(options, options.run_id or new_run_id("sdhc", jurisdiction_of(chosen["config"])), chosen)
    settings.plan().check()
    err.print(spend_table({settings.folder.upper(): settings.plan().configuration.spend()}))
    return [settings]


def _details(_settings: SDhcSettings, manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {"states": manifest["states"], "estimates": manifest["estimates"]} if manifest else {}


def _summary(runs: list[dict[str, Any]]) -> str:
    (facts,) = runs
    lines = summary_lines("S-DHC", facts)
    if facts.get("release"):
        lines.append(f"   report   {facts['release']}/report.html")
    return "\n".join(lines)


COMMAND = FlowCommand(SYSTEMS["s-dhc"], _new_runs, _details, lambda facts: facts[0], _summary)
