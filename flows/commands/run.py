"""`das run`: the Detailed DHC-A from files to release."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import RunOptions
from flows.commands.safetab import flow_command
from flows.execution.safetab_settings import DetailedDhcaSettings

STAGES = ("tasks.population_groups.count", "tasks.detailed_dhca.release")
SPINE = ("tasks.spine.first_pass", "tasks.spine.report")
COMMAND = flow_command(DetailedDhcaSettings)


@with_options
def run(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(DetailedDhcaSettings, needed=False)],
    *,
    options: RunOptions,
) -> None:
    """Run SafeTab-P over the jurisdictions that config.json asks for, and release their tables.

    What a run will spend is shown before any noise is drawn. No jurisdiction is charged before all are validated: if
    one is refused, none is released, unless --each-alone is given. If a run stops, `das run --resume ID` continues it
    without spending again; its id is printed at the start. With --resume, only these options are allowed: --state,
    --ledger, --json, and, to continue on another cluster, --workers, --memory-limit, --scheduler, its
    certificates and --patience.

    **Example:** `das ledger open census-2020 --definition zcdp --total 4.944`, then
    `das run params/ data/ out/ --account census-2020`
    """
    options.start_ahead(*STAGES, *(SPINE if chosen["spine"] else ()))
    COMMAND.run(context, options, chosen)
