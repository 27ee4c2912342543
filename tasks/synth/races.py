"""CENRACE: the 63 combinations of the six major races, derived from the ranges of detailed codes."""

from __future__ import annotations

from itertools import combinations

import numpy as np

# White, Black, American Indian and Alaska Native, Asian, Native Hawaiian and Pacific Islander, Some Other Race
MAJOR_RACES = 6
# First code of each range of the list, and the major race of its codes.
_RANGES = {1000: 0, 2000: 5, 3000: 1, 4000: 3, 5000: 2, 7000: 0, 7500: 4, 8000: 5}


def major_races(codes: np.ndarray) -> np.ndarray:
    """Return the bit mask of the major race of each detailed code (four digits, `S4`); uint8."""
    place = np.searchsorted(list(_RANGES), codes.astype(np.int64), side="right") - 1
    return (1 << np.array(list(_RANGES.values()))[place]).astype(np.uint8)


def _cenrace() -> np.ndarray:
    """Return CENRACE by bit mask: 01 to 06 one race, 07 to 21 two, ... 63 all six, in the order of their races."""
    groups = [group for size in range(1, MAJOR_RACES + 1) for group in combinations(range(MAJOR_RACES), size)]
    table = np.full(1 << MAJOR_RACES, b"00", "S2")
    for number, group in enumerate(groups, start=1):
        table[sum(1 << race for race in group)] = f"{number:02d}"
    return table


CENRACE = _cenrace()
