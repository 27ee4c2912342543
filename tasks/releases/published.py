"""The rows of published tables (`privacy.tables.published`): how files hold them, and whether a release's are right.

A system hands over arrays in the order of its keys. Nothing here knows a system by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error
from privacy.tables.published import Published
from tasks.releases.check import Check
from tasks.releases.description import Column, Noise
from tasks.releases.manifest import noise_law

Keys = Mapping[str, pa.Array]  # by column its value for each key
ROUNDING = 1e-12  # of a variance
NO_ROW = np.iinfo(np.int64).max


def row_column(table: Published) -> Column:
    """Return the column of the codes of a table's rows."""
    return Column(
        table.column,
        "code",
        f"the cell of {table.by}" if table.by else "the cell",
        table.codes,
        title=(table.by or "cell").capitalize(),
        frame=(table.by or "cell").replace(" ", "_"),
        labels=True,
        overlap=table.overlaps,
    )


def rows_of(table: Published, keys: Keys, numbers: Mapping[str, ArrayLike]) -> pa.Table:
    """Return all rows of a table, keys x rows. numbers: by column, of a shape that broadcasts to (keys, rows)."""
    shape = len(next(iter(keys.values()))), len(table.rows)
    key, row = (pa.array(place.ravel()) for place in np.indices(shape, np.int64))
    return pa.table(
        {
            **{name: column.take(key) for name, column in keys.items()},
            table.column: pa.array([*table.codes], pa.string()).take(row),
            **{name: np.broadcast_to(number, shape).ravel() for name, number in numbers.items()},
        }
    )


def laws_by_margin(drawn: Iterable[tuple[Law, int]]) -> list[Noise]:
    """Return the laws of counts by their margins; of two laws with one margin that of the larger variance.

    drawn: the law of a cell and the number of cells that a count sums, of each kind of count.
    """
    found: dict[int, tuple[float, Noise]] = {}
    for law, cells in drawn:
        margin, variance = margin_of_error(law, cells), cells * law.variance()
        if margin not in found or variance > found[margin][0]:
            found[margin] = variance, {"margin": margin, "cells": cells, **noise_law(law)}
    return [found[margin][1] for margin in sorted(found)]


def numbers_in(rows: pa.Table, table: Published, keys: Keys, column: str) -> NDArray[Any]:
    """Return (keys, rows) the numbers of a column of a release's table; 0 for a row that it lacks."""
    numbers = np.append(rows[column].to_numpy(), 0)
    return numbers[_places(rows, rows_of(table, keys, {}))].reshape(-1, len(table.rows))


def _places(rows: pa.Table, wanted: pa.Table) -> NDArray[np.int64]:
    """Return the place of the first row with the values of each wanted row; the number of rows where there is none."""
    own, others = (np.zeros(len(each), np.int64) for each in (wanted, rows))
    for name in wanted.column_names:
        values = wanted[name].unique()
        own, others = (
            code * (len(values) + 1) + pc.fill_null(pc.index_in(column, values), len(values)).to_numpy()
            for code, column in ((own, wanted[name]), (others, rows[name].cast(values.type)))
        )
    codes, first = np.unique(np.append(others, NO_ROW), return_index=True)
    at = np.searchsorted(codes, own)
    return np.where(codes[at] == own, first[at], len(rows))


def check_rows(what: str, rows: pa.Table, expected: pa.Table, *, rounding: int = 0, clipped: bool = False) -> Check:
    """Compare the rows of a release's table with what they must be, in this order.

    rounding: the most by which counts may differ. clipped: whether a count below the sum of its cells is right.
    """
    faults = []
    if len(rows) != len(expected):
        faults.append(f"it has {len(rows):,} rows, not {len(expected):,}")
    for name in () if faults else expected.column_names:
        found, made = rows[name], expected[name]
        if pa.types.is_string(made.type):
            same = pc.fill_null(pc.equal(found.cast(made.type), made), False).to_numpy()
        else:
            numbers, sums = found.to_numpy(), made.to_numpy()
            same = np.isclose(numbers, sums, rtol=ROUNDING, atol=rounding * (name == "COUNT"))
            same |= clipped & (name == "COUNT") & (numbers < sums)
        faults += [f"{name} is another in {int((~same).sum()):,} rows"] * (not same.all())
    return Check(what, f"{len(expected):,} rows", tuple(faults))
