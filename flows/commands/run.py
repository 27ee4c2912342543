"""`das run`: the Detailed DHC-A from files to release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from flows.commands.fields import Chosen, Settings, check_needed, with_options
from flows.commands.inputs import checked_parameters, jurisdiction_settings
from flows.commands.options import RunOptions
from flows.commands.runner import FlowCommand, summary_lines
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import err
from tasks.lifecycle.errors import Refused

STAGES = ("tasks.population_groups.count", "tasks.detailed_dhca.release")
SPINE = ("tasks.spine.first_pass", "tasks.spine.plots")


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
    --ledger, --json, --timings, and, to continue on another cluster, --workers, --memory-limit, --scheduler, its
    certificates and --patience.

    **Example:** `das ledger open census-2020 --definition zcdp --total 4.944`, then
    `das run params/ data/ out/ --account census-2020`
    """
    options.start_ahead(*STAGES, *(SPINE if chosen["spine"] else ()))
    COMMAND.run(context, options, lambda: new_runs(options, chosen))


def new_runs(options: RunOptions, chosen: Chosen) -> list[DetailedDhcaSettings]:
    """Return the settings of a run for each jurisdiction, after what they will spend was shown.

    Raises Refused where the parameters have errors or OUT holds something.
    """
    from flows.execution.settings import new_run_id, run_directory
    from flows.reports.curator import spend_table
    from tasks.inputs.regions import REGION_TYPES
    from tasks.lifecycle.commit import holds_other
    from tasks.population_groups.reserve_budget import planned_spend

    check_needed(DetailedDhcaSettings, chosen)
    base, release = options.run_id or new_run_id(), Path(chosen["out"])
    runs = {str(jurisdiction): run_directory(options.home, f"{base}-{jurisdiction}") for jurisdiction in REGION_TYPES}
    if release.exists() and (not release.is_dir() or holds_other(release, runs)):
        raise Refused(f"{release} is not empty: choose an empty or a new folder")
    configuration = checked_parameters(chosen["params"], chosen["data"], as_json=options.as_json).configuration
    asked = configuration.jurisdictions
    err.print(spend_table({jurisdiction.upper(): planned_spend(configuration, jurisdiction) for jurisdiction in asked}))
    return jurisdiction_settings(options, base, asked, chosen)


def _details(settings: DetailedDhcaSettings, _manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {"region": settings.jurisdiction}


def _summary(facts: list[dict[str, Any]]) -> RenderableType:
    return Text.from_markup("\n".join(line for each in facts for line in summary_lines(each["region"].upper(), each)))


def _siblings(runs: Sequence[DetailedDhcaSettings]) -> dict[str, str]:
    """Join both runs; one that is charged whatever becomes of the first has nothing to ask it."""
    if len(runs) == 1:
        return {}
    first, last = runs
    ids = str(first.run_id), str(last.run_id)
    return dict([ids]) if first.each_alone else dict([ids, ids[::-1]])


COMMAND = FlowCommand(SYSTEMS["detailed-dhca"], _details, lambda facts: facts, _summary, _siblings)
