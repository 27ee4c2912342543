"""Two tables of a group that count the same records independently: pool their totals, and adjust their cells.

S1 = N + B1, of k1 cells, and S2 = N + B2, of k2. Given D = S1 - S2 the posterior mean of B1 is m(D) (`pooling`), and
U = S1 - m(D) is the total of both. The tables were chosen by public numbers, so the choice needs no correction. Each
table's cells take equal parts of its change; the remainder goes to consecutive cells from a random start, so that every
cell is unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.densities import Density, density_of_sum, smallest_margin, values
from privacy.estimation.pooling import DIGITS, nearest, posterior_mean, symmetric
from privacy.noise.laws import DiscreteGaussian, Law


@dataclass(frozen=True)
class PooledTable:
    """A table that was measured: the law of each of its cells, and how many it has."""

    law: Law
    cells: int

    def density(self, cells: int) -> Density:
        """Return the law of the sum of some of its cells."""
        return density_of_sum(self.law, cells) if cells else np.ones(1)


@lru_cache(maxsize=256)
def pull(own: PooledTable, other: PooledTable) -> NDArray[np.int64]:
    """Return what the pooled total takes from a table's own, in whole numbers: one for each D from -R to R.

    For Gaussian noise m(d) = d v / (v + v'), rounded exactly, halves away from zero; for other noise it is tabulated.
    The other table's is d minus this one, so that both have the same total.
    """
    reach = len(own.density(own.cells)) // 2 + len(other.density(other.cells)) // 2
    d = np.arange(-reach, reach + 1)
    if isinstance(own.law, DiscreteGaussian) and isinstance(other.law, DiscreteGaussian):
        mine, theirs = own.cells * own.law.sigma_squared, other.cells * other.law.sigma_squared
        share = mine / (mine + theirs)
        whole = (2 * np.abs(d).astype(object) * share.numerator + share.denominator) // (2 * share.denominator)
        return np.sign(d) * whole.astype(np.int64)
    mean = posterior_mean(other.density(other.cells), own.density(own.cells))
    return nearest(np.round(mean * DIGITS) / DIGITS)


def changes(own: PooledTable, other: PooledTable, difference: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the changes of a table's totals, D its total less the other's: to the pooled total."""
    of_difference = pull(own, other)
    reach = len(of_difference) // 2
    inside = np.clip(difference, -reach, reach)  # no draw of the laws is beyond it
    return -of_difference[inside + reach]


def spread(change: NDArray[np.int64], turn: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Spread each table's change over its cells, starting at cell `turn`, uniform on 0 ... cells - 1."""
    share, rest = np.divmod(np.abs(change), cells)
    rank = (np.arange(cells) - turn[:, None]) % cells
    parts: NDArray[np.int64] = np.sign(change)[:, None] * (share[:, None] + (rank < rest[:, None]))
    return parts


def law_of_row(own: PooledTable, other: PooledTable, places: tuple[int, ...], *, follows: bool) -> Density:
    """Return the exact law of the error of a sum of some cells of a table, over noise and turns.

    follows: whether this table takes the total of the other, whose change is computed.
    """
    first = min(tuple(sorted((place - start) % own.cells for place in places)) for start in places)  # turns are uniform
    return _law_of_row(own, other, first, follows)


@lru_cache(maxsize=1024)
def _law_of_row(own: PooledTable, other: PooledTable, places: tuple[int, ...], follows: bool) -> Density:
    of_difference = pull(own, other) if not follows else _following(own, other)
    reach, count = len(of_difference) // 2, len(places)
    some = own.density(count)
    rest = np.convolve(own.density(own.cells - count), other.density(other.cells))
    taken = [
        spread(of_difference, np.full(len(of_difference), turn), own.cells)[:, list(places)].sum(axis=1)
        for turn in range(own.cells)
    ]
    half = len(some) // 2 + reach + own.cells
    law, y = np.zeros(2 * half + 1), values(rest)
    for x, chance in zip(values(some), some, strict=True):
        d = np.clip(x + y, -reach, reach) + reach
        for of_turn in taken:
            law += np.bincount(x - of_turn[d] + half, chance * rest / own.cells, minlength=len(law))
    return symmetric(law)


def _following(own: PooledTable, other: PooledTable) -> NDArray[np.int64]:
    """Return what a table that takes the other's pooled total takes from its own."""
    of_other = pull(other, own)
    reach = len(of_other) // 2
    return np.arange(-reach, reach + 1) - of_other


def margin_of_row(own: PooledTable, other: PooledTable, places: tuple[int, ...], *, follows: bool) -> int:
    """Return the 95% margin of error of an estimate, exact."""
    return smallest_margin(law_of_row(own, other, places, follows=follows))
