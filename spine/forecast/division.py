"""The errors that dividing a parent's histogram among its children adds, above the blocks and in blocks.

The program estimates each child's cells by least squares where they add up to the parent's, none below 0. In the model
a cell of a child with the count x is the positive part of a normal variable of mean x - lambda - mu: lambda, one a cell
of the parent, makes the children add up to it; mu, one a child, makes its cells add up to its total, which has an
estimate of its own. Only cells that the parent has can be positive. A cell at 0 takes no part in the least squares: a
group of cells whose sum is answered too has as many cells as are *awake*, the sum of their variances in terms of that
of an unbounded cell.

A block's total is measured too coarsely to matter, so its cells have no mu. Blocks without a cell that their block
group has differ only in their kinds of living quarters: they are counted, not listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from spine.forecast.counts import AGE, GROUP, GROUPS, STRATA, predicted, strata_of_groups
from spine.forecast.precision import Precision
from spine.geography import BoolArray, FloatArray, IntArray
from spine.redistricting import PERSONS, TYPES
from spine.top_down.histogram import Histograms

ROUNDS = 40  # most steps of Newton's method
MET = 1e-3  # persons by which a sum may differ
OF_TOTAL = 0.8  # part of the total's variance that a count within it takes over


class Local(NamedTuple):
    """The errors that one division adds: (children, counts) variance and bias.

    The total of children comes first. Both are 0 for a copied child, whose estimate is its parent's.
    """

    variance: FloatArray
    bias: FloatArray


class Positive(NamedTuple):
    """The positive part of normal variables: its mean and variance, and the chance that it is not 0."""

    mean: FloatArray
    variance: FloatArray
    chance: FloatArray


def positive_part(mean: FloatArray, deviation: FloatArray) -> Positive:
    """Return the moments of max(0, N(mean, deviation^2))."""
    chance = ndtr(mean / deviation)
    density = deviation * np.exp(-0.5 * (mean / deviation) ** 2) / np.sqrt(2 * np.pi)
    first = mean * chance + density
    second = (mean**2 + deviation**2) * chance + mean * density
    return Positive(first, np.maximum(second - first**2, 0.0), chance)


class Division:
    """The division of the geounits of one level among those of the next, or the estimation of the topmost.

    parents: the stand-in's histograms of the level above; None for the topmost geounits, whose cells are all that their
    living quarters allow. children: those of this level. allowed: (children, types) kinds of living quarters that a
    child has. parent: (children,) its parent. measured: (children,) whether it has a budget.
    """

    def __init__(
        self,
        parents: Histograms | None,
        children: Histograms,
        allowed: BoolArray,
        parent: IntArray,
        measured: BoolArray,
    ) -> None:
        number = len(children)
        siblings = np.bincount(parent)[parent] if parents is not None else np.full(number, 2)
        self.copied = (siblings == 1) | ~measured
        child, cell, self._of_parent = _cells(parents, number, parent)
        used = allowed[child, PERSONS.types[cell]] & ~self.copied[child]
        self._child, cell, self._of_parent = child[used], cell[used], self._of_parent[used]
        self._in_parent = parents.count.astype(float) if parents is not None else np.zeros(0)
        self._count = _looked_up(children, self._child, cell)
        self._total = children.totals().astype(float)
        keys, self._group = np.unique(self._child * GROUPS + GROUP[cell], return_inverse=True)
        self._group_child, stratum = keys // GROUPS, strata_of_groups()[keys % GROUPS]
        self._bin = self._group_child * STRATA + stratum
        self._is_adult = AGE[cell] == 1
        self.bounded = parents is not None

    def errors(self, precision: Precision) -> Local:
        """Return the errors that are added with these (children,) precisions."""
        return self._sums(precision, *self._solve(precision))

    def _solve(self, precision: Precision) -> tuple[FloatArray, FloatArray]:
        """Return the expected deviations of the cells from the stand-in, and how much each cell is awake."""
        child, group, parent = self._child, self._group, self._of_parent
        cell, sums = precision.cell[child], precision.group[child]
        of_cell, of_child = np.zeros(len(self._in_parent)), np.zeros(len(self._total))
        awake = np.maximum(np.bincount(group, self._count > 0), 1.0)
        for _ in range(ROUNDS):
            within = awake[group]
            variance = (cell + (within - 1) * sums) / (cell * (cell + within * sums))
            deviation = np.sqrt(variance)
            step = np.median(deviation) if len(deviation) else 1.0
            missed = 0.0
            if self.bounded:
                found = positive_part(self._count - of_child[child] - of_cell[parent], deviation)
                moved, missed = _step(parent, found, self._in_parent, 2 * step)
                of_cell += moved
            shift = of_cell[parent] if self.bounded else 0.0
            found = positive_part(self._count - of_child[child] - shift, deviation)
            moved, also_missed = _step(child, found, self._total, step)
            of_child += moved
            awake = np.maximum(np.bincount(group, found.variance / variance), 1.0)
            if max(missed, also_missed) < MET:
                break
        return found.mean - self._count, found.variance / variance

    def _sums(self, precision: Precision, error: FloatArray, weight: FloatArray) -> Local:
        """Return the errors of counts from those of cells: each group of adults and of minors, then the strata."""
        number, groups = len(self._total), len(self._group_child)
        adult = [np.bincount(self._group, values * self._is_adult, groups) for values in (weight, error)]
        both = [np.bincount(self._group, values, groups) for values in (weight, error)]
        mass = np.stack([both[0] - adult[0], adult[0]], axis=-1)  # (groups, ages)
        bias = np.stack([both[1] - adult[1], adult[1]], axis=-1)
        cell, sums = precision.cell[self._group_child], precision.group[self._group_child]
        together = cell + both[0] * sums
        outer = -mass[:, :, None] * mass[:, None, :] * (sums / (cell * together))[:, None, None]
        outer[:, (0, 1), (0, 1)] += mass / cell[:, None]

        def of_strata(values: FloatArray) -> FloatArray:
            columns = values.reshape(groups, int(np.prod(values.shape[1:]))).T
            table = [np.bincount(self._bin, column, number * STRATA) for column in columns]
            stacked = np.stack(table, axis=-1).reshape(number, STRATA, -1).astype(float)
            return stacked

        member = predicted().member.astype(float)
        variance = np.einsum("qsa,nsab,qsb->nq", member, of_strata(outer).reshape(number, STRATA, 2, 2), member)
        with_total = np.einsum("qsa,nsa->nq", member, of_strata(mass / together[:, None]))
        whole = np.where(with_total[:, 0] > 0, with_total[:, 0], 1.0)[:, None]
        total = np.where(self.copied, 0.0, 1 / np.where(self.copied, 1.0, precision.total))[:, None]
        slope = with_total / whole
        taken = np.where(np.isin(np.arange(len(member)), predicted().largest), 0.0, OF_TOTAL)
        found = variance - with_total * slope + taken * slope**2 * total
        found[:, :1] = total
        return Local(np.maximum(found, 0.0), np.einsum("qsa,nsa->nq", member, of_strata(bias)))


def _cells(parents: Histograms | None, number: int, parent: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return child and cell of every cell that a child may have, and the parent's entry that bounds it."""
    if parents is None:
        cells = np.flatnonzero(PERSONS.possible)
        child = np.repeat(np.arange(number), len(cells))
        return child, np.tile(cells, number), np.zeros_like(child)
    size = np.diff(parents.starts)[parent]
    child = np.repeat(np.arange(number), size)
    entry = np.arange(len(child)) + np.repeat(parents.starts[:-1][parent] - (np.cumsum(size) - size), size)
    return child, parents.cell[entry], entry


def _looked_up(histograms: Histograms, row: IntArray, cell: IntArray) -> FloatArray:
    """Return the counts of these cells, ascending by geounit and cell; 0 for those that are empty."""
    keys = row * PERSONS.cells + cell
    count = np.zeros(len(keys))
    own = histograms.row * PERSONS.cells + histograms.cell
    at = np.searchsorted(keys, own)
    inside = at < len(keys)
    inside[inside] &= keys[at[inside]] == own[inside]
    count[at[inside]] = histograms.count[inside]
    return count


def _step(index: IntArray, found: Positive, wanted: FloatArray, most: float) -> tuple[FloatArray, float]:
    """Return a step of Newton's method for each multiplier, and the largest sum that is still missed."""
    number = len(wanted)
    there = np.bincount(index, minlength=number) > 0
    missed = np.where(there, np.bincount(index, found.mean, number) - wanted, 0.0)
    slope = np.maximum(np.bincount(index, found.chance, number), 1e-9)
    return np.clip(missed / slope, -most, most), float(np.abs(missed).max(initial=0.0))


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
