"""`das sdhc truth`: the exact tables of an S-DHC run, for synthetic data or a curator's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import Curator, ExactOptions
from flows.commands.s_dhc.options import INPUTS, new_settings
from flows.execution.s_dhc_settings import SDhcSettings
from flows.reports.terminal import err, labelled, show
from tasks.lifecycle.new_folder import check_empty


@with_options
def truth(
    chosen: Annotated[Chosen, Settings(SDhcSettings, (*INPUTS, "out"))],
    untruncated: Annotated[
        bool, typer.Option("--untruncated", help="Count all persons of a unit: what truncation removes.")
    ] = False,
    curator: Curator = False,
    *,
    options: ExactOptions,
) -> None:
    """Write the release without its noise. NOT PRIVATE: only its owner may read it.

    **Example:** `das sdhc truth config.json data/ truth/`
    """
    from flows.execution.settings import new_run_id
    from flows.execution.truth import release_truth

    check_empty(Path(chosen["out"]))
    settings = new_settings(options, new_run_id("sdhc-truth"), chosen | {"truncated": not untruncated})
    with options.leaving_nothing(settings.directory, "Truth") as workers:
        place = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show({"NOT_PRIVATE": True, "release": place}, lambda: str(place), as_json=options.as_json)
