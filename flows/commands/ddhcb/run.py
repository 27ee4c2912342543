"""`das ddhcb run`: the Detailed DHC-B from files to release."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import RunOptions
from flows.commands.safetab import flow_command
from flows.execution.safetab_settings import DetailedDhcbSettings

STAGES = ("tasks.population_groups.count", "tasks.detailed_dhcb.release")
COMMAND = flow_command(DetailedDhcbSettings)


@with_options
def run(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(DetailedDhcbSettings, needed=False)],
    *,
    options: RunOptions,
) -> None:
    """Run SafeTab-H over the jurisdictions that config.json asks for: households by type and by tenure.

    The groups and the detail of their tables come from published totals of the Detailed DHC-A: --totals names its
    release, or DATA holds pop-group-totals.txt. The unit of privacy is a household, so the account is of households.
    If a run stops, `das ddhcb run --resume ID` continues it without spending again, as for `das run`.

    **Example:** `das ledger open households-2020 --unit household --definition zcdp --total 8.895302`, then
    `das ddhcb run params/ data/ out/ --totals dhc-a/us --account households-2020`
    """
    options.start_ahead(*STAGES)
    COMMAND.run(context, options, chosen)
