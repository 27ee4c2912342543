"""`das tda import`: noisy measurement files of the Census Bureau, in das-flows' own layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import WorkOptions, with_options
from flows.commands.spine import StateOption
from flows.commands.tda.estimate import leaving_nothing
from flows.reports.terminal import show
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.new_folder import check_empty


@with_options
def import_(
    files: Annotated[
        Path, typer.Argument(metavar="NMF", help="The Census Bureau's noisy measurement files, as downloaded.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the measurements go, as DIR/us, DIR/pr.")],
    states: StateOption = None,
    totals: Annotated[
        str | None, typer.Option(help="Declared population, state,pop.", show_default="April 1, 2020")
    ] = None,
    geography: Annotated[
        str | None, typer.Option(help="Block tables with places, county subdivisions, AIAN areas.")
    ] = None,
    *,
    options: WorkOptions,
) -> None:
    """Read published noisy measurement files once, and keep them in das-flows' own layout for repeated use.

    `das tda estimate DIR/us` estimates from what is kept, without reading and validating the files again. Blocks stay
    where they were measured.

    **Example:** `das tda import nmf/ ri-measurements/ --only-state 44`
    """
    from tasks.top_down.import_files import import_files
    from tasks.top_down.published.nmf.inventory import is_published_files, take_inventory
    from tasks.top_down.published.nmf.request import Request

    if not is_published_files(files):
        raise Refused(f"{files}: no folder such as US_Person_PL_PROD is in it, or one to three levels below")
    check_empty(folder)
    inventory, notes = take_inventory(files, tuple(states or ()))
    with leaving_nothing(options, folder.resolve(), "Import", *inventory.jurisdictions) as (runs, workers):
        request = Request(totals, geography, {})
        places = import_files(runs, workers, inventory, notes, request, folder.resolve())
    show([{"measurements": place} for place in places], lambda: "\n".join(map(str, places)), as_json=options.as_json)
