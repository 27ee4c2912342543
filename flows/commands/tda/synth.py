"""`das tda synth`: synthetic persons and living quarters on real blocks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.synth import prepare_kernels
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
    """Make synthetic input: persons and units on the blocks of a real geography, as `das synth --for tda` does.

    Populations are those of the block table where it has them, else drawn; races follow the bundled example's list.
    DATA is marked synthetic: runs on it charge nothing.

    **Example:** `das tda synth ri2020.pl.zip ri/`
    """
    prepare_kernels()
    from tasks.synth.synthesize import synthesize_top_down

    with counting("persons", quiet=as_json) as progress:
        made = synthesize_top_down(
            Path(geography),
            data,
            seed=seed,
            jurisdiction=jurisdiction,
            states=only_state or (),
            form="text" if text else "parquet",
            progress=progress,
        )
    units = made.counts["units"]
    lines = f"{made.persons:,} persons, {units:,} units on {made.blocks:,} blocks of states {', '.join(made.states)}"
    show(asdict(made) | {"data": data}, lambda: f"{lines}\nnext: das tda run {data} out/", as_json=as_json)
