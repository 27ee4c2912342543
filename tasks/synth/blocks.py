"""Tables of blocks: the geography in which synthetic persons live, and its GRF-C.txt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from tasks.errors import Refused
from tasks.geography.blocks.files import block_files
from tasks.geography.blocks.tables import read_rows, recognize
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_WIDTHS
from tasks.records.files import refuse_unreadable

# GRF-C's columns and widths: those that a run needs, then those that the geographic spine can use.
GRF_COLUMNS = {
    **dict(zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True)),
    "PLACEFP": 5,
    "AIANNHCE": 4,
    "TABBLKGRPCE": 1,
    "COUSUBFP": 5,
    "SDUNILEA": 5,
    "SDSECLEA": 5,
    "SDELMLEA": 5,
    "COUSUBFS": 1,
    "PLACEFS": 1,
}


@dataclass(frozen=True)
class BlockTable:
    """Blocks in geographic order with their populations.

    columns: {GRF-C name: fixed-width bytes of shape (b,)}; at least all of BLOCK_COLUMNS, PLACEFP and AIANNHCE.
    population: int64 (b,).
    """

    columns: dict[str, np.ndarray]
    population: np.ndarray

    def __len__(self) -> int:
        return len(self.population)

    @property
    def persons(self) -> int:
        """Persons in all blocks."""
        return int(self.population.sum())

    @property
    def codes(self) -> np.ndarray:
        """The 15 digits of each block."""
        return np.asarray(reduce(np.char.add, (self.columns[name] for name in BLOCK_COLUMNS)))

    def take(self, rows: np.ndarray | slice) -> BlockTable:
        """Return the blocks in `rows` (a mask, row numbers or a slice)."""
        return BlockTable({name: column[rows] for name, column in self.columns.items()}, self.population[rows])


def grf_text(blocks: BlockTable, *, header: bool) -> bytes:
    """Return the lines of GRF-C.txt, one per block, with or without the header."""
    columns = pa.table({name: pa.array(column).view(pa.string()) for name, column in blocks.columns.items()})
    options = pa.csv.WriteOptions(include_header=header, delimiter="|", quoting_style="none", quoting_header="none")
    stream = pa.BufferOutputStream()
    pa.csv.write_csv(columns, stream, options)
    return bytes(stream.getvalue())


def digits(numbers: np.ndarray, width: int) -> np.ndarray:
    """Return numbers as text of `width` digits, `S` of their shape. Raises ValueError if one is too long."""
    if numbers.max(initial=0) >= 10**width:
        raise ValueError(f"{numbers.max()} has more than {width} digits")
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8).view(f"S{width}").ravel()


def read_blocks(source: Path, *, populated: bool = True) -> BlockTable:
    """Read a geography with populations (docs/spec/files.md#block-tables). Blank codes become nines, for "none".

    populated: refuse a table without populations; otherwise such populations are -1. Raises Refused with one line.
    """
    try:
        with refuse_unreadable(source):
            parts = [_read_file(path, populated) for path in block_files(str(source))]
    except ValueError as error:  # BadGeography is one
        raise Refused(f"{source} is not a block table: {error}") from error
    columns = {
        name: np.concatenate([part.columns[name] for part in parts])
        for name in GRF_COLUMNS
        if all(name in part.columns for part in parts)
    }
    blocks = BlockTable(columns, np.concatenate([part.population for part in parts]))
    codes = blocks.codes
    order = np.argsort(codes, kind="stable")
    repeated = np.flatnonzero(codes[order[1:]] == codes[order[:-1]])
    if len(repeated):
        block = codes[order[repeated[0]]].decode()
        raise Refused(f"{source}: block {block} appears twice")
    if not blocks.persons:
        raise Refused(f"{source}: its {len(blocks):,} blocks have no population")
    return blocks.take(order)


def _read_file(path: str, populated: bool) -> BlockTable:
    """Return the blocks of one table, in its order."""
    file = recognize(path)
    if populated and "POP" not in file.columns:
        raise Refused(
            f"{file} has no column POP: persons cannot be made without the blocks' populations, "
            "which P.L. 94-171 files (??2020.pl.zip) have"
        )
    table = read_rows(file, text=True)
    columns = {}
    for name, width in GRF_COLUMNS.items():
        if name in table.column_names:
            values = table[name].to_pandas()
            values = values if name in BLOCK_COLUMNS else values.replace("", "9" * width)
            _refuse(str(file), file.columns.get(name, name), values, f"[0-9A-Z]{{{width}}}")
            columns[name] = values.to_numpy().astype(f"S{width}")
        elif name in ("PLACEFP", "AIANNHCE"):
            columns[name] = np.full(len(table), b"9" * width)
    if "POP" not in file.columns:
        return BlockTable(columns, np.full(len(table), -1))
    persons = table["POP"].to_pandas()
    _refuse(str(file), file.columns["POP"], persons, "[0-9]{1,9}")
    return BlockTable(columns, persons.astype(np.int64).to_numpy())


def _refuse(path: str, column: str, values: pd.Series, valid: str) -> None:
    bad = ~values.str.fullmatch(valid)
    if bad.any():
        first = int(np.argmax(bad))
        raise Refused(f"{path}, row {first + 1}: {column} {values.iloc[first]!r} is not valid")
