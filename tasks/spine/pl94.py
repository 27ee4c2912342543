"""What P.L. 94-171 files say of a block on other rows and in other segments: functional status and group quarters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tasks.spine.columns import Columns

BLOCK, PLACE, COUSUB = "750", "160", "060"
# Segment 3, table P5: population in the seven major types of group quarters, by position.
_P5 = ("FILEID", "STUSAB", "CHARITER", "CIFSN", "LOGRECNO", *(f"P00500{i:02d}" for i in range(1, 11)))
GQ_TYPES = ("P0050003", "P0050004", "P0050005", "P0050006", "P0050008", "P0050009", "P0050010")


def block_rows(path: str, table: pa.Table, columns: Columns) -> tuple[pa.Table, Columns]:
    """The block rows of a geo file, joined with the status of their place and county subdivision, and with P5.

    Facility counts of group quarters are not published here: a type counts as present where it has residents, which is
    the same set of blocks (docs/spec/files.md#block-tables).
    """
    blocks = table.filter(pc.equal(table["SUMLEV"], BLOCK))
    for summary, keys, name in (
        (PLACE, ["STATE", "PLACE"], "PLACE_STATUS"),
        (COUSUB, ["STATE", "COUNTY", "COUSUB"], "COUSUB_STATUS"),
    ):
        status = _status(table.filter(pc.equal(table["SUMLEV"], summary)), keys, blocks)
        blocks = blocks.append_column(name, pa.array(status, pa.string()))
    columns = replace(columns, place_status="PLACE_STATUS", cousub_status="COUSUB_STATUS")
    segment = Path(path.replace("geo2020.pl", "000032020.pl"))
    if segment.is_file():
        blocks = _with_group_quarters(segment, blocks)
        columns = replace(columns, gq=GQ_TYPES)
    return blocks, columns


def _status(rows: pa.Table, keys: list[str], blocks: pa.Table) -> Any:
    known = rows.select([*keys, "FUNCSTAT"]).to_pandas().drop_duplicates(keys)
    return blocks.select(keys).to_pandas().merge(known, how="left", on=keys)["FUNCSTAT"].fillna("").to_numpy(object)


def _with_group_quarters(segment: Path, blocks: pa.Table) -> pa.Table:
    table = pyarrow.csv.read_csv(
        segment,
        read_options=pyarrow.csv.ReadOptions(column_names=list(_P5), encoding="latin1"),
        parse_options=pyarrow.csv.ParseOptions(delimiter="|"),
        convert_options=pyarrow.csv.ConvertOptions(include_columns=["LOGRECNO", *GQ_TYPES]),
    ).to_pandas()
    wanted = pd.DataFrame({"LOGRECNO": blocks["LOGRECNO"].to_numpy()})
    joined = wanted.merge(table, how="left", on="LOGRECNO").fillna(0).astype(np.int64)
    for name in GQ_TYPES:
        blocks = blocks.append_column(name, pa.array(joined[name].to_numpy()))
    return blocks
