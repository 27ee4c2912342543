"""Where each format of block table keeps what a spine needs: GRF-C, P.L. 94-171 geo files, and CSV tables."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from spine.settings import SpineSettings


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
        """Every column that is named here."""
        values = [getattr(self, f.name) for f in fields(self) if f.name not in ("delimiter", "positions")]
        flat = [name for value in values for name in (value if isinstance(value, tuple) else (value,))]
        return [name for name in flat if name is not None]

    def within(self, header: list[str]) -> Columns:
        """The same, without the optional columns that `header` lacks."""
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
    state="TABBLKST",
    county="TABBLKCOU",
    tract="TABTRACTCE",
    block="TABBLK",
    block_group="TABBLKGRPCE",
    place="PLACEFP",
    cousub="COUSUBFP",
    aiannh="AIANNHCE",
    sd=("SDUNILEA", "SDSECLEA", "SDELMLEA"),
    cousub_status="COUSUBFS",
    place_status="PLACEFS",
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

_TABLE = Columns(
    state="STATE",
    county="COUNTY",
    tract="TRACT",
    block="BLOCK",
    geoid="GEOID",
    block_group="BLKGRP",
    place="PLACEFP",
    sd=("SDUNI", None, None),
)

# The three tables of block assignments at hand: what each of them calls its county subdivisions, and what it lacks.
CSV_PRESETS: dict[str, Columns] = {
    "ri": Columns(**{**vars(_TABLE), "cousub": "COUSUBFP", "aiannh": "AIANNHCE", "population": "POP"}),
    "wi": Columns(**{**vars(_TABLE), "cousub": "COUSUBFP_FROM_VTD", "aiannh": "AIANNHCE", "sd": ()}),
    "pr": Columns(**{**vars(_TABLE), "population": "POP"}),
}


def needed(columns: Columns, settings: SpineSettings, *, prims_given: bool = False) -> list[str]:
    """The columns that a spine with these settings cannot do without (GQ types are not among them).

    prims_given: whether a prim crosswalk stands beside the table.
    """
    names: list[str | None] = [columns.state, columns.county, columns.tract, columns.block, columns.place]
    if settings.region == "us":
        names += [columns.cousub, columns.aiannh]
    if "sd" in settings.entities:
        names += columns.sd
    if "Prim" in settings.levels and settings.region == "us" and columns.prim is None and not prims_given:
        names += [columns.cousub_status, columns.place_status]
    return [name for name in names if name is not None]
