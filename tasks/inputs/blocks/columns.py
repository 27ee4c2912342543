"""The column names of each format of block table: GRF-C, P.L. 94-171, block assignment files, CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tasks.inputs.block_codes import BLOCK_COLUMNS


@dataclass(frozen=True)
class Columns:
    """Column names of a table with one row a block; None or an empty tuple where the table has no such column.

    state, county, tract, block: FIPS codes of 2, 3, 6 and 4 digits. geoid: the 15 digits together, checked against
    them. block_group: the tabulation block group, checked against the block. sd: unified, secondary, elementary
    school district. gq: a 0/1 or count column for each major GQ type 1xx..7xx-9xx. universe: counts of which one is
    positive where the block holds a living quarter. delimiter, header: how the file is written.
    """

    state: str
    county: str
    tract: str
    block: str
    geoid: str | None = None
    block_group: str | None = None
    place: str | None = None
    cousub: str | None = None
    aiannh: str | None = None
    sd: tuple[str | None, ...] = ()
    cousub_status: str | None = None
    place_status: str | None = None
    prim: str | None = None
    gq: tuple[str, ...] = ()
    universe: tuple[str, ...] = ()
    population: str | None = None
    delimiter: str = ","
    positions: tuple[str, ...] = field(default=(), repr=False)  # names by position, for files without a header

    def named(self) -> list[str]:
        """Return the names of all columns that the table has."""
        values = [getattr(self, f.name) for f in fields(self) if f.name not in ("delimiter", "positions")]
        flat = [name for value in values for name in (value if isinstance(value, tuple) else (value,))]
        return [name for name in flat if name is not None]

    def within(self, header: list[str]) -> Columns:
        """Return the same without the optional columns that `header` lacks."""
        present = set(header)
        changed: dict[str, Any] = {}
        for name in ("gq", "universe"):
            if not present.issuperset(getattr(self, name)):
                changed[name] = ()
        if not present.issuperset(name for name in self.sd if name):
            changed["sd"] = (
                tuple(name if name in present else None for name in self.sd) if present & set(self.sd) else ()
            )
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, str) and f.default is None and value not in present:
                changed[f.name] = None
        return replace(self, **changed)


GRFC = Columns(
    *BLOCK_COLUMNS,
    block_group="TABBLKGRPCE",
    place="PLACEFP",
    cousub="COUSUBFP",
    aiannh="AIANNHCE",
    sd=("SDUNILEA", "SDSECLEA", "SDELMLEA"),
    cousub_status="COUSUBFS",
    place_status="PLACEFS",
    population="POP",  # GRF-C has none; a table with its names may
    delimiter="|",
)

# The fields of a P.L. 94-171 geographic header, by position; rows of SUMLEV 750 are the blocks.
PL94_FIELDS = tuple(
    """FILEID STUSAB SUMLEV GEOVAR GEOCOMP CHARITER CIFSN LOGRECNO GEOID GEOCODE REGION DIVISION STATE STATENS COUNTY
    COUNTYCC COUNTYNS COUSUB COUSUBCC COUSUBNS SUBMCD SUBMCDCC SUBMCDNS ESTATE ESTATECC ESTATENS CONCIT CONCITCC
    CONCITNS PLACE PLACECC PLACENS TRACT BLKGRP BLOCK AIANHH AIHHTLI AIANHHFP AIANHHCC AIANHHNS AITS AITSFP AITSCC
    AITSNS TTRACT TBLKGRP ANRC ANRCCC ANRCNS CBSA MEMI CSA METDIV NECTA NMEMI CNECTA NECTADIV CBSAPCI NECTAPCI UA
    UATYPE UR CD116 CD118 CD119 CD120 CD121 SLDU18 SLDU22 SLDU24 SLDU26 SLDU28 SLDL18 SLDL22 SLDL24 SLDL26 SLDL28
    VTD VTDI ZCTA SDELM SDSEC SDUNI PUMA AREALAND AREAWATR BASENAME NAME FUNCSTAT GCUNI POP100 HU100 INTPTLAT
    INTPTLON LSADC PARTFLAG UGA""".split()  # noqa: SIM905 (97 names read better as a paragraph)
)

PL94 = Columns(
    state="STATE",
    county="COUNTY",
    tract="TRACT",
    block="BLOCK",
    geoid="GEOCODE",
    block_group="BLKGRP",
    place="PLACE",
    cousub="COUSUB",
    aiannh="AIANHH",
    sd=("SDUNI", "SDSEC", "SDELM"),
    universe=("HU100", "POP100"),  # HU100 is 0 where persons are: they live in group quarters
    population="POP100",
    delimiter="|",
    positions=PL94_FIELDS,
)

# What tables with a header may call each column; the first name is the one that is missed where none is there.
_NAMES: dict[str, tuple[str, ...]] = {
    "state": ("STATE", GRFC.state),
    "county": ("COUNTY", GRFC.county),
    "tract": ("TRACT", GRFC.tract),
    "block": ("BLOCK", GRFC.block),
    "geoid": ("GEOID",),
    "block_group": ("BLKGRP", "TABBLKGRPCE"),
    "place": ("PLACEFP",),
    "cousub": ("COUSUBFP", "COUSUBFP_FROM_VTD"),
    "aiannh": ("AIANNHCE",),
    "cousub_status": ("COUSUBFS",),
    "place_status": ("PLACEFS",),
    "population": ("POP",),
}
_DISTRICTS = (("SDUNI", "SDUNILEA"), ("SDSEC", "SDSECLEA"), ("SDELM", "SDELMLEA"))


def by_name(header: Sequence[str], delimiter: str = ",") -> Columns:
    """Return the columns of a table by the names in its header. Most states have unified school districts alone."""

    def named(names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in header), None)

    unified, *others = _DISTRICTS
    named_columns: dict[str, Any] = {what: named(names) or names[0] for what, names in _NAMES.items()}
    return Columns(**named_columns, sd=(named(unified) or unified[0], *map(named, others)), delimiter=delimiter)
