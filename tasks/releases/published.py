"""The rows of published tables (`privacy.tables.published`): how files hold them, and whether a release's are right.

A system passes arrays in the order of its keys; this module knows no system by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error
from privacy.tables.histogram import IntArray
from privacy.tables.published import Published
from tasks.releases.check import Check
from tasks.releases.description import Column, Noise, Tidy
from tasks.releases.manifest import noise_law
from tasks.releases.text_twin import CODED

Keys = Mapping[str, pa.Array]  # by column, the value of each key
ROUNDING = 1e-12  # relative, of a variance
NO_ROW = np.iinfo(np.int64).max


def row_column(table: Published) -> Column:
    """Return the column of a table's row codes."""
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


def tidy_as(path: str, *forms: Published, left_out: Sequence[str] = ()) -> tuple[Tidy]:
    """Return how tables/ has a table whose keys have one of these forms; path, left_out: as in Tidy."""
    one = forms[0]
    words = {row.codes: row.words for form in forms for row in form.rows}
    name = path.partition("/{")[0].rpartition("/")[2]
    return (Tidy(path, name, one.unit, by=one.by, cells=one.columns, rows=words, left_out=tuple(left_out)),)


def rows_of(table: Published, keys: Keys, numbers: Mapping[str, ArrayLike]) -> pa.Table:
    """Return all rows of a table, keys x rows. numbers: by column, with a shape that broadcasts to (keys, rows)."""
    shape = len(next(iter(keys.values()))), len(table.rows)
    flat = {name: np.broadcast_to(number, shape).ravel() for name, number in numbers.items()}
    rows = rows_by_table([table], np.zeros(shape[0], np.int64), keys, flat)
    return rows.cast(pa.schema([(each.name, pa.string() if each.type == CODED else each.type) for each in rows.schema]))


def rows_by_table(
    tables: Sequence[Published], which: IntArray, keys: Keys, numbers: Mapping[str, IntArray]
) -> pa.Table:
    """Return the rows of keys with different tables, one key after the other, their codes by dictionaries.

    tables: with the same columns. which: the place in `tables` of each key's table. numbers: by column, one per row.
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
            **{name: pa.array(own, CODED).take(row) for name, own in zip(tables[0].columns, codes, strict=True)},
            **numbers,
        }
    )


def laws_by_margin(drawn: Iterable[tuple[Law, int]]) -> list[Noise]:
    """Return the laws of counts by margin; where two laws share a margin, that of the larger variance.

    drawn: for each kind of count, the law of a cell and the number of cells that it sums.
    """
    found: dict[int, tuple[float, Noise]] = {}
    for law, cells in drawn:
        margin, variance = margin_of_error(law, cells), cells * law.variance()
        if margin not in found or variance > found[margin][0]:
            found[margin] = variance, {"margin": margin, "cells": cells, **noise_law(law)}
    return [found[margin][1] for margin in sorted(found)]


def counts_in(rows: pa.Table, table: Published, keys: Keys) -> NDArray[Any]:
    """Return the counts (keys, rows) of a release's table; 0 for a missing row."""
    numbers = np.append(rows["COUNT"].to_numpy(), 0)
    return numbers[_places(rows, rows_of(table, keys, {}))].reshape(-1, len(table.rows))


def _places(rows: pa.Table, wanted: pa.Table) -> NDArray[np.int64]:
    """Return the place of the first row with the values of each wanted row, or the number of rows if it is missing."""
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


def check_rows(
    what: str,
    pieces: Iterable[tuple[pa.Table, pa.Table]],
    *,
    rounding: int = 0,
    clipped: bool = False,
    step: float = 1,
) -> Check:
    """Compare the rows of pieces of a release's table with the expected ones, in the same order.

    rounding: the largest accepted difference of counts. clipped: negative counts became 0 after all sums, so a count
    may be below the sum of its cells. step: clipped counts are multiples of it.
    """
    differ, broken, there, wanted, is_beside = dict[str, int](), 0, 0, 0, True
    for rows, expected in pieces:
        there, wanted = there + len(rows), wanted + len(expected)
        is_beside &= len(rows) == len(expected)
        if not is_beside:
            continue
        for name in expected.column_names:
            found, made = rows[name], expected[name]
            made = made.cast(pa.string()) if made.type == CODED else made
            if pa.types.is_string(made.type):
                same = pc.fill_null(pc.equal(found.cast(made.type), made), False).to_numpy()
            else:
                numbers, sums = found.to_numpy(), made.to_numpy()
                same = numbers == sums
                if not same.all():
                    same = np.isclose(numbers, sums, rtol=ROUNDING, atol=rounding * (name == "COUNT"))
                same |= clipped & (name == "COUNT") & (numbers < sums)
            differ[name] = differ.get(name, 0) + int((~same).sum())
        if clipped:
            counts = rows["COUNT"].to_numpy()
            whole = np.isclose(counts / step, np.rint(counts / step), rtol=0, atol=1e-6)
            broken += int(((counts < 0) | ~whole).sum())
    if not is_beside:
        faults = [f"it has {there:,} rows, not {wanted:,}"]
    else:
        faults = [f"{name} differs in {rows:,} rows" for name, rows in differ.items() if rows]
        faults += [f"{broken:,} counts are negative, or not multiples of the step"] * bool(broken)
    return Check(what, f"{wanted:,} rows", tuple(faults))
