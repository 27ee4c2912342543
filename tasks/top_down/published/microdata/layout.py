"""Recognize files of published microdata by their header: the product, and the meaning of the columns.

Known are the 2020 PPMF, the microdata detail files of the redistricting program and of the DHC, and the demonstration
files made of the 2010 census (docs/spec/files.md#published-microdata).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spine.redistricting import CENRACE, PERSONS, TYPES
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_FACTORS, BLOCK_WIDTHS
from tasks.records.record_fields import Field, number, whole
from tasks.top_down.run_plan import ProductName

OTHER_NAMES = {"TABTRACTCE": "TABTRACT"}  # in the demonstration PPMF of 2021
GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE", "SDUNILEA", "SDSECLEA", "SDELMLEA", "COUSUBFS", "PLACEFS")
NEEDED_GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE")
CHOICES: dict[ProductName, tuple[tuple[str, ...], ...]] = {  # alternatives of a column; the first that exists is taken
    "persons": (("RTYPE",), ("GQTYPE_PL", "GQTYPE"), ("VOTING_AGE", "QAGE"), ("CENHISP",), ("CENRACE",)),
    "units": (("RTYPE",), ("HH_STATUS", "VACS")),
}
WEIGHT = "COUNT"  # the number of equal records that a row stands for, as in the mdf/ of a das-flows release
# The numbers that a record's fields sum to: whether it is in group quarters; their major type; the rest of its cell
# (for a unit, whether it is vacant); how many equal records a row is.
BLOCK, GROUP, KIND, REST, RECORDS = range(5)
MOST_RECORDS = 10_000_000  # records of a row
ADULT, HISPANIC, RACE = (int(np.prod(PERSONS.shape[axis:])) for axis in (2, 3, 4))  # cells that a code of each is apart
KINDS = {  # the major type of group quarters, 0 for households: the first of three digits, or by itself
    "GQTYPE": whole((min(kind // 100, TYPES - 1) for kind in range(1000)), place=KIND, blank=True),
    "GQTYPE_PL": whole(range(TYPES), place=KIND, blank=True),
}
FIELDS: dict[ProductName, dict[str, Field]] = {
    "persons": {
        "RTYPE": whole((0, 0, 1), first=3, place=GROUP),
        "VOTING_AGE": whole((0, 1), first=1, place=REST, factor=ADULT),
        "QAGE": whole((age >= 18 for age in range(131)), place=REST, factor=ADULT),
        "CENHISP": whole((0, 1), first=1, place=REST, factor=HISPANIC),
        "CENRACE": whole(range(len(CENRACE)), first=1, place=REST, factor=RACE),
        **KINDS,
    },
    "units": {
        "RTYPE": whole((0, 0, 1), first=2, place=GROUP),
        "HH_STATUS": whole((0, 0, 1), place=REST),
        "VACS": whole((reason > 0 for reason in range(10)), place=REST, blank=True),  # why it is vacant
        **KINDS,
    },
}


@dataclass(frozen=True)
class MicrodataLayout:
    """The columns that are read from a file.

    block: state, county, tract and block. values: those of each record. quarters: the column with the type of group
    quarters, or None. weight: the column with the number of records of a row; None if a row is one record. geography:
    the codes of areas, for units.
    """

    product: ProductName
    block: tuple[str, ...]
    values: tuple[str, ...]
    quarters: str | None
    weight: str | None
    geography: tuple[str, ...]

    @property
    def fields(self) -> Mapping[str, Field]:
        """All columns that are read as numbers."""
        block = zip(self.block, BLOCK_WIDTHS, BLOCK_FACTORS.values(), strict=True)
        values = (*self.values, *((self.quarters,) if self.quarters else ()))
        return {
            **{name: number(10**width - 1, place=BLOCK, factor=factor) for name, width, factor in block},
            **{name: FIELDS[self.product][name] for name in values},
            **({self.weight: number(MOST_RECORDS, place=RECORDS)} if self.weight else {}),
        }


def recognize(file: str, header: list[str]) -> MicrodataLayout:
    """Return the layout of a file with this header.

    Raises Refused for a missing or repeated column.
    """
    names = set(header)
    if twice := [name for name in names if header.count(name) > 1]:
        raise Refused(f"{file}: column {min(twice)} is there twice")
    product: ProductName = "persons" if "CENRACE" in names else "units"
    block = tuple(name if name in names else OTHER_NAMES.get(name, name) for name in BLOCK_COLUMNS)
    values = [next((name for name in choice if name in names), " or ".join(choice)) for choice in CHOICES[product]]
    if missing := [name for name in (*block, *values) if name not in names]:
        raise Refused(
            f"{file} is not published microdata of persons or units: read as {product}, it lacks the columns "
            f"{', '.join(missing)}"
        )
    quarters = values[1] if product == "persons" else next((name for name in KINDS if name in names), None)
    weight = WEIGHT if WEIGHT in names else None
    with_areas = product == "units" and names.issuperset(NEEDED_GEOGRAPHY)
    geography = tuple(name for name in GEOGRAPHY if with_areas and name in names)
    return MicrodataLayout(product, block, tuple(values), quarters, weight, geography)
