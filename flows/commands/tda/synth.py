"""`das tda synth`: synthetic persons and living quarters on real blocks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.tda.options import JurisdictionOption, StateOption
from flows.reports.terminal import Json, counting, show


def synth(
    geography: Annotated[str, typer.Argument(help="Block tables, as das spine reads them.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The folder to make.")],
    jurisdiction: JurisdictionOption = "us",
    only_state: StateOption = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
    text: Annotated[bool, typer.Option("--text", help="Records as text; by default Parquet.")] = False,
    as_json: Json = False,
) -> None:
    """Make synthetic input: persons and units on the blocks of a real geography.

    Populations are those of the block table where it has them, else drawn. Group quarters, housing units, ethnicity and
    races follow published shares. DATA is marked synthetic: runs on it charge nothing.

    **Example:** `das tda synth ri2020.pl.zip ri/`
    """
    from tasks.top_down.input.synth import synthesize

    with counting("states", quiet=as_json) as progress:
        made = synthesize(
            geography,
            data,
            seed=seed,
            jurisdiction=jurisdiction,
            states=only_state or (),
            form="text" if text else "parquet",
            progress=progress,
        )
    lines = (
        f"{made.persons:,} persons, {made.units:,} units on {made.blocks:,} blocks of states {', '.join(made.states)}"
    )
    show(asdict(made), lambda: f"{lines}\nnext: das tda run {made.data} out/", as_json=as_json)
