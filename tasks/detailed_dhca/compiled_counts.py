"""The kernels that count population groups: one row of a unit or region at a time, in a core's nearest cache.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.detailed_dhca.person_file import CELLS


@compiled
def map_combinations(
    combinations: NDArray[np.uint16],
    alone: NDArray[np.int32],
    combination: NDArray[np.int32],
    ethnicity: NDArray[np.int32],
    pointers: NDArray[np.int32],
    iterations: NDArray[np.int32],
) -> int:
    """Map combinations to iterations as `Granularity.flatmap` does, and return how many pairs there are.

    The maps, levels x codes, have -1 for none. The iterations of combination c will stand from pointers[c] to
    pointers[c + 1]; there is room for all codes of a combination at each level, and one more.
    """
    races, pairs = combinations.shape[1] - 1, 0
    pointers[0] = 0
    for row in range(len(combinations)):
        begin = pairs
        for level in range(len(alone)):
            common, given = np.int32(-1), 0
            for place in range(races):
                code = combinations[row, place]
                if code > 0:
                    mine = alone[level, code]
                    common = mine if given == 0 or common == mine else np.int32(-1)
                    given += 1
                    mine = combination[level, code]
                    new = mine >= 0
                    for other in range(begin, pairs):
                        new &= iterations[other] != mine  # two codes of one iteration count once
                    if new:
                        iterations[pairs] = mine
                        pairs += 1
            spanish = ethnicity[level, combinations[row, races]]
            for mine in (common, spanish):
                if mine >= 0:
                    iterations[pairs] = mine
                    pairs += 1
        pointers[row + 1] = pairs
    return pairs


@compiled
def _count(row: NDArray[np.int32], touched: NDArray[np.uint16], known: int, column: int, count: int) -> int:
    """Add to a column of the row; return how many of its columns are not zero, which `touched` lists."""
    touched[known] = column  # overwritten unless it is new: a branch would be guessed wrong
    known += row[column] == 0
    row[column] += count
    return known


@compiled
def _write_out(
    row: NDArray[np.int32],
    touched: NDArray[np.uint16],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
    entries: int,
) -> int:
    """Write the touched columns of a row behind the `entries` that are there, clear it, return how many there are."""
    for column in touched:
        columns[entries], counts[entries] = column, row[column]
        row[column] = 0
        entries += 1
    return entries


@compiled
def _end(numbers: NDArray[Any], at: int, number: int) -> int:
    """Return where, from `at` on, the numbers are no longer this one."""
    while at < len(numbers) and numbers[at] == number:
        at += 1
    return at


@compiled
def count_units(
    starts: NDArray[np.int64],
    cell: NDArray[np.uint8],
    combination: NDArray[np.int32],
    order: NDArray[np.int64],
    unit: NDArray[np.int64],
    pointers: NDArray[np.int32],
    iterations: NDArray[np.int32],
    width: int,
    row_ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
) -> int:
    """Count persons by (unit, cell) x iteration; return the number of entries of the sparse matrix.

    Parameters
    ----------
    starts : where the persons of each block start, and behind the last where they end
    cell, combination : of each person, by block
    order, unit : blocks, ordered by their unit, and the units
    pointers, iterations : the flatmap; those of combination c stand from pointers[c] to pointers[c + 1]
    width : how many iterations there are
    row_ends : filled with the entries up to the end of each row, cells x units of them
    columns, counts : filled with the entries, row by row
    """
    entries = at = 0
    row, touched = np.zeros(width, np.int32), np.empty(width + 1, np.uint16)
    by_cell, end_of_cell = np.empty(len(cell), np.int32), np.empty(CELLS + 1, np.int64)
    for first in range(0, len(row_ends), CELLS):
        end = _end(unit, at, first // CELLS)
        end_of_cell[:] = 0  # first where each cell starts; then its persons push it on
        for block in order[at:end]:
            for person in range(starts[block], starts[block + 1]):
                end_of_cell[cell[person] + 1] += 1
        end_of_cell[:] = np.cumsum(end_of_cell)
        for block in order[at:end]:
            for person in range(starts[block], starts[block + 1]):
                by_cell[end_of_cell[cell[person]]] = combination[person]
                end_of_cell[cell[person]] += 1
        begin = 0
        for number in range(CELLS):
            known = 0
            for given in by_cell[begin : end_of_cell[number]]:
                for place in range(pointers[given], pointers[given + 1]):
                    known = _count(row, touched, known, iterations[place], 1)
            begin = end_of_cell[number]
            entries = _write_out(row, touched[:known], columns, counts, entries)
            row_ends[first + number] = entries
        at = end
    return entries


@compiled
def add_units(
    ends: NDArray[np.int64],
    unit_columns: NDArray[np.uint16],
    unit_counts: NDArray[np.int32],
    order: NDArray[np.int64],
    region: NDArray[np.int32],
    width: int,
    row_ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
) -> int:
    """Add up the counts of units to those of the regions that are made of them, as `count_units` gives them.

    `ends` say where the rows (unit, cell) start and end among `unit_columns` and `unit_counts`; `order` are the units,
    ordered by their region, and `region` the regions. The rest is as there.
    """
    entries = at = 0
    row, touched = np.zeros(width, np.int32), np.empty(width + 1, np.uint16)
    for first in range(0, len(row_ends), CELLS):
        end = _end(region, at, first // CELLS)
        for number in range(CELLS):
            known = 0
            for unit in order[at:end]:
                for entry in range(ends[unit * CELLS + number], ends[unit * CELLS + number + 1]):
                    known = _count(row, touched, known, unit_columns[entry], unit_counts[entry])
            entries = _write_out(row, touched[:known], columns, counts, entries)
            row_ends[first + number] = entries
        at = end
    return entries


@compiled
def add_totals(
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
    position: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add entries to the totals of their groups, regions x positions.

    `ends` say where the rows (region, cell) start and end among `columns` and `counts`; `position` is an iteration's,
    -1 for one of another level.
    """
    for row in range(len(ends) - 1):
        of_region = totals[row // CELLS]
        for entry in range(ends[row] - ends[0], ends[row + 1] - ends[0]):
            place = position[columns[entry]]
            of_region[max(place, 0)] += counts[entry] * (place >= 0)  # a branch would be guessed wrong half the time


@compiled
def add_cells(
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
    position: NDArray[np.int64],
    slots: NDArray[np.int32],
    cells: NDArray[np.int64],
) -> None:
    """Add entries, as those of `add_totals`, to the cells of their groups, slots x cells.

    `slots`, regions x positions, says which row of `cells` is a group's, -1 for none.
    """
    for row in range(len(ends) - 1):
        of_region, cell = slots[row // CELLS], row % CELLS
        for entry in range(ends[row] - ends[0], ends[row + 1] - ends[0]):
            place = position[columns[entry]]
            slot = of_region[max(place, 0)]
            if slot >= 0 and place >= 0:  # in this order, for most have no slot
                cells[slot, cell] += counts[entry]
