"""`das demo`: run the whole system on a small made-up country, as `make run` does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import RunOptions
from flows.reports.terminal import Json, err

STATE = 46  # of the made-up country: its smallest, for the TopDown Algorithm


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where data and release go.")] = Path("out"),
    as_json: Json = False,
) -> None:
    """Make a small synthetic country and run the whole system over it.

    The Detailed DHC-A runs over the US and Puerto Rico. Without --json, the TopDown Algorithm then runs over one state;
    the first time, its kernels are compiled.

    **Example:** `das demo`
    """
    from flows.commands.run import COMMAND, STAGES, new_runs

    RunOptions().start_ahead(*STAGES)

    from flows.execution.settings import new_run_id
    from tasks.synth.synthesize import Options, synthesize_example

    options = RunOptions(run_id=new_run_id("demo"), as_json=as_json)
    place = folder / str(options.run_id)
    made = synthesize_example(place, Options())
    err.print(f"A made-up country of {made.persons:,} persons in {made.blocks:,} blocks: {made.data}")
    COMMAND.run(context, options, lambda: new_runs(options, str(made.params), str(made.data), place / "release"))
    if not as_json:
        _top_down(context, str(made.data / "GRF-C.txt"), place)


def _top_down(context: typer.Context, geography: str, place: Path) -> None:
    """Run the TopDown Algorithm over the country's first state, on persons and units of its own."""
    from flows.commands.tda.run import COMMAND
    from flows.execution.settings import new_run_id
    from flows.execution.top_down_settings import TopDownSettings
    from tasks.top_down.synth import synthesize

    data, out = place / "top-down/data", place / "top-down/release"
    made = synthesize(geography, data, states=(STATE,))
    err.print(f"One of its states for the TopDown Algorithm: {made.persons:,} persons in {made.units:,} units: {data}")
    options = RunOptions(run_id=new_run_id("demo-tda"))
    settings = options.new_settings(TopDownSettings, str(options.run_id), out, data=str(data))
    COMMAND.run(context, options, lambda: [settings])
