"""Options that the `das tda` commands share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import typer

from flows.commands.spine import JurisdictionOption, StateOption

Rounding = Literal["program", "l1"]


# Enumerations, because an option that is repeated takes no literal.
Kind = StrEnum("Kind", ["conventional", "aian", "optimized"])
Estimator = StrEnum("Estimator", ["topdown", "gls"])
Product = StrEnum("Product", ["persons", "units"])
DataArgument = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="Folder of persons, units (.parquet or .txt), quarters.csv and states.csv."),
]
ROUND = typer.Option("--round", help="As the 2020 program, or to the least L1 distance.")
TextOption = Annotated[bool, typer.Option("--mdf-text", help="Write microdata as text as well, one row a record.")]


@dataclass(frozen=True)
class InputOptions:
    """The files that a run reads besides its records, and which part of them: settings, by their names."""

    geography: Annotated[
        str | None, typer.Option(help="Block tables, as das spine reads them.", show_default="DATA/GRF-C.txt")
    ] = None
    quarters: Annotated[
        str | None, typer.Option(help="Declared living quarters by block.", show_default="DATA/quarters.csv")
    ] = None
    totals: Annotated[
        str | None, typer.Option(help="Declared population by state.", show_default="DATA/states.csv")
    ] = None
    jurisdiction: JurisdictionOption = "us"
    states: StateOption = None
    products: Annotated[
        list[Product] | None, typer.Option("--product", help="Only this product.", show_default="persons and units")
    ] = None
