"""`das spine`: build, measure and optimize the geographic spine of a block table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Group
from rich.table import Table

from flows.commands.fields import Settings, Values
from flows.execution.option import validated
from flows.execution.spine_settings import SpineRun
from flows.reports.terminal import show
from tasks.lifecycle.new_folder import new_folder
from tasks.releases.pages.words import level_title

if TYPE_CHECKING:
    from tasks.spine.write import SpineSummary


def spine(chosen: Annotated[Values, Settings(SpineRun)]) -> None:
    """Optimize the geographic spine of the TopDown Algorithm, and report what it gains.

    OUT gets the spine as Parquet, its noise parameters, the distance (OSED) and standard error of every area under the
    conventional, AIAN and optimized spine, and a report, spine.html. spine.json holds the settings and their sources,
    allocation.json the budget and its shares, in the form that --allocation and das tda run --persons-allocation read.

    **Example:** `das spine ri2020.pl.zip spine/ --settings pl94-persons --set tract_groups=true`
    """
    from flows.execution.cluster import open_cluster_if
    from tasks.spine.optimize import optimize_spine

    run = validated(SpineRun, chosen)
    with open_cluster_if(run.cluster) as workers, new_folder(Path(run.out)) as folder:
        summary = optimize_spine(run.prepared(folder), workers)
    show(summary.as_json() | {"out": run.out}, lambda: _rendered(summary, Path(run.out)))


def _rendered(summary: SpineSummary, out: Path) -> Group:
    """Return tables of geounits per level and OSED per class, with a column for each spine."""
    from tasks.spine.first_pass import SPINES

    levels = summary.geounits["optimized"]
    geounits = Table(title=f"{summary.blocks:,} blocks: geounits by level", title_justify="left")
    geounits.add_column("spine")
    for level in levels:
        geounits.add_column(level_title(level), justify="right")
    for which, counts in summary.geounits.items():
        geounits.add_row(SPINES[which], *(f"{counts[level]:,}" if level in counts else "" for level in levels))
    classes = Table(title="Off-spine entity distance, mean (largest)", title_justify="left")
    classes.add_column("class")
    for name in ("areas", *SPINES.values()):
        classes.add_column(name, justify="right")
    for row in summary.classes:
        cells = (f"{row[f'osed_mean_{w}']:,.2f} ({row[f'osed_max_{w}']:,})" for w in summary.geounits)
        classes.add_row(level_title(row["class"], several=True), f"{row['entities']:,}", *cells)
    rows: list[Any] = [f"Note: {note}." for note in summary.notes]
    unit = "rho" if summary.mechanism == "zcdp" else "epsilon"
    rows.append(f"A replaced record costs at most {unit} = {summary.cost} ({float(summary.cost):.4g}).")
    return Group(geounits, classes, *rows, f"Report: {out / 'spine.html'}")
