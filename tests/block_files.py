"""A table of blocks in the formats in which the public downloads one: P.L. 94-171, block assignment files, GRF-C.

The tables have GRF-C's names, text throughout, and POP and HU, persons and housing units. Fields that nobody here reads
are as in a real file: 99999 where a block lies in no such area, blank where the field does not apply to its row.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pandas as pd

from tasks.geography.blocks.pl94 import PL94_FIELDS

_OF_BLOCKS = {
    "COUNTY": "TABBLKCOU",
    "TRACT": "TABTRACTCE",
    "BLKGRP": "TABBLKGRPCE",
    "BLOCK": "TABBLK",
    "COUSUB": "COUSUBFP",
    "PLACE": "PLACEFP",
    "AIANHH": "AIANNHCE",
    "SDUNI": "SDUNILEA",
    "SDSEC": "SDSECLEA",
    "SDELM": "SDELMLEA",
    "POP100": "POP",
    "HU100": "HU",
}
_ELSEWHERE = {"ESTATE": "", "CONCIT": "99999", "ANRC": "99999", "UR": "", "ZCTA": "", "LSADC": "BK", "UGA": "99999"}


def from_csv(path: Path) -> pd.DataFrame:
    """A CSV of blocks with GRF-C's names; nines for blanks, a housing unit in every inhabited block."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False).rename(
        columns={
            "STATE": "TABBLKST",
            "COUNTY": "TABBLKCOU",
            "TRACT": "TABTRACTCE",
            "BLKGRP": "TABBLKGRPCE",
            "BLOCK": "TABBLK",
            "SDUNI": "SDUNILEA",
        }
    )
    for name, none in (("PLACEFP", "99999"), ("COUSUBFP", "99999"), ("AIANNHCE", "9999"), ("SDUNILEA", "99999")):
        table[name] = table[name].replace("", none) if name in table else none
    named = {"SDSECLEA": "99999", "SDELMLEA": "99999", "COUSUBFS": "A", "PLACEFS": "A"}
    return table.assign(**named, HU=(table["POP"] != "0").astype(int).astype(str))


def block_ids(table: pd.DataFrame) -> pd.Series:
    return table["TABBLKST"] + table["TABBLKCOU"] + table["TABTRACTCE"] + table["TABBLK"]


def geographic_header(table: pd.DataFrame, usps: str) -> bytes:
    """??geo2020.pl of the blocks of one state: rows of the state, its places and subdivisions, then of its blocks."""
    table = table.reset_index(drop=True)
    blocks = pd.DataFrame("", index=table.index, columns=list(PL94_FIELDS)).assign(**_ELSEWHERE)
    for theirs, ours in _OF_BLOCKS.items():
        blocks[theirs] = table.get(ours, "")
    blocks = blocks.assign(SUMLEV="750", STATE=table["TABBLKST"], GEOCODE=block_ids(table), FUNCSTAT="S")
    blocks["GEOID"] = "7500000US" + blocks["GEOCODE"]
    blocks["BASENAME"], blocks["NAME"] = table["TABBLK"], 'Bl"ock, Cañon ' + table["TABBLK"]
    blocks["LOGRECNO"] = [f"{10_000 + i:07d}" for i in range(len(blocks))]
    rows = [pd.DataFrame({"SUMLEV": ["040"], "STATE": blocks["STATE"].head(1), "POP100": ["1"], "FUNCSTAT": ["A"]})]
    for level, keys, status in (("060", ["COUNTY", "COUSUB"], "COUSUBFS"), ("160", ["PLACE"], "PLACEFS")):
        areas = blocks.assign(FUNCSTAT=table[status]).drop_duplicates(["STATE", *keys])
        areas = areas[areas[keys[-1]] != "99999"]
        rows.append(areas[["STATE", *keys, "FUNCSTAT"]].assign(SUMLEV=level))
    everything = pd.concat([*rows, blocks]).reindex(columns=list(PL94_FIELDS)).fillna("")
    everything = everything.assign(
        FILEID="PLST", STUSAB=usps.upper(), GEOVAR="00", GEOCOMP="00", CHARITER="000", CIFSN="00"
    )
    above = everything["LOGRECNO"] == ""
    everything.loc[above, "LOGRECNO"] = [f"{1 + i:07d}" for i in range(int(above.sum()))]
    return "".join("|".join(row) + "\n" for row in everything.to_numpy()).encode("latin-1")


def segment_3(table: pd.DataFrame, quarters: pd.DataFrame) -> bytes:
    """Segment 3 of the same blocks. quarters: residents by block of the seven types, in the order of table P5."""
    lines = []
    for i, counts in enumerate(quarters.to_numpy(int).tolist()):
        institutional, other = counts[:4], counts[4:]
        p5 = [sum(counts), sum(institutional), *institutional, sum(other), *other]
        lines.append("|".join(["PLST", "XX", "000", "03", f"{10_000 + i:07d}", *map(str, p5)]))
    return ("\n".join(lines) + "\n").encode()


def assignment(table: pd.DataFrame, fips: str, usps: str) -> dict[str, bytes]:
    """The block assignment files of the blocks of one state, by name; a layer without any area is left out."""
    layers = {
        "INCPLACE_CDP": ("PLACEFP", "PLACEFP"),
        "AIANNH": ("AIANNHCE", "AIANNHCE"),
        "MCD": ("COUSUBFP", "COUSUBFP"),
        "SDUNI": ("SDUNILEA", "DISTRICT"),
        "SDSEC": ("SDSECLEA", "DISTRICT"),
        "SDELM": ("SDELMLEA", "DISTRICT"),
    }
    tables = {"CD": block_ids(table).to_frame("BLOCKID").assign(DISTRICT="01")}  # not used here
    for layer, (ours, theirs) in layers.items():
        codes = table[ours].where(~table[ours].isin(["99999", "9999"]), "")
        if layer == "INCPLACE_CDP" or codes.any():
            tables[layer] = block_ids(table).to_frame("BLOCKID").assign(**{theirs: codes})
    if "MCD" in tables:
        tables["MCD"].insert(1, "COUNTYFP", table["TABBLKCOU"])
    if "AIANNH" in tables:
        tables["AIANNH"]["COMPTYP"] = ""
    return {
        f"BlockAssign_ST{fips}_{usps}_{layer}.txt": rows.to_csv(sep="|", index=False).encode()
        for layer, rows in tables.items()
    }


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
