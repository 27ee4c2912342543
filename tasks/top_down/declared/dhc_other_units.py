"""What a release of the DHC's housing units has of a block besides its households by tenure, for their microdata."""

from __future__ import annotations

import numpy as np

from spine.declaration.declaration import read_declaration
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
    row, cell, number = np.array(counts, np.int64).reshape(-1, 3).T
    tenures, statuses = declaration.product.shape
    by_cell = np.zeros((len(next(iter(leaves.values()))), tenures, statuses), np.int64)
    by_cell[row, cell // statuses, cell % statuses] = number
    vacant = {column: by_cell[:, 0, int(status)] for status, column in VACANT.items()}
    return {NO_RENT: by_cell[:, -1, 0], **vacant}, digest
