"""The tables of a geounit, each sums of the cells of its histogram: the questions of the redistricting data.

They hold what P1 to P5 and H1 of the P.L. 94-171 data hold: race, Hispanic origin and voting age; living quarters;
occupancy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spine.top_down.histogram import PERSONS
from tasks.pages.words import ALONE, COMBINATIONS, QUARTERS

PERSON_COLUMNS = ("all ages", "of them Hispanic", "18 and over", "of them Hispanic")
NAMES = {
    "race": "Race, Hispanic origin, voting age",
    "races": "All 63 combinations of races",
    "quarters": "Living quarters",
    "housing": "Housing units",
}
OF_PRODUCT = {"persons": ("race", "quarters", "races"), "units": ("housing",)}
Counts = NDArray[np.int64]


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
        vacant, occupied = cells.get(0, 0), cells.get(1, 0)
        rows: list[tuple[str, list[int | None]]] = [
            ("housing units", [vacant + occupied]),
            ("occupied", [occupied]),
            ("vacant", [vacant]),
        ]
        return [CountTable("housing", NAMES["housing"], ["units"], rows)]
    histogram = np.zeros(PERSONS.cells, np.int64)
    histogram[list(cells)] = list(cells.values())
    by_axes = histogram.reshape(PERSONS.shape)  # living quarters, voting age, Hispanic, race
    by_race = _race_columns(by_axes.sum(0))
    named = [f"{race} alone" for race in ALONE]
    few: list[tuple[str, Sequence[int | None]]] = [("all persons", by_race.sum(1).tolist())]
    few += [(name, by_race[:, number].tolist()) for number, name in enumerate(named)]
    few.append(("two or more races", by_race[:, 6:].sum(1).tolist()))
    every: list[tuple[str, Sequence[int | None]]] = [
        (name, by_race[:, number].tolist()) for number, name in enumerate(COMBINATIONS)
    ]
    return [
        CountTable("race", NAMES["race"], PERSON_COLUMNS, few),
        _quarters(by_axes, declared),
        CountTable("races", NAMES["races"], PERSON_COLUMNS, every),
    ]


def _race_columns(counts: Counts) -> Counts:
    """Return (4, 63) counts, all, Hispanic, adult, adult and Hispanic, of counts by (voting age, Hispanic, race)."""
    return np.stack([counts.sum((0, 1)), counts[:, 1].sum(0), counts[1].sum(0), counts[1, 1]])


def _quarters(by_axes: Counts, declared: Sequence[int] | None) -> CountTable:
    columns = ["persons", "18 and over", *(["housing units or facilities"] if declared else [])]
    rows: list[tuple[str, Sequence[int | None]]] = []
    for number, name in enumerate(QUARTERS):
        counts = [int(by_axes[number].sum()), int(by_axes[number, 1].sum())]
        rows.append((name, [*counts, *([declared[number]] if declared else [])]))
    return CountTable("quarters", NAMES["quarters"], columns, rows, columns[2:])
