"""`das tda import`: noisy measurement files of the Census Bureau, in das-flows' own layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.fields import with_options
from flows.commands.options import WorkOptions
from flows.commands.tda.options import StateOption
from flows.commands.tda.published import Geography, Totals, write_published
from flows.reports.terminal import show


@with_options
def import_(
    files: Annotated[
        Path, typer.Argument(metavar="NMF", help="The Census Bureau's noisy measurement files, as downloaded.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the measurements go, as DIR/us, DIR/pr.")],
    states: StateOption = None,
    totals: Totals = None,
    geography: Geography = None,
    *,
    options: WorkOptions,
) -> None:
    """Read published noisy measurement files once, and keep them in das-flows' own layout for repeated use.

    `das tda estimate DIR/us` estimates from what is kept, without reading and validating the files again. Blocks stay
    where they were measured.

    **Example:** `das tda import nmf/ ri-measurements/ --only-state 44`
    """
    from tasks.top_down.published.nmf.source import Request
    from tasks.top_down.published.places import find_published
    from tasks.top_down.release.measurements import write_own_layout

    published = find_published(files, Request(totals, geography, as_measured=True), states or ())
    places = write_published(options, "Import", published, folder, write_own_layout)
    show([{"measurements": place} for place in places], lambda: "\n".join(map(str, places)), as_json=options.as_json)
