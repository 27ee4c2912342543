"""What a record and what all records of a leaf must be by a declaration: cells of its axes, and declared counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce

import numpy as np

from privacy.tables.histogram import Histogram
from spine.declaration.form import CountForm
from spine.geography import BoolArray, IntArray
from spine.top_down.histogram import Product
from spine.top_down.queries import group_sums, query_group
from tasks.records.records import RowChecks

FEW = 8  # values of an axis that a finding names


def read_coordinates(checks: RowChecks, column: str, coordinates: Mapping[str, int]) -> IntArray:
    """Check the values of an axis, and return the coordinate of each record, 0 of one with another value."""
    own: IntArray = checks.columns[column].where(partial(_coordinate, coordinates), np.int64)
    listed = ", ".join([*coordinates][:FEW]) + (", ..." if len(coordinates) > FEW else "")
    checks.unknown(f"Invalid values found in {column}; valid are {listed}", column, own < 0, coordinates)
    return np.maximum(own, 0)


def _coordinate(coordinates: Mapping[str, int], value: str) -> int:
    return coordinates.get(value, -1)


def check_zeros(checks: RowChecks, histogram: Histogram, at: Sequence[IntArray]) -> None:
    """Find records in cells that no record can be in. at: the coordinates of the records, by axis."""
    own = {axis.name: coordinates for axis, coordinates in zip(histogram.axes, at, strict=True)}
    for zero in histogram.zeros:
        inside = reduce(np.logical_and, (np.isin(own[name], [*chosen]) for name, chosen in zero.items()))
        columns = [axis.column for axis in histogram.axes if axis.name in zero]
        checks.fault(f"records in a cell that is declared a zero, by {' and '.join(columns)}", columns[-1], inside)


def broken_counts(
    product: Product, counted: CountForm, declared: IntArray, leaf: IntArray, cell: IntArray, count: IntArray
) -> Iterator[tuple[str, BoolArray]]:
    """Yield how records contradict the declared counts of a partition: a rule, and the leaves that break it.

    declared: (leaves, parts). leaf, cell, count: of the records.
    """
    records = group_sums(query_group(product, counted.partition), len(declared), leaf, cell, count)
    for part, column in enumerate(counted.columns):
        if not column:
            continue
        there, number = records[:, part], declared[:, part]
        yield f"records in the part that {column} counts, where it is 0", (there > 0) & (number == 0)
        if counted.least:
            yield f"fewer records than {column} needs", there < number * counted.least[part]
        if counted.most and isinstance(most := counted.most[part], int):
            yield f"more records than {column} allows", there > number * most
