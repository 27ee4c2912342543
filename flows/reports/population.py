"""A made-up population on the terminal: its contents, its plausibility, and warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from tasks.synth.synthesize import MadePopulation

NEXT = {  # the next command for the data of each system
    "detailed-dhca": "das validate {0} {1}",
    "ddhcb": "das ddhcb validate {0} {1}",
    "sdhc": "das sdhc validate {0}/config-sdhc.json {1}",
    "tda": "das tda validate {1}",
    "dhc": "das tda declare {1} DECLARED --redistricting RELEASE",
}


def summary(made: MadePopulation) -> Table:
    """Return the contents of the population, and the commands to continue with."""
    table = Table.grid(padding=(0, 2))
    many = len(made.states) > 6
    states = f"{len(made.states)} states" if many else f"states {', '.join(made.states)}"
    table.add_row(
        "persons", f"{made.persons:,} synthetic, seed {made.mark.seed}, in {made.counts['units']:,} living quarters"
    )
    table.add_row("blocks", f"{made.blocks:,} in {states}")
    made_up = "have made-up shares; --shares CSV gives them published counts"
    table.add_row("groups", f"follow {made.shares}" if made.shares else made_up)
    table.add_row("data", "\n".join(map(str, made.folders.values())))
    table.add_row("parameters", str(made.params))
    table.add_row("next", "\n".join(NEXT[name].format(made.params, data) for name, data in made.folders.items()))
    return table


def plausibility(made: MadePopulation) -> Table:
    """Return the plausibility of the population as a table."""
    from tasks.synth.report import FIGURES

    table = Table("figure", "here", "published", "within", title="How plausible it is")
    for figure in FIGURES:
        value = f"{figure.value(made.counts):.4f}"
        here = Text(value, style="" if figure.fits(made.counts) else "yellow")
        table.add_row(figure.words, here, f"{figure.target:.4f}", f"{figure.within:.3f}")
    return table


def warnings(made: MadePopulation) -> Iterator[tuple[str, str]]:
    """Yield warnings: about blocks that were repaired, and groups without a published count."""
    for rule, blocks in ((made.mark.population or {}).get("repaired") or {}).items():
        yield "repaired:", f"{rule}: {blocks:,}"
    if made.uncounted:
        others = f"; and {len(made.uncounted) - 3:,} more" if len(made.uncounted) > 3 else ""
        named = "; ".join(made.uncounted[:3]) + others
        yield "warning:", f"{made.shares} has no count of these groups, which get one person each: {named}"
