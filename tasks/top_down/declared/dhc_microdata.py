"""Microdata of the DHC's persons or units, with the fields of the Bureau's microdata detail file in its order.

A row for each block and cell with its COUNT, sorted by block in spine order, then cell; vacant units and group quarters
follow a block's households.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from spine.declaration.declaration import Declaration
from spine.geography import IntArray, geocode16
from spine.top_down import Estimates
from tasks.lifecycle.staging import write_tables
from tasks.memory import return_memory
from tasks.top_down.declared.dhc_fields import (
    OF_RELATIONSHIP,
    Units,
    microdata_of,
    microdata_table,
    unit_columns,
    with_other_units,
)
from tasks.top_down.declared.public_tables import Declared
from tasks.top_down.declared.source import DeclarationSource
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.records import words
from tasks.top_down.release.microdata import ROWS_EACH, microdata_rows

BLOCKS_EACH = 1 << 12  # whose estimates are held at once


def write_microdata(own: DeclarationSource, staged: Path) -> None:
    """Write the microdata of all blocks."""
    return_memory()  # of writing levels
    spine = own.declared.hierarchy.spine
    ends = pairwise([*range(0, spine.blocks, BLOCKS_EACH), spine.blocks])
    pieces = (load_estimates(own, own.branch, spine.levels[-1], *each) for each in ends)
    write_tables(staged, microdata(own.declared, pieces), microdata_table(own.declared.declaration).parquet)


def microdata(declared: Declared, pieces: Iterable[Estimates]) -> Iterator[pa.Table]:
    """Yield the microdata of blocks, some rows at a time. pieces: ranges of blocks, in order."""
    declaration, kind = declared.declaration, microdata_of(declared.declaration) or "persons"
    for part in _rows(declared, kind, pieces):
        own = unit_columns(part, declaration) if kind == "units" else _person_columns(part.cell, declaration)
        block, of_row = np.unique(part.row, return_inverse=True)
        geocode = geocode16(*(np.array(codes, np.int64) for codes in declared.hierarchy.keys(block)))
        yield microdata_rows(kind, geocode[of_row], own, part.number)


def _rows(declared: Declared, kind: str, pieces: Iterable[Estimates]) -> Iterator[Units]:
    """Yield what microdata have rows of, ROWS_EACH at a time wherever pieces end; once at the least."""
    none, is_first = np.zeros(0, np.int64), True
    waiting = Units(none, none, none, none, none)
    for blocks in pieces:
        copied = {name: own[blocks.first : blocks.last] for name, own in declared.copied.items()}
        if kind == "units":
            rows = with_other_units(blocks, declared.declaration.product.shape, copied)
        else:
            rows = Units(blocks.row, *(blocks.cell,) * 3, blocks.count)
        rows = rows._replace(row=rows.row + blocks.first)
        waiting = Units(*map(np.concatenate, zip(waiting, rows, strict=True)))
        while len(waiting.row) >= ROWS_EACH:
            yield Units(*(each[:ROWS_EACH] for each in waiting))
            waiting, is_first = Units(*(each[ROWS_EACH:] for each in waiting)), False
    if is_first or len(waiting.row):
        yield waiting


def _person_columns(cell: IntArray, declaration: Declaration) -> dict[str, pa.Array]:
    product = declaration.product
    relationship, *at = np.unravel_index(cell, product.shape)
    of_relationship = {name: words(codes, relationship) for name, codes in OF_RELATIONSHIP.items()}
    alone = of_relationship.pop("LIVE_ALONE")
    return {
        **of_relationship,
        **{axis.column: words(axis.codes, own) for axis, own in zip(product.axes[1:], at, strict=True)},
        "LIVE_ALONE": alone,
    }
