"""The children's information as the descent takes it: its objective, and its targets of totals.

The objective of one parent is the sum over children of x'P_c x/2 - h_c'x. The iteration is the program's
(`top_down.least_squares`): only the product with the Hessian and its majorizer are others, D = the row sums of |P_c|
over the parent's cells. Blocks have nothing below them, so there the answers are the program's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from spine.compiled import compiled, implements
from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.grid import Grid, grid, to_cells, total_of, total_variance
from spine.gls.information import Information, estimates, sign
from spine.gls.upward import pass_up
from spine.top_down.least_squares import Parent, Solution, gradient, minimum
from spine.top_down.own_answers import OwnAnswers, Siblings
from spine.top_down.plan import Plan


class TreeMisfit(NamedTuple):
    """The children's x'Px/2 - h'x.

    table: (cells, children), see `gradient`. precision: (children, components, types, types), types being those of the
    parent's cells. linear: (cells, children) h. place: (cells,) of each cell in (types, signs, races). x, image, mean:
    scratch, (types, signs, races) twice, and (types, signs).
    """

    table: FloatArray
    precision: FloatArray
    linear: FloatArray
    place: IntArray
    x: FloatArray
    image: FloatArray
    mean: FloatArray


@implements(gradient, TreeMisfit)
def tree_gradient(objective: TreeMisfit, out: FloatArray) -> None:
    """Write P x - h for every child: by component, in sums and differences, and only the parent's cells of it."""
    table, precision, linear, place = objective.table, objective.precision, objective.linear, objective.place
    x, image, mean = objective.x, objective.image, objective.mean
    types, signs, races = x.shape
    cells, residual = len(place), precision.shape[1] - 1
    flat, flat_image = x.reshape(-1), image.reshape(-1)
    for c in range(len(precision)):
        flat[:] = 0.0
        flat_image[:] = 0.0
        for i in range(cells):
            flat[place[i]] = table[i, c]
        sign(x)
        for t in range(types):
            mean[t] = 0.0
            for r in range(races):
                for s in range(signs):
                    mean[t, s] += x[t, s, r]
            for s in range(signs):
                mean[t, s] /= races
        for t in range(types):
            for u in range(types):
                if precision[c, residual, t, t] > 0.0 and precision[c, residual, u, u] > 0.0:
                    for s in range(signs):
                        rest = precision[c, 2 * s + 1, t, u]
                        shift = (precision[c, 2 * s, t, u] - rest) * mean[u, s]
                        source, target = x[u, s], image[t, s]
                        for r in range(races):
                            target[r] += rest * source[r] + shift
        sign(image)
        for i in range(cells):
            out[i, c] = flat_image[place[i]] - linear[i, c]


@compiled
def coordinates(cells: IntArray, axes: IntArray) -> IntArray:
    """Return the (axes, cells) coordinates of cells on the axes after the types'; axes: their sizes."""
    found = np.empty((len(axes), len(cells)), np.int64)
    for i in range(len(cells)):
        left = cells[i]
        for axis in range(len(axes) - 1, -1, -1):
            found[axis, i] = left % axes[axis]
            left //= axes[axis]
    return found


@compiled
def inverse_row_sums(
    between: FloatArray, cells: IntArray, axes: IntArray, quarters_type: IntArray, allowed: BoolArray
) -> FloatArray:
    """Return (cells, children) 1 / D, D = row sums of |P| over the parent's cells; 0 where the cell is not allowed.

    between: (children, patterns, types, types) the entries of P, see `Grid.patterns`. axes: as for `coordinates`.
    """
    n, (types, children), patterns = len(cells), allowed.shape, between.shape[1]
    at = coordinates(cells, axes)
    inverse, count, agree = np.zeros((n, children)), np.zeros((types, patterns)), np.empty(n, np.int64)
    for i in range(n):
        agree[:] = 0
        for axis in range(len(axes)):
            for j in range(n):
                agree[j] = 2 * agree[j] + (at[axis, j] == at[axis, i])
        count[:] = 0.0
        for j in range(n):
            count[quarters_type[j], agree[j]] += 1.0
        for c in range(children):
            if allowed[quarters_type[i], c]:
                total = 0.0
                for t in range(types):
                    for e in range(patterns):
                        total += count[t, e] * abs(between[c, e, quarters_type[i], t])
                inverse[i, c] = 1.0 / total
    return inverse


@compiled
def least_squares(
    parent: Parent,
    axes: IntArray,
    precision: FloatArray,
    between: FloatArray,
    linear: FloatArray,
    initial: FloatArray,
    careful: bool,
    stop: float,
) -> Solution:
    """Divide a parent among its children by their information.

    axes: as for `coordinates`. precision, linear: as `TreeMisfit` has them. between: as for `inverse_row_sums`.
    initial: (cells, children) where to start.
    """
    races, signs = axes[-1], 1
    for size in axes[:-1]:
        signs *= size
    types = precision.shape[2]
    place = np.empty(len(parent.cells), np.int64)
    for i in range(len(place)):
        place[i] = parent.quarters_type[i] * signs * races + parent.cells[i] % (signs * races)
    x, image, mean = np.empty((types, signs, races)), np.empty((types, signs, races)), np.empty((types, signs))
    objective = TreeMisfit(np.empty(linear.shape), precision, linear, place, x, image, mean)
    a = inverse_row_sums(between, parent.cells, axes, parent.quarters_type, parent.allowed)
    return minimum(objective, a, initial, parent, careful, stop)


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

    def quadratic(self, cells: IntArray) -> tuple[Any, FloatArray]:
        """See `top_down.own_answers.Objective`."""
        agree = np.zeros((len(cells), len(cells)), np.int64)
        for axis in coordinates(cells, np.array(self.grid.axes)):
            agree = 2 * agree + np.equal.outer(axis, axis)
        entries = self.between[:, agree, self.quarters_type[:, None], self.quarters_type]
        children = len(entries)
        each = [
            sp.kron(entry, sp.csc_array(([1.0], ([c], [c])), shape=(children, children)), format="csc")
            for c, entry in enumerate(entries)
        ]
        return sp.csc_array(sum(each[1:], start=each[0])), self.linear.ravel()


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
