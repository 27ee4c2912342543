"""The children's information as the descent takes it: its objective, and its targets of totals.

Blocks have nothing below them, so there the answers are the program's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.grid import Grid, grid, to_cells, total_of, total_variance
from spine.gls.information import Information, estimates
from spine.gls.kernel import least_squares
from spine.gls.upward import pass_up
from spine.top_down.least_squares import Parent, Solution
from spine.top_down.own_answers import OwnAnswers, Siblings
from spine.top_down.plan import Plan

LEFT = 0.99  # of the total's precision that may be taken out of P: the rest must stay positive definite


@dataclass(frozen=True)
class ChildInformation:
    """The objective of one parent's K children: their information on its n cells, divided by its largest precision.

    precision: (K, components, T, T) P. between: (K, patterns, T, T) its entries. linear: (n, K) h. initial: (n, K)
    the estimate without the parent. scale: the largest precision. total_weight: (K,) precision of the totals, not
    divided. quarters_type: (n,) of the cells.
    """

    grid: Grid
    precision: FloatArray
    between: FloatArray
    linear: FloatArray
    initial: FloatArray
    scale: float
    total_weight: FloatArray
    quarters_type: IntArray

    def without_total(self, allowed: BoolArray, total: FloatArray) -> ChildInformation:
        """Take the weight of the totals out of P, as far as it has any.

        Subtracts kappa (1'x - total)^2 / 2, all but constant within the bands. With it the majorizer is so large that
        least squares crawls. kappa: the least entry of P between cells that agree on no axis, as long as P stays
        positive.
        """
        types = np.searchsorted(self.quarters_type, np.arange(self.precision.shape[2]))
        both = allowed[types].T[:, :, None] & allowed[types].T[:, None, :]
        apart = np.where(both, self.between[:, 0], np.inf).min(axis=(1, 2))
        kappa = np.clip(np.minimum(apart, LEFT * self.total_weight / self.scale), 0.0, None)
        precision, out = self.precision.copy(), kappa[:, None, None] * both
        precision[:, 0] -= self.grid.by_type * out
        linear = self.linear - kappa * total * allowed
        return replace(self, precision=precision, between=self.between - out[:, None], linear=linear)

    def minimum(self, parent: Parent, careful: bool, stop: float) -> Solution:
        """See `top_down.own_answers.Objective`."""
        axes = np.array(self.grid.axes)
        # Of one layout, or numba compiles the whole iteration again for each that these happen to have.
        precision, between = np.ascontiguousarray(self.precision), np.ascontiguousarray(self.between)
        return least_squares(parent, axes, precision, between, self.linear, self.initial, careful, stop)


def informed(plan: Plan, information: Information) -> Siblings:
    """Return a range of geounits as siblings: of their information, and of their estimates without their parents."""
    sizes = grid(plan.product)
    z, variance = estimates(plan, information)
    linear, initial = to_cells(information.linear), to_cells(z)
    total_weight = 1 / total_variance(variance, sizes.by_type)

    def objective(first: int, last: int, cells: IntArray) -> ChildInformation:
        at = slice(first - information.first, last - information.first)
        types, quarters_type = np.unique(cells // sizes.by_type, return_inverse=True)
        precision = information.precision[at][:, :, types[:, None], types]
        scale = precision.max()
        return ChildInformation(
            sizes,
            precision / scale,
            sizes.entries(precision / scale),
            np.ascontiguousarray(linear[at][:, cells].T) / scale,
            np.ascontiguousarray(initial[at][:, cells].T),
            scale,
            total_weight[at],
            quarters_type,
        )

    return Siblings(information.first, total_of(z), total_weight, objective)


@dataclass(frozen=True)
class TreeAnswers(OwnAnswers):
    """The estimator's answers: the information of geounits; of blocks, their own answers.

    known: information that passes up found; where it is not among these, it is passed up again.
    """

    known: tuple[Information, ...] = ()

    def siblings(self, level: int, first: int, last: int) -> Siblings:
        """Return the information of the geounits first, ..., last - 1 of a level, or the answers of blocks."""
        if self.plan.is_leaf(level):
            return super().siblings(level, first, last)
        return informed(self.plan, self.information(level, first, last))

    def second(self, level: int, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return the targets of occupied units and their weights, arbitrary where there are no units."""
        information = self.information(level, first, last)
        weight = np.where(information.precision > 0, information.precision, 1.0)
        return information.linear / weight, weight

    def information(self, level: int, first: int, last: int) -> Information:
        """Return the information of the geounits first, ..., last - 1 of a level: known, or from a pass up to them."""
        for found in self.known:
            if found.level == level and found.first <= first and last <= found.last:
                return found.only(first, last)
        return pass_up(self.plan, self.measure, level, first, last)[0]
