"""The predicted errors of a product's counts for given shares, by level and kind of area."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from spine.entities import Areas
from spine.forecast.counts import group_counts, predicted
from spine.forecast.division import BlockDivision, BlockErrors, Division, Local
from spine.forecast.precision import Precision, Weights, precision
from spine.forecast.tree import Errors, ErrorTree
from spine.forecast.units import block_units, divide_units
from spine.geography import FloatArray, IntArray
from spine.hierarchy import Spine
from spine.osed import Pairs, overlap
from spine.settings import Definition
from spine.top_down.histogram import Histograms, summed

Budgets = Sequence[FloatArray]  # by level of the spine, (geounits,) the budget of each geounit


@dataclass(frozen=True)
class StandIn:
    """A stand-in for the records, in spine order, and the spine that is measured.

    spine: a forest of the parts of states, below the nation. pattern: for each of its levels (geounits, levels) how
    much of each level's budget a geounit has: bypassed geounits hand theirs on. blocks: histograms of the blocks.
    quarters: (blocks, types) declared living quarters. state: (parts,) the state of each topmost geounit, from 0.
    """

    spine: Spine
    pattern: Sequence[FloatArray]
    definition: Definition
    blocks: Histograms
    quarters: IntArray
    state: IntArray
    families: Sequence[Areas] = ()

    def budgets(self, weights: Weights) -> Budgets:
        """Return the budget of every geounit."""
        of_level = np.array([sum(weights[level].values()) for level in self.spine.levels])
        return [own @ of_level for own in self.pattern]


E = TypeVar("E")


class Recent(Generic[E]):
    """A function of precisions that keeps its last few values: a search varies one level at a time."""

    def __init__(self, function: Callable[[Precision], E]) -> None:
        self._function, self._kept = function, list[tuple[Precision, E]]()

    def __call__(self, own: Precision) -> E:
        """Return the value for these precisions."""
        for before, value in self._kept:
            if all(np.array_equal(a, b) for a, b in zip(before, own, strict=True)):
                return value
        self._kept = [*self._kept[-2:], (own, self._function(own))]
        return self._kept[-1][1]


class Forecast:
    """Predict the errors of a product's counts, for any shares; quantities: the columns'.

    A level whose budgets are as before is not computed again.
    """

    quantities: tuple[str, ...]

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in, self.levels = stand_in, summed(stand_in.blocks, stand_in.spine)
        self.sizes = [level.totals().astype(float) for level in self.levels]
        self._pairs = [_pairs(stand_in.spine, family) for family in stand_in.families]
        self._local = [Recent[Local](partial(self.divide, level)) for level in range(len(self.levels) - 1)]
        self._blocks = Recent[BlockErrors](self.divide_blocks)

    def errors(self, weights: Weights, *, with_below: bool = False) -> Mapping[str, Errors]:
        """Return the errors by level of the spine, then by family of areas.

        with_below: those of generalized least squares over the tree, in place of the program's own estimates.
        """
        tree = self._tree(weights, with_below=with_below)
        found = dict(zip(self.stand_in.spine.levels, tree.errors, strict=True))
        for family, pairs in zip(self.stand_in.families, self._pairs, strict=True):
            errors = tree.areas(pairs, len(family.codes) + 1)
            found[family.name] = Errors(errors.variance[:-1], errors.bias[:-1])
        return found

    def _tree(self, weights: Weights, *, with_below: bool) -> ErrorTree:
        spine, definition = self.stand_in.spine, self.stand_in.definition
        answers = [
            precision(weights[name], budgets, definition)
            for name, budgets in zip(spine.levels, self.stand_in.budgets(weights), strict=True)
        ]
        return ErrorTree(
            spine,
            [errors(own) for errors, own in zip(self._local, answers[:-1], strict=True)],
            self._blocks(answers[-1]),
            self.sizes,
            self.stand_in.state,
            with_below=with_below,
            total_is_declared="total" in self.quantities,
        )

    def divide(self, level: int, own: Precision) -> Local:
        """Return the errors that the division of a level above the blocks adds."""
        raise NotImplementedError

    def divide_blocks(self, own: Precision) -> BlockErrors:
        """Return the errors that dividing block groups among their blocks adds."""
        raise NotImplementedError


def _pairs(spine: Spine, family: Areas) -> tuple[Pairs, ...]:
    """Return the pairs of geounits and areas by level; the region outside all areas counts as one more."""
    number = len(family.codes)
    return overlap(spine, np.where(family.of_block < 0, number, family.of_block), number + 1)


class PersonsForecast(Forecast):
    """The errors of persons by race, Hispanic origin and voting age."""

    quantities = predicted().quantities

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(stand_in)
        spine, levels, last = stand_in.spine, self.levels, len(self.levels) - 1
        allowed = [np.add.reduceat(stand_in.quarters, starts, axis=0) > 0 for starts in spine.starts]
        has_budget = [np.asarray(own.sum(axis=1) > 0) for own in stand_in.pattern]
        self._divisions = [
            Division(levels[at - 1] if at else None, levels[at], allowed[at], spine.parents[at], has_budget[at])
            for at in range(last)
        ]
        self._of_blocks = BlockDivision(levels[last - 1], levels[last], allowed[last], spine.parents[last])
        counts = group_counts(levels[last - 1])
        self._of_block_group = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[spine.parents[last]]

    def divide(self, level: int, own: Precision) -> Local:
        """Return the errors that the division of a level above the blocks adds."""
        return self._divisions[level].errors(own)

    def divide_blocks(self, own: Precision) -> BlockErrors:
        """Return the errors that dividing block groups among their blocks adds."""
        found, target, part = self._of_blocks.errors(own), predicted().largest, self._of_block_group

        def given_total(values: FloatArray, of_group: FloatArray, of_all: FloatArray) -> FloatArray:
            """Put the errors of a group in excess of its part of the total's in place of the group's."""
            excess = of_group * values[:, target] + of_all * values[:, :1]
            return np.concatenate([values[:, : target[0]], excess], axis=1)

        return BlockErrors(
            given_total(found.variance, 1 - 2 * part, part**2),
            given_total(found.bias, np.ones_like(part), -part),
            given_total(found.independent, 1 - 2 * part, part**2),
        )


class UnitsForecast(Forecast):
    """The errors of occupied housing units; `stand_in.blocks` has vacant and occupied ones."""

    quantities = ("occupied",)

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(stand_in)
        self.units = [np.add.reduceat(stand_in.quarters[:, 0], starts) for starts in stand_in.spine.starts]
        occupied = np.array([0, 1])[:, None]
        self.sizes = [level.sums(occupied)[:, 0].astype(float) for level in self.levels]

    def divide(self, level: int, own: Precision) -> Local:
        """Return the errors that the division of a level above the blocks adds."""
        parent = self.stand_in.spine.parents[level] if level else None
        return divide_units(self.sizes[level], self.units[level], own.cell, parent)

    def divide_blocks(self, own: Precision) -> BlockErrors:
        """Return the errors that dividing block groups among their blocks adds."""
        return block_units(self.sizes[-1], self.units[-1], own.cell, self.stand_in.spine.parents[-1])
