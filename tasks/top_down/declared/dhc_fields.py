"""Which microdata a release of the DHC has, and the fields of persons in the order of the Bureau's file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import numpy as np

from spine.declaration.declaration import Declaration
from spine.declaration.hierarchy import Hierarchy
from spine.declaration.product import cell_values
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.releases.description import Column, Table
from tasks.top_down.declared.dhc_unit_fields import is_households, units_table
from tasks.top_down.release.tables import PERSON, RECORDS, axis_column

FILE = "mdf/persons.parquet"
VALUES = {  # by column of the records those of each cell
    "RELGQ": [str(code) for code in range(42)],
    "QSEX": ["1", "2"],
    "QAGE": [str(age) for age in range(116)],
    "CENHISP": ["1", "2"],
    "CENRACE": [f"{race:02d}" for race in range(1, 64)],
}
HOUSEHOLD = 18  # relationships in households, then types of group quarters
TYPES = [*range(101, 107), 201, 202, 203, 301, *range(401, 406), 501, 601, 602, 701, 801, 802, 900, 901, 997]
INSTITUTIONAL = 15  # types of quarters that are institutional
RELSHIP = ["20", "20", *map(str, range(21, 37)), *["37"] * INSTITUTIONAL, *["38"] * (len(TYPES) - INSTITUTIONAL)]
OF_RELATIONSHIP = {  # by column, the code of each relationship or type
    "RTYPE": ["3"] * HOUSEHOLD + ["5"] * len(TYPES),
    "GQTYPE": ["000"] * HOUSEHOLD + [*map(str, TYPES)],
    "RELSHIP": RELSHIP,
    "LIVE_ALONE": ["1"] + ["2"] * (HOUSEHOLD - 1) + ["9"] * len(TYPES),
}


def microdata_of(declaration: Declaration) -> Literal["persons", "units"] | None:
    """Return whose microdata a release has: its cells are the DHC's, in their order, and its blocks are released."""
    axes = [(axis.column, cell_values(axis)) for axis in declaration.form.axes.values()]
    are_persons = axes == [(column, [(value,) for value in values]) for column, values in VALUES.items()]
    of_blocks = declaration.form.leaves.key == BLOCK_COLUMNS and declaration.levels[-1].columns == BLOCK_COLUMNS[-1:]
    blocks = declaration.levels[-1].name
    if not of_blocks or blocks not in (declaration.form.histograms or (blocks,)):
        return None
    return "persons" if are_persons else "units" if is_households(declaration) else None


def unwritable_blocks(hierarchy: Hierarchy) -> Iterator[str]:
    """Yield the keys of leaves, joined by `|`, that the microdata's geocodes cannot hold."""
    if microdata_of(hierarchy.declaration):
        wrong = np.zeros(hierarchy.spine.blocks, bool)
        for name, digits in zip(BLOCK_COLUMNS, (2, 3, 6, 4), strict=True):
            code, own = re.compile(f"[0-9]{{1,{digits}}}"), hierarchy.leaves[name]
            wrong |= np.array([not code.fullmatch(text) for text in own.distinct.tolist()], bool)[own.number]
        yield from (hierarchy.key(leaf) for leaf in np.flatnonzero(wrong[hierarchy.spine.order]).tolist())


def microdata_table(declaration: Declaration) -> Table:
    """Return the description of the microdata."""
    if microdata_of(declaration) == "units":
        return units_table(declaration)
    relationship, *axes = declaration.product.axes
    texts = dict(zip(RELSHIP[1:HOUSEHOLD], ["householder", *relationship.labels[2:HOUSEHOLD]], strict=True))
    texts |= {"37": "in institutional group quarters", "38": "in noninstitutional group quarters"}
    types = dict(zip(OF_RELATIONSHIP["GQTYPE"][HOUSEHOLD:], relationship.labels[HOUSEHOLD:], strict=True))
    columns = (
        *PERSON,
        Column("GQTYPE", "code", "type of group quarters", {"000": "household"} | types),
        Column("RELSHIP", "code", "relationship to the householder", texts),
        *map(axis_column, axes),
        Column("LIVE_ALONE", "code", "lives alone", {"1": "yes", "2": "no", "9": "in group quarters"}),
        RECORDS,
    )
    return Table("Microdata of persons", columns, parquet=FILE, key=("*",))
