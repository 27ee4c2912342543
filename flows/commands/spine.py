"""`das spine`: build, measure and optimize the geographic spine of a block table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group
from rich.table import Table

from flows.reports.terminal import Json, show

if TYPE_CHECKING:
    from tasks.spine.summary import SpineSummary

StateOption = Annotated[
    list[int] | None, typer.Option("--only-state", help="Only this state, by FIPS code; may be repeated.")
]
JurisdictionOption = Annotated[Literal["us", "pr"], typer.Option(help="US or Puerto Rico.")]


def spine(
    geography: Annotated[
        str,
        typer.Argument(
            help="ri2020.pl.zip, ??geo2020.pl, BlockAssign_….zip, GRF-C.txt or a CSV; or a directory of them."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The directory to make.")],
    settings: Annotated[
        Literal["pl94-persons", "pl94-units", "dhc-persons", "dhc-units"],
        typer.Option(help="The production run whose levels, OSEs and budget to take."),
    ] = "pl94-persons",
    jurisdiction: JurisdictionOption = "us",
    variant: Annotated[
        Literal["production", "paper"], typer.Option(help="Whose choice, where paper and production program differ.")
    ] = "production",
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; may be repeated.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="JSON file that names the table's columns.")] = None,
    allocation: Annotated[str | None, typer.Option(help="JSON file of budget and shares.")] = None,
    definition: Annotated[
        Literal["zcdp", "puredp"], typer.Option(help="Which bypasses gain; puredp has no production budget: give one.")
    ] = "zcdp",
    budget: Annotated[str | None, typer.Option(help="Another rho (puredp: epsilon), an exact fraction.")] = None,
    only_state: StateOption = None,
    marginal: Annotated[
        list[str] | None, typer.Option(help="Report standard errors of its cells, as `hispanic*cenrace`.")
    ] = None,
    county: Annotated[str | None, typer.Option(help="The county to draw, five digits.")] = None,
    extra: Annotated[
        str | None, typer.Option(help="CSV by block: tabblk, primgeo, gq1..gq7 (facilities), hu, pop.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Dask workers on this machine, by state; 0: none.")] = 0,
    as_json: Json = False,
) -> None:
    """Optimize the geographic spine of the TopDown Algorithm, and report what it gains.

    OUT gets the spine as Parquet, its noise parameters, the distance (OSED) and standard error of every area under the
    conventional, AIAN and optimized spine, and a report, spine.html. spine.json holds the settings and their sources,
    allocation.json the budget and its shares, in the form that --allocation and das tda run --persons-allocation read.

    **Example:** `das spine ri2020.pl.zip spine/ --settings pl94-persons --set tract_groups=true`
    """
    from flows.execution.cluster import open_cluster_if
    from flows.execution.cluster_settings import ClusterSettings
    from tasks.inputs.spine_options import read_allocation, read_columns, read_settings
    from tasks.spine.optimize import optimize_spine, over
    from tasks.spine.prepare import prepare

    changes = {"definition": definition} | dict(_pair(text) for text in change or [])
    chosen = read_settings(settings, jurisdiction, variant, changes)
    cluster = ClusterSettings(workers=workers) if workers else None
    with open_cluster_if(cluster) as on:
        prepared = prepare(
            geography,
            out,
            chosen,
            allocation=read_allocation(allocation, budget, chosen),
            columns=read_columns(columns),
            states=only_state or (),
            marginals=marginal or (),
            county=county,
            extra=extra,
        )
        summary = optimize_spine(prepared, over(on))
    show(summary.as_json(), lambda: _rendered(summary), as_json=as_json)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set {text}: write NAME=VALUE")
    return name.strip(), value.strip()


def _rendered(summary: SpineSummary) -> Group:
    """Geounits per level and OSED per class, a column for each spine."""
    from tasks.pages.words import level_title
    from tasks.spine.summary import NAMES

    levels = summary.geounits["optimized"]
    geounits = Table(title=f"{summary.blocks:,} blocks: geounits by level", title_justify="left")
    geounits.add_column("spine")
    for level in levels:
        geounits.add_column(level_title(level), justify="right")
    for which, counts in summary.geounits.items():
        geounits.add_row(NAMES[which], *(f"{counts[level]:,}" if level in counts else "" for level in levels))
    classes = Table(title="Off-spine entity distance, mean (largest)", title_justify="left")
    classes.add_column("class")
    for name in ("areas", *NAMES.values()):
        classes.add_column(name, justify="right")
    for row in summary.classes:
        cells = (f"{row[f'osed_mean_{w}']:,.2f} ({row[f'osed_max_{w}']:,})" for w in summary.geounits)
        classes.add_row(level_title(row["class"], several=True), f"{row['entities']:,}", *cells)
    rows: list[Any] = [f"Note: {note}." for note in summary.notes]
    unit = "rho" if summary.mechanism == "zcdp" else "epsilon"
    rows.append(f"A replaced record costs at most {unit} = {summary.cost} ({float(summary.cost):.4g}).")
    return Group(geounits, classes, *rows, f"Report: {summary.out / 'spine.html'}")
