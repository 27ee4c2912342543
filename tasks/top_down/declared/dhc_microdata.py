"""Microdata of the DHC's persons or units, with the fields of the Bureau's microdata detail file in its order.

A row for each block and cell with its COUNT, sorted by block in spine order, then cell; vacant units and group quarters
follow a block's households.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from spine.declaration.declaration import Declaration
from spine.geography import IntArray, geocode16
from spine.top_down import Estimates
from tasks.lifecycle.process import return_memory
from tasks.lifecycle.staging import write_tables
from tasks.top_down.declared.dhc_fields import OF_RELATIONSHIP, microdata_of, microdata_table
from tasks.top_down.declared.dhc_unit_fields import Units, unit_columns, with_other_units
from tasks.top_down.declared.public_tables import Declared
from tasks.top_down.declared.source import ALL, DeclarationSource
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.records import words
from tasks.top_down.release.microdata import ROWS_EACH, microdata_rows


def write_microdata(own: DeclarationSource, staged: Path) -> None:
    """Write the microdata of all blocks."""
    return_memory()  # of writing levels
    blocks = load_estimates(own, own.name, ALL, own.declared.hierarchy.spine.levels[-1])
    write_tables(staged, microdata(own.declared, blocks), microdata_table(own.declared.declaration).parquet)


def microdata(declared: Declared, blocks: Estimates) -> Iterator[pa.Table]:
    """Yield the microdata of blocks, some rows at a time."""
    declaration = declared.declaration
    key = np.array([key.split("|") for key in declared.hierarchy.keys.tolist()], np.int64)
    geocode, kind = geocode16(*key.T), microdata_of(declaration) or "persons"
    if kind == "units":
        rows = with_other_units(blocks, declaration.product.shape, declared.copied)
    else:
        rows = Units(blocks.row, *(blocks.cell,) * 3, blocks.count)
    for first in range(0, max(1, len(rows.row)), ROWS_EACH):
        part = Units(*(each[first : first + ROWS_EACH] for each in rows))
        own = unit_columns(part, declaration) if kind == "units" else _person_columns(part.cell, declaration)
        yield microdata_rows(kind, geocode[part.row], own, part.number)


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
