"""The kernel that counts population groups: a table of one region at a time, in a core's cache.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.detailed_dhca.person_file import CELLS


@compiled
def count_regions(
    starts: NDArray[np.int64],
    cell: NDArray[np.uint8],
    combination: NDArray[np.int32],
    order: NDArray[np.int64],
    region: NDArray[np.int32],
    pointers: NDArray[np.int32],
    iterations: NDArray[np.int32],
    table: NDArray[np.int32],
    touched: NDArray[np.int32],
    row_ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
) -> int:
    """Count persons by (region, cell) x iteration; return the number of entries of the sparse matrix.

    Parameters
    ----------
    starts : where the persons of each block start, and behind the last where they end
    cell, combination : of each person, by block
    order, region : blocks, ordered by their region, and the regions
    pointers, iterations : the flatmap; those of combination c stand from pointers[c] to pointers[c + 1]
    table, touched : room, cells x iterations, the first of zeros; it is so again at the end
    row_ends : filled with the entries up to the end of each row, cells x regions of them
    columns, counts : filled with the entries, row by row
    """
    cells, entries, at = len(table), 0, 0
    known = np.zeros(cells, np.int64)
    for first in range(0, len(row_ends), cells):
        while at < len(order) and region[at] * cells == first:
            block = order[at]
            for person in range(starts[block], starts[block + 1]):
                row, number = cell[person], combination[person]
                for place in range(pointers[number], pointers[number + 1]):
                    column = iterations[place]
                    if table[row, column] == 0:
                        touched[row, known[row]] = column
                        known[row] += 1
                    table[row, column] += 1
            at += 1
        for row in range(cells):
            for place in range(known[row]):
                column = touched[row, place]
                columns[entries], counts[entries] = column, table[row, column]
                table[row, column] = 0
                entries += 1
            known[row] = 0
            row_ends[first + row] = entries
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
