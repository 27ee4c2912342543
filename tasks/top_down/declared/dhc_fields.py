"""The fields of the DHC's microdata in the order of the Bureau's microdata detail file, and which a release has.

Those of a person or a household are functions of its cell; a vacant unit has a status and group quarters a type, and no
more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from spine.declaration.declaration import Declaration, read_declaration
from spine.declaration.form import AxisForm
from spine.declaration.hierarchy import Hierarchy
from spine.declaration.product import cell_values
from spine.declaration.released import Counts, ReleasedSums
from spine.dhc_households import (
    COUPLES,
    NO_CHILDREN,
    NO_PARTNER,
    NO_RENT,
    OTHER_UNITS,
    TENURES,
    UNITS,
    VACANCIES,
    VACANT,
    HouseholdType,
    household_axes,
    household_types,
    units_declaration,
)
from spine.geography import IntArray, Integers
from spine.settings import Jurisdiction
from spine.top_down import Estimates
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.releases.description import Column, Table
from tasks.top_down.declared.equal import Columns, read_equal
from tasks.top_down.input.records import words
from tasks.top_down.release.tables import BLOCK, PERSON, RECORDS, axis_column

UNITS_FILE = "mdf/units.parquet"
LIVES = {"1": "yes", "0": "no"}
CHILDREN = {"1": "under 6 only", "2": "6 to 17 only", "3": "under 6 and 6 to 17", "4": "none"}
WIDTH = {"GQTYPE": 3, "HHT2": 2, "HHRACE": 2}  # digits of codes; others have one
FIELDS: dict[str, tuple[str, dict[str, str]]] = {  # what they are, and codes but 0
    "RTYPE": ("housing unit or group quarters", {"2": "housing unit", "4": "group quarters"}),
    "GQTYPE": ("type of group quarters, as of persons; 000 for a housing unit", {}),
    "TEN": ("tenure", TENURES),
    "VACS": ("vacancy status", VACANCIES),
    "HHSIZE": ("persons; 7 is 7 or more", {str(size): str(size) for size in range(1, 8)}),
    "HHT": (
        "household or family type",
        {
            "1": "married couple",
            "2": "other family, male householder",
            "3": "other family, female householder",
            "4": "nonfamily, male householder, alone",
            "5": "nonfamily, male householder, not alone",
            "6": "nonfamily, female householder, alone",
            "7": "nonfamily, female householder, not alone",
        },
    ),
    "HHT2": (
        "household type with cohabiting couples",
        {
            "01": "married couple, own children under 18",
            "02": "married couple, no own children under 18",
            "03": "cohabiting couple, own children under 18",
            "04": "cohabiting couple, no own children under 18",
            **{
                f"{first + at:02d}": f"{sex} householder, no spouse or partner, {rest}"
                for first, sex in ((5, "female"), (9, "male"))
                for at, rest in enumerate(
                    ("alone", "own children under 18", "relatives, no own children under 18", "nonrelatives only")
                )
            },
        },
    ),
    "CPLT": ("couple", {str(code): words for code, words in COUPLES.items()}),
    "UPART": (
        "unmarried partner",
        {
            "1": "male householder, male partner",
            "2": "male householder, female partner",
            "3": "female householder, female partner",
            "4": "female householder, male partner",
            "5": "no unmarried partner",
        },
    ),
    "MULTG": ("generations, of three persons or more", {"1": "up to two", "2": "three or more"}),
    "HHLDRAGE": ("age of the householder", {}),
    "HHSPAN": ("Hispanic origin of the householder", {}),
    "HHRACE": ("race of the householder", {}),
    "PAOC": ("own children under 18", CHILDREN),
    "P18": ("anybody under 18", LIVES),
    "P60": ("anybody of 60 or over", LIVES),
    "P65": ("anybody of 65 or over", LIVES),
    "P75": ("anybody of 75 or over", LIVES),
    "PAC": ("children under 18 but householder, spouse and partner", CHILDREN),
    "HHSEX": ("sex of the householder", {}),
}
AXES = {"HHLDRAGE": "hhage", "HHSPAN": "hhspan", "HHRACE": "hhrace", "HHSEX": "hhsex"}  # whose codes they have
HOUSEHOLD, VACANT_UNIT, QUARTERS = range(3)  # kinds of units
MOST_CODES = 1000  # of a kind: they have three digits at most
TENURE = [*household_axes()].index("ten")
RENTED = len(household_axes()["ten"]["values"]) - 1
FACILITY = re.compile("gq[0-9]{3}")
HOUSEHOLD_TYPES = np.array(household_types())
FILE = "mdf/persons.parquet"
VALUES = {  # by column of the records those of each cell
    "RELGQ": [str(code) for code in range(42)],
    "QSEX": ["1", "2"],
    "QAGE": [str(age) for age in range(116)],
    "CENHISP": ["1", "2"],
    "CENRACE": [f"{race:02d}" for race in range(1, 64)],
}
RELATIONSHIPS = 18  # relationships in households, then types of group quarters
TYPES = [*range(101, 107), 201, 202, 203, 301, *range(401, 406), 501, 601, 602, 701, 801, 802, 900, 901, 997]
INSTITUTIONAL = 15  # types of quarters that are institutional
RELSHIP = ["20", "20", *map(str, range(21, 37)), *["37"] * INSTITUTIONAL, *["38"] * (len(TYPES) - INSTITUTIONAL)]
OF_RELATIONSHIP = {  # by column, the code of each relationship or type
    "RTYPE": ["3"] * RELATIONSHIPS + ["5"] * len(TYPES),
    "GQTYPE": ["000"] * RELATIONSHIPS + [*map(str, TYPES)],
    "RELSHIP": RELSHIP,
    "LIVE_ALONE": ["1"] + ["2"] * (RELATIONSHIPS - 1) + ["9"] * len(TYPES),
}


class Units(NamedTuple):
    """Units that are alike, all (n,): the row of their block, their kind, the cell of a household, and their number.

    code: TEN of a household, VACS of a vacant unit, GQTYPE of group quarters.
    """

    row: IntArray
    kind: IntArray
    cell: IntArray
    code: IntArray
    number: IntArray


def is_households(declaration: Declaration) -> bool:
    """Return whether a declaration has the cells of the DHC's households, in their order, and copies other units."""
    axes = [(axis.column, cell_values(axis)) for axis in declaration.form.axes.values()]
    own, copied = (*OTHER_UNITS, UNITS), declaration.form.copied
    facilities = copied[len(own) :]
    return axes == _cells() and copied[: len(own)] == own and all(map(FACILITY.fullmatch, facilities))


@cache
def _cells() -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return the columns of households' records with the values of each cell."""
    axes = map(AxisForm.model_validate, household_axes().values())
    return [(axis.column, cell_values(axis)) for axis in axes]


def with_other_units(blocks: Estimates, shape: tuple[int, ...], copied: Mapping[str, Integers]) -> Units:
    """Return the households of blocks by TEN, vacant units and group quarters, by block and in this order.

    copied: units without payment of rent, which are the last renters of a block as in the production program's files
    (there types are in another order), vacant units by status, and group quarters by type.
    """
    row, count, rents = blocks.row, blocks.count, np.unravel_index(blocks.cell, shape)[TENURE] == RENTED
    before = np.append(0, np.cumsum(count * rents))
    pay = before[blocks.starts[1:]] - copied[NO_RENT]  # in all blocks up to the own, less those who do not
    paid = np.where(rents, np.clip(pay[row] - before[:-1], 0, count), count)
    tenure = np.unravel_index(blocks.cell, shape)[TENURE] + 1
    parts = [(row, HOUSEHOLD, blocks.cell, tenure, paid), (row, HOUSEHOLD, blocks.cell, tenure + 1, count - paid)]
    for column, number in copied.items():
        if column not in (NO_RENT, UNITS):
            kind, code = (QUARTERS, column[2:]) if FACILITY.fullmatch(column) else (VACANT_UNIT, column[-1])
            every = np.arange(len(number))
            parts.append((every, kind, every * 0, every * 0 + int(code), number))
    units = Units(*(np.concatenate([np.broadcast_to(each[at], len(each[0])) for each in parts]) for at in range(5)))
    order = np.lexsort((units.code, units.cell, units.kind, units.row))
    return Units(*(each[order[units.number[order] > 0]] for each in units))


def contradicting_blocks(declaration: Declaration, copied: Mapping[str, Integers], released: ReleasedSums) -> IntArray:
    """Return the leaves with more units without rent than renters, or other units than households and vacant ones."""
    if not is_households(declaration):
        return np.zeros(0, np.int64)
    households = released.of(-1, 0, len(copied[UNITS]))[0]
    units = households.sum(axis=1) + sum(copied[column].astype(np.int64) for column in VACANT.values())
    return np.flatnonzero((copied[NO_RENT] > households[:, RENTED]) | (units != copied[UNITS]))


def unit_columns(units: Units, declaration: Declaration) -> dict[str, pa.Array]:
    """Return the fields of units, made once for those that are alike."""
    alike = (units.kind * MOST_CODES + units.code) * declaration.product.cells + units.cell
    _, first, place = np.unique(alike, return_index=True, return_inverse=True)
    fields, of_unit = _fields(Units(*(each[first] for each in units)), declaration), pa.array(place)
    return {name: column.take(of_unit) for name, column in fields.items()}


def _fields(units: Units, declaration: Declaration) -> dict[str, pa.Array]:
    product = declaration.product
    at = dict(zip(product.names, np.unravel_index(units.cell, product.shape), strict=True))
    own, female = HouseholdType(*HOUSEHOLD_TYPES[at["hhtype"]].T), at["hhsex"] == 1  # its fields are columns
    married, partner, alone, children = own.couple < 3, own.couple < NO_PARTNER, own.size == 1, own.own < NO_CHILDREN
    single = np.select([alone, children, own.relatives == 1], [0, 1, 2], 3) + np.where(female, 5, 9)
    same = np.where(female, 3, 1)
    fields = {
        "HHSIZE": own.size,
        "HHT": np.select([married, own.relatives == 1, alone], [1, 2 + female, 4 + 2 * female], 5 + 2 * female),
        "HHT2": np.select([married, partner], [2 - children, 4 - children], single),
        "CPLT": np.where(alone, 0, own.couple),
        "UPART": np.where(alone, 0, np.select([own.couple == 4, own.couple == 3], [same, np.where(female, 4, 2)], 5)),
        "MULTG": np.where(own.size < 3, 0, own.generations),
        **{field: at[axis] + 1 for field, axis in AXES.items()},
        "PAOC": own.own,
        "P18": own.under_18,
        **{field: at["elderly"] >= least for least, field in enumerate(("P60", "P65", "P75"), 1)},
        "PAC": own.minors,
    }
    fields = {name: np.where(units.kind == HOUSEHOLD, each, 0) for name, each in fields.items()}
    for name, kind in (("TEN", HOUSEHOLD), ("VACS", VACANT_UNIT), ("GQTYPE", QUARTERS)):
        fields[name] = np.where(units.kind == kind, units.code, 0)
    fields["RTYPE"] = np.where(units.kind == QUARTERS, 4, 2)
    found = {}
    for name in FIELDS:
        values, place = np.unique(fields[name], return_inverse=True)
        found[name] = words([f"{value:0{WIDTH.get(name, 1)}d}" for value in values.tolist()], place)
    return found


def units_table(declaration: Declaration) -> Table:
    """Return the description of the microdata of units."""
    columns = []
    for name, (meaning, codes) in FIELDS.items():
        width, axis = WIDTH.get(name, 1), AXES.get(name)
        if axis:
            labels = declaration.product.axis(axis).labels
            codes = {f"{code:0{width}d}": label for code, label in enumerate(labels, 1)}
        rest = {} if name in ("RTYPE", "P18", "P60", "P65", "P75", "GQTYPE") else {"0" * width: "not in universe"}
        columns.append(Column(name, "code", meaning, rest | codes))
    return Table("Microdata of units", (*BLOCK, *columns, RECORDS), parquet=UNITS_FILE, key=("*",))


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
    texts = dict(zip(RELSHIP[1:RELATIONSHIPS], ["householder", *relationship.labels[2:RELATIONSHIPS]], strict=True))
    texts |= {"37": "in institutional group quarters", "38": "in noninstitutional group quarters"}
    types = dict(zip(OF_RELATIONSHIP["GQTYPE"][RELATIONSHIPS:], relationship.labels[RELATIONSHIPS:], strict=True))
    columns = (
        *PERSON,
        Column("GQTYPE", "code", "type of group quarters", {"000": "household"} | types),
        Column("RELSHIP", "code", "relationship to the householder", texts),
        *map(axis_column, axes),
        Column("LIVE_ALONE", "code", "lives alone", {"1": "yes", "2": "no", "9": "in group quarters"}),
        RECORDS,
    )
    return Table("Microdata of persons", columns, parquet=FILE, key=("*",))
