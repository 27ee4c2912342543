"""One block table of any format: its header, and its rows with codes as integers or as text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spine.geography import BadGeography
from tasks.inputs.blocks import assignment
from tasks.inputs.blocks.columns import GRFC, PL94, Columns, by_name
from tasks.inputs.blocks.pl94 import block_rows, is_geographic_header
from tasks.inputs.files import open_file
from tasks.inputs.tables import HEADER_BYTES
from tasks.lifecycle.errors import Refused

ROW_COLUMNS = ("SUMLEV", "FUNCSTAT", "LOGRECNO")  # of a geographic header: what its rows are joined by


@dataclass(frozen=True)
class BlockFile:
    """A block table that is not read yet.

    names: of all its columns, in order. format: the columns that its format may have. columns: those it has.
    """

    path: str
    names: tuple[str, ...]
    format: Columns
    columns: Columns

    def __str__(self) -> str:
        """Return the name of the file for error messages."""
        member, _, archive = self.path.partition("::")
        return f"{member.removeprefix('zip://')} in {archive}" if archive else self.path


def recognize(path: str, columns: Columns | None = None) -> BlockFile:
    """Return the table at a path. columns: an explicit mapping; without it the file's name and header decide.

    Raises Refused where the columns that name a block are missing.
    """
    if is_geographic_header(path):
        names, known = list(PL94.positions), PL94
    elif assignment.is_layer(path):
        names = assignment.header(path)
        known = by_name(names)
    else:
        names, delimiter = _header(path)
        grfc = {GRFC.state, GRFC.block} <= set(names)
        known = replace(GRFC, delimiter=delimiter) if grfc else by_name(names, delimiter)
    known = columns or known
    file = BlockFile(path, tuple(names), known, known.within(names))
    for name in (known.state, known.county, known.tract, known.block):
        if name not in names:
            raise Refused(
                f"{file} has no column {name}, so it is not a block table: GRF-C, P.L. 94-171, block assignment files "
                "or a CSV with STATE, COUNTY, TRACT and BLOCK; das spine --columns maps other names"
            )
    return file


def _header(path: str) -> tuple[list[str], str]:
    """Return the names in a file's header, and the delimiter between them."""
    with open_file(path, compression="infer") as file:
        line = file.readline(HEADER_BYTES).decode("utf-8-sig", "replace").strip("\r\n")
    delimiter = "|" if "|" in line else ","
    return [name.strip('"') for name in line.split(delimiter)], delimiter


def read_rows(file: BlockFile, *, text: bool = False) -> tuple[pa.Table, Columns]:
    """Return the named columns of a table's blocks, and what they are called; codes as integers, or as `text`.

    A blank is null among integers. Of P.L. 94-171 the blocks' rows, with the statuses of their place and subdivision.

    Raises BadGeography for a value that is no number, where integers are asked for.
    """
    if assignment.is_layer(file.path):
        table = assignment.read_assignment(file.path)
        return (table if text else _integers(table, file.columns)), file.columns
    table = _read(file, text=text)
    return block_rows(table, file.columns) if file.columns.positions else (table, file.columns)


def _read(file: BlockFile, *, text: bool) -> pa.Table:
    columns = file.columns
    names = list(dict.fromkeys([*columns.named(), *(ROW_COLUMNS if columns.positions else ())]))
    letters = {columns.cousub_status, columns.place_status, "SUMLEV", "FUNCSTAT"}
    try:
        with open_file(file.path, compression="infer") as opened:
            return pyarrow.csv.read_csv(
                opened,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(columns.positions) or None, encoding="latin1" if columns.positions else "utf8"
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=columns.delimiter, quote_char='"' if columns.delimiter == "," else False
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=names,
                    column_types={
                        name: pa.string() if text or name in letters else _integer(name, columns) for name in names
                    },
                ),
            )
    except pa.ArrowInvalid as error:
        if text:
            raise BadGeography(f"not a table: {error}") from error
        _name_bad_value(_read(file, text=True), columns, letters)
        raise BadGeography(str(error)) from error


def _integer(name: str, columns: Columns) -> pa.DataType:
    return pa.int64() if name in (columns.geoid, columns.prim) else pa.int32()


def _integers(table: pa.Table, columns: Columns) -> pa.Table:
    """Return a table of text with its blanks null and the rest as integers."""
    _name_bad_value(table, columns, set())
    arrays = [pc.if_else(pc.equal(column, ""), None, column).cast(pa.int32()) for column in table.columns]
    return pa.table(arrays, names=table.column_names)


def _name_bad_value(table: pa.Table, columns: Columns, text: set[str | None]) -> None:
    for name in table.column_names:
        if name in text:
            continue
        column: Any = table[name]
        wrong = pc.invert(pc.match_substring_regex(column, r"^\s*-?[0-9]*\s*$"))
        rows = np.flatnonzero(wrong.to_numpy())
        if len(rows):
            row = table.slice(int(rows[0]), 1)
            block = "".join(
                str(row[c][0].as_py()) for c in (columns.state, columns.county, columns.tract, columns.block)
            )
            raise BadGeography(f"block {block} has {name} '{column[int(rows[0])].as_py()}', which is not a number")
