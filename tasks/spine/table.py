"""Block tables as files: which they are, what their header says, their columns as integers, their digests."""

from __future__ import annotations

from typing import Any, cast

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spine.geography import BadGeography
from tasks.lifecycle.digests import StreamDigest
from tasks.lifecycle.errors import Refused
from tasks.spine.columns import CSV_PRESETS, GRFC, PL94, Columns

GRFC_NAME = "GRF-C.txt"


def block_files(source: str) -> list[str]:
    """The files of a geography: the source itself, or what its directory holds. Refused where it holds none."""
    fs, path = fsspec.url_to_fs(source)
    if not fs.isdir(path):
        return [source]
    names = sorted(name for name in fs.ls(path, detail=False) if name.lower().endswith("geo2020.pl"))
    grfc = [name for name in fs.ls(path, detail=False) if name.rsplit("/", 1)[-1] == GRFC_NAME]
    if not (names or grfc):
        raise Refused(f"{source}: holds neither {GRFC_NAME} nor ??geo2020.pl")
    return [fs.unstrip_protocol(name) for name in (grfc or names)]


def input_digests(source: str, *beside: str | None) -> dict[str, str]:
    """The digests (`tasks.lifecycle.digests`) of the files that a geography is read from, by file name."""
    found = {}
    for path in (*block_files(source), *filter(None, beside)):
        digest = StreamDigest()
        with fsspec.open(path, "rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
        found[path.rsplit("/", 1)[-1]] = digest.hexdigest()
    return found


def read_header(path: str) -> list[str]:
    """The names of a file's columns, in order."""
    if path.lower().removesuffix(".gz").endswith("geo2020.pl"):
        return list(PL94.positions)
    with fsspec.open(path, "rb", compression="infer") as file:
        line = cast(bytes, file.readline()).decode("utf-8-sig").strip("\r\n")
    return [name.strip('"') for name in line.split("|" if "|" in line else ",")]


def recognized(path: str, header: list[str]) -> Columns:
    """The format that a header tells. Refused where it tells none."""
    if tuple(header) == PL94.positions:
        return PL94
    if {"TABBLKST", "TABBLK"} <= set(header):
        return GRFC
    for preset in ("ri", "wi", "pr"):  # the most telling first: pr has neither county subdivisions nor AIANNH areas
        if set(CSV_PRESETS[preset].within(header).named()) >= set(CSV_PRESETS[preset].named()) - {"POP", "SDUNI"}:
            return CSV_PRESETS[preset]
    raise Refused(f"{path}: neither GRF-C nor P.L. 94-171 nor a known table: give the columns (--columns)")


def read_table(path: str, columns: Columns, types: Any = None) -> pa.Table:
    """The named columns; codes as integers. A value that is no number is BadGeography."""
    text = {columns.cousub_status, columns.place_status, "SUMLEV", "FUNCSTAT"}
    names = list(dict.fromkeys(columns.named()))
    if columns.positions:
        names += ["SUMLEV", "FUNCSTAT", "LOGRECNO"]
    wide = {columns.geoid, columns.prim}
    number = {name: pa.int64() if name in wide else pa.int32() for name in names}
    read = {name: pa.string() if name in text or types is not None else number[name] for name in names}
    try:
        with fsspec.open(path, "rb", compression="infer") as file:
            table = pyarrow.csv.read_csv(
                file,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(columns.positions) or None, encoding="latin1" if columns.positions else "utf8"
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=columns.delimiter, quote_char='"' if columns.delimiter == "," else False
                ),
                convert_options=pyarrow.csv.ConvertOptions(include_columns=names, column_types=read),
            )
    except pa.ArrowInvalid as error:
        if types is not None:
            raise BadGeography(f"not a table: {error}") from error
        _name_bad_value(read_table(path, columns, pa.string()), columns, text)
        raise BadGeography(str(error)) from error
    except pa.ArrowKeyError as error:
        raise Refused(f"{path}: {error}") from error
    return table


def _name_bad_value(table: pa.Table, columns: Columns, text: set[str | None]) -> None:
    for name in table.column_names:
        if name in text:
            continue
        column = table[name]
        wrong = pc.invert(pc.match_substring_regex(column, r"^\s*-?[0-9]*\s*$"))
        rows = np.flatnonzero(wrong.to_numpy())
        if len(rows):
            row = table.slice(int(rows[0]), 1)
            block = "".join(
                str(row[c][0].as_py()) for c in (columns.state, columns.county, columns.tract, columns.block)
            )
            raise BadGeography(f"block {block} has {name} '{column[int(rows[0])].as_py()}', which is no number")
