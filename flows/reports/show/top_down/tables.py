"""The tables of a geounit, each sums of the cells of its histogram: the questions of the redistricting data.

They hold what P1 to P5 and H1 of the P.L. 94-171 data hold: race, Hispanic origin and voting age; living quarters;
occupancy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from flows.reports.show.top_down.records import EstimatedCount
from spine.counts import Axis, Condition, Count, matrix
from spine.redistricting import CENRACE, HHGQ
from spine.top_down import PERSONS, UNITS, Product

_ADULT, _HISPANIC = (PERSONS.count(name).where for name in ("voting age", "Hispanic"))
PERSON_COLUMNS: tuple[tuple[str, Condition], ...] = (
    ("all ages", {}),
    ("of them Hispanic", _HISPANIC),
    ("18 and over", _ADULT),
    ("of them Hispanic", {**_ADULT, **_HISPANIC}),
)
NAMES = {
    "race": "Race, Hispanic origin, voting age",
    "races": "All 63 combinations of races",
    "quarters": "Living quarters",
    "housing": "Housing units",
}
OF_PRODUCT = {"persons": ("race", "quarters", "races"), "units": ("housing",)}


@dataclass(frozen=True)
class CountTable:
    """A table of a geounit: its rows' labels with a count for every column; None where there is nothing to count.

    declared: columns that are published as they are, without any noise. margins: of each row and column the estimate
    of its count, with its margin; None where the release has none.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int | None]]]
    declared: Sequence[str] = ()
    margins: Sequence[Sequence[EstimatedCount | None]] = ()

    def has_margins(self, column: int) -> bool:
        """Return whether a column has an estimate of any count."""
        return any(row[column] for row in self.margins if column < len(row))


def tables_of(
    product: str, cells: Mapping[int, int], declared: Sequence[int] | None, margins: Sequence[EstimatedCount] = ()
) -> list[CountTable]:
    """Return the tables of a product's histogram, given as cells, with the margins of its counts.

    declared: housing units, and facilities by type.
    """
    _crossed = partial(_cross, margins={one.count: one for one in margins if one.product == product})
    if product == "units":
        rows = [(cell.words, cell.where) for cell in UNITS.tables["H1"]]
        return [_crossed("housing", UNITS, cells, rows, [("units", {})])]
    races = [("all persons", {}), *((one.words, one.where) for one in PERSONS.counts if one.quantity == "race")]
    quarters = _crossed("quarters", PERSONS, cells, _coordinates(HHGQ), [("persons", {}), PERSON_COLUMNS[2]])
    return [
        _crossed("race", PERSONS, cells, races, PERSON_COLUMNS),
        _with_declared(quarters, declared) if declared else quarters,
        _crossed("races", PERSONS, cells, _coordinates(CENRACE), PERSON_COLUMNS),
    ]


def _coordinates(axis: Axis) -> list[tuple[str, Condition]]:
    """Return label and condition of every coordinate of an axis."""
    return [(label, {axis.name: {at}}) for at, label in enumerate(axis.labels)]


def _cross(
    name: str,
    product: Product,
    cells: Mapping[int, int],
    rows: Sequence[tuple[str, Condition]],
    columns: Sequence[tuple[str, Condition]],
    margins: Mapping[str, EstimatedCount],
) -> CountTable:
    """Return a table that counts the cells which meet both a row's condition and a column's."""
    known = [(dict(one.where), margins[one.name]) for one in _counts(product) if one.name in margins]

    def margin(row: Condition, column: Condition) -> EstimatedCount | None:
        both = {**row, **column}
        return next((found for where, found in known if where == both and len(both) == len(row) + len(column)), None)

    histogram = np.zeros((product.cells, 1), np.int64)
    histogram[list(cells), 0] = list(cells.values())
    of_row, of_column = (matrix(product.axes, [where for _, where in side]) for side in (rows, columns))
    counts = of_row.T @ (histogram * of_column)
    labelled = [(label, values) for (label, _), values in zip(rows, counts.tolist(), strict=True)]
    found = [[margin(row, column) for _, column in columns] for _, row in rows] if known else []
    return CountTable(name, NAMES[name], [label for label, _ in columns], labelled, margins=found)


def _counts(product: Product) -> list[Count]:
    """Return all counts of a product that may have margins: its totals, then the cells of its tables."""
    return [*product.counts, *chain.from_iterable(product.tables.values())]


def _with_declared(table: CountTable, declared: Sequence[int]) -> CountTable:
    """Return a table with a column of declared numbers."""
    rows = [(label, [*values, number]) for (label, values), number in zip(table.rows, declared, strict=True)]
    added = ["housing units or facilities"]
    return CountTable(table.name, table.title, [*table.columns, *added], rows, added, table.margins)
