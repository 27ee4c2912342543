"""`das demo`: run the whole system on a small made-up country, as `make run` does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import RunOptions
from flows.commands.runner import run_flow
from flows.commands.synth import prepare_kernels
from flows.commands.systems import DETAILED_DHCA, DETAILED_DHCB, S_DHC, TOP_DOWN, SystemCommands
from flows.execution.settings import new_run_id
from flows.reports.terminal import Json, err, out

STATE = 46  # the smallest state of the made-up country, for the TopDown Algorithm
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
    RunOptions().start_ahead(*DETAILED_DHCA.modules[""])

    prepare_kernels()
    from tasks.synth.synthesize import synthesize_example
    from tasks.synth.write import Options

    options = RunOptions(run_id=new_run_id("demo"), as_json=as_json)
    place = folder / str(options.run_id)
    made = synthesize_example(
        place, Options(places={"detailed-dhca": "data"} | {name: f"{name}/data" for name in OTHERS})
    )
    err.print(f"A made-up country of {made.persons:,} persons in {made.blocks:,} blocks: {made.data}")
    chosen = {"params": str(made.params), "data": str(made.data), "out": str(place / "release")}
    run_flow(context, options, DETAILED_DHCA.settings, chosen)
    if as_json:
        return
    others: dict[str, tuple[SystemCommands, dict[str, Any]]] = {
        "ddhcb": (DETAILED_DHCB, {"params": str(made.params), "totals": str(place / "release")}),
        "sdhc": (S_DHC, {"config": str(made.params / "config-sdhc.json"), "estimates": True}),
        "tda": (TOP_DOWN, {"states": (STATE,)}),
    }
    for name, (system, own) in others.items():
        err.print(f"The same persons in {OTHERS[name]}: {made.folders[name]}")
        typed = {"data": str(made.folders[name]), "out": str(place / name / "release"), **own}
        run_flow(context, RunOptions(run_id=new_run_id(f"demo-{name}")), system.settings, typed)
    out.print(_next_steps(place), soft_wrap=True)


def _next_steps(place: Path) -> str:
    """Return the next steps, one command or page per line."""
    us, top_down = place / "release/us", place / "tda/release/us"
    steps = {
        f"das show {us}": "find a group: what was published about it, with margins of error",
        f"das check {us}": "compute again what the release states about itself",
        f"das show {top_down}": "the TopDown Algorithm: a place, its persons, its margins",
        f"das show {place / 'ddhcb/release/us'}": "households by type and tenure; sdhc/release/us: persons in them",
        f"{us}/report.html": "what was released, what it spent and how it was made; open it in a browser",
        f"{top_down}/report.html": "the same for the TopDown Algorithm",
        "docs/tutorial.md": "from a budget to a release in pandas",
    }
    return "\n".join(["Look at it:", *(f"   {what}\n      {why}" for what, why in steps.items())])
