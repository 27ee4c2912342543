"""The rows of published tables (`privacy.tables.published`): how files hold them, and whether a release's are right.

A system hands over arrays in the order of its keys. Nothing here knows a system by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error
from privacy.tables.histogram import IntArray
from privacy.tables.published import Published
from tasks.releases.check import Check
from tasks.releases.description import Column, Noise
from tasks.releases.manifest import noise_law

Keys = Mapping[str, pa.Array]  # by column its value for each key
ROUNDING = 1e-12  # of a variance


def row_column(table: Published) -> Column:
    """Return the column of the codes of a table's rows, of a table that has one."""
    (name,) = table.columns
    return Column(
        name,
        "code",
        f"the cell of {table.by}" if table.by else "the cell",
        {row.codes[0]: row.words for row in table.rows},
        title=(table.by or "cell").capitalize(),
        frame=(table.by or "cell").replace(" ", "_"),
        labels=True,
        overlap=table.overlaps,
    )


def rows_of(table: Published, keys: Keys, numbers: Mapping[str, ArrayLike]) -> pa.Table:
    """Return all rows of a table, keys x rows. numbers: by column, of a shape that broadcasts to (keys, rows)."""
    shape = len(next(iter(keys.values()))), len(table.rows)
    flat = {name: np.broadcast_to(number, shape).ravel() for name, number in numbers.items()}
    return rows_by_table([table], np.zeros(shape[0], np.int64), keys, flat)


def rows_by_table(
    tables: Sequence[Published], which: IntArray, keys: Keys, numbers: Mapping[str, IntArray]
) -> pa.Table:
    """Return the rows of keys that have different tables, those of a key one after the other.

    tables: with the same columns. which: the place in `tables` of each key's table. numbers: by column, one a row.
    """
    first = np.cumsum([0, *(len(table.rows) for table in tables)])  # in the rows of all tables
    widths = np.diff(first)[which]
    starts = np.cumsum(widths) - widths
    key = np.repeat(np.arange(len(which)), widths)
    row = pa.array(np.arange(len(key)) + np.repeat(first[which] - starts, widths))
    codes = zip(*(each.codes for table in tables for each in table.rows), strict=True)
    return pa.table(
        {
            **{name: column.take(pa.array(key)) for name, column in keys.items()},
            **{name: pa.array(own, pa.string()).take(row) for name, own in zip(tables[0].columns, codes, strict=True)},
            **numbers,
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


def numbers_in(rows: pd.DataFrame, table: Published, keys: Keys, column: str) -> NDArray[Any]:
    """Return (keys, rows) the numbers of a column of a release's table; 0 for a row that it lacks."""
    form = rows_of(table, keys, {}).to_pandas()
    found = rows[column]
    same = len(rows) == len(form) and all((rows[name].to_numpy() == form[name].to_numpy()).all() for name in form)
    if not same:  # as where it has other keys too
        found = rows.set_index([*form])[column]
        found = found[~found.index.duplicated()].reindex(pd.MultiIndex.from_frame(form), fill_value=0)
    return found.to_numpy().reshape(-1, len(table.rows))


def check_rows(
    what: str, rows: pd.DataFrame, expected: pa.Table, *, rounding: int = 0, clipped: bool = False, step: float = 1
) -> Check:
    """Compare the rows of a release's table with what they must be, in this order.

    rounding: the most by which counts may differ. clipped: whether negative counts were set to 0 after all sums, so
    that a count below the sum of its cells is right. step: what such a count is a multiple of.
    """
    made, faults = expected.to_pandas(), []
    if len(rows) != len(made):
        return Check(what, f"{len(made):,} rows", (f"it has {len(rows):,} rows, not {len(made):,}",))
    for name in made.columns:
        if pd.api.types.is_numeric_dtype(made[name]):
            same = np.isclose(rows[name], made[name], rtol=ROUNDING, atol=rounding * (name == "COUNT"))
            same |= clipped & (name == "COUNT") & (rows[name] < made[name])
        else:
            same = rows[name].to_numpy() == made[name].to_numpy()
        faults += [f"{name} is another in {int((~same).sum()):,} rows"] * (not same.all())
    if clipped:
        counts = rows["COUNT"].to_numpy()
        broken = (counts < 0) | ~np.isclose(counts / step, np.rint(counts / step), rtol=0, atol=1e-6)
        faults += [f"{int(broken.sum()):,} counts are negative, or not whole steps"] * bool(broken.any())
    return Check(what, f"{len(made):,} rows", tuple(faults))
