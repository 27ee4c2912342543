"""The errors that dividing block groups among their blocks adds.

A block's total is measured too coarsely to matter, so its cells are independent normal variables with the positive part
taken, moved by one multiplier a cell of the block group. Blocks without a cell that their block group has differ only
in their kinds of living quarters: they are counted, not listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.forecast.counts import AGE, GROUP, STRATA, predicted, strata_of_groups
from spine.forecast.division import MET, ROUNDS, positive_part
from spine.forecast.precision import Precision
from spine.geography import BoolArray, FloatArray, IntArray
from spine.redistricting import PERSONS, TYPES
from spine.top_down.histogram import Histograms


class BlockErrors(NamedTuple):
    """The errors of blocks given their block group: (blocks, counts) variance and bias.

    independent: (blocks, counts) the variance that a block's cells would have without the sums of the block group, for
    sums of several blocks.
    """

    variance: FloatArray
    bias: FloatArray
    independent: FloatArray


class BlockDivision:
    """The division of block groups, `parents`, among their blocks; arguments as those of `Division`."""

    def __init__(self, parents: Histograms, blocks: Histograms, allowed: BoolArray, parent: IntArray) -> None:
        self._parent, self._allowed, self._parents = parent, allowed.astype(float), len(parents)
        children = np.zeros((len(parents), TYPES))
        np.add.at(children, parent, self._allowed)
        self._of, self._cell, self._in_parent = parents.row, parents.cell, parents.count.astype(float)
        entries = self._of * PERSONS.cells + self._cell
        self._at = np.searchsorted(entries, parent[blocks.row] * PERSONS.cells + blocks.cell)
        self._block, self._count = blocks.row, blocks.count.astype(float)
        self._able = children[self._of, PERSONS.types[self._cell]]  # blocks that may have the cell
        self._empty = self._able - np.bincount(self._at, minlength=len(entries))
        self._first = np.unique(parent, return_index=True)[1]

    def errors(self, precision: Precision) -> BlockErrors:
        """Return the errors that are added with these (blocks,) precisions; siblings have one."""
        answered = (precision.cell + precision.group)[self._first]
        copied = (self._able <= 1) | (answered == 0)[self._of]  # one block alone may have the cell: it copies it
        deviation = np.where(copied, 1.0, 1 / np.sqrt(np.where(answered > 0, answered, 1.0))[self._of])
        at, moved = self._at, np.zeros(len(self._cell))
        for _ in range(ROUNDS):
            empty, own = positive_part(-moved, deviation), positive_part(self._count - moved[at], deviation[at])
            missed = self._summed(empty.mean, own.mean) - self._in_parent
            slope = np.maximum(self._summed(empty.chance, own.chance), 1e-9)
            moved += np.clip(missed / slope, -2 * deviation, 2 * deviation)
            if np.abs(np.where(copied, 0.0, missed)).max(initial=0.0) < MET:
                break
        of_all = np.maximum(self._summed(empty.variance, own.variance), 1e-300)
        free, free_own = np.where(copied, 0.0, empty.variance), np.where(copied[at], 0.0, own.variance)
        tied, tied_own = free * (1 - free / of_all), free_own * (1 - free_own / of_all[at])
        bias = np.where(copied, 0.0, empty.mean)
        bias_own = np.where(copied[at], 0.0, own.mean - self._count)
        return BlockErrors(
            self._of_blocks(tied, tied_own), self._of_blocks(bias, bias_own), self._of_blocks(free, free_own)
        )

    def _summed(self, empty: FloatArray, own: FloatArray) -> FloatArray:
        """Return the sums over the blocks of each cell of a block group."""
        return self._empty * empty + np.bincount(self._at, own, len(self._cell))

    def _of_blocks(self, empty: FloatArray, own: FloatArray) -> FloatArray:
        """Return (blocks, counts) sums over cells. empty, own: values of blocks without and with the cell."""
        bins = 2 * STRATA
        stratum = 2 * strata_of_groups()[GROUP[self._cell]] + AGE[self._cell]
        kind = PERSONS.types[self._cell]
        where = (self._of * TYPES + kind) * bins + stratum
        all_empty = np.bincount(where, empty, self._parents * TYPES * bins).reshape(self._parents, TYPES, bins)
        sums = np.zeros((len(self._parent), bins))
        for at in range(TYPES):
            has = np.flatnonzero(self._allowed[:, at])
            sums[has] += all_empty[self._parent[has], at]
        extra = np.bincount(self._block * bins + stratum[self._at], own - empty[self._at], sums.size)
        sums += extra.reshape(sums.shape)
        of_counts: FloatArray = sums @ predicted().member.reshape(-1, bins).T.astype(float)
        return of_counts
