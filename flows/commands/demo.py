"""`das demo`: run the whole system on a small made-up country, as `make run` does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import RunOptions
from flows.commands.synth import prepare_kernels
from flows.reports.terminal import Json, err, out

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
    from flows.commands.run import COMMAND, STAGES
    from flows.commands.safetab import new_runs

    RunOptions().start_ahead(*STAGES)

    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
    from flows.execution.settings import new_run_id

    prepare_kernels()
    from tasks.synth.synthesize import Options, synthesize_example

    options = RunOptions(run_id=new_run_id("demo"), as_json=as_json)
    place = folder / str(options.run_id)
    made = synthesize_example(place, Options(places={"detailed-dhca": "data", "tda": "top-down/data"}))
    err.print(f"A made-up country of {made.persons:,} persons in {made.blocks:,} blocks: {made.data}")
    chosen = {"params": str(made.params), "data": str(made.data), "out": str(place / "release")}
    COMMAND.run(context, options, lambda: new_runs(DetailedDhcaSettings, options, chosen))
    if not as_json:
        _top_down(context, made.folders["tda"], place)
        out.print(_next_steps(place), soft_wrap=True)


def _next_steps(place: Path) -> str:
    """Return what to look at now, a command or a page a line."""
    us, top_down = place / "release/us", place / "top-down/release/us"
    steps = {
        f"das show {us}": "find a group: what was published of it, with margins of error",
        f"das check {us}": "compute again what the release states of itself",
        f"das show {top_down}": "the TopDown Algorithm: a place, its persons, its margins",
        f"{us}/report.html": "what was released, what it spent and how it was made; open it in a browser",
        f"{top_down}/report.html": "the same of the TopDown Algorithm",
        "docs/tutorial.md": "from a budget to a release in pandas, in half an hour",
    }
    return "\n".join(["Look at it:", *(f"   {what}\n      {why}" for what, why in steps.items())])


def _top_down(context: typer.Context, data: Path, place: Path) -> None:
    """Run the TopDown Algorithm over one of the country's states, the same persons in their housing units."""
    from flows.commands.tda.run import COMMAND
    from flows.execution.settings import new_run_id
    from flows.execution.top_down_settings import TopDownSettings

    err.print(
        f"One of its states, {STATE}, with the TopDown Algorithm: the same persons in their living quarters: {data}"
    )
    options = RunOptions(run_id=new_run_id("demo-tda"))
    chosen = {"data": str(data), "out": str(place / "top-down/release"), "states": (STATE,)}
    settings = options.new_settings(TopDownSettings, str(options.run_id), chosen)
    COMMAND.run(context, options, lambda: [settings])
