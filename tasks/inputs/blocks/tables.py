"""One block table of any format: its header, and its rows with codes as integers or as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spine.geography import BadGeography
from tasks.inputs.block_codes import BLOCK_COLUMNS, DISTRICTS
from tasks.inputs.blocks import assignment
from tasks.inputs.blocks.pl94 import PL94_FIELDS, PL94_NAMES, ROW_COLUMNS, block_rows, csv_options, is_geographic_header
from tasks.inputs.files import open_file
from tasks.inputs.tables import HEADER_BYTES
from tasks.lifecycle.errors import Refused

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
LETTERS = {"COUSUBFS", "PLACEFS", "SUMLEV", "FUNCSTAT"}


@dataclass(frozen=True)
class BlockFile:
    """A block table that is not read yet.

    names: of all its columns, in order. columns: what it calls each column of GRF-C that it has. headless: whether the
    names are not in the file.
    """

    path: str
    names: tuple[str, ...]
    columns: Mapping[str, str]
    delimiter: str = "|"
    headless: bool = False

    def __str__(self) -> str:
        """Return the name of the file for error messages."""
        member, _, archive = self.path.partition("::")
        return f"{member.removeprefix('zip://')} in {archive}" if archive else self.path

    def csv_options(self, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
        """Return how pyarrow reads columns of these types."""
        return csv_options(types, self.names if self.headless else None, self.delimiter)


def recognize(path: str) -> BlockFile:
    """Return the table at a path, by the file's name and header.

    Raises Refused where the columns that name a block are missing.
    """
    if is_geographic_header(path):
        return BlockFile(path, PL94_FIELDS, PL94_NAMES, headless=True)
    names, delimiter = (assignment.header(path), "|") if assignment.is_layer(path) else _header(path)
    is_grf_c = {BLOCK_COLUMNS[0], BLOCK_COLUMNS[-1]} <= set(names)
    columns = {}
    for column, known in NAMES.items():
        own = [column] * (column != "GEOID") if is_grf_c else known
        if name := next((name for name in own if name in names), None):
            columns[column] = name
    file = BlockFile(path, tuple(names), columns, delimiter)
    if missing := [NAMES[column][0] for column in BLOCK_COLUMNS if column not in columns]:
        raise Refused(
            f"{file} has no column {missing[0]}, so it is not a block table: GRF-C, P.L. 94-171, block assignment "
            "files or a CSV with STATE, COUNTY, TRACT and BLOCK"
        )
    return file


def _header(path: str) -> tuple[list[str], str]:
    """Return the names in a file's header, and the delimiter between them."""
    with open_file(path, compression="infer") as file:
        line = file.readline(HEADER_BYTES).decode("utf-8-sig", "replace").strip("\r\n")
    delimiter = "|" if "|" in line else ","
    return [name.strip('"') for name in line.split(delimiter)], delimiter


def read_rows(file: BlockFile, *, text: bool = False) -> pa.Table:
    """Return the columns of a table's blocks, under the names of GRF-C; codes as integers, or as `text`.

    A blank is null among integers. Of P.L. 94-171 the blocks' rows, with the statuses of their place and subdivision.

    Raises BadGeography for a value that is no number, where integers are asked for.
    """
    if assignment.is_layer(file.path):
        table = assignment.read_assignment(file.path)
        return table if text else _integers(table)
    table = _read(file, text=text)
    return block_rows(table) if file.headless else table


def _read(file: BlockFile, *, text: bool) -> pa.Table:
    names = dict(file.columns) | ({name: name for name in ROW_COLUMNS} if file.headless else {})
    types = {
        name: pa.string() if text or column in LETTERS else pa.int64() if column == "GEOID" else pa.int32()
        for column, name in names.items()
    }
    try:
        with open_file(file.path, compression="infer") as opened:
            table = pyarrow.csv.read_csv(opened, **file.csv_options(types))
        return table.rename_columns(list(names))
    except pa.ArrowInvalid as error:
        if text:
            raise BadGeography(f"not a table: {error}") from error
        _name_bad_value(_read(file, text=True), names)
        raise BadGeography(str(error)) from error


def _integers(table: pa.Table) -> pa.Table:
    """Return a table of text with its blanks null and the rest as integers."""
    _name_bad_value(table, {})
    arrays = [pc.if_else(pc.equal(column, ""), None, column).cast(pa.int32()) for column in table.columns]
    return pa.table(arrays, names=table.column_names)


def _name_bad_value(table: pa.Table, names: Mapping[str, str]) -> None:
    """Raise BadGeography for the first value that is no number; names: what the file calls the columns."""
    for column in table.column_names:
        if column in LETTERS:
            continue
        values: Any = table[column]
        wrong = pc.invert(pc.match_substring_regex(values, r"^\s*-?[0-9]*\s*$"))
        rows = np.flatnonzero(wrong.to_numpy())
        if len(rows):
            row = int(rows[0])
            block = "".join(str(table[part][row].as_py()) for part in BLOCK_COLUMNS)
            name = names.get(column, column)
            raise BadGeography(f"block {block} has {name} '{values[row].as_py()}', which is not a number")
