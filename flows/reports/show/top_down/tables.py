"""The tables of a geounit, each sums of the cells of its histogram: the questions of the redistricting data.

They hold what P1 to P5 and H1 of the P.L. 94-171 data hold: race, Hispanic origin and voting age; living quarters;
occupancy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spine.counts import Axis, Condition, matrix
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

    declared: columns that are published as they are, without any noise.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int | None]]]
    declared: Sequence[str] = ()


def tables_of(product: str, cells: Mapping[int, int], declared: Sequence[int] | None) -> list[CountTable]:
    """Return the tables of a product's histogram, given as cells; `declared`: housing units, and facilities by type."""
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


def _crossed(
    name: str,
    product: Product,
    cells: Mapping[int, int],
    rows: Sequence[tuple[str, Condition]],
    columns: Sequence[tuple[str, Condition]],
) -> CountTable:
    """Return a table that counts the cells which meet both a row's condition and a column's."""
    histogram = np.zeros((product.cells, 1), np.int64)
    histogram[list(cells), 0] = list(cells.values())
    of_row, of_column = (matrix(product.axes, [where for _, where in side]) for side in (rows, columns))
    counts = of_row.T @ (histogram * of_column)
    labelled = [(label, values) for (label, _), values in zip(rows, counts.tolist(), strict=True)]
    return CountTable(name, NAMES[name], [label for label, _ in columns], labelled)


def _with_declared(table: CountTable, declared: Sequence[int]) -> CountTable:
    """Return a table with a column of declared numbers."""
    rows = [(label, [*values, number]) for (label, values), number in zip(table.rows, declared, strict=True)]
    added = ["housing units or facilities"]
    return CountTable(table.name, table.title, [*table.columns, *added], rows, added)
