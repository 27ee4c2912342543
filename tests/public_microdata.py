"""Published microdata in the Bureau's columns, delimiters and packings, made from synthetic records."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE")


def records(data: Path, product: str) -> pd.DataFrame:
    """The records of a folder DATA, as text."""
    parquet = data / f"{product}.parquet"
    if parquet.exists():
        return pq.read_table(parquet).to_pandas().astype(str)
    return pd.read_csv(data / f"{product}.txt", sep="|", dtype=str)


def ppmf(data: Path) -> dict[str, pd.DataFrame]:
    """Persons and units as in the 2020 PPMF: ages, types of three digits, and the codes of the blocks' areas."""
    grf = pd.read_csv(data / "GRF-C.txt", sep="|", dtype=str)
    block = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
    persons = records(data, "persons").merge(grf[[*block, *GEOGRAPHY]], on=block)
    persons["EPNUM"] = [f"{number:09d}" for number in range(len(persons))]
    persons["GQTYPE"] = persons["GQTYPE_PL"].map(lambda kind: "000" if kind == "0" else f"{kind}01")
    persons["QAGE"] = persons["VOTING_AGE"].map({"1": "17", "2": "18"})
    quarters = pd.read_csv(data / "quarters.csv", dtype={"tabblk": str}).set_index("tabblk")
    units = records(data, "units").merge(grf[[*block, *GEOGRAPHY]], on=block).sort_values([*block, "RTYPE"])
    geoid = units[block].agg("".join, axis=1)
    units["GQTYPE"] = "000"
    for code, rows in units[units["RTYPE"] == "4"].groupby(geoid).groups.items():
        declared = quarters.loc[code]
        kinds = [f"{kind}01" for kind in range(1, 8) for _ in range(declared[f"gq{kind}"])]
        units.loc[rows, "GQTYPE"] = kinds
    units["VACS"] = units["HH_STATUS"].map({"0": "0", "1": "0", "2": "3"})
    return {"persons": persons, "units": units}


def write(table: pd.DataFrame, path: Path, columns: list[str] | None = None, delimiter: str = ",") -> Path:
    """Write some columns of a table, packed by the ending of its name."""
    table = table[columns] if columns else table
    if path.suffix == ".parquet":
        table.to_parquet(path, row_group_size=1000)
        return path
    content = table.to_csv(index=False, sep=delimiter, lineterminator="\r\n" if delimiter == "|" else "\n").encode()
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(path.with_suffix(".csv").name, content)
            archive.writestr("readme.pdf", b"nothing")
    else:
        path.write_bytes(content)
    return path
