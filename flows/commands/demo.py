"""`das demo`: run the whole system on a small made-up country, as `make run` does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import RunOptions
from flows.commands.runner import Outcome, run_briefly, run_flow
from flows.execution.settings import new_run_id
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import err, is_json, out
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.releases.manifest import describe_spent, read_manifest

STATE = 46  # the smallest of the made-up country, for the TopDown Algorithm
PLACES = {"detailed-dhca": "data", "ddhcb": "ddhcb/data", "sdhc": "sdhc/data", "tda": "tda/data"}
PLAN = f"""# The products of das demo as one census: das census plan census.toml, das census run census.toml
name = "demo-census"
out = "releases"

[[products]]
system = "detailed-dhca"
params = "params"
data = "data"

[[products]]
system = "detailed-dhcb"
params = "params"
data = "ddhcb/data"
totals = "releases/detailed-dhca" # waits for this release

[[products]]
system = "s-dhc"
config = "sdhc/config-sdhc.json"
data = "sdhc/data"
estimates = true

[[products]]
name = "redistricting"
system = "top-down"
data = "tda/data"
states = [{STATE}]
"""
S_DHC_TIMES = 100  # for 8,000 persons the production's budgets, meant for a nation, give margins above most counts


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where data and release go.")] = Path("out"),
) -> None:
    """Make a small synthetic country and run the whole system over it.

    The Detailed DHC-A runs over the US and Puerto Rico. Without --json, the other systems then run over the same
    persons: the Detailed DHC-B with its totals, the Supplemental DHC with a hundred times the production's budgets,
    and over one state the TopDown Algorithm. A line for each has the command that shows what was released. census.toml
    in the folder of the data is the plan of all of them for das census.

    **Example:** `das demo`
    """
    detailed = SYSTEMS["detailed-dhca"]
    RunOptions().start_ahead(*detailed.modules[""])

    use_kernels(state_home())
    from tasks.synth.synthesize import synthesize_example
    from tasks.synth.write import Options

    options = RunOptions(run_id=new_run_id("demo"))
    place = folder / str(options.run_id)
    made = synthesize_example(place, Options(places=PLACES))
    err.print(f"A made-up country of {made.persons:,} persons in {made.blocks:,} blocks: {made.data}")
    chosen = {"params": str(made.params), "data": str(made.data), "out": str(place / "release")}
    if is_json():
        return run_flow(context, options, detailed.part("settings_class"), chosen)
    show_release("Detailed DHC-A", run_briefly(options, detailed.part("settings_class"), chosen))
    others: dict[str, tuple[str, str, dict[str, Any]]] = {
        "ddhcb": ("Detailed DHC-B", "detailed-dhcb", {"params": str(made.params), "totals": str(place / "release")}),
        "sdhc": (
            f"S-DHC, {S_DHC_TIMES} × budget",
            "s-dhc",
            {"config": str(_s_dhc_config(made.params, place / "sdhc")), "estimates": True},
        ),
        "tda": (f"TopDown, state {STATE}", "top-down", {"states": (STATE,)}),
    }
    (place / "census.toml").write_text(PLAN, "utf-8")
    for name, (title, system, own) in others.items():
        typed = {"data": str(made.folders[name]), "out": str(place / name / "release"), **own}
        options = RunOptions(run_id=new_run_id(f"demo-{name}"))
        show_release(title, run_briefly(options, SYSTEMS[system].part("settings_class"), typed))


def show_release(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print what a run spent and the command that shows its release, the first of several parts: a line."""
    spent = ", ".join(describe_spent(read_manifest(Path(str(each.release)))["spent"], None) for each in outcomes)
    out.print(f"{title:<20} {spent:<26} das show {outcomes[0].release}", soft_wrap=True)


def _s_dhc_config(params: Path, folder: Path) -> Path:
    """Write the S-DHC's configuration with S_DHC_TIMES its budgets, exactly; return its path."""
    from tasks.synth.params import SDHC_CONFIG

    text = (params / SDHC_CONFIG).read_text("utf-8")
    path = folder / SDHC_CONFIG
    path.write_text(re.sub(r"\b0\.\d+", lambda found: f"{Decimal(found[0]) * S_DHC_TIMES:f}", text), "utf-8")
    return path
