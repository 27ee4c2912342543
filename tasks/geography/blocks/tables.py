"""One block table of any format: its header, and its rows with codes as integers or as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spine.geography import BadGeography
from tasks.errors import Refused
from tasks.geography.blocks import assignment
from tasks.geography.blocks.pl94 import (
    PL94_NAMES,
    ROW_COLUMNS,
    block_rows,
    is_geographic_header,
    open_pl94,
)
from tasks.records.block_codes import BLOCK_COLUMNS, DISTRICTS
from tasks.records.public_table import PublicTable, blank_rows, is_blank, open_table, whole_numbers

# Possible names of each column in tables with a header. GRF-C has no population, but a table with its names may.
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
NO_NAMES: Mapping[str, str] = {}


@dataclass(frozen=True)
class BlockFile:
    """A block table that was recognized but not read yet.

    columns: the file's name of each column of GRF-C that it has. table: None for block assignment files.
    """

    path: str
    columns: Mapping[str, str]
    table: PublicTable | None

    def __str__(self) -> str:
        """Return the name of the file for error messages."""
        member, _, archive = self.path.partition("::")
        return f"{member.removeprefix('zip://')} in {archive}" if archive else self.path

    @property
    def headless(self) -> bool:
        """Whether it is a geographic header of P.L. 94-171."""
        return is_geographic_header(self.path)


def recognize(path: str) -> BlockFile:
    """Return the table at a path, recognized by the file's name and header.

    Raises Refused if the columns that name a block are missing.
    """
    if is_geographic_header(path):
        return BlockFile(path, PL94_NAMES, open_pl94(path))
    table = None if assignment.is_layer(path) else open_table(path)
    names = assignment.header(path) if table is None else table.names
    is_grf_c = {BLOCK_COLUMNS[0], BLOCK_COLUMNS[-1]} <= set(names)
    columns = {}
    for column, known in NAMES.items():
        own = [column] * (column != "GEOID") if is_grf_c else known
        found = own if table is None else map(table.find, own)
        if name := next((name for name in found if name in names), None):
            columns[column] = name
    file = BlockFile(path, columns, table)
    if missing := [NAMES[column][0] for column in BLOCK_COLUMNS if column not in columns]:
        raise Refused(
            f"{file} has no column {missing[0]}, so it is not a block table: GRF-C, P.L. 94-171, block assignment "
            "files or a CSV with STATE, COUNTY, TRACT and BLOCK"
        )
    return file


def read_rows(file: BlockFile, *, text: bool = False) -> pa.Table:
    """Return the columns of a table's blocks, under the names of GRF-C; codes as integers, or as `text`.

    Blanks become null integers. P.L. 94-171 gives the rows of blocks, with the statuses of their place and subdivision.

    Raises BadGeography for a value that is not a number, if integers are asked for.
    """
    if file.table is None:
        table = assignment.read_assignment(file.path)
        return table if text else _integers(table)
    table = _read(file, file.table, text=text)
    return block_rows(table) if file.headless else table


def _read(file: BlockFile, source: PublicTable, *, text: bool) -> pa.Table:
    names = dict(file.columns) | ({name: name for name in ROW_COLUMNS} if file.headless else {})
    types = {
        name: pa.string() if text or column in LETTERS else pa.int64() if column == "GEOID" else pa.int32()
        for column, name in names.items()
    }
    try:
        (table,) = source.batches(types)
        table = table.rename_columns(list(names))
        may_be_blank = text or table[BLOCK_COLUMNS[0]].null_count  # columns of numbers need no cast
        return table.filter(pa.array(~blank)) if may_be_blank and (blank := blank_rows(table)).any() else table
    except pa.ArrowInvalid as error:
        if text:
            raise BadGeography(f"not a table: {error}") from error
        return _integers(_read(file, source, text=True), names)


def _integers(table: pa.Table, names: Mapping[str, str] = NO_NAMES) -> pa.Table:
    """Return a table of text as integers, blanks as null. names: the file's names of the columns.

    Raises BadGeography for the first value that is not a number.
    """
    arrays = {}
    for column in table.column_names:
        numbers, wrong = whole_numbers(table[column])
        if column in LETTERS:
            arrays[column] = table[column]
            continue
        if wrong.any():
            row = int(wrong.argmax())
            block = "".join(str(table[part][row].as_py()) for part in BLOCK_COLUMNS)
            name = names.get(column, column)
            raise BadGeography(f"block {block} has {name} '{table[column][row].as_py()}', which is not a number")
        arrays[column] = pa.array(numbers, mask=np.asarray(is_blank(table[column])))
    return pa.table(arrays)
