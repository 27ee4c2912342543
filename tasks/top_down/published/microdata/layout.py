"""Recognize files of published microdata by their header: which product, and which columns mean what.

Known are the 2020 PPMF, the microdata detail files of the redistricting program and of the DHC, and the demonstration
files made of the 2010 census (docs/spec/files.md#published-microdata).
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.lifecycle.errors import Refused
from tasks.top_down.run_plan import ProductName

OTHER_NAMES = {"TABTRACTCE": "TABTRACT"}  # of the demonstration PPMF
GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE", "SDUNILEA", "SDSECLEA", "SDELMLEA", "COUSUBFS", "PLACEFS")
NEEDED_GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE")
CHOICES: dict[ProductName, tuple[tuple[str, ...], ...]] = {  # each by one column, the first that is there
    "persons": (("RTYPE",), ("GQTYPE_PL", "GQTYPE"), ("VOTING_AGE", "QAGE"), ("CENHISP",), ("CENRACE",)),
    "units": (("RTYPE",), ("HH_STATUS", "VACS")),
}
COUNTED = ("OCCUPIED_COUNT", "VACANT_COUNT")  # of a block's units, in place of records
WEIGHT = "COUNT"  # how many equal records a row is, as in the mdf/ of a das-flows release


@dataclass(frozen=True)
class MicrodataLayout:
    """The columns that are read of a file.

    block: state, county, tract and block. values: of each record. quarters: of units, the column with the type of group
    quarters; None where there is none. weight: the column with the number of records of a row; None where a row is one.
    geography: the codes of areas.
    """

    product: ProductName
    block: tuple[str, ...]
    values: tuple[str, ...]
    quarters: str | None
    weight: str | None
    geography: tuple[str, ...]

    @property
    def counted(self) -> bool:
        """Whether a row is a block's numbers of occupied and vacant units, and not a record."""
        return self.values == COUNTED

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read as numbers."""
        return (*self.block, *self.values, *filter(None, (self.quarters, self.weight)))


def recognize(file: str, header: list[str]) -> MicrodataLayout:
    """Return the layout of a file with this header. Raises Refused where a column is missing or is there twice."""
    names = set(header)
    if twice := [name for name in names if header.count(name) > 1]:
        raise Refused(f"{file}: column {min(twice)} is there twice")
    product: ProductName = "persons" if "CENRACE" in names else "units"
    block = tuple(name if name in names else OTHER_NAMES.get(name, name) for name in BLOCK_COLUMNS)
    values = [next((name for name in choice if name in names), " or ".join(choice)) for choice in CHOICES[product]]
    if product == "units" and names.issuperset(COUNTED):
        values = [*COUNTED]
    if missing := [name for name in (*block, *values) if name not in names]:
        raise Refused(
            f"{file} is no published microdata of persons or units: read as {product}, it has no column "
            f"{', '.join(missing)}"
        )
    quarters = next((name for name in ("GQTYPE", "GQTYPE_PL") if product == "units" and name in names), None)
    weight = WEIGHT if WEIGHT in names else None
    return MicrodataLayout(
        product, block, tuple(values), quarters, weight, tuple(name for name in GEOGRAPHY if name in names)
    )
