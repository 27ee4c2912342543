"""P.L. 94-171 files: their columns; and statuses, group quarters and counts, from other rows and segments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spine.geography import IntArray
from spine.redistricting import HHGQ, PERSON_TABLES, UNIT_TABLES
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS, DISTRICTS
from tasks.records.files import locate, why
from tasks.records.public_table import PublicTable

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

BLOCK = "750"  # the summary level of a block
ROW_COLUMNS = ("SUMLEV", "FUNCSTAT", "LOGRECNO")  # columns of a geographic header that join its rows
_IDENTITY = ("FILEID", "STUSAB", "CHARITER", "CIFSN", "LOGRECNO")
_TABLES = PERSON_TABLES | UNIT_TABLES
SEGMENTS = {  # cells by segment, in order
    segment: tuple(cell.name for table in tables for cell in _TABLES[table])
    for segment, tables in ((1, ("P1", "P2")), (2, ("P3", "P4", "H1")), (3, ("P5",)))
}
GQ_TYPES = tuple(cell.name for cell in PERSON_TABLES["P5"] if len(cell.where[HHGQ.name]) == 1)  # each of seven
_HEADER = re.compile(r"geo2020\.pl(?=(\.gz)?(::|$))", re.IGNORECASE)


def is_geographic_header(path: str) -> bool:
    """Return whether a path names a state's geographic header, alone or in an archive."""
    return bool(_HEADER.search(path))


def segment(path: str, number: int) -> str | None:
    """Return the path of a segment next to a geographic header, or None."""
    other = _HEADER.sub(f"0000{number}2020.pl", path)
    files, name = locate(other)
    return other if other != path and files.isfile(name) else None


def has_all_segments(path: str) -> bool:
    """Return whether a path is a geographic header next to the three segments of counts."""
    return all(segment(path, number) for number in SEGMENTS)


def block_rows(table: pa.Table) -> pa.Table:
    """Return a geographic header's block rows, joined with the statuses of their place and county subdivision."""
    blocks = table.filter(pc.equal(table["SUMLEV"], BLOCK))
    state, county = BLOCK_COLUMNS[:2]
    for summary, keys, name in (
        ("160", [state, "PLACEFP"], "PLACEFS"),
        ("060", [state, county, "COUSUBFP"], "COUSUBFS"),
    ):
        status = _status(table.filter(pc.equal(table["SUMLEV"], summary)), keys, blocks)
        blocks = blocks.append_column(name, pa.array(status, pa.string()))
    return blocks


def _status(rows: pa.Table, keys: list[str], blocks: pa.Table) -> Any:
    known = rows.select([*keys, "FUNCSTAT"]).to_pandas().drop_duplicates(keys)
    return blocks.select(keys).to_pandas().merge(known, how="left", on=keys)["FUNCSTAT"].fillna("").to_numpy(object)


def with_group_quarters(path: str, blocks: pa.Table) -> pa.Table:
    """Join block rows with the residents of group quarters, if segment 3 exists.

    Facilities are not published here: a type counts as present if it has residents, which is the same set of blocks
    (docs/spec/files.md#block-tables).
    """
    segment_3 = segment(path, 3)
    if segment_3 is None:
        return blocks
    import pandas as pd

    names = (*_IDENTITY, *SEGMENTS[3])
    table = _read_columns(segment_3, names, ["LOGRECNO", *GQ_TYPES], pa.int64()).to_pandas()
    wanted = pd.DataFrame({"LOGRECNO": blocks["LOGRECNO"].to_numpy()})
    joined = wanted.merge(table, how="left", on="LOGRECNO").fillna(0).astype(np.int64)
    for name in GQ_TYPES:
        blocks = blocks.append_column(name, pa.array(joined[name].to_numpy()))
    return blocks


def read_block_counts(path: str, names: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return the codes of a state's blocks, 15 digits, and their (blocks, names) cells, such as P0010001 or H0010002.

    path: the geographic header. Raises Refused if a segment is missing or invalid.
    """
    try:
        header = _read_columns(path, PL94_FIELDS, ["SUMLEV", "LOGRECNO", "GEOCODE"])
        blocks = header.filter(pc.equal(header["SUMLEV"], BLOCK))
        record = blocks["LOGRECNO"].cast(pa.int64()).to_numpy()
        counts = np.zeros((len(record), len(names)), np.int64)
        for number, cells in SEGMENTS.items():
            own = [name for name in names if name in cells]
            if not own:
                continue
            table = _read_columns(_HEADER.sub(f"0000{number}2020.pl", path), (*_IDENTITY, *cells), ["LOGRECNO", *own])
            records = table["LOGRECNO"].cast(pa.int64()).to_numpy()
            order = np.argsort(records)
            row = order[np.minimum(np.searchsorted(records, record, sorter=order), max(len(order) - 1, 0))]
            if not (records[row] == record).all():
                raise Refused(f"{path}: segment {number} lacks blocks of the geographic header")
            for name in own:
                counts[:, names.index(name)] = table[name].cast(pa.int64()).to_numpy()[row]
        return blocks["GEOCODE"].cast(pa.int64()).to_numpy(), counts
    except (pa.ArrowInvalid, IndexError) as error:
        raise Refused(f"{path}: not a P.L. 94-171 file ({str(error).splitlines()[0][:100]})") from None
    except OSError as error:
        raise Refused(f"{path}: a segment of P.L. 94-171 cannot be read: {why(error)}") from None


def _read_columns(path: str, names: Sequence[str], wanted: list[str], kind: pa.DataType | None = None) -> pa.Table:
    """Return columns of a header or segment; kind: their type, text by default."""
    (table,) = open_pl94(path, names).batches(dict.fromkeys(wanted, kind or pa.string()))
    return table


def open_pl94(path: str, names: Sequence[str] = PL94_FIELDS) -> PublicTable:
    """Return a header or segment; names: all its columns, which are not in the file."""
    return PublicTable(path, tuple(names), delimiter="|", headless=True, plain=True)
