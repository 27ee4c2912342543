"""The kernel that numbers the combinations of race and ethnicity codes in a chunk of persons.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

COMBINED = 9  # codes of a person
# Odd numbers without a pattern (of the hexadecimal digits of pi): the sum of products with them scatters the codes.
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
    """Number the distinct columns of `codes`, 9 x n, in the order in which they first occur; return how many there are.

    `slots`, all -1, is a table for open addressing: 2^b of them, more than n. The others are filled.
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
