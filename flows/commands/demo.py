"""`das demo`: the whole system on a small made-up country, which is what `make run` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import RunOptions
from flows.reports.terminal import Json, err


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where data and release go.")] = Path("out"),
    as_json: Json = False,
) -> None:
    """Make a small synthetic country and run the Detailed DHC-A over it, US and Puerto Rico.

    **Example:** `das demo`
    """
    from flows.commands.run import command, new_runs
    from flows.execution.settings import new_run_id
    from tasks.synth.synthesize import Options, synthesize_example

    options = RunOptions(run_id=new_run_id("demo"), as_json=as_json)
    place = folder / str(options.run_id)
    made = synthesize_example(place, Options())
    err.print(f"A made-up country of {made.persons:,} persons in {made.blocks:,} blocks: {made.data}")
    command().run(context, options, lambda: new_runs(options, str(made.params), str(made.data), place / "release"))
