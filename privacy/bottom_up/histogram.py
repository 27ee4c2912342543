"""The histogram of the bottom-up approach: the full cross of all factors, and marginals made by addition.

Source: Clark, Dajani, "Achieving Differential Privacy Using a Two-Tailed Geometric Bottom-Up Mechanism" (2019), Method.
Levels are declared beforehand, never found in the data. Every cell of the full cross product exists, empty or not, so
the list of cells reveals nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

MOST_CELLS = 1 << 31


@dataclass(frozen=True)
class Factor:
    """A factor, as age, race or sex, with its declared levels in the order of the histogram."""

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError(f"factor {self.name} has no levels: declare them: they are never taken from the data")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"factor {self.name} has a level twice")

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each level."""
        return {level: number for number, level in enumerate(self.levels)}


@dataclass(frozen=True)
class Histogram:
    """The full cross product of the factors; a cell's number is that of its levels in row-major order.

    `impossible` lists public structural zeros by levels of some of the factors, as ({"age": "0-4", "married": "yes"},).
    Such cells hold no record and get no noise.
    """

    factors: tuple[Factor, ...]
    impossible: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = self.names
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"a histogram needs at least one factor, and each only once, not {', '.join(names) or 'none'}"
            )
        if self.cells > MOST_CELLS:
            raise ValueError(f"the histogram has {self.cells:,} cells, more than {MOST_CELLS:,}")
        for cell in self.impossible:
            for name, level in cell.items():
                if level not in self.factor(name).numbers:
                    raise ValueError(f"structural zero: {name} has no level {level!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The factors' names."""
        return tuple(factor.name for factor in self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each factor."""
        return tuple(len(factor.levels) for factor in self.factors)

    @property
    def cells(self) -> int:
        """The number of cells, structural zeros included."""
        return prod(self.shape)

    def factor(self, name: str) -> Factor:
        """Return a factor by name. Raises ValueError where there is none."""
        for factor in self.factors:
            if factor.name == name:
                return factor
        raise ValueError(f"there is no factor {name!r}: choose from {', '.join(self.names)}")

    def cell(self, levels: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return cell numbers of records, given the number of their level in each factor."""
        return np.asarray(np.ravel_multi_index(tuple(levels), self.shape), dtype=np.int64)

    def levels(self, cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return the number of the level in each factor of these cells: the inverse of `cell`."""
        return tuple(np.asarray(numbers, dtype=np.int64) for numbers in np.unravel_index(cells, self.shape))

    def possible(self, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these cells are not structural zeros."""
        free = np.ones(len(cells), dtype=np.bool_)
        numbers = dict(zip(self.names, self.levels(cells), strict=True)) if self.impossible else {}
        for ruled_out in self.impossible:
            hits = [numbers[name] == self.factor(name).numbers[level] for name, level in ruled_out.items()]
            free &= ~np.logical_and.reduce(hits)
        return free

    def marginal(self, counts: NDArray[np.int64], names: Iterable[str]) -> NDArray[np.int64]:
        """Sum all cells into the marginal of some factors (none: the total), int64 in the factors' own order.

        The cells' noise is never drawn anew, so marginals agree with each other and cost no further budget.
        """
        kept = {self.factor(name).name for name in names}
        axes = tuple(axis for axis, name in enumerate(self.names) if name not in kept)
        return np.asarray(counts.reshape(self.shape).sum(axis=axes, dtype=np.int64)).reshape(-1)
