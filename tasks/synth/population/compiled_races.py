"""Which persons of a block share a household, by ethnicity and race."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CELLS = 128  # Hispanic or not, by set of races


@compiled
def match_bodies(
    ends: IntArray,
    head: IntArray,
    adult: NDArray[np.uint8],
    body_adult: NDArray[np.uint8],
    body_cell: NDArray[np.uint8],
    shared: FloatArray,
    chosen: FloatArray,
    same_ethnicity: float,
    same_race: float,
    body: IntArray,
) -> None:
    """Fill the body (ethnicity, race, origin) of each person of each block, each once.

    ends: first row of each block's persons, and the end; the same of the bodies. head: row of a person's householder,
    the person's own in group quarters. A member shares the householder's ethnicity with one chance and race with the
    other, as far as the block has such bodies of the member's age.
    """
    following = np.empty(len(body), np.int64)
    top = np.full((2, CELLS), -1)
    count = np.zeros((2, CELLS), np.int64)
    present = np.zeros((2, CELLS), np.int64)
    cell_of = np.zeros(len(body), np.uint8)
    for block in range(len(ends) - 1):
        start, end = ends[block], ends[block + 1]
        kinds = np.zeros(2, np.int64)
        for row in range(end - 1, start - 1, -1):
            age, cell = body_adult[row], body_cell[row]
            if count[age, cell] == 0:
                present[age, kinds[age]] = cell
                kinds[age] += 1
            following[row] = top[age, cell]
            top[age, cell] = row
            count[age, cell] += 1
        for turn in range(2):  # householders first, so that theirs is the block's own mix
            for row in range(start, end):
                is_head = head[row] == row
                if is_head == (turn == 1):
                    continue
                age, wanted = adult[row], cell_of[head[row]]
                draw = shared[row]
                by_ethnicity = turn == 1 and draw < same_ethnicity
                by_race = turn == 1 and (draw * 997.0) % 1.0 < same_race
                total = 0
                while True:
                    total = 0
                    for place in range(kinds[age]):
                        cell = present[age, place]
                        if by_ethnicity and (cell >> 6) != (wanted >> 6):
                            continue
                        if by_race and (cell & 63) != (wanted & 63):
                            continue
                        total += count[age, cell]
                    if total > 0:
                        break
                    if by_race:
                        by_race = False
                    else:
                        by_ethnicity = False
                left = chosen[row] * total
                taken = np.int64(-1)
                for place in range(kinds[age]):
                    cell = present[age, place]
                    if by_ethnicity and (cell >> 6) != (wanted >> 6):
                        continue
                    if by_race and (cell & 63) != (wanted & 63):
                        continue
                    if count[age, cell] == 0:
                        continue
                    taken = cell
                    left -= count[age, cell]
                    if left < 0:
                        break
                body[row] = top[age, taken]
                top[age, taken] = following[top[age, taken]]
                count[age, taken] -= 1
                cell_of[row] = taken
