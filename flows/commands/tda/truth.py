"""`das tda truth`: the exact tables of a TopDown run, for synthetic data or a curator's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.fields import with_options
from flows.commands.options import OUT, Curator, ExactOptions
from flows.commands.tda.options import DataArgument, InputOptions, Kind, TextOption
from flows.reports.terminal import err, labelled, show
from tasks.lifecycle.new_folder import check_empty


@with_options
def truth(
    data: DataArgument,
    release: Annotated[Path, OUT],
    spine: Annotated[Kind, typer.Option(help="The spine whose geounits are written.")] = Kind.optimized,
    mdf_text: TextOption = False,
    curator: Curator = False,
    *,
    inputs: InputOptions,
    options: ExactOptions,
) -> None:
    """Write the release without its noise. NOT PRIVATE: only its owner may read it.

    **Example:** `das tda truth data/ truth/`
    """
    from flows.execution.settings import new_run_id
    from flows.execution.top_down_settings import TopDownSettings
    from flows.execution.truth import release_truth

    check_empty(release)
    settings = options.new_settings(
        TopDownSettings,
        new_run_id("tda-truth"),
        release,
        data=data,
        **vars(inputs),
        spine=spine,
        microdata="text" if mdf_text else "parquet",
        measurements="none",
    )
    with options.leaving_nothing(settings.directory, "Truth") as workers:
        place = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show({"NOT_PRIVATE": True, "release": place}, lambda: str(place), as_json=options.as_json)
