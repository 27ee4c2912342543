"""`das sdhc truth`: the exact tables of an S-DHC run, for synthetic data or a curator's eyes."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.exact_tables import release_one
from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import Curator, ExactOptions
from flows.commands.s_dhc.options import INPUTS, new_settings
from flows.execution.s_dhc_settings import SDhcSettings


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

    settings = new_settings(options, new_run_id("sdhc-truth"), chosen | {"truncated": not untruncated})
    release_one(settings, options, curator=curator)
