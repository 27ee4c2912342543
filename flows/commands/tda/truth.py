"""`das tda truth`: the exact tables of a TopDown run, for synthetic data or a curator's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import Curator, ExactOptions
from flows.commands.tda.declared import DeclarationOption, truth_settings
from flows.commands.tda.options import INPUTS
from flows.execution.settings import RunSettings
from flows.execution.top_down_settings import TopDownSettings
from flows.reports.terminal import err, labelled, show
from tasks.lifecycle.new_folder import check_empty


@with_options
def truth(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(TopDownSettings, (*INPUTS, "out", "spine", "microdata"))],
    declaration: DeclarationOption = None,
    curator: Curator = False,
    *,
    options: ExactOptions,
) -> None:
    """Write the release without its noise. NOT PRIVATE: only its owner may read it.

    **Example:** `das tda truth data/ truth/`
    """
    from flows.execution.settings import new_run_id
    from flows.execution.truth import release_truth

    check_empty(Path(chosen["out"]))
    if declaration is not None:
        settings: RunSettings = truth_settings(context, options, chosen, declaration)
    else:
        settings = options.new_settings(TopDownSettings, new_run_id("tda-truth"), chosen | {"measurements": "none"})
    with options.leaving_nothing(settings.directory, "Truth") as workers:
        place = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show({"NOT_PRIVATE": True, "release": place}, lambda: str(place), as_json=options.as_json)
