"""Kernels that number combinations of codes, digest records, and count population groups.

The counting kernels tabulate one unit or region at a time: such a table fits a core's cache.

Import this module only for large inputs: numba takes half a second to load, and an installation's first call compiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

COMBINED = 9  # codes of a person
# Odd hexadecimal digits of pi: the sum of products with them hashes a combination of codes.
SCATTER = np.array(
    [
        0x243F6A8885A308D3,
        0x13198A2E03707345,
        0xA4093822299F31D1,
        0x082EFA98EC4E6C89,
        0x452821E638D01377,
        0xBE5466CF34E90C6D,
        0xC0AC29B7C97C50DD,
        0x3F84D5B5B5470917,
        0x9216D5D98979FB1B,
    ],
    np.uint64,
)


@compiled
def number_combinations(
    codes: NDArray[np.uint16],
    scatter: NDArray[np.uint64],
    slots: NDArray[np.int32],
    combination: NDArray[np.int32],
    combinations: NDArray[np.uint16],
) -> int:
    """Number the distinct columns of `codes` (9 x n) in the order of first occurrence; return how many there are.

    slots: an open-addressing hash table of 2^b entries, all -1. Returns -1 if the combinations would fill more than
    half of it.
    combination, combinations: filled with the number of each column, and the distinct columns.
    """
    mask, shift, known = len(slots) - 1, np.uint64(32), 0
    for row in range(codes.shape[1]):
        mixed = np.uint64(0)
        for place in range(COMBINED):
            mixed += scatter[place] * np.uint64(codes[place, row])
        slot = np.int64(mixed >> shift) & mask
        while True:
            number = slots[slot]
            if number < 0:
                if 2 * known >= len(slots):
                    return -1
                slots[slot] = number = known
                for place in range(COMBINED):
                    combinations[known, place] = codes[place, row]
                known += 1
                break
            same = True
            for place in range(COMBINED):
                same &= combinations[number, place] == codes[place, row]
            if same:
                break
            slot = (slot + 1) & mask
        combination[row] = number
    return known


@compiled
def add_weights(
    starts: NDArray[np.int64],
    combination: NDArray[np.int32],
    cell: NDArray[np.uint8],
    of_combination: NDArray[np.uint64],
    of_cell: NDArray[np.uint64],
    sums: NDArray[np.uint64],
) -> None:
    """Add up the weights of the records between consecutive starts, in two lanes (`record_digests.weights`)."""
    for group in range(len(starts)):
        stop = starts[group + 1] if group + 1 < len(starts) else len(cell)
        for record in range(starts[group], stop):
            of_codes, of_value = of_combination[combination[record]], of_cell[cell[record]]
            sums[group, 0] += of_codes[0] * of_value[0]
            sums[group, 1] += of_codes[1] * of_value[1]


@compiled
def _write_out(
    table: NDArray[np.int32],
    touched: NDArray[np.int32],
    known: NDArray[np.int64],
    row_ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
    entries: int,
) -> int:
    """Append the entries of one region to the `entries` written before; return the new number of entries.

    `touched[row, :known[row]]` are the columns of a row of `table` that are not zero. Clears `table` and `known`.
    """
    for row in range(len(table)):
        for place in range(known[row]):
            column = touched[row, place]
            columns[entries], counts[entries] = column, table[row, column]
            table[row, column] = 0
            entries += 1
        known[row] = 0
        row_ends[row] = entries
    return entries


@compiled
def count_units(
    starts: NDArray[np.int64],
    cell: NDArray[np.uint8],
    combination: NDArray[np.int32],
    order: NDArray[np.int64],
    unit: NDArray[np.int64],
    pointers: NDArray[np.int32],
    iterations: NDArray[np.int32],
    table: NDArray[np.int32],
    touched: NDArray[np.int32],
    row_ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
) -> int:
    """Count persons by (unit, cell) x iteration; return the number of entries of the sparse matrix.

    starts: the first person of each block, then the number of persons.
    cell, combination: one per person, sorted by block.
    order, unit: the blocks sorted by unit, and their units.
    pointers, iterations: the flatmap; the iterations of combination c are iterations[pointers[c] : pointers[c + 1]].
    table, touched: scratch, cells x iterations; `table` is all zeros on entry and on return.
    row_ends: filled with the end of each row's entries, cells x units.
    columns, counts: filled with the entries, row by row.
    """
    cells, entries, at = len(table), 0, 0
    known = np.zeros(cells, np.int64)
    for first in range(0, len(row_ends), cells):
        while at < len(order) and unit[at] * cells == first:
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
        entries = _write_out(table, touched, known, row_ends[first : first + cells], columns, counts, entries)
    return entries


@compiled
def add_units(
    ends: NDArray[np.int64],
    unit_columns: NDArray[np.uint16],
    unit_counts: NDArray[np.int32],
    order: NDArray[np.int64],
    region: NDArray[np.int32],
    table: NDArray[np.int32],
    touched: NDArray[np.int32],
    row_ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
) -> int:
    """Sum the counts of units, as `count_units` returns them, over the units of each region.

    ends, unit_columns, unit_counts: row (unit, cell) has the entries ends[row] to ends[row + 1] - 1.
    order, region: the units sorted by region, and their regions. Other arguments are as in `count_units`.
    """
    cells, entries, at = len(table), 0, 0
    known = np.zeros(cells, np.int64)
    for first in range(0, len(row_ends), cells):
        while at < len(order) and region[at] * cells == first:
            for row in range(cells):
                for entry in range(ends[order[at] * cells + row], ends[order[at] * cells + row + 1]):
                    column = unit_columns[entry]  # as in count_units: a shared function is three times slower
                    if table[row, column] == 0:
                        touched[row, known[row]] = column
                        known[row] += 1
                    table[row, column] += unit_counts[entry]
            at += 1
        entries = _write_out(table, touched, known, row_ends[first : first + cells], columns, counts, entries)
    return entries


@compiled
def add_cells(
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
    position: NDArray[np.int64],
    slots: NDArray[np.int32],
    cells: NDArray[np.int64],
) -> None:
    """Add entries to the cells of their groups, slots x cells.

    Row (region, cell) has the entries ends[row] to ends[row + 1] - 1, counted from ends[0].
    position: the position of each iteration in the level, -1 for the other level's iterations.
    slots: regions x positions; the row of `cells` of each group, -1 for groups that are not asked for.
    """
    width = cells.shape[1]
    for row in range(len(ends) - 1):
        of_region, cell = slots[row // width], row % width
        for entry in range(ends[row] - ends[0], ends[row + 1] - ends[0]):
            place = position[columns[entry]]
            slot = of_region[max(place, 0)]
            if slot >= 0 and place >= 0:  # in this order: most groups have no slot
                cells[slot, cell] += counts[entry]
