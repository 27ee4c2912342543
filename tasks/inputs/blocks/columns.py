"""What each format of block table calls the columns of GRF-C, by whose names all block tables are read."""

from __future__ import annotations

from tasks.inputs.block_codes import BLOCK_COLUMNS

DISTRICTS = ("SDUNILEA", "SDSECLEA", "SDELMLEA")  # school districts: unified, secondary, elementary

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

PL94_NAMES = {
    **dict(zip(BLOCK_COLUMNS, ("STATE", "COUNTY", "TRACT", "BLOCK"), strict=True)),
    "GEOID": "GEOCODE",
    "TABBLKGRPCE": "BLKGRP",
    "PLACEFP": "PLACE",
    "COUSUBFP": "COUSUB",
    "AIANNHCE": "AIANHH",
    **dict(zip(DISTRICTS, ("SDUNI", "SDSEC", "SDELM"), strict=True)),
    "POP": "POP100",
    "HU": "HU100",
}

# What tables with a header may call each column. GRF-C has no population; a table with its names may.
NAMES = {
    **{name: (other, name) for name, other in list(PL94_NAMES.items())[:4]},
    "GEOID": ("GEOID",),
    "TABBLKGRPCE": ("BLKGRP", "TABBLKGRPCE"),
    "PLACEFP": ("PLACEFP",),
    "COUSUBFP": ("COUSUBFP", "COUSUBFP_FROM_VTD"),
    "AIANNHCE": ("AIANNHCE",),
    **{name: (PL94_NAMES[name], name) for name in DISTRICTS},
    "COUSUBFS": ("COUSUBFS",),
    "PLACEFS": ("PLACEFS",),
    "POP": ("POP",),
}
