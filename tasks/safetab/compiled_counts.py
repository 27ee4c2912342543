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
def map_combinations(
    combinations: NDArray[np.uint16],
    maps: NDArray[np.int32],
    pointers: NDArray[np.int32],
    iterations: NDArray[np.uint16],
) -> int:
    """Fill the flatmap of combinations (n x 9), as `count_units` takes it; return its number of entries.

    maps: k x 3 x codes; the alone, in-combination and ethnicity iteration of each code, or -1.
    """
    entries, races = 0, COMBINED - 1
    for row in range(len(combinations)):
        pointers[row], first, given = entries, entries, races
        while given > 1 and combinations[row, given - 1] == 0:
            given -= 1
        for own in range(len(maps)):
            alone = maps[own, 0, combinations[row, 0]]
            for place in range(given + 2):
                if place < given:
                    code = combinations[row, place]
                    iteration = maps[own, 1, code]
                    if code != 0 and maps[own, 0, code] != alone:
                        alone = -1
                else:
                    iteration = alone if place == given else maps[own, 2, combinations[row, races]]
                known = iteration < 0
                for entry in range(first, entries):  # two codes of one iteration count once
                    known |= iterations[entry] == iteration
                if not known:
                    iterations[entries] = iteration
                    entries += 1
    pointers[len(combinations)] = entries
    return entries


@compiled
def count_units(
    starts: NDArray[np.int64],
    cell: NDArray[np.uint8],
    combination: NDArray[np.int32],
    order: NDArray[np.int64],
    unit: NDArray[np.int64],
    pointers: NDArray[np.int32],
    iterations: NDArray[np.uint16],
    table: NDArray[np.int32],
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    cells: NDArray[np.uint8],
    counts: NDArray[np.int32],
) -> int:
    """Count records by unit, iteration and cell; return the number of entries.

    starts: the first record of each block, then the number of records.
    cell, combination: one per record, sorted by block.
    order, unit: the blocks sorted by unit, and their units.
    pointers, iterations: the flatmap; the iterations of combination c are iterations[pointers[c] : pointers[c + 1]].
    table: scratch, iterations x cells; all zeros on entry and on return.
    ends: filled with the end of each unit's entries.
    columns, cells, counts: filled with the entries: iteration, cell, records.
    """
    entries, at = 0, 0
    for number in range(len(ends)):
        first = entries
        while at < len(order) and unit[at] == number:
            block = order[at]
            for record in range(starts[block], starts[block + 1]):
                own, mapped = cell[record], combination[record]
                for place in range(pointers[mapped], pointers[mapped + 1]):
                    column = iterations[place]
                    if table[column, own] == 0:
                        columns[entries], cells[entries] = column, own
                        entries += 1
                    table[column, own] += 1
            at += 1
        for entry in range(first, entries):
            counts[entry] = table[columns[entry], cells[entry]]
            table[columns[entry], cells[entry]] = 0
        ends[number] = entries
    return entries


@compiled
def add_units(
    unit_ends: NDArray[np.int64],
    unit_columns: NDArray[np.uint16],
    unit_cells: NDArray[np.uint8],
    unit_counts: NDArray[np.int32],
    order: NDArray[np.int64],
    region: NDArray[np.int32],
    own: NDArray[np.int32],
    table: NDArray[np.int32],
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    cells: NDArray[np.uint8],
    counts: NDArray[np.int32],
) -> int:
    """Sum the counts of units, as `count_units` returns them, over the units of each region.

    unit_ends: 0, then the end of each unit's entries. order, region: the units sorted by region, and their regions.
    own: the number that the regions' granularity has for an iteration, -1 if it does not tabulate it. Other arguments
    are as in `count_units`.
    """
    entries, at = 0, 0
    for number in range(len(ends)):
        first = entries
        while at < len(order) and region[at] == number:
            for entry in range(unit_ends[order[at]], unit_ends[order[at] + 1]):
                column, cell = own[unit_columns[entry]], unit_cells[entry]
                if column >= 0:
                    if table[column, cell] == 0:
                        columns[entries], cells[entries] = column, cell
                        entries += 1
                    table[column, cell] += unit_counts[entry]
            at += 1
        for entry in range(first, entries):
            counts[entry] = table[columns[entry], cells[entry]]
            table[columns[entry], cells[entry]] = 0
        ends[number] = entries
    return entries


@compiled
def add_totals(
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    counts: NDArray[np.int32],
    position: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add entries to the totals of their groups, regions x positions; arguments as in `add_cells`."""
    for number in range(len(ends) - 1):
        for entry in range(ends[number] - ends[0], ends[number + 1] - ends[0]):
            place = position[columns[entry]]
            if place >= 0:
                totals[number, place] += counts[entry]


@compiled
def add_cells(
    ends: NDArray[np.int64],
    columns: NDArray[np.uint16],
    of_cell: NDArray[np.uint8],
    counts: NDArray[np.int32],
    position: NDArray[np.int64],
    slots: NDArray[np.int32],
    cells: NDArray[np.int64],
) -> None:
    """Add entries to the cells of their groups, slots x cells.

    Region r has the entries ends[r] to ends[r + 1] - 1, counted from ends[0].
    position: the position of each iteration in the level, -1 for the other level's iterations.
    slots: regions x positions; the row of `cells` of each group, -1 for groups that are not asked for.
    """
    for number in range(len(ends) - 1):
        for entry in range(ends[number] - ends[0], ends[number + 1] - ends[0]):
            place = position[columns[entry]]
            slot = slots[number, max(place, 0)]
            if slot >= 0 and place >= 0:  # in this order: most groups have no slot
                cells[slot, of_cell[entry]] += counts[entry]
