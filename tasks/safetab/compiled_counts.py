"""Kernels that number combinations of codes, digest records, and count population groups.

The counting kernels tabulate one region at a time: such a table fits a core's cache. Their indices are unsigned: a
signed one costs a test whether it counts from the end.

Import this module only for large inputs: numba takes half a second to load, and an installation's first call compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.safetab.group_counts import MOST, Counts

COMBINED = 9  # codes of a person
# Odd hexadecimal digits of pi: the sum of products with them hashes a combination of codes.
SCATTER = np.array([0x243F6A8885A308D3, 0x13198A2E03707345, 0xA4093822299F31D1], np.uint64)


@compiled
def number_combinations(
    codes: NDArray[np.uint16],
    scatter: NDArray[np.uint64],
    slots: NDArray[np.uint32],
    combination: NDArray[np.uint32],
    keys: NDArray[np.uint64],
) -> int:
    """Number the distinct columns of `codes` (9 x n) in the order of first occurrence; return how many there are.

    slots: an open-addressing hash table of 2^b entries, all 0. Returns -1 if the combinations would fill more than half
    of it.
    combination, keys: filled with the number of each column, and the distinct columns, four codes in a word: n x 3.
    """
    mask, known = np.uint64(len(slots) - 1), 0
    for row in range(codes.shape[1]):
        first, second, third = np.uint64(0), np.uint64(0), np.uint64(codes[8, row])
        for place in range(4):
            first |= np.uint64(codes[place, row]) << np.uint64(16 * place)
            second |= np.uint64(codes[4 + place, row]) << np.uint64(16 * place)
        mixed = first * scatter[0] + second * scatter[1] + third * scatter[2]
        slot = (mixed ^ mixed >> np.uint64(32)) & mask
        while True:
            number = slots[slot]  # from 1 on
            if number == 0:
                if 2 * known >= len(slots):
                    return -1
                keys[known, 0], keys[known, 1], keys[known, 2] = first, second, third
                known += 1
                slots[slot] = number = known
                break
            key = keys[number - np.uint32(1)]
            if (key[0] == first) & (key[1] == second) & (key[2] == third):
                break
            slot = (slot + np.uint64(1)) & mask
        combination[row] = number - np.uint32(1)
    return known


@compiled
def add_weights(
    ends: NDArray[np.int64],
    combination: NDArray[np.uint32],
    cell: NDArray[np.uint8],
    of_combination: NDArray[np.uint64],
    of_cell: NDArray[np.uint64],
    sums: NDArray[np.uint64],
) -> None:
    """Add up the weights of the records between consecutive ends, in two lanes (`record_digests.weights`)."""
    record = np.uint64(0)
    for group in range(len(ends)):
        one, other = np.uint64(0), np.uint64(0)
        while record < np.uint64(ends[group]):
            of_codes, of_value = of_combination[combination[record]], of_cell[cell[record]]
            one += of_codes[0] * of_value[0]
            other += of_codes[1] * of_value[1]
            record += np.uint64(1)
        sums[group, 0], sums[group, 1] = one, other


@compiled
def map_combinations(
    combinations: NDArray[np.uint16],
    maps: NDArray[np.int32],
    pointers: NDArray[np.uint32],
    iterations: NDArray[np.uint16],
) -> int:
    """Fill the flatmap of combinations (n x 9), as `count_records` takes it; return its number of entries.

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
def count_records(
    bounds: NDArray[np.int64],
    blocks: NDArray[np.int64],
    starts: NDArray[np.int64],
    cell: NDArray[np.uint8],
    combination: NDArray[np.uint32],
    pointers: NDArray[np.uint32],
    iterations: NDArray[np.uint16],
    table: NDArray[np.int32],
    counts: Counts,
) -> None:
    """Fill the counts of regions from records.

    bounds, blocks: the blocks of region r are blocks[bounds[r] : bounds[r + 1]].
    starts: the first record of each block, then the number of records. cell, combination: one per record.
    pointers, iterations: the flatmap; the iterations of combination c are iterations[pointers[c] : pointers[c + 1]].
    table: scratch, iterations x cells; all zeros on entry and on return.
    """
    found, is_found = np.empty(len(table), np.uint16), np.zeros(len(table), np.bool_)
    for region in range(len(bounds) - 1):
        known = 0
        for block in blocks[bounds[region] : bounds[region + 1]]:
            for record in range(starts[block], starts[block + 1]):
                own, mapped = cell[record], combination[record]
                for place in range(pointers[mapped], pointers[mapped + 1]):
                    iteration = iterations[place]
                    table[iteration, own] += 1
                    if not is_found[iteration]:
                        found[known], is_found[iteration] = iteration, True
                        known += 1
        write_region(region, found[:known], is_found, table, counts)


@compiled
def add_regions(
    bounds: NDArray[np.int64],
    parts: NDArray[np.int64],
    of_parts: Counts,
    table: NDArray[np.int32],
    counts: Counts,
) -> None:
    """Fill the counts of regions from those of their parts; arguments are as in `count_records`."""
    found, is_found = np.empty(len(table), np.uint16), np.zeros(len(table), np.bool_)
    for region in range(len(bounds) - 1):
        known = 0
        if bounds[region + 1] - bounds[region] == 1:  # most tracts are one unit
            only = parts[bounds[region]]
            start, stop = of_parts.ends[only], of_parts.ends[only + 1]
            copy_rows(of_parts.groups[start[0] : stop[0]], counts.groups[counts.ends[region, 0] :])
            copy_rows(of_parts.entries[start[1] : stop[1]], counts.entries[counts.ends[region, 1] :])
            for kind in range(2):
                counts.ends[region + 1, kind] = counts.ends[region, kind] + stop[kind] - start[kind]
            continue
        for part in parts[bounds[region] : bounds[region + 1]]:
            entry = np.uint64(of_parts.ends[part, 1])
            for iteration, _, entries in of_parts.groups[of_parts.ends[part, 0] : of_parts.ends[part + 1, 0]]:
                last = entry + entries
                for at in range(entry, last):
                    table[iteration, of_parts.entries[at, 0]] += of_parts.entries[at, 1]
                entry = last
                if not is_found[iteration]:
                    found[known], is_found[iteration] = iteration, True
                    known += 1
        write_region(region, found[:known], is_found, table, counts)


@compiled
def copy_rows(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy rows to the first of `target`: an assignment of slices would compile its message about their shapes."""
    for row in range(len(source)):
        for column in range(source.shape[1]):
            target[row, column] = source[row, column]


@compiled
def write_region(
    region: int,
    found: NDArray[np.uint16],
    is_found: NDArray[np.bool_],
    table: NDArray[np.int32],
    counts: Counts,
) -> None:
    """Move the counts of a region from the table behind those of the regions before it.

    found: the iterations that the region has. is_found: whether an iteration is among them; all False on return.
    """
    _, groups, entries = counts
    group, entry = np.uint64(counts.ends[region, 0]), np.uint64(counts.ends[region, 1])
    for iteration in found:
        row, is_found[iteration] = table[iteration], False
        left = row.sum()
        while left > 0:  # again if a cell has more records than an entry holds
            first, total = entry, 0
            for own in range(len(row)):
                records = min(row[own], MOST)
                entries[entry, 0], entries[entry, 1] = own, records  # without records, the next entry replaces it
                entry += np.uint64(records > 0)
                total += records
                row[own] -= records
            groups[group, 0], groups[group, 1], groups[group, 2] = iteration, total, entry - first
            group += np.uint64(1)
            left -= total
    counts.ends[region + 1, 0], counts.ends[region + 1, 1] = group, entry


@compiled
def add_totals(
    ends: NDArray[np.int64],
    groups: NDArray[np.uint16],
    position: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add the totals of groups, regions x positions; arguments as in `add_cells`."""
    for region in range(len(ends) - 1):
        for group in range(ends[region, 0] - ends[0, 0], ends[region + 1, 0] - ends[0, 0]):
            place = position[groups[group, 0]]
            if place >= 0:
                totals[region, place] += groups[group, 1]


@compiled
def add_cells(
    ends: NDArray[np.int64],
    groups: NDArray[np.uint16],
    entries: NDArray[np.uint8],
    position: NDArray[np.int64],
    slots: NDArray[np.int32],
    cells: NDArray[np.int64],
) -> None:
    """Add the entries of groups, slots x cells.

    ends, groups, entries: as in `Counts`, counted from ends[0].
    position: the position of each iteration in the level, -1 for iterations that it does not have.
    slots: regions x positions; the row of `cells` of each group, -1 for groups that are not asked for.
    """
    for region in range(len(ends) - 1):
        entry = ends[region, 1] - ends[0, 1]
        for group in range(ends[region, 0] - ends[0, 0], ends[region + 1, 0] - ends[0, 0]):
            place, last = position[groups[group, 0]], entry + groups[group, 2]
            slot = slots[region, max(place, 0)]
            if slot >= 0 and place >= 0:  # in this order: most groups have no slot
                for at in range(entry, last):
                    cells[slot, entries[at, 0]] += entries[at, 1]
            entry = last
