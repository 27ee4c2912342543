"""`das demo`: run the whole system on a small made-up country, as `make run` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import RunOptions
from flows.commands.synth import prepare_kernels
from flows.reports.terminal import Json, err, out

if TYPE_CHECKING:
    from flows.commands.runner import FlowCommand
    from tasks.synth.synthesize import Made

STATE = 46  # of the made-up country: its smallest, for the TopDown Algorithm
OTHERS = {
    "ddhcb": "their households, for the Detailed DHC-B",
    "sdhc": "their housing units, for the Supplemental DHC",
    "tda": f"one of the states, {STATE}, for the TopDown Algorithm",
}


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where data and release go.")] = Path("out"),
    as_json: Json = False,
) -> None:
    """Make a small synthetic country and run the whole system over it.

    The Detailed DHC-A runs over the US and Puerto Rico. Without --json, the other systems then run over the same
    persons: the Detailed DHC-B with its totals, the Supplemental DHC, and over one state the TopDown Algorithm.

    **Example:** `das demo`
    """
    from flows.commands.run import COMMAND, STAGES

    RunOptions().start_ahead(*STAGES)

    from flows.execution.settings import new_run_id

    prepare_kernels()
    from tasks.synth.synthesize import Options, synthesize_example

    options = RunOptions(run_id=new_run_id("demo"), as_json=as_json)
    place = folder / str(options.run_id)
    made = synthesize_example(
        place, Options(places={"detailed-dhca": "data"} | {name: f"{name}/data" for name in OTHERS})
    )
    err.print(f"A made-up country of {made.persons:,} persons in {made.blocks:,} blocks: {made.data}")
    chosen = {"params": str(made.params), "data": str(made.data), "out": str(place / "release")}
    COMMAND.run(context, options, chosen)
    if as_json:
        return
    for name, (command, own) in _commands(made, place).items():
        data = made.folders[name]
        err.print(f"The same persons in {OTHERS[name]}: {data}")
        typed = {"data": str(data), "out": str(place / name / "release"), **own}
        command.run(context, RunOptions(run_id=new_run_id(f"demo-{name}")), typed)
    out.print(_next_steps(place), soft_wrap=True)


def _commands(made: Made, place: Path) -> dict[str, tuple[FlowCommand, dict[str, object]]]:
    """Return the command of each of OTHERS, and what is typed for it besides data and release."""
    from flows.commands.ddhcb.run import COMMAND as DETAILED_DHCB
    from flows.commands.s_dhc.run import COMMAND as S_DHC
    from flows.commands.tda.run import COMMAND as TOP_DOWN

    return {
        "ddhcb": (DETAILED_DHCB, {"params": str(made.params), "totals": str(place / "release")}),
        "sdhc": (S_DHC, {"config": str(made.params / "config-sdhc.json"), "estimates": True}),
        "tda": (TOP_DOWN, {"states": (STATE,)}),
    }


def _next_steps(place: Path) -> str:
    """Return what to look at now, a command or a page a line."""
    us, top_down = place / "release/us", place / "tda/release/us"
    steps = {
        f"das show {us}": "find a group: what was published of it, with margins of error",
        f"das check {us}": "compute again what the release states of itself",
        f"das show {top_down}": "the TopDown Algorithm: a place, its persons, its margins",
        f"das show {place / 'ddhcb/release/us'}": "households by type and tenure; sdhc/release/us: persons in them",
        f"{us}/report.html": "what was released, what it spent and how it was made; open it in a browser",
        f"{top_down}/report.html": "the same of the TopDown Algorithm",
        "docs/tutorial.md": "from a budget to a release in pandas, in half an hour",
    }
    return "\n".join(["Look at it:", *(f"   {what}\n      {why}" for what, why in steps.items())])
