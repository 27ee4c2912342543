"""Uniform draws by address: Philox 4x32-10, keyed by seed and purpose, counted by tract and row.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC '11.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

FloatArray = NDArray[np.float64]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_BELL_PARTS = 1024


class Purpose(IntEnum):
    """What a stream of draws is for."""

    QUARTERS = 1
    MINORS_IN_QUARTERS = auto()
    MINORS = auto()
    SIZE = auto()
    VACANCY = auto()
    TYPE = auto()
    ORDER = auto()
    MEMBER = auto()
    ROOMMATES = auto()
    ROLE = auto()
    AGE = auto()
    TYPICAL_AGE = auto()
    AGE_SWAP = auto()
    SAME_SEX = auto()
    SEX = auto()
    SETTLEMENT = auto()
    ORIGIN = auto()
    NEIGHBOUR = auto()
    MIXED = auto()
    BODY = auto()
    CODES = auto()
    SHARED_CODES = auto()
    TENURE = auto()
    POPULATION = auto()


@dataclass(frozen=True)
class Draws:
    """The draws of some tracts. tracts: uint64 (t, 2), the state and county and the tract of each, by their codes."""

    seed: int
    tracts: NDArray[np.uint64]

    def uniform(self, purpose: Purpose, tract: NDArray[np.int64]) -> FloatArray:
        """Return a number in (0, 1) for each row; tract: (n,), the number of each row's tract, ascending."""
        numbers = np.empty(len(tract))
        fill_uniforms(np.uint64(self.seed & (2**64 - 1)), np.uint64(purpose), self.tracts, tract, numbers)
        return numbers

    def normal(self, purpose: Purpose, tract: NDArray[np.int64]) -> FloatArray:
        """Return a standard normal number for each row, to within 1/1,024 of the law."""
        numbers: FloatArray = _bell()[(self.uniform(purpose, tract) * _BELL_PARTS).astype(np.int64)]
        return numbers


@cache
def _bell() -> FloatArray:
    """Return standard normal numbers at the middles of equal parts of [0, 1)."""
    return np.array([NormalDist().inv_cdf((part + 0.5) / _BELL_PARTS) for part in range(_BELL_PARTS)])


@compiled
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four 32-bit words of a counter under a key; all are uint64 below 2^32."""
    for _ in range(10):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c2 = (second >> _HALF) ^ c1 ^ k0, (first >> _HALF) ^ c3 ^ k1
        c1, c3 = second & _LOW, first & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


@compiled
def fill_uniforms(
    seed: Any, purpose: Any, tracts: NDArray[np.uint64], tract: NDArray[np.int64], numbers: FloatArray
) -> None:
    """Fill `numbers`: four rows of a tract take the four words of a counter."""
    row, rows = 0, len(numbers)
    while row < rows:
        here, counter = tract[row], np.uint64(0)
        while row < rows and tract[row] == here:
            words = philox(counter, tracts[here, 1], tracts[here, 0], seed >> _HALF, seed & _LOW, purpose)
            for word in words:
                if row < rows and tract[row] == here:
                    numbers[row] = (np.float64(word) + 0.5) * 2.0**-32
                    row += 1
            counter += np.uint64(1)
