"""Pass errors down the spine, and add them up in areas off it.

A child takes over the part V / S of its parent's error: its own variance over that of it and its siblings. Under the
program's estimator the own variance is what its own answers leave; under generalized least squares the answers below it
count too. In areas, the count within a geounit is regressed on the geounit's own, as in `spine.gls.entity_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from spine.forecast.division import BlockErrors, Local
from spine.geography import BoolArray, FloatArray, IntArray
from spine.hierarchy import Spine
from spine.osed import Pairs


@dataclass(frozen=True)
class Errors:
    """The errors of the counts of some geounits or areas: (geounits, counts) variance and bias."""

    variance: FloatArray
    bias: FloatArray

    @property
    def mean_absolute(self) -> FloatArray:
        """Return the (geounits, counts) mean of |error|, that of a normal variable."""
        deviation, bias = np.sqrt(np.maximum(self.variance, 1e-12)), np.abs(self.bias)
        ratio = bias / deviation
        found: FloatArray = deviation * np.sqrt(2 / np.pi) * np.exp(-0.5 * ratio**2) + bias * (2 * ndtr(ratio) - 1)
        return found

    def within(self, bound: FloatArray) -> FloatArray:
        """Return the chance that an error is at most `bound` in size."""
        deviation = np.sqrt(np.maximum(self.variance, 1e-12))
        found: FloatArray = ndtr((bound - self.bias) / deviation) - ndtr((-bound - self.bias) / deviation)
        return found


class ErrorTree:
    """The errors of every geounit of a forest whose topmost geounits are the parts of states with declared totals.

    local: the errors of each level above the blocks, top first. blocks: those of the blocks. persons: (levels) the
    stand-in's totals.
    state: (parts,) the state of each topmost geounit, from 0. with_below: whether the answers below
    a geounit count. total_is_declared: whether the first count of a state is.
    """

    def __init__(
        self,
        spine: Spine,
        local: Sequence[Local],
        blocks: BlockErrors,
        persons: Sequence[FloatArray],
        state: IntArray,
        *,
        with_below: bool,
        total_is_declared: bool,
    ) -> None:
        self._spine, self._local, self._blocks, self._persons = spine, local, blocks, persons
        self._total_is_declared, self._state = total_is_declared, state
        self._alone = [each.variance for each in local]
        if with_below:
            self._add_below()
        self._siblings = [  # S: each geounit's sum over its children
            _sum(spine.parents[level], self._alone[level], len(spine.starts[level - 1]))
            for level in range(1, len(local))
        ]
        self.errors = self._down()

    def _add_below(self) -> None:
        """Combine what the answers of a geounit leave with what those below it say, from the lowest level up."""
        for level in range(len(self._local) - 2, -1, -1):
            below = _sum(self._spine.parents[level + 1], self._alone[level + 1], len(self._alone[level]))
            own = self._alone[level]
            is_copied = (own == 0) & (below > 0)  # its own answers say nothing: they were not asked
            both = np.where(own * below > 0, own * below / np.where(own + below > 0, own + below, 1.0), own)
            self._alone[level] = np.where(is_copied, below, both)

    def _down(self) -> list[Errors]:
        """Return the errors of each level, top first."""
        spine, last = self._spine, len(self._local)
        variance = self._alone[0].copy()
        if self._total_is_declared:
            total = variance[:, 0]
            variance[:, 0] = total * (1 - total / np.maximum(np.bincount(self._state, total)[self._state], 1e-300))
        found = [Errors(variance, self._local[0].bias)]
        for level in range(1, last):
            parent = spine.parents[level]
            part = self._part(level)
            above = found[-1]
            own = self._alone[level] * (1 - part)
            found.append(
                Errors(own + part**2 * above.variance[parent], self._local[level].bias + part * above.bias[parent])
            )
        parent = spine.parents[last]
        part = _ratio(self._persons[last], self._persons[last - 1][parent])[:, None]
        above = found[-1]
        blocks = self._blocks
        return [
            *found,
            Errors(blocks.variance + part**2 * above.variance[parent], blocks.bias + part * above.bias[parent]),
        ]

    def _part(self, level: int) -> FloatArray:
        """Return the (geounits, counts) part of its parent's error that each geounit of a level takes over."""
        parent = self._spine.parents[level]
        is_only = (self._spine.children(level - 1) == 1)[parent, None]
        return np.where(is_only, 1.0, _ratio(self._alone[level], self._siblings[level - 1][parent]))

    def areas(self, pairs: Sequence[Pairs], number: int) -> Errors:
        """Return the errors of a family of `number` areas; pairs: by level, of geounits and areas (`spine.osed`)."""
        last = len(self._local)
        part = self._of_block_groups(pairs[last].geounit, pairs[last].parent, pairs[last - 1].geounit)
        for level in range(last - 1, 0, -1):
            part = self._of_parents(level, part, pairs[level], pairs[level - 1].geounit)
        own, entity, states = self._alone[0][pairs[0].geounit], pairs[0].entity, int(self._state.max()) + 1
        bias = _sum(entity, part.bias + part.weight * self._local[0].bias[pairs[0].geounit], number)
        variance = _sum(entity, part.spread + part.weight**2 * own, number)
        if self._total_is_declared:  # the errors of a state's parts add up to 0
            of_state = entity * states + self._state[pairs[0].geounit]
            weighted = (
                np.bincount(of_state, (part.weight * own)[:, 0], number * states).reshape(number, states).astype(float)
            )
            whole = np.bincount(self._state, self._alone[0][:, 0], states)
            variance[:, 0] -= _ratio(weighted**2, np.broadcast_to(whole, weighted.shape)).sum(axis=1)
        return Errors(np.maximum(variance, 0.0), bias)

    def _of_block_groups(self, block: IntArray, pair: IntArray, geounit: IntArray) -> _Part:
        """Return the parts of block groups that areas have; block, pair: the blocks and the pair of each."""
        last, rows = len(self._local), len(geounit)
        parent, groups = self._spine.parents[last], len(self._persons[last - 1])
        is_whole = np.bincount(pair, minlength=rows) == self._spine.children(last - 1)[geounit]
        persons = np.bincount(pair, self._persons[last][block], rows).astype(float)
        weight = _ratio(persons, self._persons[last - 1][geounit])[:, None]
        independent = self._blocks.independent
        inside = _sum(pair, independent[block], rows)
        spread = inside * (1 - _ratio(inside, _sum(parent, independent, groups)[geounit]))
        bias = _sum(pair, self._blocks.bias[block], rows)
        return _Part(is_whole, np.broadcast_to(weight, inside.shape), spread, bias).completed()

    def _of_parents(self, level: int, part: _Part, pairs: Pairs, upper: IntArray) -> _Part:
        """Regress the parts of a level on the geounits above: the pairs of `upper`."""
        alone, rows, children = self._alone[level][pairs.geounit], len(upper), self._spine.children(level - 1)[upper]
        weighted = _sum(pairs.parent, part.weight * alone, rows)
        squares = _sum(pairs.parent, part.spread + part.weight**2 * alone, rows)
        weight = _ratio(weighted, self._siblings[level - 1][upper])
        only = (children == 1)[:, None]
        found = _Part(
            np.bincount(pairs.parent, part.is_whole, rows) == children,
            np.where(only, _sum(pairs.parent, part.weight, rows), weight),
            np.where(only, _sum(pairs.parent, part.spread, rows), squares - weight * weighted),
            _sum(pairs.parent, part.bias + part.weight * self._local[level].bias[pairs.geounit], rows),
        )
        return found.completed()


@dataclass(frozen=True)
class _Part:
    """The counts of areas within geounits, regressed on the geounits' own: weight x + an error of variance `spread`.

    is_whole: (pairs,) whether the area has all of the geounit. The others: (pairs, counts).
    """

    is_whole: BoolArray
    weight: FloatArray
    spread: FloatArray
    bias: FloatArray

    def completed(self) -> _Part:
        """Return the same with whole geounits as their own count, without a further error."""
        whole = self.is_whole[:, None]
        return _Part(
            self.is_whole,
            np.where(whole, 1.0, self.weight),
            np.where(whole, 0.0, self.spread),
            np.where(whole, 0.0, self.bias),
        )


def _sum(group: IntArray, values: FloatArray, groups: int) -> FloatArray:
    """Return the (groups, counts) sums of values, (rows, counts)."""
    from scipy.sparse import csc_array  # slow to import

    rows = len(group)  # columns of the matrix, each of one entry: nothing has to be sorted to make it
    return np.asarray(csc_array((np.ones(rows), group, np.arange(rows + 1)), (groups, rows)) @ values)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part / whole, 0 where the whole is 0."""
    found: FloatArray = np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)
    return found
