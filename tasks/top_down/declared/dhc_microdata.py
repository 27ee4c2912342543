"""Microdata of the DHC's persons, with the fields of the Bureau's microdata detail file in its order.

A row for each block and cell with its COUNT, sorted by block in spine order, then cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from spine.geography import geocode16
from tasks.lifecycle.staging import write_tables
from tasks.top_down.declared.dhc_fields import FILE, OF_RELATIONSHIP
from tasks.top_down.declared.source import ALL, DeclarationSource
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.records import block_columns, words
from tasks.top_down.release.microdata import BUILD, ROWS_EACH


def write_microdata(own: DeclarationSource, staged: Path) -> None:
    """Write the microdata of all blocks."""
    declared, product = own.declared, own.declared.declaration.product
    key = np.array([key.split("|") for key in declared.hierarchy.keys.tolist()], np.int64)
    geocode, level = geocode16(*key.T), declared.hierarchy.spine.levels[-1]

    def tables() -> Iterator[pa.Table]:
        blocks = load_estimates(own, own.name, ALL, level)
        row = blocks.row
        for first in range(0, max(1, len(row)), ROWS_EACH):
            part = slice(first, first + ROWS_EACH)
            relationship, *at = np.unravel_index(blocks.cell[part], product.shape)
            same = np.zeros(len(relationship), np.int8)
            of_relationship = {name: words(codes, relationship) for name, codes in OF_RELATIONSHIP.items()}
            alone = of_relationship.pop("LIVE_ALONE")
            yield pa.table(
                {
                    "SCHEMA_TYPE_CODE": words(["MPD"], same),
                    "SCHEMA_BUILD_ID": words([BUILD], same),
                    **block_columns(geocode[row[part]]),
                    "EPNUM": words(["999999999"], same),
                    **of_relationship,
                    **{axis.column: words(axis.codes, cell) for axis, cell in zip(product.axes[1:], at, strict=True)},
                    "LIVE_ALONE": alone,
                    "COUNT": blocks.count[part],
                }
            )

    write_tables(staged, tables(), FILE)
