"""What a release of the DHC's housing units has of a block besides its households by tenure, for their microdata."""

from __future__ import annotations

import numpy as np

from spine.declaration.declaration import read_declaration
from spine.declaration.released import Counts
from spine.dhc_households import NO_RENT, VACANT, units_declaration
from spine.geography import IntArray
from spine.settings import Jurisdiction
from tasks.top_down.declared.equal import Columns, read_equal


def other_units(folder: str, jurisdiction: Jurisdiction, leaves: Columns) -> tuple[dict[str, IntArray], str]:
    """Return by column the units without payment of rent, and the vacant ones by status, of each leaf.

    And the release's digest. Raises Refused as `read_equal`.
    """
    raw = units_declaration(jurisdiction)
    raw["equal"] = [{"partition": "ten*vacs", "release": folder}]
    declaration, _ = read_declaration(raw)
    assert declaration is not None
    counts, digest = read_equal(declaration, 0, folder, leaves)
    _, statuses = declaration.product.shape
    cells = {NO_RENT: declaration.product.cells - statuses}  # the last tenure, of no vacant unit
    cells |= {column: int(status) for status, column in VACANT.items()}
    return {column: _of_cell(counts, cell, len(next(iter(leaves.values())))) for column, cell in cells.items()}, digest


def _of_cell(counts: Counts, cell: int, leaves: int) -> IntArray:
    own, found = counts.part == cell, np.zeros(leaves, np.int64)
    found[counts.row[own]] = counts.number[own]
    return found
