"""Options that the `das tda` commands share, and the settings that they make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.spine import JurisdictionOption, StateOption

if TYPE_CHECKING:
    from flows.execution.top_down_settings import TopDownSettings


Rounding = Literal["program", "l1"]


class Kind(StrEnum):
    """The spines there are; enumerations, because an option that is repeated takes no literal."""

    conventional = "conventional"
    aian = "aian"
    optimized = "optimized"


class Estimator(StrEnum):
    """How parents are divided among their children."""

    topdown = "topdown"
    gls = "gls"


class Product(StrEnum):
    """The products of the redistricting data."""

    persons = "persons"
    units = "units"


DataArgument = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="Folder of persons, units (.parquet or .txt), quarters.csv and states.csv."),
]
GeographyOption = Annotated[
    str | None, typer.Option(help="Block tables, as das spine reads them.", show_default="DATA/GRF-C.txt")
]
QuartersOption = Annotated[
    str | None, typer.Option(help="Declared living quarters by block.", show_default="DATA/quarters.csv")
]
TotalsOption = Annotated[str | None, typer.Option(help="Declared population by state.", show_default="DATA/states.csv")]
TextOption = Annotated[bool, typer.Option("--mdf-text", help="Write microdata as text as well, one row a record.")]
ProductsOption = Annotated[
    list[Product] | None,
    typer.Option("--product", help="Only this product.", show_default="persons and units"),
]


@dataclass(frozen=True)
class InputOptions:
    """The files that a run reads beside its records, and which part of them."""

    geography: GeographyOption = None
    quarters: QuartersOption = None
    totals: TotalsOption = None
    jurisdiction: JurisdictionOption = "us"
    only_state: StateOption = None
    product: ProductsOption = None

    def settings(self, data: str | None, out: str, **values: Any) -> TopDownSettings:
        """Return the settings of a run; what is None keeps its default. Raises Refused."""
        from flows.execution.top_down_settings import TopDownSettings

        values |= {
            "data": data,
            "out": out,
            "geography": self.geography,
            "quarters": self.quarters,
            "totals": self.totals,
            "jurisdiction": self.jurisdiction,
            "states": tuple(self.only_state or ()),
            "products": tuple(product.value for product in self.product) if self.product else None,
        }
        return TopDownSettings.new(**{name: value for name, value in values.items() if value is not None})
