"""Tables of blocks: the geography that synthetic persons live in, and its GRF-C.txt."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.lifecycle.errors import Refused

BLOCK_COLUMNS = {"TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLK": 4}
# GRF-C's columns and widths: those that the run needs, then those that the geographic spine can use.
GRF_COLUMNS = BLOCK_COLUMNS | {
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
# Names in block tables, where they differ.
_TABLE_NAMES = {"STATE": "TABBLKST", "COUNTY": "TABBLKCOU", "TRACT": "TABTRACTCE", "BLOCK": "TABBLK"}
_TABLE_NAMES |= {"BLKGRP": "TABBLKGRPCE", "COUSUBFP_FROM_VTD": "COUSUBFP"}
_TABLE_NAMES |= {"SDUNI": "SDUNILEA", "SDSEC": "SDSECLEA", "SDELM": "SDELMLEA"}


@dataclass(frozen=True)
class Blocks:
    """Blocks in geographic order with their populations.

    columns: {GRF-C name: fixed-width bytes of shape (b,)}; all of BLOCK_COLUMNS, PLACEFP and AIANNHCE at least.
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

    def by_state(self) -> dict[str, Blocks]:
        """The blocks of each state, by its code."""
        state = self.columns["TABBLKST"]
        return {code.decode(): self.take(state == code) for code in np.unique(state)}

    def take(self, rows: np.ndarray | slice) -> Blocks:
        """The blocks in `rows` (a mask, row numbers or a slice)."""
        return Blocks({name: column[rows] for name, column in self.columns.items()}, self.population[rows])


def grf_header(blocks: Blocks) -> bytes:
    """The header line of GRF-C.txt."""
    return "|".join(blocks.columns).encode() + b"\n"


def grf_rows(blocks: Blocks) -> bytes:
    """The lines of GRF-C.txt under its header, one a block."""
    return delimited([*blocks.columns.values()], end=b"\n").tobytes()


def delimited(columns: list[np.ndarray], *, end: bytes) -> np.ndarray:
    """Rows of text: fixed-width columns with `|` between them and `end` behind; `S` of shape (n,)."""
    rows = len(columns[0])
    pieces = [piece for column in columns for piece in (column, np.full(rows, b"|"))]
    pieces[-1] = np.full(rows, end)
    matrix = np.hstack([np.ascontiguousarray(piece).view(np.uint8).reshape(rows, -1) for piece in pieces])
    return matrix.view(f"S{matrix.shape[1]}").reshape(rows)


def read_blocks(path: Path) -> Blocks:
    """Read a block table with a population (CSV, compressed or not). Raises Refused with one line.

    Needs STATE, COUNTY, TRACT, BLOCK and POP; takes PLACEFP, AIANNHCE, BLKGRP, COUSUBFP (or COUSUBFP_FROM_VTD), SDUNI,
    SDSEC and SDELM where it has them, or any of these by its name in GRF-C. Blank means none: written as nines.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False).rename(columns=_TABLE_NAMES)
    except FileNotFoundError as error:
        raise Refused(f"{path} does not exist") from error
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise Refused(f"{path} is no block table: {error}") from error
    if "POP" not in table:
        raise Refused(f"{path} has no column POP: persons cannot be made without the blocks' populations")
    if missing := [name for name in BLOCK_COLUMNS if name not in table]:
        raise Refused(f"{path} has no column {_table_name(missing[0])}")
    _refuse(path, "POP", table["POP"], ~table["POP"].str.fullmatch("[0-9]{1,9}"))
    table = table.assign(PLACEFP=table.get("PLACEFP", ""), AIANNHCE=table.get("AIANNHCE", ""))
    columns = {}
    for name, width in GRF_COLUMNS.items():
        if name in table:
            values = table[name] if name in BLOCK_COLUMNS else table[name].replace("", "9" * width)
            _refuse(path, _table_name(name), values, ~values.str.fullmatch(f"[0-9A-Z]{{{width}}}"))
            columns[name] = values.to_numpy().astype(f"S{width}")
    blocks = Blocks(columns, table["POP"].astype(np.int64).to_numpy())
    codes = delimited([columns[name] for name in BLOCK_COLUMNS], end=b"\n")
    order = np.argsort(codes, kind="stable")
    repeated = np.zeros(len(blocks), bool)
    repeated[order[1:]] = codes[order[1:]] == codes[order[:-1]]
    _refuse(path, "BLOCK", table["TABBLK"], repeated, "stands twice")
    if not blocks.persons:
        raise Refused(f"{path}: nobody lives in its {len(blocks):,} blocks")
    return blocks.take(order)


def _table_name(name: str) -> str:
    return next((table for table, grf in _TABLE_NAMES.items() if grf == name), name)


def _refuse(
    path: Path, column: str, values: pd.Series, bad: np.ndarray | pd.Series, what: str = "is not valid"
) -> None:
    if np.any(bad):
        first = int(np.argmax(bad))
        raise Refused(f"{path}, row {first + 1}: {column} {values.iloc[first]!r} {what}")
