"""`das tda truth`: the exact tables of a TopDown run, for synthetic data or a curator's eyes."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.exact_tables import release_one
from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import Curator, ExactOptions
from flows.commands.tda.declared import DeclarationOption, truth_settings
from flows.commands.tda.options import INPUTS
from flows.execution.settings import RunSettings
from flows.execution.top_down_settings import TopDownSettings


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

    if declaration is not None:
        settings: RunSettings = truth_settings(context, options, chosen, declaration)
    else:
        settings = options.new_settings(TopDownSettings, new_run_id("tda-truth"), chosen | {"measurements": "none"})
    release_one(settings, options, curator=curator)
